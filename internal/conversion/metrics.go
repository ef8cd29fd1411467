package conversion

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/internal/series"
)

// This file counts and measures webhook calls, under kube-apiserver's metric names.

// Metrics counts and measures the calls of all conversion webhooks of a server.
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

// failure is the metric label for the reason of a failed call; "" for success.
type failure string

const (
	failedCall      failure = "conversion_webhook_call_failure"
	failedResponse  failure = "conversion_webhook_malformed_response_failure"
	failedPartially failure = "conversion_webhook_partial_response_failure"
	failedObject    failure = "conversion_webhook_invalid_converted_object_failure"
)

// observe records one call. A nil Metrics records nothing.
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

// Sweep removes the series of definitions and versions that do not exist any more.
func (m *Metrics) Sweep(exists func(definition, version string) bool) {
	series.Drop(m.conversions, func(l prometheus.Labels) bool {
		return !exists(l["crd_name"], l["from_version"]) || !exists(l["crd_name"], l["to_version"])
	})
}
