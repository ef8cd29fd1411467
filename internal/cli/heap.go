package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"github.com/keelson-io/keelson/internal/fastpath"
)

// This file sets a lower bound for the heap at which garbage is collected.

// leastHeap is the heap size in bytes below which no collection starts. Go collects when the heap
// has doubled. In a new server the heap is so small that each large definition would start a
// collection, and load would start many in each second.
const leastHeap = 48 << 20

// roomyHeap sets this up, once for the process. The environment variable GOGC takes precedence;
// GOMEMLIMIT still applies.
var roomyHeap = sync.OnceFunc(func() {
	if os.Getenv("GOGC") != "" || !fastpath.Heap.On() {
		return
	}
	debug.SetGCPercent(heapGrowth(0))
	afterCollection()
})

// afterCollection adjusts the growth after each collection, which it detects by the finalizer of an
// unreachable object.
func afterCollection() {
	runtime.AddCleanup(new(*byte), func(struct{}) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		if live[0].Value.Kind() == metrics.KindUint64 {
			debug.SetGCPercent(heapGrowth(live[0].Value.Uint64()))
		}
		afterCollection()
	}, struct{}{})
}

// heapGrowth returns the value for debug.SetGCPercent: by how many percent the heap may grow over
// the live bytes.
func heapGrowth(live uint64) int {
	const least, smallest = 100, 4 << 20 // Go's default, and the smallest live size to calculate with
	return max(least, int((leastHeap-min(leastHeap, live))*100/max(live, smallest)))
}
