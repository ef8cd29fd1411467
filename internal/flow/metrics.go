package flow

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// This file shows the numbers of levels and schemas, under upstream's names.

// counted are numbers of a level that only metrics and dumps show. The level's lock guards them.
type counted struct {
	epochs             uint64
	cancelled          uint64
	dispatchR, latestS seatSeconds
	next, discounted   bounds
}

var (
	useBounds     = []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1}
	requestBounds = []float64{0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1}
	demandBounds  = []float64{0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.7, 2, 2.8, 4, 6}
)

// collector implements prometheus.Collector.
type collector struct {
	c   *Controller
	all map[string]*prometheus.Desc
}

// newCollector returns the collector of the metrics of a controller.
func newCollector(c *Controller) *collector {
	x := &collector{c: c, all: map[string]*prometheus.Desc{}}
	desc := func(name, help string, labels ...string) {
		x.all[name] = prometheus.NewDesc("apiserver_flowcontrol_"+name, help, labels, nil)
	}
	const pl, fs = "priority_level", "flow_schema"
	desc("rejected_requests_total", "[BETA] Number of requests rejected by API Priority and Fairness subsystem", pl, fs, "reason")
	desc("dispatched_requests_total", "[BETA] Number of requests executed by API Priority and Fairness subsystem", pl, fs)
	desc("current_r", "[ALPHA] R(time of last change)", pl)
	desc("dispatch_r", "[ALPHA] R(time of last dispatch)", pl)
	desc("latest_s", "[ALPHA] S(most recently dispatched request)", pl)
	desc("next_s_bounds", "[ALPHA] min and max, over queues, of S(oldest waiting request in queue)", pl, "bound")
	desc("next_discounted_s_bounds", "[ALPHA] min and max, over queues, of S(oldest waiting request in queue) - estimated work in progress", pl, "bound")
	desc("current_inqueue_requests", "[BETA] Number of requests currently pending in queues of the API Priority and Fairness subsystem", pl, fs)
	desc("current_inqueue_seats", "[ALPHA] Number of seats currently pending in queues of the API Priority and Fairness subsystem", pl, fs)
	desc("request_queue_length_after_enqueue", "[ALPHA] Length of queue in the API Priority and Fairness subsystem, as seen by each request after it is enqueued", pl, fs)
	desc("current_executing_requests", "[BETA] Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority and Fairness subsystem", pl, fs)
	desc("current_executing_seats", "[BETA] Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage otherwise) requests in the API Priority and Fairness subsystem", pl, fs)
	desc("request_wait_duration_seconds", "[BETA] Length of time a request spent waiting in its queue", pl, fs, "execute")
	desc("request_execution_seconds", "[ALPHA] Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution in the API Priority and Fairness subsystem", pl, fs, "type")
	desc("watch_count_samples", "[ALPHA] count of watchers for mutating requests in API Priority and Fairness", pl, fs)
	desc("epoch_advance_total", "[ALPHA] Number of times the queueset's progress meter jumped backward", pl, "success")
	desc("work_estimated_seats", "[ALPHA] Number of estimated seats (maximum of initial and final seats) associated with requests in API Priority and Fairness", pl, fs)
	desc("request_dispatch_no_accommodation_total", "[ALPHA] Number of times a dispatch attempt resulted in a non accommodation due to lack of available seats", pl, fs)
	desc("nominal_limit_seats", "[BETA] Nominal number of execution seats configured for each priority level", pl)
	desc("lower_limit_seats", "[ALPHA] Configured lower bound on number of execution seats available to each priority level", pl)
	desc("upper_limit_seats", "[ALPHA] Configured upper bound on number of execution seats available to each priority level", pl)
	desc("demand_seats", "[ALPHA] Observations, at the end of every nanosecond, of (the number of seats each priority level could use) / (nominal number of seats for that level)", pl)
	desc("demand_seats_high_watermark", "[ALPHA] High watermark, over last adjustment period, of demand_seats", pl)
	desc("demand_seats_average", "[ALPHA] Time-weighted average, over last adjustment period, of demand_seats", pl)
	desc("demand_seats_stdev", "[ALPHA] Time-weighted standard deviation, over last adjustment period, of demand_seats", pl)
	desc("demand_seats_smoothed", "[ALPHA] Smoothed seat demands", pl)
	desc("target_seats", "[ALPHA] Seat allocation targets", pl)
	desc("seat_fair_frac", "[ALPHA] Fair fraction of server's concurrency to allocate to each priority level that can use it")
	desc("current_limit_seats", "[ALPHA] current derived number of execution seats available to each priority level", pl)
	desc("priority_level_request_utilization", "[ALPHA] Observations, at the end of every nanosecond, of number of requests (as a fraction of the relevant limit) waiting or in any stage of execution (but only initial stage for WATCHes)", "phase", pl)
	desc("read_vs_write_current_requests", "[ALPHA] Observations, at the end of every nanosecond, of the number of requests (as a fraction of the relevant limit) waiting or in regular stage of execution", "phase", "request_kind")
	x.all["priority_level_seat_utilization"] = prometheus.NewDesc("apiserver_flowcontrol_priority_level_seat_utilization",
		"[ALPHA] Observations, at the end of every nanosecond, of utilization of seats for any stage of execution (but only initial stage for WATCHes)",
		[]string{pl}, prometheus.Labels{"phase": "executing"})
	return x
}

