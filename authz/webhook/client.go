package webhook

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// This file posts reviews.

// Client posts reviews to the server of a kubeconfig.
type Client struct {
	rest    *rest.RESTClient
	version string
	backoff wait.Backoff
}

// ClientConfig says whom to ask.
type ClientConfig struct {
	KubeConfigFile string // read once
	Version        string // of SubjectAccessReview: v1 or v1beta1
	Timeout        time.Duration
	Backoff        *wait.Backoff // nil: 5 attempts, 500 ms apart and more
	Metrics        *Metrics
}

// NewClient reads the kubeconfig.
func NewClient(c ClientConfig) (*Client, error) {
	gv, err := groupVersion(c.Version)
	if err != nil {
		return nil, err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.KubeConfigFile
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.Timeout = c.Timeout
	config.QPS = -1 // who asks too often is limited elsewhere
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{authorizationv1.AddToScheme, authorizationv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config.ContentType = runtime.ContentTypeJSON
	config.UserAgent = ""
	config.NegotiatedSerializer = serializer.NegotiatedSerializerWrapper(runtime.SerializerInfo{
		Serializer: serializer.NewCodecFactory(scheme).LegacyCodec(gv),
	})
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{next, c.Metrics} })
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	backoff := wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
	if c.Backoff != nil {
		backoff = *c.Backoff
	}
	return &Client{rest: client, version: c.Version, backoff: backoff}, nil
}

func groupVersion(version string) (schema.GroupVersion, error) {
	switch version {
	case "v1":
		return authorizationv1.SchemeGroupVersion, nil
	case "v1beta1":
		return authorizationv1beta1.SchemeGroupVersion, nil
	}
	return schema.GroupVersion{}, fmt.Errorf("unsupported webhook authorizer version %q, supported versions are %q, %q", version, "v1", "v1beta1")
}

// Ask posts the review, again after errors that pass.
func (c *Client) Ask(ctx context.Context, review *authorizationv1.SubjectAccessReview, attempt func(time.Time, int, error)) (
	status authorizationv1.SubjectAccessReviewStatus, err error) {
	var last error
	err = wait.ExponentialBackoffWithContext(ctx, c.backoff, func(ctx context.Context) (bool, error) {
		began, code := time.Now(), 0
		status, code, last = c.AskOnce(ctx, review)
		attempt(began, code, last)
		switch {
		case passes(last):
			return false, nil
		case last != nil:
			return false, last
		}
		return true, nil
	})
	switch {
	case last != nil:
		return status, last
	case err != nil:
		return status, fmt.Errorf("webhook call failed: %s", err.Error())
	}
	return status, nil
}

// passes reports whether an error may be gone at the next attempt.
func passes(err error) bool {
	if err == nil {
		return false
	}
	if utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) || apierrors.IsInternalError(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) {
		return true
	}
	_, delay := apierrors.SuggestsClientDelay(err)
	return delay
}

// AskOnce posts the review once. It returns the HTTP status, 0 if there was no
// answer.
func (c *Client) AskOnce(ctx context.Context, review *authorizationv1.SubjectAccessReview) (authorizationv1.SubjectAccessReviewStatus, int, error) {
	var code int
	if c.version == "v1" {
		out := &authorizationv1.SubjectAccessReview{}
		r := c.rest.Post().Body(review).Do(ctx)
		r.StatusCode(&code)
		err := r.Into(out)
		return out.Status, code, err
	}
	out := &authorizationv1beta1.SubjectAccessReview{}
	r := c.rest.Post().Body(beta(review)).Do(ctx)
	r.StatusCode(&code)
	err := r.Into(out)
	return authorizationv1.SubjectAccessReviewStatus(out.Status), code, err
}

// beta is a review in version v1beta1.
func beta(in *authorizationv1.SubjectAccessReview) *authorizationv1beta1.SubjectAccessReview {
	s := &in.Spec
	out := &authorizationv1beta1.SubjectAccessReview{Spec: authorizationv1beta1.SubjectAccessReviewSpec{
		ResourceAttributes:    (*authorizationv1beta1.ResourceAttributes)(s.ResourceAttributes),
		NonResourceAttributes: (*authorizationv1beta1.NonResourceAttributes)(s.NonResourceAttributes),
		User:                  s.User, Groups: s.Groups, UID: s.UID,
	}}
	if s.Extra != nil {
		out.Spec.Extra = make(map[string]authorizationv1beta1.ExtraValue, len(s.Extra))
		for k, v := range s.Extra {
			out.Spec.Extra[k] = authorizationv1beta1.ExtraValue(v)
		}
	}
	return out
}

// transport bounds answers and counts certificates that are out of date.
type transport struct {
	next    http.RoundTripper
	metrics *Metrics // may be nil
}

// maxAnswer is how many bytes an answer may have.
const maxAnswer = 1 << 20

// RoundTrip bounds and counts on the way back.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if t.metrics != nil {
		t.metrics.certificate(resp, err)
	}
	if resp != nil && resp.Body != nil {
		resp.Body = &bounded{resp.Body, maxAnswer}
	}
	return resp, err
}

// bounded is a body that must not have more than so many bytes.
type bounded struct {
	io.ReadCloser
	left int64
}

// Read fails beyond the bound.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return n, err
}

func (m *Metrics) certificate(resp *http.Response, err error) {
	var host x509.HostnameError
	var insecure x509.InsecureAlgorithmError
	switch {
	case errors.As(err, &host) && strings.Contains(err.Error(), "legacy Common Name"):
		m.missingSAN.Inc()
	case errors.As(err, &insecure):
		m.sha1.Inc()
	case err == nil && resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0:
		switch resp.TLS.PeerCertificates[0].SignatureAlgorithm {
		case x509.SHA1WithRSA, x509.DSAWithSHA1, x509.ECDSAWithSHA1:
			m.sha1.Inc()
		}
	}
}
