package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestHeapGrowth(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 1200}, {4 << 20, 1100}, {16 << 20, 200}, {24 << 20, 100}, {47 << 20, 100}, {48 << 20, 100}, {8 << 30, 100},
	} {
		if got := heapGrowth(c.live); got != c.want {
			t.Errorf("%d bytes in use: got %d %%, want %d %%", c.live, got, c.want)
		}
	}
}

// TestRoomyHeap wants that the heap may grow by less the more is in use, and by more again when that is gone.
func TestRoomyHeap(t *testing.T) {
	if os.Getenv("GOGC") != "" {
		t.Skip("GOGC says how far the heap grows")
	}
	roomyHeap()
	defer debug.SetGCPercent(100) // until the next collection
	hold := make([]byte, 2*leastHeap)
	awaitGrowth(t, func(percent uint64) bool { return percent == 100 })
	runtime.KeepAlive(hold)
	awaitGrowth(t, func(percent uint64) bool { return percent > 100 })
}

func awaitGrowth(t *testing.T, is func(uint64) bool) {
	t.Helper()
	percent := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		if metrics.Read(percent); is(percent[0].Value.Uint64()) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after a minute of collections: %d %%", percent[0].Value.Uint64())
		}
	}
}
