package cache

import (
	"fmt"
	"testing"

	"github.com/keelson-io/keelson/internal/store/mem"
)

// TestDefaultBounds writes more than what the log and the old states of a resource have room for by default.
func TestDefaultBounds(t *testing.T) {
	r := newRig(t, Options{}, mem.Options{})
	res := r.cache.Resource("g/p")
	r.fresh(res)
	watch, err := res.Watch(res.Snapshot().Rev(), "") // somebody for whom changes are logged
	r.must(err)
	defer watch.Close()
	logged := func() int {
		res.log.mu.RLock()
		defer res.log.mu.RUnlock()
		return len(res.log.main.events) - res.log.main.head
	}
	rev := r.create("g/p/a", "0")
	revs := []int64{rev}
	most := 0
	for n := range 17_500 {
		rev = r.update("g/p/a", fmt.Sprint(n), rev)
		if n%500 == 0 {
			revs = append(revs, rev)
			r.fresh(res)
			most = max(most, logged())
		}
	}
	r.fresh(res)
	if n := logged(); n > 16_384 || n < 8_000 || most > 16_384 {
		t.Errorf("the log has %d changes, and had at most %d, want at most 16,384", n, most)
	}
	kept := 0
	for _, rev := range revs {
		if _, err := res.SnapshotAt(rev, res.Prefix()); err != nil {
			t.Fatal(err)
		}
		kept = max(kept, len(res.kept.wanted))
	}
	if kept != 16 {
		t.Errorf("%d old states are kept, want 16 of %d", kept, len(revs))
	}
}
