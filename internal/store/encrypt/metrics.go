package encrypt

// This file counts what is encrypted and decrypted, under upstream's names.

import (
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label transformation_type.
const (
	fromStorage = "from_storage"
	toStorage   = "to_storage"
)

// Metrics counts the transformations of a Store. It is a prometheus.Collector.
type Metrics struct {
	operations *prometheus.CounterVec
	duration   *prometheus.HistogramVec
}

// NewMetrics returns metrics that count nothing yet.
func NewMetrics() *Metrics {
	return &Metrics{
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_storage_transformation_operations_total",
			Help: "Values that were encrypted (to_storage) or decrypted (from_storage), by resource, prefix of the provider and of the key, and status: OK, a gRPC code, or unknown-non-grpc.",
		}, []string{"resource", "transformation_type", "transformer_prefix", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_storage_transformation_duration_seconds",
			Help:    "Time in seconds to encrypt or decrypt a value, by direction and prefix.",
			Buckets: prometheus.ExponentialBuckets(5e-6, 2, 25),
		}, []string{"transformation_type", "transformer_prefix"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.operations.Describe(to)
	m.duration.Describe(to)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.operations.Collect(to)
	m.duration.Collect(to)
}

// record counts one transformation that used a provider. As upstream does, it counts a provider with
// named keys twice: under its own prefix, and under the name of the key.
func (m *Metrics) record(resource, direction, prefix string, began time.Time, err error) {
	if m == nil {
		return
	}
	took := time.Since(began).Seconds()
	for _, prefix := range prefixes(prefix) {
		m.operations.WithLabelValues(resource, direction, prefix, code(err)).Inc()
		if err == nil {
			m.duration.WithLabelValues(direction, prefix).Observe(took)
		}
	}
}

// prefixes splits the prefix of a value, such as "k8s:enc:aesgcm:v1:key1:", into those that upstream
// counts. The name of a KMS plugin is part of the plugin's prefix; the identifier of its key is not.
func prefixes(prefix string) []string {
	const named = 5 // k8s, enc, the provider, its version, the key
	parts := strings.SplitN(prefix, ":", named)
	switch {
	case len(parts) < named || parts[named-1] == "":
		return []string{prefix}
	case parts[2] == "kms":
		plugin, _, _ := strings.Cut(parts[named-1], ":")
		return []string{strings.Join(parts[:named-1], ":") + ":" + plugin + ":"}
	}
	return []string{strings.Join(parts[:named-1], ":") + ":", parts[named-1]}
}

// code returns the label for an error.
func code(err error) string {
	var remote *PluginError
	switch {
	case err == nil:
		return "OK"
	case errors.As(err, &remote):
		return remote.Code
	}
	return "unknown-non-grpc"
}
