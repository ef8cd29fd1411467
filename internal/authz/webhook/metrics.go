package webhook

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/keelson-io/keelson/internal/authz/match"
)

// This file counts reviews and match conditions of webhooks, under upstream's metric names.

// Metrics are shared by all authorization webhooks.
type Metrics struct {
	evaluations *prometheus.CounterVec
	durations   *prometheus.HistogramVec
	failOpen    *prometheus.CounterVec
	errors      *prometheus.CounterVec
	exclusions  *prometheus.CounterVec
	matching    *prometheus.HistogramVec
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	const prefix = "apiserver_authorization_"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	m := &Metrics{
		evaluations: counter("webhook_evaluations_total", "[ALPHA] Round-trips to authorization webhooks.", "name", "result"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "webhook_duration_seconds", Help: "[ALPHA] Request latency in seconds.", Buckets: prometheus.DefBuckets,
		}, []string{"name", "result"}),
		failOpen: counter("webhook_evaluations_fail_open_total", "[ALPHA] NoOpinion results due to webhook timeout or error.", "name", "result"),
		errors: counter("match_condition_evaluation_errors_total",
			"[ALPHA] Total number of errors when an authorization webhook encounters a match condition error split by authorizer type and name.", "type", "name"),
		exclusions: counter("match_condition_exclusions_total",
			"[ALPHA] Total number of exclusions when an authorization webhook is skipped because match conditions exclude it.", "type", "name"),
		matching: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    prefix + "match_condition_evaluation_seconds",
			Help:    "[ALPHA] Authorization match condition evaluation time in seconds, split by authorizer type and name.",
			Buckets: []float64{0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25},
		}, []string{"type", "name"}),
	}
	reg.MustRegister(m.evaluations, m.durations, m.failOpen, m.errors, m.exclusions, m.matching)
	return m
}

// counters are the metrics of one webhook, with its name as the label.
type counters struct {
	metrics    *Metrics
	name       string
	exclusions atomic.Pointer[prometheus.Counter]
	matching   atomic.Pointer[prometheus.Observer]
}

const webhookType = "Webhook"

// matched records one evaluation of match conditions.
func (c *counters) matched(o *match.Outcome, began time.Time) {
	if c.metrics == nil {
		return
	}
	seconds := c.matching.Load()
	if seconds == nil {
		first := c.metrics.matching.WithLabelValues(webhookType, c.name)
		seconds = &first
		c.matching.Store(seconds)
	}
	(*seconds).Observe(time.Since(began).Seconds())
	if o.Failed {
		c.metrics.errors.WithLabelValues(webhookType, c.name).Inc()
	}
	if o.Match || o.Err != nil {
		return
	}
	left := c.exclusions.Load()
	if left == nil {
		first := c.metrics.exclusions.WithLabelValues(webhookType, c.name)
		left = &first
		c.exclusions.Store(left)
	}
	(*left).Inc()
}

// attempted records one HTTP request to the webhook.
func (c *counters) attempted(result string, took time.Duration) {
	if c.metrics != nil {
		c.metrics.evaluations.WithLabelValues(c.name, result).Inc()
		c.metrics.durations.WithLabelValues(c.name, result).Observe(took.Seconds())
	}
}

// failedOpen counts a review without an answer whose failure policy is NoOpinion.
func (c *counters) failedOpen(result string) {
	if c.metrics != nil {
		c.metrics.failOpen.WithLabelValues(c.name, result).Inc()
	}
}

// outcome returns the label of an attempt: success, timeout, canceled or error.
func outcome(ctx context.Context, status int, err error) string {
	switch {
	case err == nil:
		return "success"
	case ctx.Err() != nil:
		return "canceled"
	case utilnet.IsTimeout(err), errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err), status == http.StatusGatewayTimeout:
		return "timeout"
	}
	return "error"
}
