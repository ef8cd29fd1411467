// Package reloads has the metrics of reloaded configurations, under kube-apiserver's names: how
// often a configuration was reloaded, and which one is in force. [Files] reads certificates and
// other small files again when they change.
//
// Labels identify servers and configurations by a [Hash]; that of a server is computed from its
// [ServerID].
package reloads

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics of one kind of configuration. They change in one step, so that no scrape
// sees half of a reload. A nil *Metrics does nothing.
type Metrics struct {
	reloads, last, info *prometheus.Desc
	id                  string

	mu      sync.Mutex
	counts  map[string]float64 // number of reloads, by status
	times   map[string]float64 // Unix time of the last reload, by status
	inForce string             // hash of the configuration
}

// New registers the metrics for a kind of configuration, "authorization" or "authentication".
func New(reg prometheus.Registerer, what, serverID string) *Metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("apiserver_"+what+"_config_controller_"+name, fmt.Sprintf(help, what), labels, nil)
	}
	m := &Metrics{
		reloads: desc("automatic_reloads_total",
			"[BETA] Total number of automatic reloads of %s configuration split by status and apiserver identity.", "status", "apiserver_id_hash"),
		last: desc("automatic_reload_last_timestamp_seconds",
			"[BETA] Timestamp of the last automatic reload of %s configuration split by status and apiserver identity.", "status", "apiserver_id_hash"),
		info: desc("last_config_info",
			"[ALPHA] Information about the last applied %s configuration with hash as label, split by apiserver identity.", "apiserver_id_hash", "hash"),
		id:     Hash(serverID),
		counts: map[string]float64{},
		times:  map[string]float64{},
	}
	reg.MustRegister(m)
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	to <- m.reloads
	to <- m.last
	to <- m.info
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	counts, times, inForce := maps.Clone(m.counts), maps.Clone(m.times), m.inForce
	m.mu.Unlock()
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		to <- prometheus.MustNewConstMetric(m.reloads, prometheus.CounterValue, counts[status], status, m.id)
		to <- prometheus.MustNewConstMetric(m.last, prometheus.GaugeValue, times[status], status, m.id)
	}
	if inForce != "" {
		to <- prometheus.MustNewConstMetric(m.info, prometheus.GaugeValue, 1, m.id, inForce)
	}
}

// Succeeded counts a reload that put text into force.
func (m *Metrics) Succeeded(text []byte) {
	m.change(func() {
		m.reloaded("success")
		m.inForce = Hash(string(text))
	})
}

// Failed counts a reload that changed nothing.
func (m *Metrics) Failed() { m.change(func() { m.reloaded("failure") }) }

// InForce records the text of the configuration in force.
func (m *Metrics) InForce(text []byte) { m.change(func() { m.inForce = Hash(string(text)) }) }

// change changes the metrics in one step for collectors.
func (m *Metrics) change(how func()) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		how()
	}
}

// reloaded counts a reload. The caller holds the lock.
func (m *Metrics) reloaded(status string) {
	m.counts[status]++
	m.times[status] = float64(time.Now().UnixNano()) / 1e9
}

// Hash returns the hash by which metrics identify a text; "" for an empty text.
func Hash(data string) string {
	if data == "" {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(data)))
}

// ServerID returns the name by which kube-apiserver identifies itself in leases and metrics: a hash
// of the host name.
func ServerID(hostname string) string {
	var b []byte
	for _, s := range []string{hostname, "kube-apiserver"} {
		b = append(b, byte(len(s)>>8), byte(len(s)))
		b = append(b, s...)
	}
	sum := sha256.Sum256(b)
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}
