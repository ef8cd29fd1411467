package cache

// This file holds tests of what logs learn of the time before them.

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store/mem"
)

// TestRecall opens a resource after things happened, as a server does that was just started: watches from before begin where they say.
// Ledger: watch-history.
func TestRecall(t *testing.T) {
	r := newRig(t, Options{}, mem.Options{})
	r0 := r.create("other/x", "1")
	r1 := r.create("g/p/n1/a", "1")
	r2 := r.create("g/p/n2/a", "1")
	r3 := r.update("g/p/n1/a", "2", r1)
	r4 := r.delete("g/p/n2/a", r2)
	last := r.create("other/y", "1") // nothing of the resource is at the revision that its list has
	res := r.cache.Resource("g/p")
	r.fresh(res)
	if tail := res.log.tail(); tail != last {
		t.Fatalf("the log begins at %d, want %d", tail, last)
	}
	early, err := res.Watch(last, "g/p/n2/") // joins before the log grows at its other end
	r.must(err)
	r5 := r.create("g/p/n2/b", "1")
	r.fresh(res)
	a1 := fmt.Sprintf("ADDED g/p/n1/a=1@%d", r1)
	m1 := fmt.Sprintf("MODIFIED g/p/n1/a=2@%d<1@%d", r3, r1)
	a2 := fmt.Sprintf("ADDED g/p/n2/a=1@%d", r2)
	d2 := fmt.Sprintf("DELETED g/p/n2/a=1@%d<1@%d", r4, r2)
	b2 := fmt.Sprintf("ADDED g/p/n2/b=1@%d", r5)
	for _, test := range []struct {
		after  int64
		filter string
		until  int64
		want   []string
	}{
		{r3, "", r5, []string{d2, b2}}, // the log grows twice
		{r0, "", r5, []string{a1, a2, m1, d2, b2}},
		{r1, "g/p/n2/", r5, []string{a2, d2, b2}},
		{r0, "g/p/n1/a", r3, []string{a1, m1}},
		{last, "", r5, []string{b2}},
	} {
		w, err := res.Watch(test.after, test.filter)
		r.must(err)
		if got, want := r.readUntil(w, test.until), strings.Join(test.want, " "); got != want {
			t.Errorf("after %d, %q:\ngot  %s\nwant %s", test.after, test.filter, got, want)
		}
		w.Close()
	}
	if got := r.readUntil(early, r5); got != b2 {
		t.Errorf("a watch from before: got %s, want %s", got, b2)
	}
	if s, err := res.SnapshotAt(r2, "g/p/"); err != nil || s.Len() != 2 {
		t.Errorf("as of %d: %d objects, %v", r2, s.Len(), err)
	}
}

// TestRecallEnds holds what bounds it: what the store has forgotten, and the room of the log.
func TestRecallEnds(t *testing.T) {
	r := newRig(t, Options{LogEvents: 10}, mem.Options{})
	first := r.create("g/p/a", "0")
	at := first
	for i := range 20 {
		at = r.update("g/p/a", fmt.Sprint(i), at)
	}
	r.must(r.store.Compact(r.ctx, first+2))
	res := r.cache.Resource("g/p")
	r.fresh(res)
	for _, after := range []int64{first, first + 1, first + 3, at - 11} {
		if _, err := res.Watch(after, ""); err == nil {
			t.Errorf("a watch after %d of %d begins", after, at)
		} else {
			r.want(err, ErrExpired)
		}
	}
	if res.forgotten.Load() < at-12 {
		t.Errorf("history up to %d is read again each time", res.forgotten.Load())
	}
	w, err := res.Watch(at-5, "")
	r.must(err)
	if got := strings.Count(r.readUntil(w, at), "MODIFIED"); got != 5 {
		t.Errorf("%d changes, want 5", got)
	}
}
