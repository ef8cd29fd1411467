package webhook

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/keelson-io/keelson/internal/kubehook"
)

// This file sends reviews over HTTP.

// Client sends SubjectAccessReviews to the server that a kubeconfig names.
type Client struct {
	hook *kubehook.Client
	beta bool // send v1beta1
}

// ClientConfig describes the server of the webhook.
type ClientConfig struct {
	KubeConfigFile string // read once
	Version        string // of SubjectAccessReview: v1 or v1beta1
	Timeout        time.Duration
	Backoff        *wait.Backoff // between tries; nil means kubehook.DefaultBackoff
	Metrics        *Metrics
}

// NewClient reads the kubeconfig and returns a client for its server.
func NewClient(c ClientConfig) (*Client, error) {
	if c.Version != "v1" && c.Version != "v1beta1" {
		return nil, fmt.Errorf("unsupported webhook authorizer version %q, supported versions are %q, %q", c.Version, "v1", "v1beta1")
	}
	config, err := kubehook.Config(c.KubeConfigFile)
	if err != nil {
		return nil, err
	}
	config.Timeout = c.Timeout
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{next, c.Metrics} })
	gv := schema.GroupVersion{Group: authorizationv1.GroupName, Version: c.Version}
	codec, err := kubehook.Codec(gv, authorizationv1.AddToScheme, authorizationv1beta1.AddToScheme)
	if err != nil {
		return nil, err
	}
	backoff := kubehook.DefaultBackoff
	if c.Backoff != nil {
		backoff = *c.Backoff
	}
	hook, err := kubehook.New(config, backoff, codec)
	if err != nil {
		return nil, err
	}
	return &Client{hook: hook, beta: c.Version == "v1beta1"}, nil
}

// Ask sends the review and returns its status. Unless the call allows one attempt only, it retries
// after temporary errors.
func (c *Client) Ask(ctx context.Context, review *authorizationv1.SubjectAccessReview, call kubehook.Call) (
	authorizationv1.SubjectAccessReviewStatus, error) {
	if c.beta {
		var out authorizationv1beta1.SubjectAccessReview
		err := c.hook.Post(ctx, beta(review), &out, call)
		return authorizationv1.SubjectAccessReviewStatus(out.Status), err
	}
	var out authorizationv1.SubjectAccessReview
	err := c.hook.Post(ctx, review, &out, call)
	return out.Status, err
}

// beta converts a review to v1beta1.
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

// transport counts the certificates of webhooks that newer Go versions or policies refuse: without
// a subject alternative name, or signed with SHA-1.
type transport struct {
	next    http.RoundTripper
	metrics *Metrics // may be nil
}

// RoundTrip sends the request and looks at the certificates of the connection.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if t.metrics != nil {
		t.metrics.certificate(resp, err)
	}
	return resp, err
}

// certificate counts a connection whose certificates have such a flaw, whether the connection
// failed because of it or not. crypto/x509 has no error values or types that tell these two
// failures apart, so that their texts have to be compared. A changed text would only leave a
// failure uncounted.
func (m *Metrics) certificate(resp *http.Response, err error) {
	var host x509.HostnameError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &host) && strings.Contains(err.Error(), "x509: certificate relies on legacy Common Name field"):
		m.missingSAN.Inc()
	case errors.As(err, &unknown):
		if _, why, found := strings.Cut(err.Error(), "x509: cannot verify signature: insecure algorithm"); found && strings.Contains(why, "SHA1") {
			m.sha1.Inc()
		}
	case err == nil && resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0:
		certs := resp.TLS.PeerCertificates
		if !hasSAN(certs[0]) {
			m.missingSAN.Inc()
		}
		if slices.ContainsFunc(certs, hasWeakSignature) {
			m.sha1.Inc()
		}
	}
}

var subjectAlternativeName = asn1.ObjectIdentifier{2, 5, 29, 17}

// hasSAN reports whether the certificate has subject alternative names.
func hasSAN(c *x509.Certificate) bool {
	return slices.ContainsFunc(c.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(subjectAlternativeName) })
}

// hasWeakSignature reports whether a certificate that is not self-signed has a SHA-1 signature.
func hasWeakSignature(c *x509.Certificate) bool {
	weak := c.SignatureAlgorithm == x509.SHA1WithRSA || c.SignatureAlgorithm == x509.ECDSAWithSHA1
	return weak && c.Issuer.String() != c.Subject.String()
}
