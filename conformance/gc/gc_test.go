// Package gc compares the garbage collector with upstream's. Generated graphs of owners are created
// on two servers, and the same is done with them. One server has its own collector; the other one
// has upstream's as a client. After each operation, when both are at rest, the objects are compared.
package gc

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	graphs = flag.Int("graphs", 1024, "how many graphs are compared; at most 64 with -short")
	first  = flag.Uint64("seed", 0, "the first seed; a graph is the same for the same seed")
	trace  = flag.Bool("trace", false, "log every wait and every difference")
	shrink = flag.Bool("shrink", true, "look for the smallest part of a graph that differs")
)

const (
	together = 256 // graphs on the same servers
	again    = 2   // how often a graph that differs is compared again, alone: there are races in both collectors
)

// isLive reports whether the graph of a seed is created while the collectors run.
func isLive(seed uint64) bool { return seed%2 == 0 }

func TestGraphs(t *testing.T) {
	count := *graphs
	if testing.Short() {
		count = min(count, 64)
	}
	began := time.Now()
	var c counts
	for seed, end := *first, *first+uint64(count); seed < end; seed += 2 * together {
		for _, live := range []bool{true, false} {
			var plans []*plan
			for at := seed; at < min(end, seed+2*together); at++ {
				if isLive(at) == live {
					plans = append(plans, generate(at))
				}
			}
			c.compare(t, plans)
		}
		t.Logf("up to seed %d, %s: %+v", min(end, seed+2*together), time.Since(began).Round(time.Second), c)
	}
	if c.AtStart > 4+count/100 || c.Unordered > 2+count/5000 {
		t.Error("too many differ where the order is open")
	}
	if c.Events > count/3 {
		t.Error("too many have other events")
	}
}

// counts is how many plans differ.
type counts struct {
	Failed    int
	AtStart   int // in what was done when the collectors started
	Unordered int // in what depends on what a collector does first
	Events    int // in events: upstream reports owners that it finds by their uids alone, and one for each object
	Once      int // at the first time only
}

// compare carries out plans, and those that differ again.
func (c *counts) compare(t *testing.T, plans []*plan) {
	if len(plans) == 0 {
		return
	}
	differ := run(t, plans)
	for i, p := range plans {
		switch {
		case strings.HasPrefix(differ[i], otherEvents):
			c.Events++
		case strings.HasPrefix(differ[i], atStart):
			c.AtStart++
		default:
			continue
		}
		if *trace {
			t.Logf("%s%s", p, differ[i])
		}
		differ[i] = ""
	}
	for range again {
		var suspects []*plan
		for i := range plans {
			if differ[i] != "" {
				suspects = append(suspects, plans[i])
			}
		}
		if len(suspects) == 0 {
			return
		}
		plans, differ = suspects, run(t, suspects)
		for i := range plans {
			if strings.HasPrefix(differ[i], otherEvents) || strings.HasPrefix(differ[i], atStart) {
				differ[i] = ""
			}
			if differ[i] == "" {
				c.Once++
			}
		}
	}
	for i, p := range plans {
		switch {
		case differ[i] == "":
		case p.isUnordered(differ[i]):
			c.Unordered++
			t.Logf("%s%s", p, differ[i])
		default:
			if c.Failed++; *shrink && c.Failed < 3 {
				p, differ[i] = smallest(t, p, differ[i])
			}
			t.Errorf("%s%s", p, differ[i])
		}
	}
}

// isUnordered reports whether the difference between the sides depends on what a collector does first. If an owner that is deleted in the
// foreground is not blocked by some of its dependents, both collectors look at these while it may go, and find it waiting or not. The same is
// true after a collector has broken a cycle, so that owners are not blocked. Besides, upstream takes for a part of a cycle what waited for its
// dependents some time before.
func (p *plan) isUnordered(differ string) bool {
	switch {
	case p.mixed:
		return p.foreground()
	case p.orphansFrozen():
		return true
	}
	return isOrder(differ) || strings.Contains(differ, "block=false")
}

// orphansFrozen reports whether an object with several owners could not be changed while owners are deleted that leave their dependents.
// When it can be, the references to these are removed before or after dangling ones, and it goes or stays.
func (p *plan) orphansFrozen() bool {
	return slices.ContainsFunc(p.objects, func(o object) bool { return o.label == frozen && len(o.owners) > 1 }) &&
		slices.ContainsFunc(slices.Concat(p.steps...), func(o operation) bool { return o.policy == metav1.DeletePropagationOrphan })
}

// foreground reports whether something of a plan is deleted in the foreground.
func (p *plan) foreground() bool {
	return slices.ContainsFunc(slices.Concat(p.steps...), func(o operation) bool {
		return o.policy == metav1.DeletePropagationForeground || slices.Contains(o.finalizers, metav1.FinalizerDeleteDependents)
	})
}

// isOrder reports whether the sides differ only in owner references: a reference to an owner that waits is removed if the object has another
// owner, which may begin to wait at the same time.
func isOrder(differ string) bool {
	_, theirs, _ := strings.Cut(differ, "upstream:\n")
	theirs, ours, ok := strings.Cut(theirs, "ours:\n")
	objects := func(state string) []string {
		return slices.DeleteFunc(strings.Split(state, "\n"), func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "owner ") })
	}
	return ok && slices.Equal(objects(theirs), objects(ours))
}

// smallest drops parts of a plan as long as the sides differ.
func smallest(t *testing.T, p *plan, differ string) (*plan, string) {
next:
	for {
		parts := p.smaller()
		if len(parts) == 0 {
			return p, differ
		}
		for i, d := range run(t, parts) {
			if d != "" && !strings.HasPrefix(d, otherEvents) {
				p, differ = parts[i], d
				continue next
			}
		}
		return p, differ
	}
}
