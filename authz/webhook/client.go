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

// This file posts reviews.

// Client posts reviews to the server of a kubeconfig.
type Client struct {
	hook *kubehook.Client
	beta bool // reviews are of v1beta1
}

// ClientConfig says whom to ask.
type ClientConfig struct {
	KubeConfigFile string // read once
	Version        string // of SubjectAccessReview: v1 or v1beta1
	Timeout        time.Duration
	Backoff        *wait.Backoff // nil: kubehook.DefaultBackoff
	Metrics        *Metrics
}

// NewClient reads the kubeconfig.
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

// Ask posts the review, again after errors that pass unless it is to be asked
// once.
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

// transport counts certificates that are out of date.
type transport struct {
	next    http.RoundTripper
	metrics *Metrics // may be nil
}

// RoundTrip counts on the way back.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if t.metrics != nil {
		t.metrics.certificate(resp, err)
	}
	return resp, err
}

// certificate counts what is out of date about a server's certificates, whether
// it kept the connection from being made or not.
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

func hasSAN(c *x509.Certificate) bool {
	return slices.ContainsFunc(c.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(subjectAlternativeName) })
}

// hasWeakSignature reports whether a certificate that somebody else signed has a
// SHA-1 signature.
func hasWeakSignature(c *x509.Certificate) bool {
	weak := c.SignatureAlgorithm == x509.SHA1WithRSA || c.SignatureAlgorithm == x509.ECDSAWithSHA1
	return weak && c.Issuer.String() != c.Subject.String()
}
