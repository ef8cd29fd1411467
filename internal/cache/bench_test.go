package cache

// This file holds benchmarks, and the tests of allocations on hot paths.

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/btree"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/etcd"
	"github.com/keelson-io/keelson/internal/store/mem"
)

func filled(tb testing.TB, n int) (*Cache, *Resource, store.Store) {
	s := mem.New(mem.Options{})
	value := []byte(strings.Repeat("x", 1000))
	for i := range n {
		if _, err := s.Create(context.Background(), fmt.Sprintf("g/p/ns%d/object-%d", i%10, i), value); err != nil {
			tb.Fatal(err)
		}
	}
	c := New(s, Options{})
	tb.Cleanup(func() { c.Close(); s.Close() })
	r := c.Resource("g/p")
	if err := r.Fresh(context.Background()); err != nil {
		tb.Fatal(err)
	}
	return c, r, s
}

func TestAllocations(t *testing.T) {
	_, r, _ := filled(t, 1000)
	ctx := context.Background()
	render := &counter{}
	calls := map[string]func(){
		"Get":   func() { r.Get("g/p/ns3/object-33") },
		"Fresh": func() { r.Fresh(ctx) },
		"List":  func() { r.Snapshot().Ascend("g/p/ns3/", func(*Object) bool { return true }) },
		"Count": func() { r.Snapshot().Count("g/p/ns3/") },
		"View":  func() { o, _ := r.Get("g/p/ns3/object-33"); o.View(render) },
	}
	limit := map[string]float64{"Count": 3}
	for name, call := range calls {
		if n := testing.AllocsPerRun(100, call); n > limit[name] {
			t.Errorf("%s: got %v allocations, want %v", name, n, limit[name])
		}
	}
}

func BenchmarkGet(b *testing.B) {
	for _, n := range []int{2000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, r, _ := filled(b, n)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r.Get("g/p/ns3/object-33")
				}
			})
		})
	}
}

func BenchmarkFresh(b *testing.B) {
	_, r, _ := filled(b, 100)
	b.ReportAllocs()
	for b.Loop() {
		r.Fresh(context.Background())
	}
}

