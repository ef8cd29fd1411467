package cli

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/keelson-io/keelson/internal/fastpath"
	"github.com/keelson-io/keelson/internal/testkit"
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

// TestRoomyHeap holds that the allowed growth shrinks when live bytes grow, and grows again when
// they are freed.
func TestRoomyHeap(t *testing.T) {
	fastpath.Heap.Need(t)
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
	testkit.EventuallySay(t, func() (string, bool) {
		runtime.GC()
		metrics.Read(percent)
		got := percent[0].Value.Uint64()
		return fmt.Sprintf("another growth than %d %%", got), is(got)
	})
}
