// Package impersonation decides whether a user may act as another one for one request.
//
// # Model
//
//	The headers of a request name the user that its sender, the requester, wants to act as: the
//
// wanted user ([Wanted]). There are several modes of impersonation, which are tried in order until
// one allows it (KEP-5284):
//
//   - associated-node: a service account's token that is bound to a node acts as
//     that node;
//   - arbitrary-node: anybody as a node;
//   - serviceaccount: as a service account;
//   - user-info: as any other user, with groups, UID and extra;
//   - legacy: the verb impersonate, on everything that the wanted user has.
//
// All but the last are constrained: the requester needs to be allowed the verb
// impersonate-on:<mode>:<verb> on what the request is for, and the verb
// impersonate:<mode> on what the wanted user has. The mode that worked last for
// a requester is tried first.
//
// # Invariants
//
//   - What is not allowed by one mode as a whole is refused.
//   - The refusal is that of the mode that was tried first.
//   - Only permissions are remembered, and for no longer than ten seconds. What a permission is
//     concluded from counts: the oldest answer of the authorizer decides.
package impersonation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/status"
)

// Headers by which a user asks to be treated as another one.
const (
	headerUser  = "Impersonate-User"
	headerUID   = "Impersonate-Uid"
	headerGroup = "Impersonate-Group"
	headerExtra = "Impersonate-Extra-"
)

// Wanted is the user that the headers ask for, nil if they ask for none. To ask
// for groups, UID or extra without a user is an error (400).
func Wanted(h http.Header) (*authn.User, error) {
	if !asked(h) {
		return nil, nil
	}
	u := &authn.User{Name: h.Get(headerUser), UID: h.Get(headerUID), Groups: slices.Clone(h[headerGroup])}
	extra := false
	for name, values := range h {
		spelled, ok := strings.CutPrefix(name, headerExtra)
		if !ok {
			continue
		}
		extra = true
		if len(values) == 0 {
			continue
		}
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		key := authn.ExtraKey(spelled)
		u.Extra[key] = append(u.Extra[key], values...)
	}
	switch {
	case u.Name != "":
		return u, nil
	case u.UID != "" || len(u.Groups) > 0 || extra:
		return nil, status.BadRequest("requested &user.DefaultInfo{Name:%#v, UID:%#v, Groups:%#v, Extra:%#v} without impersonating a user name",
			u.Name, u.UID, u.Groups, u.Extra)
	}
	return nil, nil
}

// asked returns a quick look for whether there may be anything to find.
func asked(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "Impersonate-") {
			return true
		}
	}
	return false
}

// Config is what an Impersonator works with.
type Config struct {
	Authz authz.Authorizer
	// Forbidden is the error for attributes that were not allowed, for a reason.
	Forbidden func(a *authz.Attributes, reason string) error
	Metrics   prometheus.Registerer
}

// Impersonator decides for one server.
type Impersonator struct {
	modes   []mode
	last    *recent[int] // by requester: the mode that worked
	metrics *metrics
}

// Impersonated is the user of a request with impersonation.
type Impersonated struct {
	User *authn.User
	// Constraint is the verb of the mode that allowed it; "" for legacy.
	Constraint string
}

// New returns an Impersonator.
func New(c Config) *Impersonator {
	m := newMetrics(c.Metrics)
	check := &checker{authz: c.Authz, forbidden: c.Forbidden, metrics: m}
	return &Impersonator{modes: modes(check), last: newRecent[int](maxRemembered, 0), metrics: m}
}

// maxRemembered bounds how many requesters' modes, and how many permissions of
// a mode, are remembered.
const maxRemembered = 10_000

// Impersonate decides whether the user of a request's attributes may be the
// wanted one. The error is the refusal.
func (i *Impersonator) Impersonate(ctx context.Context, wanted *authn.User, a *authz.Attributes) (*Impersonated, error) {
	began := time.Now()
	got, err := i.try(ctx, wanted, a)
	if err != nil {
		i.metrics.attempt("", "denied", time.Since(began))
		return nil, err
	}
	i.metrics.attempt(modeOf(got.Constraint), "allowed", time.Since(began))
	return got, nil
}

