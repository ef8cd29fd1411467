package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/conditions"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file calls mutating webhooks, one after the other.

// Prefixes of audit annotations.
const (
	annotationPatch      = "patch.webhook.admission.k8s.io/"
	annotationMutation   = "mutation.webhook.admission.k8s.io/"
	annotationFailedOpen = "failed-open."
	annotationValidating = "validating.webhook.admission.k8s.io/"
)

// maxOperations is the number of operations that a webhook's patch may have. It is the same for
// clients' patches.
const maxOperations = 10_000

// Mutate implements admission.Mutator.
func (w *Webhooks) Mutate(ctx context.Context, r *admission.Request) error {
	s, found := w.candidates(r)
	if len(found) == 0 {
		return nil
	}
	n := r.Rounds(w)
	defer n.Done()
	for i := range found {
		c, ok, err := w.asks(ctx, r, s, &found[i])
		if err != nil {
			return err
		}
		if !ok || !n.Asks(c.id) {
			continue
		}
		if err := w.mutateWith(ctx, r, &c, n); err != nil {
			return err
		}
	}
	return nil
}

// mutateWith calls one webhook and applies its answer.
func (w *Webhooks) mutateWith(ctx context.Context, r *admission.Request, c *call, n *admission.Rounds) error {
	start := time.Now()
	changed, err := w.patch(ctx, r, c)
	err = w.outcome(ctx, r, c, start, err, fmt.Sprintf("%s%sround_%d_index_%d", annotationFailedOpen, annotationMutation, r.Round(), c.index))
	n.Asked(c.id, changed, c.again)
	return err
}

// patch calls a webhook and applies its patch. It reports whether the object changed.
func (w *Webhooks) patch(ctx context.Context, r *admission.Request, c *call) (changed bool, err error) {
	defer func() {
		r.Annotate(fmt.Sprintf("%sround_%d_index_%d", annotationMutation, r.Round(), c.index), annotation(mutationAnnotation{c.configuration, c.name, changed}))
	}()
	object, old, err := conditions.Objects(r, c.target)
	if err != nil {
		return false, status.Internal(err)
	}
	v, err := c.send(ctx, r, object, old)
	if err != nil {
		return false, err
	}
	w.passOn(v, r, c)
	if !v.allowed {
		return false, &rejection{denied(c.name, v.result)}
	}
	if len(v.patch) == 0 {
		return false, nil
	}
	operations, err := jsondoc.JSONPatchLen(v.patch)
	switch {
	case err != nil:
		return false, &callError{c.name, fmt.Errorf("received undecodable patch in webhook response: %w", err), http.StatusServiceUnavailable}
	case operations == 0:
		return false, nil
	case operations > maxOperations:
		return false, &callError{c.name, fmt.Errorf("the patch in the webhook's response has %d operations, want at most %d", operations, maxOperations),
			http.StatusServiceUnavailable}
	case object == nil:
		return false, status.Internal(fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation", c.name))
	case v.patchType != string(admissionv1.PatchTypeJSONPatch):
		return false, &callError{c.name, fmt.Errorf("unsupported patch type %q", v.patchType), int(denied(c.name, v.result).Code)}
	}
	patched, err := jsondoc.JSONPatch(ctx, object, v.patch)
	if err != nil {
		return false, status.Internal(fmt.Errorf("patch of admission webhook %q: %w", c.name, err))
	}
	if changed, err = c.target.Replace(r, patched); err != nil {
		return false, status.Internal(fmt.Errorf("object patched by admission webhook %q: %w", c.name, err))
	}
	r.AnnotateRequest(fmt.Sprintf("%sround_%d_index_%d", annotationPatch, r.Round(), c.index),
		annotation(patchAnnotation{c.configuration, c.name, sorted(v.patch), v.patchType}))
	return changed, nil
}

// passOn passes the warnings and audit annotations of a verdict on.
func (w *Webhooks) passOn(v *verdict, r *admission.Request, c *call) {
	for key, value := range v.annotations {
		key = c.name + "/" + key
		if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
			w.Logger.Warn("audit annotation of a webhook is dropped", "key", key, "err", strings.Join(wrong, ","))
			continue
		}
		r.Annotate(key, value)
	}
	r.Warn(v.warnings...)
}

// outcome counts a call and returns the client's error. It returns nil if the request goes on,
// because the call succeeded or its failure is ignored.
func (w *Webhooks) outcome(ctx context.Context, r *admission.Request, c *call, start time.Time, err error, failedOpen string) error {
	note := func(rejected bool, errorType string, code int) {
		w.Metrics.Webhook(c.name, c.kindOf(), r.Operation, time.Since(start), rejected, errorType, code)
	}
	var failed *callError
	var refused *rejection
	switch {
	case err == nil:
		note(false, "", http.StatusOK)
		return nil
	case errors.As(err, &failed) && c.ignore:
		note(false, "", failed.code)
		if !errors.Is(err, context.Canceled) {
			w.Logger.Warn("failed calling webhook, failing open", "webhook", c.name, "err", err)
			w.Metrics.FailOpen(c.name, c.kindOf())
			r.Annotate(failedOpen, c.name)
		}
		return overdue(ctx)
	case errors.As(err, &failed):
		errorType := admission.ErrorCallingWebhook
		if errors.Is(err, context.Canceled) {
			errorType = ""
		}
		note(true, errorType, failed.code)
		w.Logger.Warn("failed calling webhook, failing closed", "webhook", c.name, "err", err)
		if late := overdue(ctx); late != nil {
			return late
		}
		return status.Internal(err)
	case errors.As(err, &refused):
		note(true, admission.NoError, int(refused.status.Code))
		return refused.status
	}
	note(true, admission.ErrorInternal, 0)
	return err
}

// overdue returns the client's error if the time of the request is over, nil otherwise.
func overdue(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return status.Timeout("request did not complete within requested timeout - "+err.Error(), 0)
	}
	return nil
}

// mutationAnnotation and patchAnnotation are the JSON values of audit annotations.
type mutationAnnotation struct {
	Configuration string `json:"configuration"`
	Webhook       string `json:"webhook"`
	Mutated       bool   `json:"mutated"`
}

// patchAnnotation is the audit annotation for a patch.
type patchAnnotation struct {
	Configuration string                       `json:"configuration"`
	Webhook       string                       `json:"webhook"`
	Patch         []map[string]json.RawMessage `json:"patch,omitempty"`
	PatchType     string                       `json:"patchType,omitempty"`
}

// sorted returns a patch in which the members of each operation are sorted by name, as upstream
// prints it.
func sorted(patch []byte) []map[string]json.RawMessage {
	var out []map[string]json.RawMessage
	if err := json.Unmarshal(patch, &out); err != nil {
		return nil // an invalid patch has been refused before
	}
	return out
}

// annotation returns the JSON value of an audit annotation.
func annotation(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "" // the value can always be encoded
	}
	return string(b)
}
