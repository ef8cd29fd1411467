// Package webhook authenticates bearer tokens by asking a webhook with a TokenReview.
//
// [New] returns the authenticator. If the webhook fails or does not answer in time, the token is
// refused: later authenticators are not asked. The authenticator calls the webhook for every
// request; put a cache before it ([authn.Cache]).
package webhook

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authenticationv1beta1 "k8s.io/api/authentication/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/kubehook"
	"github.com/keelson-io/keelson/internal/reloads"
	"github.com/keelson-io/keelson/internal/weakcert"
)

// Config describes the webhook and how it is called.
type Config struct {
	ConfigFile string       // kubeconfig
	Version    string       // of TokenReview: v1 or v1beta1
	Audiences  []string     // accepted by the API; used if the answer names none
	Backoff    wait.Backoff // between tries; the zero value means kubehook.DefaultBackoff
	Metrics    prometheus.Registerer
	// Certificates counts the certificates of the webhook. Nil means that they are not counted.
	Certificates *weakcert.Counters
	Files        *reloads.Files // follow the kubeconfig; nil: it is read once
}

// timeout bounds one review, including all retries.
const timeout = 30 * time.Second

// token authenticates tokens by a webhook.
type token struct {
	Config
	client    *kubehook.Client
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

// New reads the kubeconfig and returns an authenticator that calls the webhook.
func New(c Config) (authn.Token, error) {
	if c.Version != "v1" && c.Version != "v1beta1" {
		return nil, fmt.Errorf("unsupported authentication webhook version %q, supported versions are %q, %q", c.Version, "v1", "v1beta1")
	}
	if c.Backoff.Steps == 0 {
		c.Backoff = kubehook.DefaultBackoff
	}
	config, err := kubehook.Config(c.ConfigFile)
	if err != nil {
		return nil, err
	}
	version := schema.GroupVersion{Group: authenticationv1.GroupName, Version: c.Version}
	codec, err := kubehook.Codec(version, authenticationv1.AddToScheme, authenticationv1beta1.AddToScheme)
	if err != nil {
		return nil, err
	}
	client, err := kubehook.New(config, c.Backoff, codec, c.Certificates)
	if err == nil {
		err = client.Follow(c.Files, "authentication-token-webhook-config-file", c.ConfigFile)
	}
	if err != nil {
		return nil, err
	}
	t := &token{
		Config: c,
		client: client,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_delegated_authn_request_total",
			Help: "[ALPHA] Number of HTTP requests partitioned by status code.",
		}, []string{"code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_delegated_authn_request_duration_seconds",
			Help:    "[ALPHA] Request latency in seconds. Broken down by status code.",
			Buckets: []float64{0.25, 0.5, 0.7, 1, 1.5, 3, 5, 10},
		}, []string{"code"}),
	}
	if c.Metrics != nil {
		c.Metrics.MustRegister(t.requests, t.durations)
	}
	return t, nil
}

// observe records the result and the duration of one call in the metrics.
func (t *token) observe(code int, took time.Duration, err error) {
	label := strconv.Itoa(code)
	if code == 0 {
		if err == nil {
			return
		}
		label = "<error>"
	}
	t.requests.WithLabelValues(label).Inc()
	t.durations.WithLabelValues(label).Observe(took.Seconds())
}

// AuthenticateToken implements authn.Token.
func (t *token) AuthenticateToken(ctx context.Context, text string, audiences []string) (*authn.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status, err := t.review(ctx, text, audiences)
	if err != nil {
		return nil, authn.Outage("token webhook", "Failed to make webhook authenticator request", err)
	}
	var good []string
	if len(audiences) > 0 {
		has := t.Audiences
		if len(status.Audiences) > 0 {
			has = status.Audiences
		}
		if good = authn.Intersect(audiences, has); len(good) == 0 {
			return nil, nil
		}
	}
	if !status.Authenticated {
		if status.Error != "" {
			return nil, authn.Refused("token webhook", errors.New(status.Error))
		}
		return nil, nil
	}
	u := &authn.User{Name: status.User.Username, UID: status.User.UID, Groups: authn.WithAuthenticated(status.User.Username, status.User.Groups)}
	for key, values := range status.User.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = values
	}
	return &authn.Response{User: u, Audiences: good}, nil
}

// review sends a TokenReview and returns its status. Both versions of TokenReview have the same
// fields.
func (t *token) review(ctx context.Context, text string, audiences []string) (*authenticationv1.TokenReviewStatus, error) {
	call := kubehook.Call{Observe: t.observe}
	if t.Version == "v1" {
		in := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: text, Audiences: audiences}}
		var out authenticationv1.TokenReview
		err := t.client.Post(ctx, in, &out, call)
		return &out.Status, err
	}
	in := &authenticationv1beta1.TokenReview{Spec: authenticationv1beta1.TokenReviewSpec{Token: text, Audiences: audiences}}
	var out authenticationv1beta1.TokenReview
	if err := t.client.Post(ctx, in, &out, call); err != nil {
		return nil, err
	}
	s := &authenticationv1.TokenReviewStatus{Authenticated: out.Status.Authenticated, Audiences: out.Status.Audiences, Error: out.Status.Error}
	s.User = authenticationv1.UserInfo{Username: out.Status.User.Username, UID: out.Status.User.UID, Groups: out.Status.User.Groups}
	for key, values := range out.Status.User.Extra {
		if s.User.Extra == nil {
			s.User.Extra = map[string]authenticationv1.ExtraValue{}
		}
		s.User.Extra[key] = authenticationv1.ExtraValue(values)
	}
	return s, nil
}
