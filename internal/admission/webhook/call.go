package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/conditions"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/webhook"
)

// This file calls one webhook.

// callError is a failed call: the webhook did not answer, or its answer is not understood.
type callError struct {
	name string
	err  error
	code int // for metrics
}

// Error returns upstream's text for a webhook that could not be called.
func (e *callError) Error() string {
	return fmt.Sprintf("failed calling webhook %q: %s", e.name, e.err)
}

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *callError) Unwrap() error { return e.err }

// rejection is the error of a request that a webhook refused.
type rejection struct{ status *status.Error }

// Error returns the message of the webhook's status.
func (r *rejection) Error() string { return r.status.Error() }

// verdict is the content of a webhook's answer.
type verdict struct {
	allowed     bool
	patch       []byte
	patchType   string
	result      *metav1.Status
	warnings    []string
	annotations map[string]string
}

// send sends a review and returns the verdict. Errors are *callError, *rejection or, for a dry run
// that the webhook does not support, the error for the client.
func (c *call) send(ctx context.Context, r *admission.Request, object, old []byte) (*verdict, error) {
	fail := func(code int, format string, args ...any) error {
		return &callError{c.name, fmt.Errorf(format, args...), code}
	}
	if r.DryRun {
		if !c.sideEffects {
			return nil, fail(http.StatusBadRequest, "Webhook SideEffects is nil")
		}
		if !c.quiet {
			return nil, status.BadRequest("admission webhook %q does not support dry run", c.name)
		}
	}
	if c.review == "" {
		return nil, fail(http.StatusBadRequest, "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)")
	}
	uid := meta.NewUID()
	body, err := c.body(r, uid, object, old)
	if err != nil {
		return nil, fail(http.StatusBadRequest, "could not create admission objects: %w", err)
	}
	client, err := c.client()
	if err != nil {
		return nil, fail(http.StatusInternalServerError, "could not get REST client: %w", err)
	}
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	v, err := c.post(ctx, client, body, uid)
	if invalid := (*invalidAnswer)(nil); errors.As(err, &invalid) {
		return nil, fail(http.StatusServiceUnavailable, "received invalid webhook response: %w", invalid.err)
	}
	if err != nil {
		code := http.StatusServiceUnavailable
		if s := apierrors.APIStatus(nil); errors.As(err, &s) {
			code = int(s.Status().Code)
		}
		return nil, fail(code, "failed to call webhook: %w", err)
	}
	return v, nil
}

// remaining returns the time until the context ends, rounded up to whole seconds; 0 if it has no
// deadline.
func remaining(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	left := time.Until(deadline)
	if left <= 0 {
		return 0
	}
	if whole := left.Truncate(time.Second); whole != left {
		left = whole + time.Second
	}
	return left
}

// body returns the AdmissionReview to send.
func (c *call) body(r *admission.Request, uid string, object, old []byte) ([]byte, error) {
	request := conditions.Review(r, c.target)
	request.UID = types.UID(uid)
	request.Object, request.OldObject = runtime.RawExtension{Raw: object}, runtime.RawExtension{Raw: old}
	review := &admissionv1.AdmissionReview{Request: request}
	review.Kind, review.APIVersion = "AdmissionReview", "admission.k8s.io/"+c.review // the requests of both versions are alike
	return json.Marshal(review)
}

var (
	scheme = func() *runtime.Scheme {
		s := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{admissionv1.AddToScheme, admissionv1beta1.AddToScheme} {
			if err := add(s); err != nil {
				panic("BUG: " + err.Error())
			}
		}
		return s
	}()
	codec = serializer.NewCodecFactory(scheme).LegacyCodec(admissionv1beta1.SchemeGroupVersion, admissionv1.SchemeGroupVersion)
)

// invalidAnswer is an answer that was received, but is malformed.
type invalidAnswer struct{ err error }

// Error returns the reason.
func (e *invalidAnswer) Error() string { return e.err.Error() }

// post sends a review and reads the verdict from the answer.
func (c *call) post(ctx context.Context, client *webhook.Client, body []byte, uid string) (*verdict, error) {
	if c.review == "v1beta1" {
		review := &admissionv1beta1.AdmissionReview{}
		if err := client.PostFor(ctx, body, remaining(ctx), review); err != nil {
			return nil, err
		}
		return verdictBeta(review, c.mutating)
	}
	review := &admissionv1.AdmissionReview{}
	if err := client.PostFor(ctx, body, remaining(ctx), review); err != nil {
		return nil, err
	}
	v, err := verdictOf(review, uid, c.mutating)
	if err != nil {
		return nil, &invalidAnswer{err}
	}
	return v, nil
}

// verdictOf checks a v1 answer and returns its verdict. The answer must repeat the review's uid.
func verdictOf(review *admissionv1.AdmissionReview, uid string, mutating bool) (*verdict, error) {
	a := review.Response
	want := admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")
	switch {
	case a == nil:
		return nil, errors.New("webhook response was absent")
	case string(a.UID) != uid:
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, a.UID)
	case review.GroupVersionKind() != want:
		return nil, fmt.Errorf("expected webhook response of %v, got %v", want.String(), review.GroupVersionKind().String())
	}
	v := &verdict{allowed: a.Allowed, result: a.Result, warnings: a.Warnings, annotations: a.AuditAnnotations}
	switch {
	case !mutating && len(a.Patch) > 0:
		return nil, errors.New("validating webhook may not return response.patch")
	case !mutating && a.PatchType != nil:
		return nil, errors.New("validating webhook may not return response.patchType")
	case len(a.Patch) > 0 && a.PatchType == nil:
		return nil, errors.New("webhook returned response.patch but not response.patchType")
	case len(a.Patch) == 0 && a.PatchType != nil:
		return nil, errors.New("webhook returned response.patchType but not response.patch")
	case a.PatchType != nil && *a.PatchType == "":
		return nil, fmt.Errorf("webhook returned invalid response.patchType of %q", *a.PatchType)
	case a.PatchType != nil:
		v.patch, v.patchType = a.Patch, string(*a.PatchType)
	}
	return v, nil
}

// verdictBeta is verdictOf for v1beta1, whose answers need no uid.
func verdictBeta(review *admissionv1beta1.AdmissionReview, mutating bool) (*verdict, error) {
	a := review.Response
	if a == nil {
		return nil, &invalidAnswer{errors.New("webhook response was absent")}
	}
	v := &verdict{allowed: a.Allowed, result: a.Result, warnings: a.Warnings, annotations: a.AuditAnnotations}
	if mutating && len(a.Patch) > 0 {
		v.patch, v.patchType = a.Patch, string(admissionv1.PatchTypeJSONPatch)
	}
	return v, nil
}

// denied returns the client's error for a webhook's refusal.
func denied(name string, result *metav1.Status) *status.Error {
	by := fmt.Sprintf("admission webhook %q denied the request", name)
	s := metav1.Status{}
	if result != nil {
		s = *result
	}
	s.Code = max(s.Code, http.StatusBadRequest)
	if s.Status == "" || s.Status == metav1.StatusSuccess {
		s.Status = metav1.StatusFailure
	}
	switch {
	case s.Message != "":
		s.Message = by + ": " + s.Message
	case s.Reason != "":
		s.Message = by + ": " + string(s.Reason)
	default:
		s.Message = by + " without explanation"
	}
	return status.FromStatus(s)
}

// forbidden returns the client's error for failed match conditions.
func forbidden(r *admission.Request, err error) error {
	return status.Forbidden(r.Version.Kind.GroupResource(), r.Name, err)
}
