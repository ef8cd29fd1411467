package reload

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// This file is what metrics say about reloading.

type metrics struct {
	reloads *prometheus.CounterVec
	last    *prometheus.GaugeVec
	info    *prometheus.GaugeVec
	id      string
}

// newMetrics registers the metrics. They name the server by a hash of its id.
func newMetrics(reg prometheus.Registerer, hostname string) *metrics {
	const prefix = "apiserver_authorization_config_controller_"
	m := &metrics{
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "automatic_reloads_total",
			Help: "Total number of automatic reloads of authorization configuration split by status and apiserver identity.",
		}, []string{"status", "apiserver_id_hash"}),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "automatic_reload_last_timestamp_seconds",
			Help: "Timestamp of the last automatic reload of authorization configuration split by status and apiserver identity.",
		}, []string{"status", "apiserver_id_hash"}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "last_config_info",
			Help: "Information about the last applied authorization configuration with hash as label, split by apiserver identity.",
		}, []string{"apiserver_id_hash", "hash"}),
		id: ServerIDHash(hostname),
	}
	reg.MustRegister(m.reloads, m.last, m.info)
	return m
}

// serverID is how kube-apiserver names itself in leases and metrics: by a hash
// of the host's name.
func serverID(hostname string) string {
	var b []byte
	for _, s := range []string{hostname, "kube-apiserver"} {
		b = append(b, byte(len(s)>>8), byte(len(s)))
		b = append(b, s...)
	}
	sum := sha256.Sum256(b)
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// ServerIDHash is how metrics name a server that runs on a host.
func ServerIDHash(hostname string) string { return hash(serverID(hostname)) }

// hash is how metrics show data; "" if there is none.
func hash(data string) string {
	if data == "" {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(data)))
}

func (m *metrics) reloaded(status string) {
	if m != nil {
		m.reloads.WithLabelValues(status, m.id).Inc()
		m.last.WithLabelValues(status, m.id).SetToCurrentTime()
	}
}

// inForce notes the text of the configuration that decides.
func (m *metrics) inForce(text []byte) {
	if m != nil {
		m.info.Reset()
		m.info.WithLabelValues(m.id, hash(string(text))).Set(1)
	}
}
