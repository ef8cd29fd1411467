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
	"k8s.io/apimachinery/pkg/types"
)

var (
	graphs = flag.Int("graphs", 1024, "how many graphs are compared; at most 64 with -short")
	first  = flag.Uint64("seed", 0, "the first seed; a graph is the same for the same seed")
	trace  = flag.Bool("trace", false, "log every wait and every difference")
	shrink = flag.Bool("shrink", true, "look for the smallest part of a graph that differs")
)

const (
	together = 64 // graphs on the same servers
	again    = 2  // how often a graph that differs is compared again, alone: there are races in both collectors
)

// isLive reports whether the graph of a seed is created while the collectors run.
func isLive(seed uint64) bool { return seed/together%2 == 0 }

func typesUID(uid string) types.UID { return types.UID(uid) }

func TestGraphs(t *testing.T) {
	count := *graphs
	if testing.Short() {
		count = min(count, 64)
	}
	began := time.Now()
	raced, races, failed, events := 0, 0, 0, 0
	for seed, end := *first, *first+uint64(count); seed < end; {
		var plans []*plan
		for ; seed < end && (len(plans) == 0 || isLive(seed) == plans[0].live); seed++ {
			plans = append(plans, generate(seed))
		}
		differ := run(t, plans)
		for range again {
			var suspects []*plan
			for i := range plans {
				if differ[i] != "" && !strings.HasPrefix(differ[i], racy) && !strings.HasPrefix(differ[i], otherEvents) {
					suspects = append(suspects, plans[i])
				}
			}
			if len(suspects) == 0 {
				break
			}
			for i := range plans { // these are not compared again
				switch {
				case strings.HasPrefix(differ[i], racy):
					races++
				case strings.HasPrefix(differ[i], otherEvents):
					events++
				}
			}
			plans = suspects
			t.Logf("up to seed %d, %s: %d differ", seed, time.Since(began).Round(time.Second), len(plans))
			differ = run(t, plans)
			for i := range plans {
				if differ[i] == "" {
					raced++
				}
			}
		}
		for i, p := range plans {
			switch {
			case differ[i] == "":
			case strings.HasPrefix(differ[i], racy), p.mixed && p.foreground():
				races++
				t.Logf("%s%s", p, differ[i])
			case strings.HasPrefix(differ[i], otherEvents):
				events++
				t.Logf("%s%s", p, differ[i])
			default:
				if failed++; *shrink && failed < 3 {
					p, differ[i] = smallest(t, p, differ[i])
				}
				t.Errorf("%s%s", p, differ[i])
			}
		}
	}
	t.Logf("%d graphs in %s; %d differ, %d have other events, %d differ while an owner waits, %d differed only once",
		count, time.Since(began).Round(time.Second), failed, events, races, raced)
}

// foreground reports whether something of a plan is deleted in the foreground: an owner with
// dependents that do not block it then goes before or after upstream has looked at them.
func (p *plan) foreground() bool {
	return slices.ContainsFunc(slices.Concat(p.steps...), func(o operation) bool {
		return o.policy == metav1.DeletePropagationForeground || slices.Contains(o.finalizers, metav1.FinalizerDeleteDependents)
	})
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
