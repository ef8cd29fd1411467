package authn

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// This file counts the work of authenticators, under upstream's metric names.

// Metrics are the metrics of one server's authenticators. A nil *Metrics counts
// nothing.
type Metrics struct {
	certificates prometheus.Histogram
	requests     *prometheus.CounterVec // of the cache of tokens, by status
	durations    *prometheus.HistogramVec
	fetches      *prometheus.CounterVec
	active       *prometheus.GaugeVec

	hit, miss         prometheus.Counter
	hitTime, missTime prometheus.Observer
	blocked, inFlight prometheus.Gauge
	fetched, failed   prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		certificates: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "apiserver_client_certificate_expiration_seconds",
			Help: "[ALPHA] Distribution of the remaining lifetime on the certificate used to authenticate a request.",
			Buckets: []float64{0, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 345600, 604800, 2592000, 7776000,
				15552000, 31104000},
		}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "authentication_token_cache_request_total",
			Help: "[ALPHA] ",
		}, []string{"status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "authentication_token_cache_request_duration_seconds",
			Help: "[ALPHA] ",
		}, []string{"status"}),
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "authentication_token_cache_fetch_total",
			Help: "[ALPHA] ",
		}, []string{"status"}),
		active: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "authentication_token_cache_active_fetch_count",
			Help: "[ALPHA] ",
		}, []string{"status"}),
	}
	reg.MustRegister(m.certificates, m.requests, m.durations, m.fetches, m.active)
	m.hit, m.miss = m.requests.WithLabelValues("hit"), m.requests.WithLabelValues("miss")
	m.hitTime, m.missTime = m.durations.WithLabelValues("hit"), m.durations.WithLabelValues("miss")
	m.blocked, m.inFlight = m.active.WithLabelValues("blocked"), m.active.WithLabelValues("in_flight")
	m.fetched, m.failed = m.fetches.WithLabelValues("ok"), m.fetches.WithLabelValues("error")
	return m
}

// certificate records the remaining lifetime of a client certificate.
func (m *Metrics) certificate(left time.Duration) {
	if m != nil {
		m.certificates.Observe(left.Seconds())
	}
}

// lookup records one look-up in the token cache.
func (m *Metrics) lookup(hit bool, took time.Duration) {
	switch {
	case m == nil:
	case hit:
		m.hit.Inc()
		m.hitTime.Observe(took.Seconds())
	default:
		m.miss.Inc()
		m.missTime.Observe(took.Seconds())
	}
}

// waiting counts a request that waits for an authenticator. The caller calls the returned function
// when the wait ends.
func (m *Metrics) waiting() func() {
	if m == nil {
		return func() {}
	}
	m.blocked.Inc()
	return m.blocked.Dec
}

// fetching counts a call of the authenticators behind the cache. The caller passes its result to
// the returned function.
func (m *Metrics) fetching() func(err error) {
	if m == nil {
		return func(error) {}
	}
	m.inFlight.Inc()
	return func(err error) {
		m.inFlight.Dec()
		if err != nil {
			m.failed.Inc()
		} else {
			m.fetched.Inc()
		}
	}
}
