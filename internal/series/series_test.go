package series

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestDrop(t *testing.T) {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "c"}, []string{"name", "code"})
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "h"}, []string{"name"})
	for _, name := range []string{"a", "b", "c"} {
		c.WithLabelValues(name, "200").Inc()
		c.WithLabelValues(name, "404").Inc()
		h.WithLabelValues(name).Observe(1)
	}
	for _, v := range []Vector{c, h} {
		Drop(v, func(l prometheus.Labels) bool { return l["name"] != "b" })
	}
	if n, m := testutil.CollectAndCount(c), testutil.CollectAndCount(h); n != 2 || m != 1 {
		t.Errorf("got %d counters and %d histograms, want 2 and 1", n, m)
	}
	if got := testutil.ToFloat64(c.WithLabelValues("b", "404")); got != 1 {
		t.Errorf("the series that is left counts %v, want 1", got)
	}
}
