package policy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/internal/series"
)

// This file has the metrics of policies, named as upstream names them.

// Metrics counts and times what policies decide.
type Metrics struct {
	checks, mutations        *prometheus.CounterVec
	seconds, mutationSeconds *prometheus.HistogramVec
}

// NewMetrics registers the metrics of policies.
func NewMetrics(r prometheus.Registerer) *Metrics {
	labels := []string{"policy", "policy_binding", "error_type", "enforcement_action"}
	m := &Metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_validating_admission_policy_check_total",
			Help: "[BETA] Validation admission policy check total, labeled by policy and further identified by binding and enforcement action taken.",
		}, labels),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_validating_admission_policy_check_duration_seconds",
			Help:    "[BETA] Validation admission latency for individual validation expressions in seconds, labeled by policy and further including binding and enforcement action taken.",
			Buckets: []float64{0.0000005, 0.001, 0.01, 0.1, 1.0},
		}, labels),
	}
	labels = labels[:3]
	m.mutations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "apiserver_mutating_admission_policy_check_total",
		Help: "[ALPHA] Mutation admission policy check total, labeled by policy and further identified by binding.",
	}, labels)
	m.mutationSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "apiserver_mutating_admission_policy_check_duration_seconds",
		Help:    "[ALPHA] Mutation admission latency for individual mutation expressions in seconds, labeled by policy and binding.",
		Buckets: []float64{0.0000005, 0.001, 0.01, 0.1, 1.0},
	}, labels)
	r.MustRegister(m.checks, m.seconds, m.mutations, m.mutationSeconds)
	return m
}

// mutated records one mutation.
func (m *Metrics) mutated(policy, binding, errorType string, took time.Duration) {
	m.mutations.WithLabelValues(policy, binding, errorType).Inc()
	m.mutationSeconds.WithLabelValues(policy, binding, errorType).Observe(took.Seconds())
}

// validated records one validation.
func (m *Metrics) validated(policy, binding string, d *decision, action string) {
	m.checks.WithLabelValues(policy, binding, d.errorType(), action).Inc()
	m.seconds.WithLabelValues(policy, binding, d.errorType(), action).Observe(d.took.Seconds())
}

// Sweep removes the series of policies and bindings that do not exist any more. The maps hold the
// existing names.
func (m *Metrics) Sweep(validating, validatingBindings, mutating, mutatingBindings map[string]bool) {
	drop := func(policies, bindings map[string]bool, vectors ...series.Vector) {
		for _, v := range vectors {
			series.Drop(v, func(l prometheus.Labels) bool { return !policies[l["policy"]] || !bindings[l["policy_binding"]] })
		}
	}
	drop(validating, validatingBindings, m.checks, m.seconds)
	drop(mutating, mutatingBindings, m.mutations, m.mutationSeconds)
}
