package admission

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/internal/series"
)

// This file has the metrics of webhooks and match conditions, named as upstream
// names them.

// Metrics counts and measures admission. A nil *Metrics does nothing.
type Metrics struct {
	webhook           *prometheus.HistogramVec
	webhookRequests   *prometheus.CounterVec
	webhookRejections *prometheus.CounterVec
	webhookFailOpen   *prometheus.CounterVec
	conditionErrors   *prometheus.CounterVec
	conditionSkips    *prometheus.CounterVec
	conditionSeconds  *prometheus.HistogramVec
	plugins           *prometheus.HistogramVec
	steps             [phases]times
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		webhook: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_admission_webhook_admission_duration_seconds",
			Help:    "[STABLE] Admission webhook latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10, 25},
		}, []string{"name", "type", "operation", "rejected"}),
		webhookRequests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_webhook_request_total",
			Help: "[ALPHA] Admission webhook request total, identified by name and broken out for each admission type (validating or admit) and operation. Additional labels specify whether the request was rejected or not and an HTTP status code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
		}, []string{"name", "type", "operation", "code", "rejected"}),
		webhookRejections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_webhook_rejection_count",
			Help: "[ALPHA] Admission webhook rejection count, identified by name and broken out for each admission type (validating or admit) and operation. Additional labels specify an error type (calling_webhook_error or apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection code if the webhook rejects the request with an HTTP status code (honored by the apiserver when the code is greater or equal to 400). Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
		}, []string{"name", "type", "operation", "error_type", "rejection_code"}),
		webhookFailOpen: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_webhook_fail_open_count",
			Help: "[ALPHA] Admission webhook fail open count, identified by name and broken out for each admission type (validating or admit).",
		}, []string{"name", "type"}),
		conditionErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_match_condition_evaluation_errors_total",
			Help: "[ALPHA] Admission match condition evaluation errors count, identified by name of resource containing the match condition and broken out for each kind containing matchConditions (webhook or policy), operation and admission type (validate or admit).",
		}, []string{"name", "kind", "type", "operation"}),
		conditionSkips: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_match_condition_exclusions_total",
			Help: "[ALPHA] Admission match condition evaluation exclusions count, identified by name of resource containing the match condition and broken out for each kind containing matchConditions (webhook or policy), operation and admission type (validate or admit).",
		}, []string{"name", "kind", "type", "operation"}),
		conditionSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_admission_match_condition_evaluation_seconds",
			Help:    "[ALPHA] Admission match condition evaluation time in seconds, identified by name and broken out for each kind containing matchConditions (webhook or policy), operation and type (validate or admit).",
			Buckets: []float64{0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25},
		}, []string{"name", "kind", "type", "operation"}),
	}
	m.newTimes(r)
	r.MustRegister(m.webhook, m.webhookRequests, m.webhookRejections, m.webhookFailOpen, m.conditionErrors, m.conditionSkips, m.conditionSeconds)
	return m
}

// Values of the label error_type for rejected requests.
const (
	ErrorCallingWebhook = "calling_webhook_error"
	ErrorInternal       = "apiserver_internal_error"
	NoError             = "no_error"
)

// maxCode bounds the values of the label rejection_code: larger codes are counted as this one.
const maxCode = 600

// Webhook records a call of a webhook. errorType is "" if the request was not rejected.
func (m *Metrics) Webhook(name, kind string, op Operation, took time.Duration, rejected bool, errorType string, code int) {
	code = max(0, min(code, maxCode))
	if errorType != "" {
		m.webhookRejections.WithLabelValues(name, kind, string(op), errorType, strconv.Itoa(code)).Inc()
	}
	m.webhookRequests.WithLabelValues(name, kind, string(op), strconv.Itoa(code), strconv.FormatBool(rejected)).Inc()
	m.webhook.WithLabelValues(name, kind, string(op), strconv.FormatBool(rejected)).Observe(took.Seconds())
}

// FailOpen counts a failed call that the failurePolicy Ignore let pass.
func (m *Metrics) FailOpen(name, kind string) { m.webhookFailOpen.WithLabelValues(name, kind).Inc() }

// Conditions identifies the owner of match conditions, for the labels of metrics.
type Conditions struct {
	Name string
	Kind string // webhook or policy
	Type string // validate or admit; for webhooks validating or admit
}

// ConditionError counts a failed match condition.
func (m *Metrics) ConditionError(c Conditions, op Operation) {
	m.conditionErrors.WithLabelValues(c.Name, c.Kind, c.Type, string(op)).Inc()
}

// ConditionSkip counts a request that match conditions excluded from a webhook. Upstream has no
// such metric for policies.
func (m *Metrics) ConditionSkip(webhook string, mutating bool, op Operation) {
	kind := "validate" // upstream uses this value only here
	if mutating {
		kind = "admit"
	}
	m.conditionSkips.WithLabelValues(webhook, "webhook", kind, string(op)).Inc()
}

// ConditionTime records the duration of match conditions.
func (m *Metrics) ConditionTime(c Conditions, op Operation, took time.Duration) {
	m.conditionSeconds.WithLabelValues(c.Name, c.Kind, c.Type, string(op)).Observe(took.Seconds())
}

// Sweep removes the series of webhooks and policies that do not exist any more. kind is webhook or
// policy.
func (m *Metrics) Sweep(exists func(kind, name string) bool) {
	for _, v := range []series.Vector{m.webhook, m.webhookRequests, m.webhookRejections, m.webhookFailOpen} {
		series.Drop(v, func(l prometheus.Labels) bool { return !exists("webhook", l["name"]) })
	}
	for _, v := range []series.Vector{m.conditionErrors, m.conditionSkips, m.conditionSeconds} {
		series.Drop(v, func(l prometheus.Labels) bool { return !exists(l["kind"], l["name"]) })
	}
}
