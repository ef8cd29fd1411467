package api

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	metricseries "github.com/keelson-io/keelson/internal/series"
	"github.com/keelson-io/keelson/kind"
)

// This file counts requests, under the names that dashboards for
// kube-apiserver know.

// metrics has the metrics of requests.
type metrics struct {
	authorizations authorizations
	requests       *prometheus.CounterVec
	durations      *prometheus.HistogramVec
	watches        *prometheus.GaugeVec
	events         *prometheus.CounterVec
	authn          *authnMetrics
	handler        http.Handler

	// The counters by what they are labelled with, so that a request that is
	// like an earlier one finds its counters with one look-up.
	known sync.Map // series to *counters
	// sweeping is held while counters are made or dropped, so that none is known that is not shown.
	sweeping sync.Mutex
}

// series has the labels that distinguish requests.
type series struct {
	verb, group, version, resource, subresource, scope string
	code                                               int
}

type counters struct {
	requests  prometheus.Counter
	durations prometheus.Observer // nil for watches
}

// newMetrics makes and registers the metrics.
func newMetrics(reg *prometheus.Registry) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total",
			Help: "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_request_duration_seconds",
			Help: "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
			Buckets: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3,
				4, 5, 6, 8, 10, 15, 20, 30, 45, 60},
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}),
		watches: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests",
			Help: "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component. Not all requests are tracked this way.",
		}, []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_watch_events_total",
			Help: "[BETA] Number of events sent in watch clients",
		}, []string{"group", "version", "resource"}),
	}
	m.authorizations.register(reg)
	reg.MustRegister(m.requests, m.durations, m.watches, m.events)
	m.authn = newAuthnMetrics(reg)
	// A registry may be shared between handlers of one process; its process
	// metrics are registered once.
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		_ = reg.Register(c)
	}
	m.handler = promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	return m
}

// observe counts a finished request.
func (m *metrics) observe(q *request, start time.Time) {
	s := series{verb: verbLabel(q), code: q.code}
	if q.v != nil {
		s.group, s.version, s.resource, s.scope = q.v.Kind.Group, q.v.Name, q.v.Kind.Plural, q.scope()
		s.subresource = knownPart(q)
	} else if q.resource {
		// A label for each unknown name would let clients fill the memory.
		s.resource = "unknown"
	} else {
		s.subresource = pathLabel(q.path)
	}
	c := m.counters(s)
	c.requests.Inc()
	if c.durations != nil {
		c.durations.Observe(time.Since(start).Seconds())
	}
}

// knownPart returns the subresource if there is one of that name. Names that a
// client makes up do not become labels.
func knownPart(q *request) string {
	if q.subresource == "status" || q.subresource == "scale" || q.v.Kind.Behavior.Subresource(q.subresource) != nil {
		return q.subresource
	}
	return ""
}

// counters returns the metrics of a series. It keeps them, because a lookup by labels is slow.
func (m *metrics) counters(s series) *counters {
	if c, ok := m.known.Load(s); ok {
		return c.(*counters)
	}
	m.sweeping.Lock()
	defer m.sweeping.Unlock()
	c := &counters{requests: m.requests.WithLabelValues(s.verb, "", s.group, s.version, s.resource, s.subresource, s.scope, "apiserver",
		strconv.Itoa(s.code))}
	if s.verb != "WATCH" {
		c.durations = m.durations.WithLabelValues(s.verb, "", s.group, s.version, s.resource, s.subresource, s.scope, "apiserver")
	}
	m.known.Store(s, c)
	return c
}

// SweepMetrics drops the series of kinds and versions that do not exist any more. Otherwise clients
// that create and delete definitions could fill the memory.
func (h *Handler) SweepMetrics() {
	m, kinds := h.metrics, h.Kinds.Load()
	gone := func(group, version, resource string) bool {
		if resource == "" || group == "" && version == "" {
			return false // of paths, and of resources that are not served
		}
		k := kinds.Lookup(group, resource)
		return k == nil || !slices.ContainsFunc(k.All, func(v *kind.Version) bool { return v.Name == version })
	}
	m.sweeping.Lock()
	defer m.sweeping.Unlock()
	m.known.Range(func(key, _ any) bool {
		if s := key.(series); gone(s.group, s.version, s.resource) {
			m.known.Delete(key)
		}
		return true
	})
	for _, v := range []metricseries.Vector{m.requests, m.durations, m.watches, m.events} {
		metricseries.Drop(v, func(l prometheus.Labels) bool { return gone(l["group"], l["version"], l["resource"]) })
	}
}

// watching counts an open watch; the function returned counts it as closed.
func (m *metrics) watching(q *request) func() {
	g := m.watches.WithLabelValues("WATCH", q.v.Kind.Group, q.v.Name, q.v.Kind.Plural, "", q.scope(), "apiserver")
	g.Inc()
	return g.Dec
}

// scope is how much of the resource a request is for.
func (q *request) scope() string {
	switch {
	case q.name != "":
		return "resource"
	case q.namespace != "":
		return "namespace"
	}
	return "cluster"
}

// verbLabel returns the label for the verb of a request.
func verbLabel(q *request) string {
	if q.verb == "patch" && patchType(q.r) == patchApply {
		return "APPLY"
	}
	for _, v := range verbTable { // methods of other paths have the names of verbs, too
		if v.name == q.verb {
			return v.label
		}
	}
	return "other"
}

// pathLabel names the fixed paths.
func pathLabel(path string) string {
	switch path {
	case "/healthz", "/livez", "/readyz", "/version", "/metrics", "/metrics/slis", "/statusz", "/flagz", "/api", "/apis", "/openapi/v2", "/openapi/v3", snapshotPath:
		return path
	}
	return ""
}

// sent returns the counter of the events that a watcher is sent.
func (m *metrics) sent(q *request) prometheus.Counter {
	return m.events.WithLabelValues(q.v.Kind.Group, q.v.Name, q.v.Kind.Plural)
}
