package policy

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts and times what policies decide.
type Metrics struct {
	checks  *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// NewMetrics registers the metrics of validating policies.
func NewMetrics(r prometheus.Registerer) *Metrics {
	labels := []string{"policy", "policy_binding", "error_type", "enforcement_action"}
	m := &Metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_validating_admission_policy_check_total",
			Help: "Validation admission policy check total, labeled by policy and further identified by binding and enforcement action taken.",
		}, labels),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_validating_admission_policy_check_duration_seconds",
			Help:    "Validation admission latency for individual validation expressions in seconds, labeled by policy and further including binding and enforcement action taken.",
			Buckets: []float64{0.0000005, 0.001, 0.01, 0.1, 1.0},
		}, labels),
	}
	r.MustRegister(m.checks, m.seconds)
	return m
}

func (m *Metrics) observe(policy, binding string, d *decision, action string) {
	m.checks.WithLabelValues(policy, binding, d.errorType(), action).Inc()
	m.seconds.WithLabelValues(policy, binding, d.errorType(), action).Observe(d.took.Seconds())
}
