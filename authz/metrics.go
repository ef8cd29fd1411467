package authz

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// This file counts decisions, under kube-apiserver's metric names.

// Metrics counts the decisions of chains.
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

// decisions are the counters of one authorizer. A counter is created with the first decision that
// it counts, so that /metrics shows no zeros for what never happened.
type decisions struct {
	metrics *Metrics
	allowed atomic.Pointer[prometheus.Counter]
	denied  atomic.Pointer[prometheus.Counter]
}

// count counts a decision of an authorizer.
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
