package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/schema"
)

// This file has the metrics of rules and ratcheting, under the names that dashboards for
// kube-apiserver know.

// schemaMetrics returns observers whose histograms are in a registry.
func schemaMetrics(r prometheus.Registerer) *schema.Metrics {
	histogram := func(o prometheus.HistogramOpts) prometheus.Histogram {
		h := prometheus.NewHistogram(o)
		r.MustRegister(h)
		return h
	}
	return &schema.Metrics{
		Compilation: histogram(prometheus.HistogramOpts{
			Name: "apiserver_cel_compilation_duration_seconds",
			Help: "[BETA] CEL compilation time in seconds.",
		}),
		Evaluation: histogram(prometheus.HistogramOpts{
			Name: "apiserver_cel_evaluation_duration_seconds",
			Help: "[BETA] CEL evaluation time in seconds.",
		}),
		Ratcheting: histogram(prometheus.HistogramOpts{
			Name:    "apiextensions_apiserver_validation_ratcheting_seconds",
			Help:    "[ALPHA] Time for comparison of old to new for the purposes of CRDValidationRatcheting during an UPDATE in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10),
		}),
	}
}
