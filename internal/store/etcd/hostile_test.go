package etcd

// This file restores snapshots that were changed on purpose, with correct checksums, so that the process
// would panic, fault or loop.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/keelson-io/keelson/internal/store"
)

// sealed returns a snapshot with a database and its checksum.
func sealed(db []byte) []byte {
	sum := sha256.Sum256(db)
	return append(bytes.Clone(db), sum[:]...)
}

// pick returns one of several values.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// mutations are the ways to change a database. used has its pages that are not empty.
var mutations = map[string]func(r *rand.Rand, db []byte, used []int) []byte{
	"header": func(r *rand.Rand, db []byte, used []int) []byte {
		p := db[pick(r, used...)*os.Getpagesize():]
		binary.NativeEndian.PutUint16(p[8:], pick[uint16](r, 1, 2, 4, 16, 0, 65535))
		if r.IntN(10) < 7 {
			binary.NativeEndian.PutUint16(p[10:], pick[uint16](r, 0, 1, 1000, 65535))
		}
		if r.IntN(2) == 0 {
			binary.NativeEndian.PutUint32(p[12:], pick[uint32](r, 0, 1, 1<<20, 1<<32-1))
		}
		return db
	},
	"meta": func(r *rand.Rand, db []byte, _ []int) []byte {
		for i := range 2 {
			setMeta(db, i, pick(r, 0, 8, 12, 16, 24, 32, 40, 48), pick(r, 0, 1, 2, 3, 1<<31, 1<<62, 1<<64-1, uint64(r.IntN(200))))
		}
		return db
	},
	"one meta": func(r *rand.Rand, db []byte, _ []int) []byte {
		setMeta(db, r.IntN(2), pick(r, 0, 8, 12, 16, 24, 32, 40, 48), pick(r, 0, 1, 2, 3, 1<<31, 1<<62, 1<<64-1, uint64(r.IntN(200))))
		return db
	},
	"bits": func(r *rand.Rand, db []byte, used []int) []byte {
		for range pick(r, 1, 5, 50) {
			db[pick(r, used...)*os.Getpagesize()+r.IntN(os.Getpagesize())] ^= 1 << r.IntN(8)
		}
		return db
	},
	"element": func(r *rand.Rand, db []byte, used []int) []byte {
		e := db[pick(r, used...)*os.Getpagesize()+pageHeader+elementSize*r.IntN(20):]
		for i := range 4 {
			binary.NativeEndian.PutUint32(e[4*i:], pick[uint32](r, 0, 1, 4096, 1<<31, 1<<32-1))
		}
		return db
	},
	"itself": func(r *rand.Rand, db []byte, used []int) []byte { // a branch that is its own child
		id := pick(r, used...)
		p := db[id*os.Getpagesize():]
		binary.NativeEndian.PutUint16(p[8:], branchPage)
		binary.NativeEndian.PutUint16(p[10:], 1)
		binary.NativeEndian.PutUint32(p[16:], 16)
		binary.NativeEndian.PutUint32(p[20:], 0)
		binary.NativeEndian.PutUint64(p[24:], uint64(id))
		return db
	},
	"cut": func(r *rand.Rand, db []byte, _ []int) []byte {
		at := r.IntN(len(db))
		return db[:at-at%pick(r, 1, 512, os.Getpagesize())]
	},
	"revision": func(r *rand.Rand, db []byte, _ []int) []byte { // of a key, or of a compaction
		at := r.IntN(len(db))
		if i := bytes.Index(db[at:], []byte("\x00_\x00\x00")); i >= 0 {
			db[at+i+pick(r, -6, -7, 0, 1, 2)] ^= pick[byte](r, 0x80, 0x40, 1)
		}
		return db
	},
}

// setMeta sets a field of the first or the second page, and its checksum.
func setMeta(db []byte, page, at int, value uint64) {
	m := db[page*os.Getpagesize()+pageHeader:]
	binary.NativeEndian.PutUint64(m[at:], value)
	sum := fnv.New64a()
	sum.Write(m[:metaSum])
	binary.NativeEndian.PutUint64(m[metaSum:], sum.Sum64())
}

// usedPages returns the pages of a database that are not empty.
func usedPages(db []byte) (used []int) {
	size := os.Getpagesize()
	for i := range len(db) / size {
		if !bytes.Equal(db[i*size:(i+1)*size], make([]byte, size)) {
			used = append(used, i)
		}
	}
	return used
}

