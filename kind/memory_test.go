package kind

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// This file tests what many kinds cost, and using them while they change.

// TestConcurrent reads snapshots while kinds come and go; for the race
// detector.
func TestConcurrent(t *testing.T) {
	r := new(Registry)
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				s := r.Load()
				n := 0
				for k := range s.All() {
					n++
					if s.Lookup(k.Group, k.Plural) != k {
						t.Errorf("%s is listed and not found", k.Plural)
						return
					}
				}
				if n != s.Len() {
					t.Errorf("got %d kinds, want %d", n, s.Len())
					return
				}
			}
		})
	}
	for i := range 300 {
		k := &Kind{Group: "g.io", Plural: fmt.Sprint("p", i%50), UID: fmt.Sprint(i)}
		r.Put(k)
		if i%3 == 0 {
			r.Remove(k)
		}
	}
	close(stop)
	readers.Wait()
}

// TestMemory holds what a kind keeps: thousands of them have to fit.
func TestMemory(t *testing.T) {
	const (
		n    = 200
		most = 40 << 10
	)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	r := new(Registry)
	if k, err := Compile(definition(t)); err != nil {
		t.Fatal(err)
	} else {
		r.Put(k) // what all kinds share is there now
	}
	before := heap()
	for i := range n {
		k, err := Compile(definition(t, "widgets", fmt.Sprint("p", i)))
		if err != nil {
			t.Fatal(err)
		}
		r.Put(k)
	}
	each := (heap() - before) / n
	t.Logf("%d bytes each", each)
	if each > most {
		t.Errorf("got %d bytes a kind, want at most %d", each, most)
	}
	runtime.KeepAlive(r)
}