// Describe implements prometheus.Collector.
func (x *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range x.all {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (x *collector) Collect(out chan<- prometheus.Metric) {
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	w := shower{x, out}
	w.gauge("seat_fair_frac", x.c.fair)
	x.c.sampleReadWrite()
	for phase, byKind := range x.c.readWrite.use {
		for kind := range byKind {
			w.timing("read_vs_write_current_requests", &x.c.readWrite.use[phase][kind], phases[phase], requestKinds[kind])
		}
	}
	for _, s := range x.c.series {
		w.series(s)
	}
	for _, p := range x.c.levels {
		w.level(p)
	}
}

// shower sends metrics.
type shower struct {
	*collector
	out chan<- prometheus.Metric
}

// gauge sends a gauge.
func (w shower) gauge(name string, v float64, labels ...string) {
	w.out <- prometheus.MustNewConstMetric(w.all[name], prometheus.GaugeValue, v, labels...)
}

// counter sends a counter that is not 0.
func (w shower) counter(name string, v uint64, labels ...string) {
	if v > 0 {
		w.out <- prometheus.MustNewConstMetric(w.all[name], prometheus.CounterValue, float64(v), labels...)
	}
}

// histogram sends a histogram with values. unit converts them.
func (w shower) histogram(name string, h *histogram, unit float64, labels ...string) {
	if count, sum, buckets := h.read(unit); count > 0 {
		w.out <- prometheus.MustNewConstHistogram(w.all[name], count, sum, buckets, labels...)
	}
}

// timing sends a histogram of durations.
func (w shower) timing(name string, t *timing, labels ...string) {
	count, sum, buckets := t.read()
	w.out <- prometheus.MustNewConstHistogram(w.all[name], count, sum, buckets, labels...)
}

// series shows the numbers of a schema in a level.
func (w shower) series(s *series) {
	const second = 1e9
	for i, reason := range rejections {
		w.counter("rejected_requests_total", s.rejected[i].Load(), s.level, s.schema, reason)
	}
	w.counter("dispatched_requests_total", s.dispatched.Load(), s.level, s.schema)
	w.counter("request_dispatch_no_accommodation_total", s.unaccommodated.Load(), s.level, s.schema)
	w.gauge("current_inqueue_requests", float64(s.waiting.Load()), s.level, s.schema)
	w.gauge("current_inqueue_seats", float64(s.seatsWaiting.Load()), s.level, s.schema)
	requests, seats := s.current()
	w.gauge("current_executing_requests", float64(requests), s.level, s.schema)
	w.gauge("current_executing_seats", float64(seats), s.level, s.schema)
	w.histogram("request_queue_length_after_enqueue", &s.lengths, 1, s.level, s.schema)
	for i, execute := range []string{"false", "true"} {
		w.histogram("request_wait_duration_seconds", &s.waits[i], second, s.level, s.schema, execute)
	}
	for i, kind := range []string{"regular", "watch"} {
		w.histogram("request_execution_seconds", &s.executions[i], second, s.level, s.schema, kind)
	}
	w.histogram("watch_count_samples", &s.watches, 1, s.level, s.schema)
	w.histogram("work_estimated_seats", &s.workEstimate, 1, s.level, s.schema)
}

// level shows the numbers of a level.
func (w shower) level(p *priority) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sync()
	p.noteDemand()
	n := p.name
	w.gauge("current_r", p.r.float(), n)
	w.gauge("dispatch_r", p.counted.dispatchR.float(), n)
	w.gauge("latest_s", p.counted.latestS.float(), n)
	w.gauge("next_s_bounds", p.counted.next.min.float(), n, "min")
	w.gauge("next_s_bounds", p.counted.next.max.float(), n, "max")
	w.gauge("next_discounted_s_bounds", p.counted.discounted.min.float(), n, "min")
	w.gauge("next_discounted_s_bounds", p.counted.discounted.max.float(), n, "max")
	w.counter("epoch_advance_total", p.counted.epochs, n, strconv.FormatBool(true))
	w.gauge("nominal_limit_seats", float64(p.limits.nominal), n)
	w.gauge("lower_limit_seats", float64(p.limits.least), n)
	w.gauge("upper_limit_seats", float64(p.limits.most), n)
	w.gauge("current_limit_seats", float64(p.limits.current), n)
	w.gauge("demand_seats_high_watermark", float64(p.stats.high), n)
	w.gauge("demand_seats_average", p.stats.average, n)
	w.gauge("demand_seats_stdev", p.stats.deviation, n)
	w.gauge("demand_seats_smoothed", p.stats.smoothed, n)
	w.gauge("target_seats", p.target, n)
	w.timing("demand_seats", &p.demand.wanted, n)
	w.timing("priority_level_seat_utilization", &p.demand.seatUse, n)
	w.timing("priority_level_request_utilization", &p.demand.requestUse, "executing", n)
	w.timing("priority_level_request_utilization", &p.demand.waitUse, "waiting", n)
}
