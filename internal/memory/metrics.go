package memory

import "github.com/prometheus/client_golang/prometheus"

// This file shows the Governor's figures as metrics.

// figures are the descriptions of what is read when the metrics are.
type figures struct{ limit, live, goal, tight, used, share *prometheus.Desc }

func newFigures() figures {
	return figures{
		limit: prometheus.NewDesc("keelson_memory_limit_bytes", "The limit of the process's memory.", nil, nil),
		live:  prometheus.NewDesc("keelson_memory_live_bytes", "What was live on the heap at the end of the last collection, with stacks and tables of the runtime.", nil, nil),
		goal:  prometheus.NewDesc("keelson_memory_goal_bytes", "What Go's collector keeps the memory of the runtime below.", nil, nil),
		tight: prometheus.NewDesc("keelson_memory_tight", "1 if caches are dropped and expensive requests wait, because three quarters of the goal are live.", nil, nil),
		used:  prometheus.NewDesc("keelson_memory_used_bytes", "What a part of the server takes, as far as it counts it.", []string{"part"}, nil),
		share: prometheus.NewDesc("keelson_memory_share_bytes", "What a part of the server may take.", []string{"part"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (g *Governor) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.figures.limit, g.figures.live, g.figures.goal, g.figures.tight, g.figures.used, g.figures.share} {
		to <- d
	}
	g.refusals.Describe(to)
	g.evictions.Describe(to)
}

// Collect implements prometheus.Collector.
func (g *Governor) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	gauge(g.figures.limit, g.limit)
	gauge(g.figures.live, g.live.Load())
	gauge(g.figures.goal, g.goal.Load())
	tight := int64(0)
	if g.Tight() {
		tight = 1
	}
	gauge(g.figures.tight, tight)
	g.mu.Lock()
	parts := g.parts
	g.mu.Unlock()
	for _, p := range parts {
		gauge(g.figures.used, p.used(), p.name)
		if p.share > 0 {
			gauge(g.figures.share, p.share, p.name)
		}
	}
	g.refusals.Collect(to)
	g.evictions.Collect(to)
}
