package metrics

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/internal/series"
	"github.com/keelson-io/keelson/kind"
)

// This file counts requests.

// Requests are the counters of requests.
type Requests struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	watches   *prometheus.GaugeVec
	events    *prometheus.CounterVec

	// The counters by what they are labelled with, so that a request that is
	// like an earlier one finds its counters with one look-up.
	known sync.Map // Series to *counters
	// sweeping is held while counters are made or dropped, so that none is known that is not shown.
	sweeping sync.Mutex
}

// Series has the labels that distinguish requests.
type Series struct {
	Verb, Group, Version, Resource, Subresource, Scope string
	Code                                               int
}

// counters are the metrics of a series.
type counters struct {
	requests  prometheus.Counter
	durations prometheus.Observer // nil for watches
}

// NewRequests registers the metrics of requests.
func NewRequests(reg prometheus.Registerer) *Requests {
	m := &Requests{
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
	reg.MustRegister(m.requests, m.durations, m.watches, m.events)
	return m
}

// Observe counts a finished request.
func (m *Requests) Observe(s Series, took time.Duration) {
	c := m.counters(s)
	c.requests.Inc()
	if c.durations != nil {
		c.durations.Observe(took.Seconds())
	}
}

// counters returns the metrics of a series. It keeps them, because a lookup by labels is slow.
func (m *Requests) counters(s Series) *counters {
	if c, ok := m.known.Load(s); ok {
		return c.(*counters)
	}
	m.sweeping.Lock()
	defer m.sweeping.Unlock()
	c := &counters{requests: m.requests.WithLabelValues(s.Verb, "", s.Group, s.Version, s.Resource, s.Subresource, s.Scope, "apiserver",
		strconv.Itoa(s.Code))}
	if s.Verb != "WATCH" {
		c.durations = m.durations.WithLabelValues(s.Verb, "", s.Group, s.Version, s.Resource, s.Subresource, s.Scope, "apiserver")
	}
	m.known.Store(s, c)
	return c
}

// Sweep drops the series of kinds and versions that do not exist any more. Otherwise clients that create and delete definitions could
// fill the memory.
func (m *Requests) Sweep(kinds *kind.Snapshot) {
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
		if s := key.(Series); gone(s.Group, s.Version, s.Resource) {
			m.known.Delete(key)
		}
		return true
	})
	for _, v := range []series.Vector{m.requests, m.durations, m.watches, m.events} {
		series.Drop(v, func(l prometheus.Labels) bool { return gone(l["group"], l["version"], l["resource"]) })
	}
}

// Watching counts an open watch; the function returned counts it as closed.
func (m *Requests) Watching(v *kind.Version, scope string) func() {
	g := m.watches.WithLabelValues("WATCH", v.Kind.Group, v.Name, v.Kind.Plural, "", scope, "apiserver")
	g.Inc()
	return g.Dec
}

// Events returns the counter of the events that watchers of a version are sent.
func (m *Requests) Events(v *kind.Version) prometheus.Counter {
	return m.events.WithLabelValues(v.Kind.Group, v.Name, v.Kind.Plural)
}
