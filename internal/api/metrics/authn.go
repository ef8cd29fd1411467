package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/internal/authn"
)

// This file counts authentications, under upstream's names.

// Authentications are the counters of authentication.
type Authentications struct {
	users *prometheus.CounterVec

	// There is one for each result, so that a request needs no lookup.
	attempts  [authnResults]prometheus.Counter
	durations [authnResults]prometheus.Observer
	other     prometheus.Counter
}

// The results of an authentication.
const (
	authnSuccess = iota
	authnFailure // no credential, and none would do
	authnError
	authnResults
)

// NewAuthentications registers the metrics of authentication.
func NewAuthentications(reg prometheus.Registerer) *Authentications {
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "authentication_attempts",
		Help: "[ALPHA] Counter of authenticated attempts.",
	}, []string{"result"})
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "authentication_duration_seconds",
		Help:    "[ALPHA] Authentication duration in seconds broken out by result.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	}, []string{"result"})
	m := &Authentications{users: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "authenticated_user_requests",
		Help: "[ALPHA] Counter of authenticated requests broken out by username.",
	}, []string{"username"})}
	reg.MustRegister(m.users, attempts, durations)
	for i, result := range [authnResults]string{"success", "failure", "error"} {
		m.attempts[i], m.durations[i] = attempts.WithLabelValues(result), durations.WithLabelValues(result)
	}
	m.other = m.users.WithLabelValues("other")
	return m
}

// Observe counts one authentication.
func (m *Authentications) Observe(r *authn.Response, err error, took time.Duration) {
	result := authnSuccess
	switch {
	case err != nil:
		result = authnError
	case r == nil:
		result = authnFailure
	default:
		m.user(r.User.Name)
	}
	m.attempts[result].Inc()
	m.durations[result].Observe(took.Seconds())
}

// user counts a user by one of few names, so that users cannot fill the memory.
func (m *Authentications) user(name string) {
	switch {
	case name == "admin", name == "client", name == "kube_proxy", name == "kubelet", name == "system:serviceaccount:kube-system:default":
		m.users.WithLabelValues(name).Inc()
	case strings.Contains(name, "@"):
		m.users.WithLabelValues("email_id").Inc()
	default:
		m.other.Inc()
	}
}
