package conversion

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// This file counts and times calls, under the names that dashboards for kube-apiserver know.

// Metrics counts and times the calls of all webhooks of a server.
type Metrics struct {
	conversions *prometheus.HistogramVec
	requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
}

// NewMetrics registers the metrics of conversions.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		conversions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_crd_conversion_webhook_duration_seconds",
			Help:    "[ALPHA] CRD webhook conversion duration in seconds",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"crd_name", "from_version", "to_version", "succeeded"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_conversion_webhook_request_total",
			Help: "[ALPHA] Counter for conversion webhook requests with success/failure and failure error type",
		}, []string{"result", "failure_type"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_conversion_webhook_duration_seconds",
			Help:    "[ALPHA] Conversion webhook request latency",
			Buckets: []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 45, 60},
		}, []string{"result", "failure_type"}),
	}
	r.MustRegister(m.conversions, m.requests, m.seconds)
	return m
}

// failure is what a call failed by, as metrics call it; "" for none.
type failure string

const (
	failedCall      failure = "conversion_webhook_call_failure"
	failedResponse  failure = "conversion_webhook_malformed_response_failure"
	failedPartially failure = "conversion_webhook_partial_response_failure"
	failedObject    failure = "conversion_webhook_invalid_converted_object_failure"
)

// observe notes one call for a definition. A nil Metrics notes nothing.
func (m *Metrics) observe(definition, from, to string, took time.Duration, f failure) {
	if m == nil {
		return
	}
	result := "success"
	if f != "" {
		result = "failure"
	}
	m.requests.WithLabelValues(result, string(f)).Inc()
	m.seconds.WithLabelValues(result, string(f)).Observe(took.Seconds())
	m.conversions.WithLabelValues(definition, from, to, strconv.FormatBool(f == "")).Observe(took.Seconds())
}
