package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// This file lets a small heap grow before it is collected.

// leastHeap is how large the heap becomes at least until it is collected. Go doubles what is in use, which in a new server is so little
// that it would be collected with every large definition, and many times each second under load.
const leastHeap = 48 << 20

// roomyHeap sees to that, once for the process. The environment's GOGC has the last word; GOMEMLIMIT holds all the same.
var roomyHeap = sync.OnceFunc(func() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(heapGrowth(0))
	afterCollection()
})

// afterCollection follows the size of what is in use: an object that nobody holds is found by every collection.
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

// heapGrowth is by how many percent of what is in use the heap may grow.
func heapGrowth(live uint64) int {
	const least, smallest = 100, 4 << 20 // what Go does of itself; what it takes for the least in use
	return max(least, int((leastHeap-min(leastHeap, live))*100/max(live, smallest)))
}
