package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/authz"
)

// This file counts authorizations.

// Authorizations counts decisions about requests by what they came to.
type Authorizations struct {
	attempts  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	known     [len(outcomes)]atomic.Pointer[outcome]
}

// outcome is the counters of one result, looked up when it first comes about.
type outcome struct {
	attempts  prometheus.Counter
	durations prometheus.Observer
}

var outcomes = [...]string{"no-opinion", "allowed", "denied", "error"}

// NewAuthorizations registers the metrics of authorization.
func NewAuthorizations(reg prometheus.Registerer) *Authorizations {
	m := new(Authorizations)
	m.attempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "authorization_attempts_total",
		Help: "[ALPHA] Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'.",
	}, []string{"result"})
	m.durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "authorization_duration_seconds",
		Help:    "[ALPHA] Authorization duration in seconds broken out by result.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	}, []string{"result"})
	reg.MustRegister(m.attempts, m.durations)
	return m
}

// Observe counts a decision.
func (m *Authorizations) Observe(r *authz.Result, took time.Duration) {
	i := 0
	switch {
	case r.Decision == authz.Allow:
		i = 1
	case r.Err != nil:
		i = 3
	case r.Decision == authz.Deny:
		i = 2
	}
	o := m.known[i].Load()
	if o == nil {
		o = &outcome{m.attempts.WithLabelValues(outcomes[i]), m.durations.WithLabelValues(outcomes[i])}
		m.known[i].Store(o)
	}
	o.attempts.Inc()
	o.durations.Observe(took.Seconds())
}
