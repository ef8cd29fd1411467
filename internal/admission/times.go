package admission

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// This file measures the duration of each admission plugin, and of all plugins together. Every
// write passes here, so that the histograms for all label values are looked up once, in advance.

// phase is a group of steps; metrics call it the type of step.
type phase uint8

const (
	admit phase = iota
	validate
	phases
)

// String returns the value of the metric label.
func (p phase) String() string { return [...]string{"admit", "validate"}[p] }

// operations lists the label values in the order of operationIndex.
var operations = [...]Operation{Create, Update, Delete, Connect}

// operationIndex returns the position of an operation in operations.
func operationIndex(op Operation) int {
	switch op {
	case Create:
		return 0
	case Update:
		return 1
	case Connect:
		return 3
	}
	return 2
}

// times holds the histograms of one plugin or phase, by operation and by whether the request was
// rejected.
type times [len(operations)][2]prometheus.Observer

// fill looks up the histograms for all label values.
func (t *times) fill(of func(op, rejected string) prometheus.Observer) {
	for i, op := range operations {
		for j := range t[i] {
			t[i][j] = of(string(op), strconv.FormatBool(j == 1))
		}
	}
}

// both passes each observation to two observers.
type both [2]prometheus.Observer

// Observe adds a value to both histograms.
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

// plugin returns the histograms of one plugin in one phase.
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

// lazy creates its observer with the first observation, so that /metrics shows no empty series.
type lazy struct {
	once sync.Once
	make func() prometheus.Observer
	made prometheus.Observer
}

// Observe makes the histogram when the first value comes, so that /metrics lists only series with
// values.
func (l *lazy) Observe(v float64) {
	l.once.Do(func() { l.made = l.make() })
	l.made.Observe(v)
}

// watch measures the steps of one request. Each step starts when the one before it ends.
type watch struct {
	m           *Metrics // nil: steps are not measured
	op          int
	began, last time.Time
}

// watch starts to measure the steps of a request.
func (m *Metrics) watch(op Operation) watch {
	if m == nil {
		return watch{}
	}
	now := time.Now()
	return watch{m, operationIndex(op), now, now}
}

// one records the end of a step.
func (w *watch) one(t *times, err error) {
	if w.m == nil {
		return
	}
	now := time.Now()
	t[w.op][index(err)].Observe(now.Sub(w.last).Seconds())
	w.last = now
}

// all records the end of a phase.
func (w *watch) all(p phase, err error) {
	if w.m != nil {
		w.m.steps[p][w.op][index(err)].Observe(w.last.Sub(w.began).Seconds())
	}
}

// index returns the index in times: 1 for a rejected request.
func index(err error) int {
	if err != nil {
		return 1
	}
	return 0
}
