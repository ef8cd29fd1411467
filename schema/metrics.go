package schema

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// This file times rules and ratcheting, under the names that dashboards for
// kube-apiserver know. Schemas are shared by all servers of a process, and so are
// these times.

var (
	compilations = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "apiserver_cel_compilation_duration_seconds",
		Help: "[BETA] CEL compilation time in seconds.",
	})
	evaluationTimes = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "apiserver_cel_evaluation_duration_seconds",
		Help: "[BETA] CEL evaluation time in seconds.",
	})
	ratchetings = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "apiextensions_apiserver_validation_ratcheting_seconds",
		Help:    "[ALPHA] Time for comparison of old to new for the purposes of CRDValidationRatcheting during an UPDATE in seconds.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10),
	})
)

// Metrics are the times of this process: of the rules of each schema node that
// were compiled, of the rules of each object that were evaluated, and of what
// ObserveRatcheting was told.
func Metrics() []prometheus.Collector {
	return []prometheus.Collector{compilations, evaluationTimes, ratchetings}
}

// ObserveRatcheting notes the Compared of one update of a custom resource.
func ObserveRatcheting(compared time.Duration) { ratchetings.Observe(compared.Seconds()) }

// since notes in h the time since start.
func since(h prometheus.Histogram, start time.Time) { h.Observe(time.Since(start).Seconds()) }
