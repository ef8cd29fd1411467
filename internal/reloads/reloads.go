// Package reloads counts how often a configuration was read again, and says
// which one is in force, under the names that kube-apiserver has for it.
//
// Labels name servers and configurations by hashes ([Hash]); the server's is that
// of its [ServerID].
package reloads

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of one kind of configuration. Nil Metrics count nothing.
type Metrics struct {
	reloads *prometheus.CounterVec
	last    *prometheus.GaugeVec
	info    *prometheus.GaugeVec
	id      string
}

// New registers the metrics of a kind of configuration, "authorization" or
// "authentication", of the server with an id.
func New(reg prometheus.Registerer, what, serverID string) *Metrics {
	prefix := "apiserver_" + what + "_config_controller_"
	m := &Metrics{
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "automatic_reloads_total",
			Help: "Total number of automatic reloads of " + what + " configuration split by status and apiserver identity.",
		}, []string{"status", "apiserver_id_hash"}),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "automatic_reload_last_timestamp_seconds",
			Help: "Timestamp of the last automatic reload of " + what + " configuration split by status and apiserver identity.",
		}, []string{"status", "apiserver_id_hash"}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "last_config_info",
			Help: "Information about the last applied " + what + " configuration with hash as label, split by apiserver identity.",
		}, []string{"apiserver_id_hash", "hash"}),
		id: Hash(serverID),
	}
	reg.MustRegister(m.reloads, m.last, m.info)
	return m
}

// Succeeded counts a reload, after which the text is in force.
func (m *Metrics) Succeeded(text []byte) {
	m.reloaded("success")
	m.InForce(text)
}

// Failed counts a reload after which everything is as before.
func (m *Metrics) Failed() { m.reloaded("failure") }

func (m *Metrics) reloaded(status string) {
	if m != nil {
		m.reloads.WithLabelValues(status, m.id).Inc()
		m.last.WithLabelValues(status, m.id).SetToCurrentTime()
	}
}

// InForce notes the text of the configuration that counts.
func (m *Metrics) InForce(text []byte) {
	if m != nil {
		m.info.Reset()
		m.info.WithLabelValues(m.id, Hash(string(text))).Set(1)
	}
}

// Hash is how metrics show data; "" if there is none.
func Hash(data string) string {
	if data == "" {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(data)))
}

// ServerID is how kube-apiserver names itself in leases and metrics: by a hash of
// the host's name.
func ServerID(hostname string) string {
	var b []byte
	for _, s := range []string{hostname, "kube-apiserver"} {
		b = append(b, byte(len(s)>>8), byte(len(s)))
		b = append(b, s...)
	}
	sum := sha256.Sum256(b)
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}
