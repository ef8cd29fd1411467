package etcd

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/testkit"
)

// TestWritten holds which revisions are compacted, and when the log is cut.
func TestWritten(t *testing.T) {
	w := newWritten(1, 16*100<<20, 1<<40)
	if w.keep != 100<<20 {
		t.Fatalf("got %d bytes of history, want a sixteenth of the room", w.keep)
	}
	for rev := int64(2); rev < 102; rev++ { // 100 MiB
		w.add(rev, 1<<20)
	}
	if rev := w.compactTo(false); rev != 0 {
		t.Errorf("got a compaction to %d of what may be kept", rev)
	}
	if bytes := w.logTo(); bytes != 100<<20 {
		t.Errorf("got a cut of the log to %d bytes, want 100 MiB", bytes)
	}
	if w.cutTo(100 << 20); w.logTo() != 0 {
		t.Error("the log is cut again")
	}
	w.add(102, 1<<20)
	select {
	case <-w.due:
	default:
		t.Error("nobody is told that the history is too long")
	}
	rev := w.compactTo(false)
	if rev < 45 || rev > 55 {
		t.Errorf("got a compaction to %d, want half of 101 revisions", rev)
	}
	w.compactedTo(rev)
	if rev := w.compactTo(false); rev != 0 {
		t.Errorf("got a compaction to %d right after another", rev)
	}
	if rev := w.compactTo(true); rev != 101 {
		t.Errorf("got a compaction to %d of all, want 101: the last mark", rev)
	}
}

// TestLargeWritesWait holds that large writes wait for what is much too long, and small ones do not.
func TestLargeWritesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWritten(1, 0, 0)
		for rev := int64(2); rev < 202; rev++ {
			w.add(rev, 1<<20)
		}
		began := time.Now()
		w.await(t.Context(), largeWrite-1)
		if took := time.Since(began); took != 0 {
			t.Errorf("a small write waits %v", took)
		}
		if w.await(t.Context(), largeWrite); time.Since(began) != writesWait {
			t.Errorf("a large write waits %v, want %v if nothing is trimmed", time.Since(began), writesWait)
		}
		began = time.Now()
		go func() {
			time.Sleep(time.Second)
			w.compactedTo(w.compactTo(false))
			w.tell()
			time.Sleep(time.Second)
			w.cutTo(w.logTo())
			w.tell()
		}()
		if w.await(t.Context(), largeWrite); time.Since(began) != 2*time.Second {
			t.Errorf("a large write waits %v, want 2 s until both are trimmed", time.Since(began))
		}
	})
}

// TestTrim replaces large values very often: the files have a bound that does not depend on how often.
func TestTrim(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 300 MB")
	}
	dir := t.TempDir()
	s, err := Open(t.Context(), Config{DataDir: dir, Fast: true, NoChecksums: true, Quota: 4 * leastHistory})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	value := make([]byte, 1<<20)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	revs := map[string]int64{}
	for i := range 300 {
		key := fmt.Sprint("g/a/", i%4)
		var err error
		if rev, is := revs[key]; is {
			revs[key], err = s.Update(t.Context(), key, value, rev)
		} else {
			revs[key], err = s.Create(t.Context(), key, value)
		}
		if err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	size := func() (n int64) {
		_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error { // files go meanwhile
			if info, err2 := e.Info(); err == nil && err2 == nil && !e.IsDir() {
				n += info.Size()
			}
			return nil
		})
		return n
	}
	// Three segments of the log and one that is prepared; the history, twice, because the database keeps the pages that it has had.
	const most = 4*64<<20 + 4*leastHistory
	testkit.Eventually(t, "the files are small", func() bool { return size() < most })
	for key, rev := range revs {
		if item, err := s.Get(t.Context(), key); err != nil || item.Rev != rev {
			t.Errorf("%s: got revision %d, %v, want %d", key, item.Rev, err, rev)
		}
	}
	t.Logf("%d MiB", size()>>20)
}

// TestShortOfSpace starts on a disk that is nearly full with history and log of earlier processes: both are given up, so that writes are
// accepted again.
func TestShortOfSpace(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 200 MB")
	}
	dir := t.TempDir()
	value := make([]byte, 1<<20)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	open := func() store.Store {
		t.Helper()
		s, err := Open(t.Context(), Config{DataDir: dir, Fast: true, NoChecksums: true, Quota: 4 << 30})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	e := s.(*client).server.(*embedded)
	e.written.cutTo(1 << 40) // the log is not cut
	var rev int64
	for range 200 {
		var err error
		if rev == 0 {
			rev, err = s.Create(t.Context(), "g/a/x", value)
		} else {
			rev, err = s.Update(t.Context(), "g/a/x", value, rev)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	wal := filepath.Join(dir, memberDir, walDir)
	if n, err := removeSegments(wal); err != nil || n <= logFiles {
		t.Fatalf("%d segments of the log, %v, want more than %d", n, err, logFiles)
	}
	s.Close()
	s = open()
	defer s.Close()
	e = s.(*client).server.(*embedded)
	first := e.KV().FirstRev()
	e.space.mu.Lock()
	e.space.free = func() (int64, error) { return reserve - 64<<20, nil }
	e.space.mu.Unlock()
	testkit.Eventually(t, "history and log are given up", func() bool {
		n, err := removeSegments(wal)
		return e.KV().FirstRev() >= rev && err == nil && n <= logFiles
	})
	if first >= rev {
		t.Errorf("there was no history before: the first revision was %d of %d", first, rev)
	}
	if item, err := s.Get(t.Context(), "g/a/x"); err != nil || item.Rev != rev || len(item.Value) != len(value) {
		t.Errorf("got revision %d, %v, want %d", item.Rev, err, rev)
	}
}
