//go:build linux && (amd64 || arm64)

package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"

	"github.com/keelson-io/keelson/store"
)

// This file tests that the log is made ready, and stays what it is.

// reserved is a segment as etcd makes one.
func reserved(t *testing.T, size int64) (a *ahead, f *os.File) {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "0000000000000000-0000000000000000.wal"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := fileutil.Preallocate(f, size, true); err != nil {
		t.Fatal(err)
	}
	return &ahead{dir: dir, touch: touch, end: make(chan struct{})}, f
}

// hole is where the first space starts that was never written.
func hole(t *testing.T, f *os.File) int64 {
	t.Helper()
	const seekHole = 4
	r, err := os.Open(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	at, err := r.Seek(0, seekHole)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestAheadMakesReady(t *testing.T) {
	a, f := reserved(t, 32<<20)
	before := bytes.Repeat([]byte("entry "), 100_000)
	if _, err := f.Write(before); err != nil {
		t.Fatal(err)
	}
	var touched []int64
	a.touch = func(f *os.File, offset int64, size int) error {
		if size != aheadWindow {
			t.Errorf("touched %d bytes at %d, want %d", size, offset, aheadWindow)
		}
		touched = append(touched, offset)
		return touch(f, offset, size)
	}
	says := hole(t, f) <= 1<<20 // the file system says what was never written
	if err := a.turn(); err != nil {
		t.Fatal(err)
	}
	var want []int64 // from the first window that has no data yet
	for at := int64((len(before)+aheadWindow-1)/aheadWindow) * aheadWindow; at < int64(len(before))+aheadBytes; at += aheadWindow {
		want = append(want, at)
	}
	if !slices.Equal(touched, want) || a.ready != want[len(want)-1]+aheadWindow {
		t.Errorf("touched windows at %d, want %d; ready up to %d", touched, want, a.ready)
	}
	if got := hole(t, f); says && got < a.ready {
		t.Errorf("ready up to %d, but written up to %d", a.ready, got)
	}
	if err := a.turn(); err != nil { // nothing to do
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	if len(b) != 32<<20 || !bytes.HasPrefix(b, before) || len(bytes.Trim(b[len(before):], "\x00")) != 0 {
		t.Error("the file is not what it was")
	}
}

// TestAheadGivesUp: where it is not possible it is said, and not tried again.
func TestAheadGivesUp(t *testing.T) {
	a, _ := reserved(t, 4<<20)
	var log bytes.Buffer
	a.logger, a.kick = slog.New(slog.NewTextHandler(&log, nil)), make(chan struct{}, 1)
	tries := 0
	a.touch = func(*os.File, int64, int) error {
		tries++
		return errors.New("no such thing here")
	}
	a.ended.Go(a.run)
	a.note(aheadAfter)
	a.ended.Wait()
	a.note(aheadAfter)
	if text := log.String(); tries != 1 || strings.Count(text, "\n") != 1 || !strings.Contains(text, "no such thing here") {
		t.Errorf("%d tries, logged:\n%s", tries, text)
	}
}

// TestAheadOfAWriter writes where pages are touched at the same time, again and again: every byte is there afterwards.
func TestAheadOfAWriter(t *testing.T) {
	_, f := reserved(t, aheadWindow)
	want := make([]byte, aheadWindow)
	done := make(chan error)
	go func() {
		for {
			select {
			case <-done:
				close(done)
				return
			default:
			}
			if err := touch(f, 0, aheadWindow); err != nil {
				t.Error(err)
			}
		}
	}()
	for range 20 {
		for at := 0; at < len(want); {
			n := min(1+rand.IntN(3000), len(want)-at)
			for i := at; i < at+n; i++ {
				want[i] = byte(rand.Uint32())
			}
			if _, err := f.WriteAt(want[at:at+n], int64(at)); err != nil {
				t.Fatal(err)
			}
			at += n
		}
	}
	done <- nil
	<-done
	if got, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(got, want) {
		t.Errorf("what was written is lost (%v)", err)
	}
}

// TestAheadOfACut touches a segment that etcd has just cut to its size.
func TestAheadOfACut(t *testing.T) {
	a, f := reserved(t, 4<<20)
	if err := f.Truncate(10_000); err != nil {
		t.Fatal(err)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var fault faulted
	if err := touch(f, 0, aheadWindow); !errors.As(err, &fault) {
		t.Errorf("got %v, want a fault", err)
	}
	if err := a.turn(); err != nil {
		t.Error(err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != 10_000 {
		t.Errorf("size: got %d, %v", info.Size(), err)
	}
}

// TestAheadAndRestart writes more than a few turns, and reads it all after a restart.
func TestAheadAndRestart(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := openTest(t, Config{DataDir: dir})
	value := bytes.Repeat([]byte("v"), 100_000)
	const n = 30
	for i := range n {
		if _, err := s.Create(ctx, fmt.Sprintf("g/p/%03d", i), value); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if a := s.(*client).server.(*embedded).ahead; a.ready == 0 || a.at == 0 {
		t.Errorf("nothing was made ready: at %d, ready %d", a.at, a.ready)
	}
	s = openTest(t, Config{DataDir: dir})
	p, err := s.List(ctx, "g/p/", store.ListOptions{})
	if err != nil || len(p.Items) != n {
		t.Fatalf("got %d items, %v", len(p.Items), err)
	}
	for _, it := range p.Items {
		if !bytes.Equal(it.Value, value) {
			t.Errorf("%s is not what was written", it.Key)
		}
	}
}