// BenchmarkReadYourWrite is how long after a write it takes until a fresh read has it: what a consistent read costs at worst.
func BenchmarkReadYourWrite(b *testing.B) {
	ctx := context.Background()
	s, err := etcd.Open(ctx, etcd.Config{DataDir: b.TempDir(), Fast: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	c := New(s, Options{})
	defer c.Close()
	r := c.Resource("g/p")
	rev, err := s.Create(ctx, "g/p/a", []byte(strings.Repeat("x", 1000)))
	if err != nil {
		b.Fatal(err)
	}
	var wait time.Duration
	for b.Loop() {
		if rev, err = s.Update(ctx, "g/p/a", []byte(strings.Repeat("x", 1000)), rev); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		if err := r.Fresh(ctx); err != nil {
			b.Fatal(err)
		}
		wait += time.Since(start)
		if o, ok := r.Get("g/p/a"); !ok || o.Rev < rev {
			b.Fatalf("got revision %d, want %d", o.Rev, rev)
		}
	}
	b.ReportMetric(float64(wait.Nanoseconds())/float64(b.N), "fresh-ns/op")
}

// BenchmarkReadYourWrite64 is the same with many writers at a time, on disk; slowest is the longest that anybody waited.
func BenchmarkReadYourWrite64(b *testing.B) {
	ctx := context.Background()
	s, err := etcd.Open(ctx, etcd.Config{DataDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	c := New(s, Options{})
	defer c.Close()
	r := c.Resource("g/p")
	value := []byte(strings.Repeat("x", 1000))
	var n, wait, slowest atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		key := fmt.Sprintf("g/p/%d", n.Add(1))
		rev, err := s.Create(ctx, key, value)
		for err == nil && pb.Next() {
			if rev, err = s.Update(ctx, key, value, rev); err != nil {
				break
			}
			start := time.Now()
			err = r.Fresh(ctx)
			took := int64(time.Since(start))
			wait.Add(took)
			for old := slowest.Load(); took > old && !slowest.CompareAndSwap(old, took); old = slowest.Load() {
			}
			if o, ok := r.Get(key); !ok || o.Rev != rev {
				b.Error("read is not fresh")
			}
		}
		if err != nil {
			b.Error(err)
		}
	})
	b.ReportMetric(float64(wait.Load())/float64(b.N), "fresh-ns/op")
	b.ReportMetric(float64(slowest.Load())/1e6, "slowest-ms")
}

func BenchmarkList2000(b *testing.B) {
	_, r, _ := filled(b, 2000)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		r.Snapshot().Ascend("", func(o *Object) bool { n += len(o.Raw); return true })
	}
}

// BenchmarkWrite is what a write costs the cache with 100,000 objects.
func BenchmarkWrite(b *testing.B) {
	_, r, s := filled(b, 100_000)
	o, _ := r.Get("g/p/ns3/object-33")
	rev, value := o.Rev, o.Raw
	b.ReportAllocs()
	for b.Loop() {
		rev, _ = s.Update(context.Background(), "g/p/ns3/object-33", value, rev)
	}
	r.Fresh(context.Background())
}

// BenchmarkTree compares one change of a state of 100,000 objects with a map that is copied before each change.
func BenchmarkTree(b *testing.B) {
	const n = 100_000
	keys := make([]*Object, n)
	var build builder
	var m btree.Map[string, *Object]
	for i := range keys {
		keys[i] = &Object{Key: fmt.Sprintf("g/p/ns%d/object-%06d", i/1000, i)}
		build.add(keys[i])
		m.Set(keys[i].Key, keys[i])
	}
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		tree := build.tree()
		for i := 0; b.Loop(); i++ {
			tree, _ = tree.insert(keys[i*7919%n])
		}
	})
	b.Run("tidwall", func(b *testing.B) {
		b.ReportAllocs()
		now := &m
		for i := 0; b.Loop(); i++ {
			now = now.Copy()
			now.Set(keys[i*7919%n].Key, keys[i*7919%n])
		}
	})
	b.Run("ours/get", func(b *testing.B) {
		tree := build.tree()
		for i := 0; b.Loop(); i++ {
			tree.get(keys[i*7919%n].Key)
		}
	})
	b.Run("tidwall/get", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			m.Get(keys[i*7919%n].Key)
		}
	})
}

// BenchmarkFanout measures events delivered to all watchers together.
func BenchmarkFanout(b *testing.B) {
	for _, watchers := range []int{50, 1000} {
		for _, filter := range []string{"", "g/p/none%d/"} {
			b.Run(fmt.Sprintf("%d/%q", watchers, filter), func(b *testing.B) {
				_, r, s := filled(b, 10)
				o, _ := r.Get("g/p/ns3/object-3")
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				var got atomic.Int64
				for i := range watchers {
					f := filter
					if f != "" {
						f = fmt.Sprintf(f, i)
					}
					w, err := r.Watch(r.Snapshot().Rev(), f)
					if err != nil {
						b.Fatal(err)
					}
					go func() {
						for {
							events, _, err := w.Next(ctx)
							if err != nil {
								return
							}
							got.Add(int64(len(events)))
						}
					}()
				}
				rev, n, start := o.Rev, int64(0), time.Now()
				for b.Loop() {
					rev, _ = s.Update(ctx, o.Key, o.Raw, rev)
					n++
					for filter == "" && n*int64(watchers)-got.Load() > 1000*int64(watchers) {
						runtime.Gosched()
					}
				}
				for filter == "" && got.Load() < n*int64(watchers) {
					time.Sleep(time.Millisecond)
				}
				b.ReportMetric(float64(got.Load())/time.Since(start).Seconds(), "events/s")
			})
		}
	}
}