// snapshotForHarm returns the database of a snapshot with old values and deleted keys.
func snapshotForHarm(t *testing.T) []byte {
	t.Helper()
	ctx, s := context.Background(), openTest(t, Config{})
	for i := range 200 {
		key := fmt.Sprintf("things/%03d", i)
		rev, err := s.Create(ctx, key, bytes.Repeat([]byte("x"), 500))
		if err == nil && i%10 == 0 {
			rev, err = s.Update(ctx, key, bytes.Repeat([]byte("y"), 5000), rev)
		}
		if err == nil && i%20 == 0 {
			_, err = s.Delete(ctx, key, rev)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(take(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return b[:len(b)-sha256.Size]
}

// TestHostileSnapshots holds that a snapshot is restored completely or refused, whatever was changed
// in it. The error names the file and says what to do.
func TestHostileSnapshots(t *testing.T) {
	db := snapshotForHarm(t)
	used, dir := usedPages(db), t.TempDir()
	file := filepath.Join(dir, "changed.db")
	rounds, accepted, restored, refused, opened := 50, 0, 0, 0, 0
	if testing.Short() {
		rounds = 15
	}
	for name, mutate := range mutations {
		r := rand.New(rand.NewPCG(1, uint64(len(name))))
		for round := range rounds {
			text := sealed(mutate(r, bytes.Clone(db), used))
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			inventory, checkErr := ReadInventory(file, func(v []byte) string { return string(v) })
			if checkErr == nil {
				if accepted++; accepted%3 != 0 {
					continue // the slow part of a restore is the log that it makes
				}
			}
			data := filepath.Join(dir, "data")
			err := Restore(file, filepath.Join(data, "etcd"), slog.New(slog.DiscardHandler))
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%s, round %d: it took %v", name, round, took)
			}
			if (err == nil) != (checkErr == nil) {
				t.Errorf("%s, round %d: the check says %v, and the restore %v", name, round, checkErr, err)
			}
			if err != nil {
				refused++
				if text := err.Error(); !strings.Contains(text, file) || !strings.Contains(text, "use another snapshot") || len(text) > 1000 {
					t.Errorf("%s, round %d: got %q", name, round, text)
				}
				if left, _ := filepath.Glob(data + "*"); len(left) > 0 {
					t.Errorf("%s, round %d: left behind: %v", name, round, left)
				}
				continue
			}
			if restored++; restored%10 == 0 {
				opened++
				openHarmed(t, filepath.Join(data, "etcd"), inventory)
			}
			if err := os.RemoveAll(data); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d snapshots were refused, %d of %d others restored, %d of them opened", refused, restored, accepted, opened)
	if refused < rounds || accepted < rounds {
		t.Error("want more of both")
	}
}

// openHarmed opens a restored store, and looks whether it has everything that the snapshot has.
func openHarmed(t *testing.T, dir string, inventory *Inventory) {
	t.Helper()
	s, err := Open(context.Background(), Config{DataDir: dir, Fast: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Errorf("a snapshot was restored that cannot be opened: %v", err)
		return
	}
	defer s.Close()
	page, err := s.List(context.Background(), "things/", store.ListOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	for _, item := range page.Items {
		if inventory.Labels["/registry/"+item.Key] != string(item.Value) {
			t.Errorf("%s differs from the snapshot's", item.Key)
		}
	}
	want := 0
	for key := range inventory.Labels {
		if strings.HasPrefix(key, "/registry/things/") {
			want++
		}
	}
	if len(page.Items) != want {
		t.Errorf("got %d things, want %d", len(page.Items), want)
	}
}

// TestContents holds what a record of a snapshot may be.
func TestContents(t *testing.T) {
	encode := func(m proto.Message) string {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	rev := func(main, sub uint64) string {
		b := append(binary.BigEndian.AppendUint64(nil, main), '_')
		return string(binary.BigEndian.AppendUint64(b, sub))
	}
	value := encode(&mvccpb.KeyValue{Key: []byte("a"), CreateRevision: 2, ModRevision: 3, Version: 2})
	for _, c := range []struct{ bucket, key, value, want string }{
		{"key", rev(3, 0), value, ""},
		{"key", rev(3, 0) + "t", encode(&mvccpb.KeyValue{Key: []byte("a")}), ""},
		{"key", rev(1_000_000_003, 0), "", ""}, // of an earlier restore
		{"key", rev(4, 0), value, "got version 2 of revision 3"},
		{"key", rev(3, 0) + "t", "", "it deletes no key"},
		{"key", rev(3, 0) + "x", value, "malformed"},
		{"key", rev(3, 0)[:16], value, "malformed"},
		{"key", strings.Replace(rev(3, 0), "_", "-", 1), value, "malformed"},
		{"key", rev(0, 0), value, "got revision 0"},
		{"key", rev(1<<63, 0), value, "want less than"},
		{"key", rev(1<<62, 0), value, "want less than"},
		{"key", rev(3, 1<<63), value, "want less than"},
		{"key", rev(3, 0), "\xff", "cannot parse"},
		{"key", rev(3, 0), encode(&mvccpb.KeyValue{ModRevision: 3}), "the value has no key"},
		{"key", "", value, "got a key of 0 bytes"},
		{"meta", "finishedCompactRev", rev(3, 0), ""},
		{"meta", "finishedCompactRev", "3", "malformed"},
		{"meta", "scheduledCompactRev", rev(1<<63, 0), "want less than"},
		{"meta", "consistent_index", "1234567", "want 8"},
		{"meta", "term", "", "want 8"},
		{"meta", "confState", "{", "unexpected end"},
		{"meta", "storageVersion", "3.5.0", ""},
		{"meta", "storageVersion", "x", "No Major.Minor.Patch"},
		{"meta", "storageVersion", "99.0.0", "use a newer keelson"},
		{"cluster", "clusterVersion", "3.6.18446744073709551615", "use a newer keelson"},
		{"cluster", "clusterVersion", strings.Repeat("3", 1000), "got a version of 1000 bytes"},
		{"cluster", "downgrade", `{"target-version":"x","enabled":true}`, "No Major.Minor.Patch"},
		{"cluster", "downgrade", `{"enabled":false}`, ""},
		{"lease", "12345678", "\xff", "cannot parse"},
		{"lease", "12345678", "", "want the one of the key"},
		{"alarm", "\xff", "", "cannot parse"},
		{"members", "x", "x", ""}, // a restore leaves them out
	} {
		err := new(contents).check(c.bucket, []byte(c.key), []byte(c.value))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, %q: got %v, want %q", c.bucket, c.key, err, c.want)
		}
	}
	var twice contents
	if err := twice.check("key", []byte(rev(3, 0)), []byte(value)); err != nil {
		t.Error(err)
	}
	if err := twice.check("key", []byte(rev(3, 0)+"t"), []byte(value)); err == nil || !strings.Contains(err.Error(), "appears twice") {
		t.Errorf("a revision again: got %v", err)
	}
}
