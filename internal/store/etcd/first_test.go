package etcd

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"

	"github.com/keelson-io/keelson/internal/store"
)

// This file starts in directories as a first start leaves them that is killed at any step, and in directories of other servers.

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "etcd")
	if out, err := exec.Command("cp", "-a", dir, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return to
}

func makeDirs(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if err := os.MkdirAll(p, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func writeTo(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFirstStartStates holds that a start continues from every state in which a first start may be
// killed, and never replaces a store that has data.
func TestFirstStartStates(t *testing.T) {
	ctx := context.Background()
	c := Config{Fast: true, Logger: slog.New(slog.DiscardHandler)}
	used, _ := closedStore(t, 3, 10)
	empty := Config{DataDir: t.TempDir(), Fast: true, Logger: c.Logger}
	if made, err := Create(ctx, empty); !made || err != nil {
		t.Fatalf("got %v, %v", made, err)
	}
	for name, state := range map[string]struct {
		from string // the directory to begin with
		then func(t *testing.T, dir string)
		has  bool // the store is the used one
		want string
	}{
		"nothing":         {},
		"lock":            {then: func(t *testing.T, dir string) { writeTo(t, filepath.Join(dir, lockFile), "") }},
		"empty staging":   {then: func(t *testing.T, dir string) { makeDirs(t, filepath.Join(dir, firstDir)) }},
		"staging, no log": {then: func(t *testing.T, dir string) { makeDirs(t, filepath.Join(dir, firstDir, memberDir, snapDir)) }},
		"staging, log being made": {then: func(t *testing.T, dir string) {
			tmp := filepath.Join(dir, firstDir, memberDir, walDir+".tmp")
			makeDirs(t, filepath.Join(dir, firstDir, memberDir, snapDir), tmp)
			writeTo(t, filepath.Join(tmp, "0.tmp"), "half")
		}},
		"complete, not moved": {from: empty.DataDir, then: func(t *testing.T, dir string) {
			makeDirs(t, filepath.Join(dir, firstDir))
			if err := os.Rename(filepath.Join(dir, memberDir), filepath.Join(dir, firstDir, memberDir)); err != nil {
				t.Fatal(err)
			}
		}},
		"moved":             {from: empty.DataDir, then: func(t *testing.T, dir string) { makeDirs(t, filepath.Join(dir, firstDir)) }},
		"used":              {from: used, has: true},
		"used, and staging": {from: used, has: true, then: func(t *testing.T, dir string) { makeDirs(t, filepath.Join(dir, firstDir)) }},
		"used, and all of a staging": {from: used, has: true, then: func(t *testing.T, dir string) {
			if err := os.CopyFS(filepath.Join(dir, firstDir), os.DirFS(empty.DataDir)); err != nil {
				t.Fatal(err)
			}
		}},
		"used, and the mark of an earlier release": {from: used, then: func(t *testing.T, dir string) { writeTo(t, filepath.Join(dir, firstDir), "") },
			want: "remove the file"},
		"the mark of an earlier release": {then: func(t *testing.T, dir string) { writeTo(t, filepath.Join(dir, firstDir), "") }},
		"staging is a link": {then: func(t *testing.T, dir string) {
			if err := os.Symlink(used, filepath.Join(dir, firstDir)); err != nil {
				t.Fatal(err)
			}
		}},
		"member is empty": {then: func(t *testing.T, dir string) { makeDirs(t, filepath.Join(dir, memberDir)) }, want: "member/wal: it is missing"},
		"member is a link to nothing": {then: func(t *testing.T, dir string) {
			if err := os.Symlink(filepath.Join(dir, "unmounted"), filepath.Join(dir, memberDir)); err != nil {
				t.Fatal(err)
			}
		}, want: "is a link to what is not there"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "etcd")
			if state.from != "" {
				dir = copyOf(t, state.from)
			}
			makeDirs(t, dir)
			if state.then != nil {
				state.then(t, dir)
			}
			c := c
			c.DataDir = dir
			s, err := Open(ctx, c)
			if state.want != "" {
				if err == nil || !strings.Contains(err.Error(), state.want) {
					t.Errorf("got %v, want %q", err, state.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			page, err := s.List(ctx, "things/", store.ListOptions{})
			if err != nil || (len(page.Items) == 3) != state.has {
				t.Errorf("got %d things, %v, want the used store: %v", len(page.Items), err, state.has)
			}
			if _, err := os.Lstat(filepath.Join(dir, firstDir)); !state.has && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the staging directory is left behind: %v", err)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(used, memberDir, snapDir, dbFile)); err != nil {
		t.Errorf("what a link led to: %v", err)
	}
}

// TestForeignStores checks the errors for directories with other servers' data.
func TestForeignStores(t *testing.T) {
	used, _ := closedStore(t, 3, 10)
	edit := func(f func(tx backend.UnsafeWriter)) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			be := backend.NewDefaultBackend(zap.NewNop(), filepath.Join(dir, memberDir, snapDir, dbFile))
			tx := be.BatchTx()
			tx.LockOutsideApply()
			f(tx)
			tx.Unlock()
			be.ForceCommit()
			if err := be.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string
	}{
		"member of a cluster": {edit(func(tx backend.UnsafeWriter) {
			tx.UnsafePut(schema.Members, []byte("1234abcd"), []byte(`{"id":305441741,"peerURLs":["http://a:2380"],"name":"a"}`))
		}), "it is that of a member of a cluster of 2"},
		"database of another member": {edit(func(tx backend.UnsafeWriter) {
			tx.UnsafeDelete(schema.Members, []byte("8e9e05c52164694d"))
			tx.UnsafePut(schema.Members, []byte("1234abcd"), []byte(`{"id":305441741,"peerURLs":["http://a:2380"],"name":"a"}`))
		}), "of different members"},
		"newer etcd": {edit(func(tx backend.UnsafeWriter) {
			tx.UnsafePut(schema.Meta, []byte("storageVersion"), []byte("3.99.0"))
		}), "it was last used by etcd 3.99, and this keelson has etcd 3."},
		"newer cluster": {edit(func(tx backend.UnsafeWriter) {
			tx.UnsafePut(schema.Cluster, []byte("clusterVersion"), []byte("3.99.0"))
		}), "it was last used by etcd 3.99, and this keelson has etcd 3."},
		"not etcd's": {edit(func(tx backend.UnsafeWriter) { tx.UnsafeDeleteBucket(schema.Key) }), "database of another program"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyOf(t, used)
			c.change(t, dir)
			s, err := Open(context.Background(), Config{DataDir: dir, Fast: true, Logger: slog.New(slog.DiscardHandler)})
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestSnapshotThatTheLogLacks holds that the log decides which snapshot counts: a server that is
// killed after it wrote a snapshot, and before it logged it, leaves a newer file.
func TestSnapshotThatTheLogLacks(t *testing.T) {
	dir, _ := closedStore(t, 3, 10)
	writeTo(t, filepath.Join(dir, memberDir, snapDir, "0000000000000002-0000000000ffffff.snap"), "half")
	if err := checkStore(dir, nil); err != nil {
		t.Errorf("with a newer snapshot: got %v", err)
	}
	segments, err := filepath.Glob(filepath.Join(dir, memberDir, walDir, "*.wal"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("got %v, %v", segments, err)
	}
	log, err := os.ReadFile(segments[0])
	if err == nil {
		err = os.Truncate(segments[0], int64(len(bytes.TrimRight(log, "\x00"))/2))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := checkStore(dir, nil); err == nil {
		t.Error("with a log that was cut off, too: got no error")
	}
}

// TestInterruptedRestore holds that no store is created beside what a killed restore left, and that
// a restore can be run again.
func TestInterruptedRestore(t *testing.T) {
	s := openTest(t, Config{})
	if _, err := s.Create(context.Background(), "things/kept", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	file, data := take(t, s), t.TempDir()
	dir := filepath.Join(data, "etcd")
	if err := os.MkdirAll(filepath.Join(dir+".part", "etcd", "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := "Run keelson snapshot restore --data-dir " + data + " FILE again"
	if _, err := Exists(dir); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	if _, err := Create(context.Background(), Config{DataDir: dir, Fast: true}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	if err := Restore(file, dir, slog.Default()); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(data); len(left) != 1 {
		t.Errorf("got %v, want the store alone", left)
	}
	again := openTest(t, Config{DataDir: dir})
	if page, err := again.List(context.Background(), "things/", store.ListOptions{}); err != nil || len(page.Items) != 1 {
		t.Errorf("got %v, %v, want one thing", page, err)
	}
}
