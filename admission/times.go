package admission

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// This file has the metrics of steps: how long each admission plugin takes, and
// all of them together. They are on the way of every write, so that whatever
// their labels can say is looked up once, beforehand.

// phase is when steps run; metrics call it the type of step.
type phase uint8

const (
	admit phase = iota
	validate
	phases
)

func (p phase) String() string { return [...]string{"admit", "validate"}[p] }

// operations are what is told apart, in the order of operationIndex.
var operations = [...]Operation{Create, Update, Delete}

func operationIndex(op Operation) int {
	switch op {
	case Create:
		return 0
	case Update:
		return 1
	}
	return 2
}

// times are the histograms of one plugin, or of a whole phase, by operation and
// by whether the request was rejected.
type times [len(operations)][2]prometheus.Observer

func (t *times) fill(of func(op, rejected string) prometheus.Observer) {
	for i, op := range operations {
		for j := range t[i] {
			t[i][j] = of(string(op), strconv.FormatBool(j == 1))
		}
	}
}

// both observes twice.
type both [2]prometheus.Observer

func (b both) Observe(v float64) {
	b[0].Observe(v)
	b[1].Observe(v)
}

// newTimes registers the metrics of steps.
func (m *Metrics) newTimes(r prometheus.Registerer) {
	buckets := []float64{0.005, 0.025, 0.1, 0.5, 1.0, 2.5}
	m.plugins = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "apiserver_admission_controller_admission_duration_seconds",
		Help:    "[STABLE] Admission controller latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
		Buckets: buckets,
	}, []string{"name", "type", "operation", "rejected"})
	labels := []string{"type", "operation", "rejected"}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "apiserver_admission_step_admission_duration_seconds",
		Help:    "[STABLE] Admission sub-step latency histogram in seconds, broken out for each operation and API resource and step type (validate or admit).",
		Buckets: buckets,
	}, labels)
	summary := prometheus.NewSummaryVec(prometheus.SummaryOpts{
		Name:   "apiserver_admission_step_admission_duration_seconds_summary",
		Help:   "[ALPHA] Admission sub-step latency summary in seconds, broken out for each operation and API resource and step type (validate or admit).",
		MaxAge: 5 * time.Hour,
	}, labels)
	r.MustRegister(m.plugins, seconds, summary)
	for p := range phases {
		m.steps[p].fill(func(op, rejected string) prometheus.Observer {
			return &lazy{make: func() prometheus.Observer {
				return both{seconds.WithLabelValues(p.String(), op, rejected), summary.WithLabelValues(p.String(), op, rejected)}
			}}
		})
	}
}

// plugin are the times of one plugin in one phase.
func (m *Metrics) plugin(name string, p phase) *times {
	if m == nil {
		return nil
	}
	t := new(times)
	t.fill(func(op, rejected string) prometheus.Observer {
		return &lazy{make: func() prometheus.Observer { return m.plugins.WithLabelValues(name, p.String(), op, rejected) }}
	})
	return t
}

// lazy is an observer that is made when it is used first: what never happened
// is not shown.
type lazy struct {
	once sync.Once
	make func() prometheus.Observer
	made prometheus.Observer
}

func (l *lazy) Observe(v float64) {
	l.once.Do(func() { l.made = l.make() })
	l.made.Observe(v)
}

// watch times the steps of one request: each begins when the one before ends.
type watch struct {
	m           *Metrics // nil: nobody counts
	op          int
	began, last time.Time
}

func (m *Metrics) watch(op Operation) watch {
	if m == nil {
		return watch{}
	}
	now := time.Now()
	return watch{m, operationIndex(op), now, now}
}

// one notes the end of a step.
func (w *watch) one(t *times, err error) {
	if w.m == nil {
		return
	}
	now := time.Now()
	t[w.op][index(err)].Observe(now.Sub(w.last).Seconds())
	w.last = now
}

// all notes the end of a phase.
func (w *watch) all(p phase, err error) {
	if w.m != nil {
		w.m.steps[p][w.op][index(err)].Observe(w.last.Sub(w.began).Seconds())
	}
}

func index(err error) int {
	if err != nil {
		return 1
	}
	return 0
}
