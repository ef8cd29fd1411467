package etcd

// This file has benchmarks of the embedded server on disk, with fsync.

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/keelson-io/keelson/internal/store"
)

var benchValue = []byte(strings.Repeat("x", 1000))

// BenchmarkStart measures the time from an empty directory to ready, and from ready to closed.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s, err := Open(context.Background(), Config{DataDir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		b.StartTimer()
	}
}

func BenchmarkRestart(b *testing.B) {
	dir := b.TempDir()
	s := openTest(b, Config{DataDir: dir})
	for i := range 4000 {
		if _, err := s.Create(context.Background(), fmt.Sprintf("g/p/%d", i), benchValue); err != nil {
			b.Fatal(err)
		}
	}
	s.Close()
	for b.Loop() {
		s, err := Open(context.Background(), Config{DataDir: dir})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		b.StartTimer()
	}
}

func BenchmarkCreate(b *testing.B) { benchCreate(b, 1, false) }

func BenchmarkCreate64(b *testing.B) { benchCreate(b, 64, false) }

func BenchmarkCreate64Watched(b *testing.B) { benchCreate(b, 64, true) }

func benchCreate(b *testing.B, parallel int, watched bool) {
	s := openTest(b, Config{})
	if watched {
		drain(b, s)
	}
	b.ReportAllocs()
	b.SetParallelism((parallel + 1) / 2) // times the two processors
	var n atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Create(context.Background(), fmt.Sprintf("g/p/%d", n.Add(1)), benchValue); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkUpdate64(b *testing.B) { benchUpdate(b, false) }

func BenchmarkUpdate64Watched(b *testing.B) { benchUpdate(b, true) }

func benchUpdate(b *testing.B, watched bool) {
	s := openTest(b, Config{})
	if watched {
		drain(b, s)
	}
	b.ReportAllocs()
	b.SetParallelism(32)
	var n atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		key := fmt.Sprintf("g/p/%d", n.Add(1))
		rev, err := s.Create(context.Background(), key, benchValue)
		for pb.Next() && err == nil {
			rev, err = s.Update(context.Background(), key, benchValue, rev)
		}
		if err != nil {
			b.Error(err)
		}
	})
}

// drain watches everything.
func drain(b *testing.B, s store.Store) {
	w, err := s.Watch(context.Background(), "", 1)
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for {
			if _, err := w.Next(context.Background()); err != nil {
				return
			}
		}
	}()
}

func BenchmarkGet(b *testing.B) {
	s := openTest(b, Config{})
	s.Create(context.Background(), "g/p/a", benchValue)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Get(context.Background(), "g/p/a"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRevision(b *testing.B) {
	s := openTest(b, Config{})
	b.ReportAllocs()
	for b.Loop() {
		s.Revision(context.Background())
	}
}
