package authz

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// This file counts decisions, under the names that dashboards for
// kube-apiserver know.

// Metrics counts what chains decide.
type Metrics struct{ decisions *prometheus.CounterVec }

// NewMetrics registers the metrics of chains.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "apiserver_authorization_decisions_total",
		Help: "[ALPHA] Total number of terminal decisions made by an authorizer split by authorizer type, name, and decision.",
	}, []string{"type", "name", "decision"})}
	reg.MustRegister(m.decisions)
	return m
}

// decisions are the counters of one link, looked up when they are first used:
// a series that is not there means that it never happened.
type decisions struct {
	metrics *Metrics
	allowed atomic.Pointer[prometheus.Counter]
	denied  atomic.Pointer[prometheus.Counter]
}

func (d *decisions) count(n *Named, decision Decision) {
	if d.metrics == nil || n.Type == "" {
		return
	}
	at, label := &d.allowed, "allowed"
	if decision == Deny {
		at, label = &d.denied, "denied"
	}
	c := at.Load()
	if c == nil {
		counter := d.metrics.decisions.WithLabelValues(n.Type, n.Name, label)
		c = &counter
		at.Store(c)
	}
	(*c).Inc()
}
