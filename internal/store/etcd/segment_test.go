package etcd

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"github.com/keelson-io/keelson/internal/store"
)

// TestSegmentNotPrepared holds that a segment of the log that cannot be prepared is reported at once,
// and ends the store at the first write that finds free space, not when the current segment is full.
func TestSegmentNotPrepared(t *testing.T) {
	c, _ := opened(t, t.TempDir())
	fillKeys(t, c, 3)
	e := c.server.(*embedded)
	log := &bytes.Buffer{}
	e.log = slog.New(slog.NewTextHandler(log, nil))
	free := int64(10 << 20)
	e.space.mu.Lock()
	e.space.free = func() (int64, error) { return free, nil }
	e.space.mu.Unlock()
	// etcd's logger, as its goroutine for segments uses it; nothing else is logged.
	etcdLog := newSegmentLogger(slog.New(slog.DiscardHandler), new(atomic.Bool), e.die, e.noSegment)
	etcdLog.Error(segmentFailed, zap.Int64("size", 64<<20), zap.Error(syscall.ENOSPC))
	if !strings.Contains(log.String(), "next segment of etcd's log cannot be prepared") || !strings.Contains(log.String(), syscall.ENOSPC.Error()) {
		t.Errorf("got log %s", log)
	}
	if _, err := c.Get(t.Context(), "k/0001"); err != nil {
		t.Errorf("a read without room: %v", err)
	}
	select {
	case <-c.Failed():
		t.Fatal("the store failed while a new process could do no better")
	default:
	}
	free = 1 << 30
	if _, err := c.Create(t.Context(), "k/x", nil); !errors.Is(err, store.ErrDiskFull) {
		t.Errorf("a write with room: got %v", err)
	}
	select {
	case <-c.Failed():
	default:
		t.Fatal("the store goes on until the segment is full")
	}
	if !c.HasRoom() {
		t.Error("the process is not restarted")
	}
}
