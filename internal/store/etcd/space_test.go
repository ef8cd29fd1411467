package etcd

// This file tests what happens when space runs out, and when files cannot be written at all.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/testkit"
)

func TestDiskFull(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, Config{Fast: true})
	rev, err := s.Create(ctx, "g/p/a", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	sp := s.(*client).server.(*embedded).space
	var log bytes.Buffer // used with sp.mu held
	setFree := func(n int64) {
		sp.mu.Lock()
		defer sp.mu.Unlock()
		sp.log = slog.New(slog.NewTextHandler(&log, nil))
		sp.free, sp.ahead = func() (int64, error) { return n, nil }, nil
		sp.asked = time.Time{}
	}
	setFree(30 << 20)
	_, err = s.Create(ctx, "g/p/b", []byte("1"))
	if !errors.Is(err, store.ErrDiskFull) || !strings.Contains(err.Error(), "30 MiB are free") {
		t.Errorf("create: got %v", err)
	}
	if _, err = s.Update(ctx, "g/p/a", []byte("2"), rev); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("update: got %v", err)
	}
	if it, err := s.Get(ctx, "g/p/a"); err != nil || string(it.Value) != "1" {
		t.Errorf("get: got %v, %v", it, err)
	}
	gone, err := s.Delete(ctx, "g/p/a", rev)
	if err != nil {
		t.Errorf("delete: got %v", err)
	}
	setFree(1 << 20) // not enough for deletes
	if _, err = s.Create(ctx, "g/p/b", []byte("1")); !errors.Is(err, store.ErrDiskFull) {
		t.Errorf("create: got %v", err)
	}
	if _, err = s.Delete(ctx, "g/p/c", gone); !errors.Is(err, store.ErrDiskFull) {
		t.Errorf("delete with nothing left: got %v", err)
	}
	setFree(1 << 40)
	if _, err = s.Create(ctx, "g/p/b", []byte("1")); err != nil {
		t.Errorf("create with space again: got %v", err)
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	refused, again, _ := strings.Cut(log.String(), "\n")
	if !strings.Contains(refused, `msg="writes are refused"`) || !strings.Contains(refused, "30 MiB are free") ||
		strings.Count(again, "\n") != 1 || !strings.Contains(again, `msg="writes are accepted again"`) {
		t.Errorf("got log\n%s", log.String())
	}
}

func TestQuota(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, Config{Fast: true, Quota: 4 << 20, CompactInterval: -1})
	var err error
	var keys []string
	var revs []int64
	testkit.Eventually(t, "a write is refused", func() bool { // etcd looks at the size of its file from time to time
		var rev int64
		key := fmt.Sprintf("g/p/%d", len(keys))
		if rev, err = s.Create(ctx, key, make([]byte, 1<<20)); err != nil {
			return true
		}
		keys, revs = append(keys, key), append(revs, rev)
		return false
	})
	if !errors.Is(err, store.ErrNoSpace) || !strings.Contains(err.Error(), "its quota is 4 MiB") {
		t.Fatalf("filling the database: got %v after %d writes", err, len(keys))
	}
	var last int64
	for i, key := range keys {
		if last, err = s.Delete(ctx, key, revs[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Compact(ctx, last); err != nil {
		t.Fatal(err)
	}
	testkit.EventuallySay(t, func() (string, bool) {
		_, err := s.Create(ctx, "g/p/new", []byte("1"))
		return fmt.Sprintf("a write after deleting and compacting: %v", err), err == nil
	})
}

// TestFatal provokes an error to which etcd reacts by ending the process.
func TestFatal(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := openTest(t, Config{Fast: true})
	rev, err := s.Create(ctx, "g/p/a", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Watch(ctx, "", rev)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	e := s.(*client).server.(*embedded)
	log := newLogger(slog.New(slog.NewTextHandler(&out, nil)), &e.quiet, e.die)
	go log.Fatal("failed to save Raft hard state and entries", zap.Error(errors.New("no space left on device")))
	<-e.dead
	if _, err = s.Create(ctx, "g/p/b", nil); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("create: got %v", err)
	}
	if _, err = w.Next(ctx); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("watch: got %v", err)
	}
	if err = s.Ping(ctx); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("ping: got %v", err)
	}
	if it, err := s.Get(ctx, "g/p/a"); err != nil || it.Rev != rev {
		t.Errorf("get: got %v, %v", it, err)
	}
	if got := out.String(); got != "" {
		t.Errorf("log: got %q, want nothing: whoever runs the store says that it failed", got)
	}
	s.Close()
}

func TestLog(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(slog.New(slog.NewTextHandler(&out, nil)), &(&embedded{}).quiet, func(error) {})
	log.Info("nothing")
	log.With(zap.String("a", "1")).Warn("something", zap.Int("b", 2))
	log.Warn("check file permission")
	got := out.String()
	if strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN msg=something from=etcd a=1 b=2") {
		t.Errorf("got %q", got)
	}
}
