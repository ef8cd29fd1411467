package flow

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// This file prints levels, queues and requests for people: /debug/api_priority_and_fairness/.

// Dumps maps the name of each dump to what prints it. details asks for more about each request.
func (c *Controller) Dump(name string, details bool, w io.Writer) bool {
	var rows [][]string
	switch name {
	case "dump_priority_levels":
		rows = c.dumpLevels()
	case "dump_queues":
		rows = c.dumpQueues()
	case "dump_requests":
		rows = c.dumpRequests(details)
	default:
		return false
	}
	out := tabwriter.NewWriter(w, 8, 0, 1, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(out, strings.Join(r, ",\t"))
	}
	out.Flush()
	return true
}

// sorted calls do for each level in the order of names, with its lock held.
func (c *Controller) sorted(do func(*priority)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.levels)) {
		func() {
			p := c.levels[name]
			p.mu.Lock()
			defer p.mu.Unlock()
			do(p)
		}()
	}
}

// dumpLevels returns the table of /debug/api_priority_and_fairness/dump_priority_levels.
func (c *Controller) dumpLevels() [][]string {
	rows := [][]string{strings.Fields("PriorityLevelName ActiveQueues IsIdle IsQuiescing WaitingRequests ExecutingRequests DispatchedRequests RejectedRequests TimedoutRequests CancelledRequests")}
	c.sorted(func(p *priority) {
		var executing int64
		var dispatched, rejected uint64
		for _, s := range c.series {
			if s.level != p.name {
				continue
			}
			requests, _ := s.current()
			executing += requests
			dispatched += s.dispatched.Load()
			for i := range s.rejected {
				rejected += s.rejected[i].Load()
			}
		}
		rows = append(rows, []string{p.name, strconv.Itoa(len(p.busy)), strconv.FormatBool(p.isIdle()), strconv.FormatBool(p.quiescing.Load()),
			strconv.Itoa(p.waiting), strconv.FormatInt(executing, 10), strconv.FormatUint(dispatched, 10), strconv.FormatUint(rejected, 10),
			"0", strconv.FormatUint(p.counted.cancelled, 10)})
	})
	return rows
}

// numbered returns the queues of a level that are known, by index. The level's lock is held.
func (l *level) numbered() []*queue {
	return slices.SortedFunc(maps.Values(l.queues), func(a, b *queue) int { return cmp.Compare(a.index, b.index) })
}

// dumpedQueues is the most queues of a level that a dump lists if they are idle.
const dumpedQueues = 1024

// dumpQueues returns the table of /debug/api_priority_and_fairness/dump_queues.
func (c *Controller) dumpQueues() [][]string {
	rows := [][]string{strings.Fields("PriorityLevelName Index PendingRequests ExecutingRequests SeatsInUse NextDispatchR InitialSeatsSum MaxSeatsSum TotalWorkSum")}
	c.sorted(func(p *priority) {
		row := func(i int, q *queue) {
			rows = append(rows, []string{p.name, strconv.Itoa(i), strconv.Itoa(q.waits.n), strconv.Itoa(q.executing), strconv.Itoa(q.seats),
				q.next.String(), strconv.Itoa(q.initial), strconv.Itoa(q.seatsWait), q.work.String()})
		}
		if p.shape.queues > dumpedQueues {
			for _, q := range p.numbered() {
				row(q.index, q)
			}
			return
		}
		for i := range max(p.shape.queues, 0) {
			if q := p.queues[i]; q != nil {
				row(i, q)
			} else {
				row(i, &queue{})
			}
		}
	})
	return rows
}

// dumpRequests returns the table of /debug/api_priority_and_fairness/dump_requests.
func (c *Controller) dumpRequests(details bool) [][]string {
	head := strings.Fields("PriorityLevelName FlowSchemaName QueueIndex RequestIndexInQueue FlowDistingsher ArriveTime InitialSeats FinalSeats AdditionalLatency StartTime")
	if details {
		head = append(head, strings.Fields("UserName Verb APIPath Namespace Name APIVersion Resource SubResource")...)
	}
	rows := [][]string{head}
	c.sorted(func(p *priority) {
		now, clock := time.Now(), p.clock.now()
		at := func(t int64) string {
			if t == 0 {
				return time.Time{}.UTC().Format(time.RFC3339Nano)
			}
			return now.Add(time.Duration(t - clock)).UTC().Format(time.RFC3339Nano)
		}
		row := func(t *Ticket, place int) {
			queue := -1
			if t.queue != nil {
				queue = t.queue.index
			}
			r := []string{p.name, t.schema.name, strconv.Itoa(queue), strconv.Itoa(place), t.flowOf, at(t.arrived), strconv.Itoa(t.initial), strconv.Itoa(t.final),
				t.extra.String(), at(t.started)}
			if q := t.request; details {
				version := q.Version
				if q.Group != "" {
					version = q.Group + "/" + q.Version
				}
				r = append(r, q.User, q.Verb, q.Path, q.Namespace, q.Name, version, q.Resource, q.Subresource)
			}
			rows = append(rows, r)
		}
		for _, q := range p.numbered() {
			i := 0
			for t := q.waits.first; t != nil; t = t.next {
				row(t, i)
				i++
			}
		}
		for t := p.fromQueues.first; t != nil; t = t.next {
			row(t, -1)
		}
	})
	return rows
}