// try tries the modes, the one that worked last for the requester first.
func (i *Impersonator) try(ctx context.Context, wanted *authn.User, a *authz.Attributes) (*Impersonated, error) {
	requester := a.User.Name
	var refused error
	first, known := i.last.get(requester)
	if known {
		got, err := i.modes[first.value].check(ctx, wanted, a)
		if err == nil && got != nil {
			return got, nil
		}
		refused = err
	}
	for n, m := range i.modes {
		if known && n == first.value {
			continue
		}
		got, err := m.check(ctx, wanted, a)
		switch {
		case err != nil && refused == nil:
			refused = err
		case err == nil && got != nil:
			i.last.set(requester, remembered[int]{value: n})
			return got, nil
		}
	}
	if refused == nil {
		refused = errors.New("all impersonation modes failed")
	}
	return nil, refused
}

// checker asks the authorizer.
type checker struct {
	authz     authz.Authorizer
	forbidden func(*authz.Attributes, string) error
	metrics   *metrics
}

// allowed is nil if the attributes are allowed, or the refusal.
func (c *checker) allowed(ctx context.Context, a *authz.Attributes) error {
	began := time.Now()
	r := c.authz.Authorize(ctx, a)
	decision := "denied"
	if r.Decision == authz.Allow {
		decision = "allowed"
	}
	c.metrics.authorization(modeOf(a.Verb), decision, time.Since(began))
	if r.Decision == authz.Allow {
		return nil
	}
	reason := r.Reason
	switch {
	case r.Err != nil && reason != "":
		reason = fmt.Sprintf("%v: %s", r.Err, reason)
	case r.Err != nil:
		reason = r.Err.Error()
	}
	return c.forbidden(a, reason)
}

// modeOf returns the mode that a verb belongs to.
func modeOf(verb string) string {
	if verb == "" || verb == "impersonate" {
		return "legacy"
	}
	if rest, ok := strings.CutPrefix(verb, "impersonate-on:"); ok {
		name, _, _ := strings.Cut(rest, ":")
		return name
	}
	return strings.TrimPrefix(verb, "impersonate:")
}

type metrics struct {
	attempts, authorizations     *prometheus.CounterVec
	attemptTimes, authorizeTimes *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	labels := []string{"mode", "decision"}
	buckets := prometheus.ExponentialBuckets(0.001, 2, 15)
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_impersonation_attempts_total",
			Help: "[ALPHA] Total number of impersonation attempts split by mode and decision.",
		}, labels),
		attemptTimes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_impersonation_attempts_duration_seconds",
			Help:    "[ALPHA] Latency of impersonation attempts in seconds split by mode and decision.",
			Buckets: buckets,
		}, labels),
		authorizations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_impersonation_authorization_attempts_total",
			Help: "[ALPHA] Total number of authorization checks made by the impersonation handler split by mode and decision.",
		}, labels),
		authorizeTimes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_impersonation_authorization_attempts_duration_seconds",
			Help:    "[ALPHA] Latency of authorization checks made by the impersonation handler in seconds split by mode and decision.",
			Buckets: buckets,
		}, labels),
	}
	reg.MustRegister(m.attempts, m.attemptTimes, m.authorizations, m.authorizeTimes)
	return m
}

func (m *metrics) attempt(mode, decision string, took time.Duration) {
	m.attempts.WithLabelValues(mode, decision).Inc()
	m.attemptTimes.WithLabelValues(mode, decision).Observe(took.Seconds())
}

func (m *metrics) authorization(mode, decision string, took time.Duration) {
	m.authorizations.WithLabelValues(mode, decision).Inc()
	m.authorizeTimes.WithLabelValues(mode, decision).Observe(took.Seconds())
}
