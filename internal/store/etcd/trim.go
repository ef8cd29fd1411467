package etcd

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/lease"
)

// This file bounds the bytes that the embedded server keeps besides the objects: the history, which etcd bounds by nothing and the
// compaction loop by age, and the log, which etcd cuts after a number of writes. An editor can replace large objects very often.

const (
	// leastHistory and mostHistory bound the bytes of history that may be kept. Between them it is a sixteenth of the room that the file
	// system has, or a quarter of the quota if that is less.
	leastHistory = 32 << 20
	mostHistory  = 1 << 30
	// logBytes is how many bytes are written before the log is cut: a segment of it.
	logBytes = 64 << 20
	// logFiles is the number of segments that are kept: the one before the snapshot, and the one that is written to.
	logFiles = 2
	// largeWrite is the length in bytes from which on writes wait while there are too many bytes besides the objects, for writesWait at most.
	largeWrite = 16 << 10
	writesWait = 5 * time.Second
	// trimEvery is how often it is looked for segments that may go.
	trimEvery = time.Second
)

// written counts the bytes of writes, to find out when the history or the log has too many of them.
type written struct {
	keep int64 // bytes of history
	due  chan struct{}

	mu        sync.Mutex
	bytes     int64         // of all writes
	marks     []mark        // along the writes since the last compaction, oldest first; the first may be that of the start
	compacted int64         // bytes at the revision of that
	to        int64         // that revision
	logged    int64         // bytes when the log was cut last
	trimmed   chan struct{} // closed when it is short again
}

// mark is how many bytes had been written when a revision was.
type mark struct{ rev, bytes int64 }

// newWritten returns the counts of a database at a revision, on a file system with so many bytes of room.
func newWritten(rev, room, quota int64) *written {
	return &written{keep: min(max(min(room/16, quota/4), leastHistory), mostHistory), due: make(chan struct{}, 1), trimmed: make(chan struct{}),
		marks: []mark{{rev, 0}}}
}

// add counts a write.
func (w *written) add(rev, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes += bytes
	if n := len(w.marks); n == 0 || w.bytes-w.marks[n-1].bytes > w.keep/64 {
		w.marks = append(w.marks, mark{rev, w.bytes})
	}
	if w.bytes-w.compacted > w.keep || w.bytes-w.logged > logBytes {
		select {
		case w.due <- struct{}{}:
		default:
		}
	}
}

// await makes a large write wait while the history or the log is much too long, which small writes of others then need not do.
func (w *written) await(ctx context.Context, bytes int64) {
	if bytes < largeWrite {
		return
	}
	var end <-chan time.Time
	for {
		w.mu.Lock()
		long, trimmed := w.bytes-w.compacted > 2*w.keep || w.bytes-w.logged > 2*logBytes, w.trimmed
		w.mu.Unlock()
		if !long {
			return
		}
		if end == nil {
			end = time.After(writesWait)
		}
		select {
		case <-trimmed:
		case <-end:
			return
		case <-ctx.Done():
			return
		}
	}
}

// tell lets the writes look again that wait.
func (w *written) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.trimmed)
	w.trimmed = make(chan struct{})
}

// compactTo returns the revision to which the history is to be compacted, so that half of what may be kept remains; 0 if it is short
// enough. With all set, only what was written last remains; what there was at the start goes, too, although nobody knows its bytes.
func (w *written) compactTo(all bool) (rev int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes-w.compacted <= w.keep && !all {
		return 0
	}
	last := len(w.marks) - 1
	for !all && last > 0 && w.bytes-w.marks[last].bytes < w.keep/2 {
		last--
	}
	if rev := w.marks[last].rev; rev > w.to {
		return rev
	}
	return 0
}

// compactedTo counts what is left of the history after a compaction.
func (w *written) compactedTo(rev int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.marks) > 1 && w.marks[0].rev < rev {
		w.marks = slices.Delete(w.marks, 0, 1)
	}
	w.compacted, w.to = w.marks[0].bytes, rev
}

// logTo returns how many bytes have been written if the log is to be cut, otherwise 0.
func (w *written) logTo() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes-w.logged <= logBytes {
		return 0
	}
	return w.bytes
}

// cutTo counts what is left of the log after a cut.
func (w *written) cutTo(bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logged = bytes
}

// trim keeps the history and the log short until ctx ends.
func (e *embedded) trim(ctx context.Context) {
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	warn := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			e.log.Warn(what, "error", err)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.dead:
			return
		case <-e.written.due:
		case <-tick.C:
		}
		segments, err := removeSegments(filepath.Join(e.Cfg.DataDir, memberDir, walDir))
		warn("old segments of etcd's log are not removed", err)
		if e.space.reserve(0) != nil {
			continue // each of the following writes before it frees anything
		}
		short := e.space.isShort()
		if rev := e.written.compactTo(short); rev > 1 {
			_, err := e.Compact(ctx, &pb.CompactionRequest{Revision: rev, Physical: true})
			if err = ignoreCompacted(err); err == nil {
				e.written.compactedTo(rev)
			}
			warn("etcd's history is not compacted by its bytes", err)
		}
		if bytes := e.written.logTo(); bytes > 0 || short && segments > logFiles {
			err := e.cutLog(ctx)
			if err == nil && bytes > 0 {
				e.written.cutTo(bytes)
			}
			warn("etcd's log is not cut", err)
		}
		e.written.tell()
		if short {
			warn("etcd's database is not defragmented", e.shrink())
		}
	}
}

// shrink writes the database anew, without its free pages, if there are many of them and there is room for it meanwhile. No write is
// answered then.
func (e *embedded) shrink() error {
	b := e.Backend()
	inUse := e.used(true)
	free, err := freeBytes(e.Cfg.DataDir)
	if err != nil || b.Size()-inUse < reserve || free-deleteReserve < inUse+inUse/4 {
		return err
	}
	e.log.Info("etcd's database is defragmented, because the disk is nearly full", "MiB", b.Size()>>20, "to", inUse>>20)
	return b.Defrag()
}

// cutLog makes etcd write a snapshot, after which the log before it is not needed. etcd does so after snapshotCount entries, and takes no
// other request for it while it runs. So this writes as many that change nothing, of some 50 bytes each: nobody has this lease.
func (e *embedded) cutLog(ctx context.Context) error {
	const atOnce = 500 // entries share a write to the log
	var failed atomic.Pointer[error]
	var wait sync.WaitGroup
	for range atOnce {
		wait.Go(func() {
			for n := 0; n < snapshotCount/atOnce && failed.Load() == nil; n++ {
				if _, err := e.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: math.MaxInt64}); err != nil && !errors.Is(err, lease.ErrLeaseNotFound) {
					failed.Store(&err)
				}
			}
		})
	}
	wait.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// removeSegments removes the oldest segments of the log that etcd does not hold any more, but for the newest logFiles, and returns how
// many are left. etcd would look for them every 30 s only, which is long for an editor.
func removeSegments(dir string) (left int, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return left, err
	}
	var all []string // in order, as their names begin with a number of fixed width
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".wal") {
			all = append(all, filepath.Join(dir, f.Name()))
		}
	}
	for left = len(all); left > logFiles; left-- {
		oldest := all[len(all)-left]
		lock, err := fileutil.TryLockFile(oldest, os.O_WRONLY, fileutil.PrivateFileMode)
		if errors.Is(err, fileutil.ErrLocked) {
			return left, nil
		}
		if err != nil {
			return left, err
		}
		if err := errors.Join(os.Remove(oldest), lock.Close()); err != nil {
			return left, err
		}
	}
	return left, nil
}
