package cache

// This file tests that cost does not grow with what is not asked for.

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// reader counts the items that are read from a store.
type reader struct {
	store.Store
	items atomic.Int64
}

func (s *reader) List(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	p, err := s.Store.List(ctx, prefix, o)
	s.items.Add(int64(len(p.Items)))
	return p, err
}

// TestOneNamespace reads one namespace of many: at the newest revision no other object is visited, at an old one that only the store knows
// no other object is read, and who asks again, or for a part of it, is not sent to the store.
func TestOneNamespace(t *testing.T) {
	r := newRig(t, Options{}, mem.Options{})
	const own, others = 40, 5000
	for i := range others {
		r.create(fmt.Sprintf("g/p/ns%02d/%d", i%50, i), "1")
	}
	var old int64
	for i := range own {
		old = r.create(fmt.Sprintf("g/p/ns25a/%02d", i), "1")
	}
	s := &reader{Store: r.store}
	c := New(s, Options{})
	defer c.Close()
	last := r.delete("g/p/ns25a/00", old-own+1)
	res := c.Resource("g/p")
	r.fresh(res)

	visited := 0
	res.Snapshot().Ascend("g/p/ns25a/", func(o *Object) bool {
		visited++
		return o.Key[:10] == "g/p/ns25a/"
	})
	if visited != own { // those that are left, and the one where it ends
		t.Errorf("newest: %d objects visited, want %d", visited, own)
	}
	if tail := res.log.tail(); tail != last {
		t.Fatalf("the log begins at %d, want %d", tail, last)
	}
	for _, test := range []struct {
		prefix string
		has    int
		read   int64
	}{
		{"g/p/ns25a/", own, own},
		{"g/p/ns25a/", own, 0},
		{"g/p/ns25a/00", 1, 0},
		{"g/p/ns26/", others / 50, others / 50},
	} {
		before := s.items.Load()
		snap, err := res.SnapshotAt(old, test.prefix)
		r.must(err)
		if n, read := snap.Count(test.prefix), s.items.Load()-before; n != test.has || read != test.read {
			t.Errorf("%s: %d objects, %d read; want %d and %d", test.prefix, n, read, test.has, test.read)
		}
	}
	for n := range 2 * res.c.o.Snapshots { // so many at most are kept
		_, err := res.SnapshotAt(old, fmt.Sprintf("g/p/ns%02d/", n))
		r.must(err)
	}
	if n := len(res.kept.wanted); n != res.c.o.Snapshots {
		t.Errorf("%d states kept, want %d", n, res.c.o.Snapshots)
	}
	before := s.items.Load()
	if _, err := res.SnapshotAt(old, fmt.Sprintf("g/p/ns%02d/", 2*res.c.o.Snapshots-1)); err != nil || s.items.Load() != before {
		t.Errorf("the last one asked for is not kept: %v", err)
	}
}
