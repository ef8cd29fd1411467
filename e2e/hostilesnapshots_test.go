package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// This file restores snapshots that somebody changed, with their checksums made again.

// savedSnapshot returns a snapshot of a server with some config maps.
func savedSnapshot(t *testing.T) string {
	t.Helper()
	s := startServer(t)
	for i := range 30 {
		putConfigMap(t, s, fmt.Sprintf("c%d", i), 2000)
	}
	file := filepath.Join(t.TempDir(), "backup.db")
	keelson(t, "snapshot", "save", "--kubeconfig", s.kubeconfig(), file)
	s.stop(syscall.SIGTERM)
	return file
}

// TestHostileSnapshots holds that status and restore refuse a snapshot whose pages were changed: with exit code 1, one line that names the
// file and says what to do, at once, and without leaving anything behind.
func TestHostileSnapshots(t *testing.T) {
	file := savedSnapshot(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	whole = whole[:len(whole)-sha256.Size]
	size := os.Getpagesize()
	meta := func(db []byte, at int, value uint64) { // sets a field of both meta pages, and their checksums
		for page := range 2 {
			m := db[page*size+16:]
			binary.NativeEndian.PutUint64(m[at:], value)
			sum := fnv.New64a()
			sum.Write(m[:56])
			binary.NativeEndian.PutUint64(m[56:], sum.Sum64())
		}
	}
	branches := func(db []byte, change func(page []byte)) []byte { // those that are in use, and free ones
		changed := 0
		for at := 2 * size; at+size <= len(db); at += size {
			if binary.NativeEndian.Uint16(db[at+8:]) == 1 {
				change(db[at : at+size])
				changed++
			}
		}
		if changed == 0 {
			t.Error("the snapshot has no branch page")
		}
		return db
	}
	for name, c := range map[string]struct {
		harm func(db []byte) []byte
		want string
	}{
		"no page size":          {func(db []byte) []byte { meta(db, 8, 0); return db }, "got a page size of 0 bytes"},
		"a huge page size":      {func(db []byte) []byte { meta(db, 8, 1<<31); return db }, "got a page size of 2147483648 bytes"},
		"free pages in a meta":  {func(db []byte) []byte { meta(db, 32, 1); return db }, "the list of free pages: page 1"},
		"free pages beyond":     {func(db []byte) []byte { meta(db, 32, 1<<31); return db }, "the list of free pages: page 2147483648"},
		"more pages than bytes": {func(db []byte) []byte { meta(db, 40, 1<<31); return db }, "the file ends early"},
		"a root beyond":         {func(db []byte) []byte { meta(db, 16, 1<<31); return db }, "page 2147483648"},
		"the last transaction":  {func(db []byte) []byte { meta(db, 48, 1<<64-1); return db }, "got transaction 18446744073709551615"},
		"an empty branch": {func(db []byte) []byte {
			return branches(db, func(p []byte) { binary.NativeEndian.PutUint16(p[10:], 0) })
		}, "it is empty"},
		"a branch that is its own child": {func(db []byte) []byte {
			return branches(db, func(p []byte) { copy(p[24:32], p[:8]) })
		}, "is used twice"},
		"half of a page": {func(db []byte) []byte { return db[:len(db)-len(db)%size-size/2] }, "the file ends early"},
		"a value that cannot be decoded": {func(db []byte) []byte {
			at := bytes.LastIndex(db, []byte("/registry/configmaps/")) - 2
			db[at] = 0xff
			return db
		}, `bucket "key"`},
	} {
		db := c.harm(bytes.Clone(whole))
		sum := sha256.Sum256(db)
		harmed := filepath.Join(t.TempDir(), "harmed.db")
		if err := os.WriteFile(harmed, append(db, sum[:]...), 0o600); err != nil {
			t.Fatal(err)
		}
		parent := t.TempDir()
		dir := filepath.Join(parent, "data")
		for _, args := range [][]string{{"snapshot", "status", harmed}, {"snapshot", "restore", "--data-dir", dir, harmed}} {
			began := time.Now()
			if text := refuses(t, c.want, args...); !strings.Contains(text, harmed) || !strings.Contains(text, "use another snapshot") {
				t.Errorf("%s: got %q, want the file and what to do in it", name, text)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%s: %s took %v", name, args[1], took)
			}
		}
		if left, _ := os.ReadDir(parent); len(left) > 0 {
			t.Errorf("%s: left behind: %v", name, left)
		}
	}
}
