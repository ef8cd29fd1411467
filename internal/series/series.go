// Package series drops series of metrics whose labels name something that does not exist any more.
//
// Clients choose some labels: the names of definitions, webhooks and policies. A client that creates
// and deletes such objects over and over would otherwise make /metrics, and the memory behind it,
// grow without bound.
package series

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Vector is a metric with labels, such as a prometheus.CounterVec.
type Vector interface {
	prometheus.Collector
	Delete(prometheus.Labels) bool
}

// Drop deletes the series for whose labels gone returns true. Its cost grows with the series that
// there are, not with those that it deletes.
func Drop(v Vector, gone func(prometheus.Labels) bool) {
	metrics := make(chan prometheus.Metric)
	go func() {
		v.Collect(metrics)
		close(metrics)
	}()
	var dead []prometheus.Labels
	for m := range metrics {
		var text dto.Metric
		if m.Write(&text) != nil {
			continue
		}
		labels := prometheus.Labels{}
		for _, l := range text.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if gone(labels) {
			dead = append(dead, labels)
		}
	}
	for _, labels := range dead {
		v.Delete(labels)
	}
}
