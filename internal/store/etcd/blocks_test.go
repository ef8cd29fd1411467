package etcd

// This file tests that the database has its blocks before it needs them.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestDatabaseHasBlocks looks at the file of a store that is opened, filled, defragmented and opened again.
func TestDatabaseHasBlocks(t *testing.T) {
	ctx := context.Background()
	config := Config{DataDir: t.TempDir(), Fast: true}
	s := openTest(t, config)
	e := s.(*client).server.(*embedded)
	path := filepath.Join(config.DataDir, memberDir, snapDir, dbFile)
	if err := allocateBlocks(path, 0, 1<<20); err != nil {
		t.Skip(err)
	}
	stat := func() os.FileInfo {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	// check wants all pages to have blocks, and so many bytes beyond them.
	check := func(when string, ahead int64) {
		t.Helper()
		used := e.Backend().Size()
		if got := allocatedBytes(stat()); got < used+ahead {
			t.Errorf("%s: got %d bytes of blocks for %d bytes of pages, want %d more", when, got, used, ahead)
		}
	}
	check("opened", databaseLow)
	size := stat().Size()
	if size > databaseLow {
		t.Errorf("the file has %d bytes: its size must not change", size)
	}
	write := func(prefix string) {
		t.Helper()
		for i := range 50 {
			if _, err := s.Create(ctx, fmt.Sprintf("g/p/%s%d", prefix, i), make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
			// The look that was due at the latest askBytes ago left databaseLow at least.
			check("writing", databaseLow-2*askBytes-4<<20)
		}
	}
	write("a")
	if err := e.Backend().Defrag(); err != nil {
		t.Fatal(err)
	}
	e.space.begin()
	check("defragmented", databaseLow)
	write("b")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := allocatedBytes(stat())
	if got := reservedBefore(path); got < databaseLow-2*askBytes-4<<20 {
		t.Errorf("closed: got %d reserved bytes, want %d at least", got, databaseLow-2*askBytes-4<<20)
	}
	s = openTest(t, config)
	e = s.(*client).server.(*embedded)
	check("opened again", databaseLow)
	if got := allocatedBytes(stat()); got > before+databaseAhead {
		t.Errorf("opened again: got %d bytes of blocks, want %d at most", got, before+databaseAhead)
	}
}

// TestReserve is about file systems with little room, and those that reserve nothing.
func TestReserve(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const mib = 1 << 20
	for _, c := range []struct {
		name       string
		free, room int64 // of an empty disk, as reported and as it is
		err        error // of an allocation that finds no room
		used       []int64
		want       []int64
		calls      int
	}{
		{"room", 1000 * mib, 1000 * mib, nil, []int64{0, 3 * mib, 5 * mib}, []int64{32 * mib, 29 * mib, 32 * mib}, 2},
		{"some room is left free", 20 * mib, 20 * mib, nil, []int64{0, mib}, []int64{12 * mib, 11 * mib}, 1},
		{"no room", 8 * mib, 8 * mib, nil, []int64{0}, []int64{0}, 0},
		{"less room than is reported", 100 * mib, 10 * mib, syscall.ENOSPC, []int64{0}, []int64{8 * mib}, 3},
		{"quota", 100 * mib, 0, syscall.EDQUOT, []int64{0}, []int64{0}, 6},
		{"not possible", 1000 * mib, 0, syscall.EOPNOTSUPP, []int64{0, 0}, []int64{0, 0}, 1},
	} {
		calls, used := 0, int64(0)
		d := newDatabaseBlocks(path, func() int64 { return used })
		d.allocate = func(_ string, offset, size int64) error {
			if calls++; offset+size > c.room {
				return c.err
			}
			return nil
		}
		var got []int64
		for _, used = range c.used {
			ahead, _ := d.reserve(c.free-d.end, 0)
			got = append(got, ahead)
		}
		if !slices.Equal(got, c.want) || calls != c.calls {
			t.Errorf("%s: got %d bytes in %d calls, want %d in %d", c.name, got, calls, c.want, c.calls)
		}
	}
}
