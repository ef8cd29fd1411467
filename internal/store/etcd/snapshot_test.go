package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store"
)

// take writes a snapshot of a store to a file.
func take(t *testing.T, s store.Store) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.(store.Snapshotter).Snapshot(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestRestore holds that a restored store has all writes acknowledged before the snapshot, and none
// after it.
func TestRestore(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, Config{})
	for i := range 100 {
		if _, err := s.Create(ctx, fmt.Sprintf("things/%03d", i), []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	for how, from := range map[string]store.Store{"embedded": s, "cluster": openTest(t, Config{Endpoints: []string{listen(t, s, nil)}})} {
		t.Run(how, func(t *testing.T) {
			file := take(t, from)
			lost, err := s.Create(ctx, "things/lost-"+how, []byte(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "deep", "etcd")
			if err := Restore(file, dir, slog.Default()); err != nil {
				t.Fatal(err)
			}
			again := openTest(t, Config{DataDir: dir})
			page, err := again.List(ctx, "things/", store.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range page.Items {
				if item.Key == "things/lost-"+how {
					t.Error("what came after the snapshot is there")
				}
			}
			if len(page.Items) < 100 {
				t.Errorf("got %d things, want 100", len(page.Items))
			}
			if page.Rev <= lost {
				t.Errorf("revision %d is not beyond %d, which clients remember", page.Rev, lost)
			}
			w, err := again.Watch(ctx, "things/", lost)
			if err == nil {
				_, err = w.Next(ctx)
				w.Close()
			}
			if !errors.Is(err, store.ErrCompacted) {
				t.Errorf("a watch from the lost time: got %v, want ErrCompacted", err)
			}
			if _, err := again.Create(ctx, "things/new", []byte(`{}`)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRestoreRefuses holds that files which are not snapshots are refused, and that nothing is
// overwritten or left behind.
func TestRestoreRefuses(t *testing.T) {
	file := take(t, openTest(t, Config{}))
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	withSum := func(b []byte) []byte {
		sum := sha256.Sum256(b)
		return append(bytes.Clone(b), sum[:]...)
	}
	renamed := bytes.ReplaceAll(whole[:len(whole)-32], []byte("key"), []byte("kex")) // it stays in order
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"cut off": {whole[:len(whole)-100], "only a part of one"},
		"empty":   {nil, "only a part of one"},
		"damaged": {damaged, "is damaged"},

		"a tarball":                 {make([]byte, 20*512), "only a part of one"},
		"a file with its sum":       {withSum(bytes.Repeat([]byte("text "), 1024)), "neither of its first two pages is whole"},
		"another program's, sealed": {withSum(renamed), "it is a database of another program"},
		"the database alone":        {whole[:len(whole)-32], "only a part of one"},
	} {
		if err := os.WriteFile(file, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		parent := t.TempDir()
		if err := Restore(file, filepath.Join(parent, "etcd"), slog.Default()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if left, _ := os.ReadDir(parent); len(left) > 0 {
			t.Errorf("%s: left behind: %v", name, left)
		}
	}
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Restore(file, full, slog.Default()); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("into a directory with something in it: got %v", err)
	}
}

func TestInventoryHasTheCurrentValueOfEachKey(t *testing.T) {
	ctx, s := context.Background(), openTest(t, Config{})
	must := func(rev int64, err error) int64 {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	must(s.Create(ctx, "things/kept", []byte("first")))
	changed := must(s.Create(ctx, "things/changed", []byte("first")))
	must(s.Update(ctx, "things/changed", []byte("second"), changed))
	deleted := must(s.Create(ctx, "things/deleted", []byte("first")))
	last := must(s.Delete(ctx, "things/deleted", deleted))
	file := take(t, s)
	got, err := ReadInventory(file, func(value []byte) string { return string(value) })
	if err != nil {
		t.Fatal(err)
	}
	things := map[string]string{}
	for key, label := range got.Labels {
		if strings.Contains(key, "/things/") {
			things[key] = label
		}
	}
	want := map[string]string{"/registry/things/kept": "first", "/registry/things/changed": "second"}
	if !maps.Equal(things, want) || got.Revision != last {
		t.Errorf("got %v at revision %d, want %v at %d", things, got.Revision, want, last)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadInventory(file, func([]byte) string { return "" }); err == nil {
		t.Error("half of a snapshot: got no error")
	}
}
