package etcd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store"
)

// This file damages databases page by page.

// closedStore returns the directory of a store with things in it that nobody has open, and the bytes of its database.
func closedStore(t *testing.T, things, size int) (dir string, db []byte) {
	t.Helper()
	dir = t.TempDir()
	s, err := Open(context.Background(), Config{DataDir: dir, Fast: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range things {
		if _, err := s.Create(context.Background(), fmt.Sprintf("things/%04d", i), bytes.Repeat([]byte("x"), size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err = os.ReadFile(filepath.Join(dir, memberDir, snapDir, dbFile))
	if err != nil {
		t.Fatal(err)
	}
	return dir, db
}

// readDB reads a database, and returns the numbers of the pages that it has.
func readDB(t *testing.T, db []byte) (pages []uint64, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(file, db, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := &dbFileReader{file: f, visit: func(string, []byte, []byte) error { return nil }}
	if err := r.read(); err != nil {
		return nil, err
	}
	for id := range r.pages {
		if r.isSeen(id) {
			pages = append(pages, id)
		}
	}
	return pages, nil
}

// TestEveryPage damages every page in every way. Each damage of the form is found, and none causes
// more than an error.
func TestEveryPage(t *testing.T) {
	_, db := closedStore(t, 300, 900)
	pages, err := readDB(t, db)
	if err != nil || len(pages) < 50 {
		t.Fatalf("got %d pages, %v", len(pages), err)
	}
	pageSize := uint64(os.Getpagesize())
	random := rand.New(rand.NewPCG(1, 2))
	heads := 0
	for _, id := range pages {
		at := id * pageSize
		page := db[at : at+pageSize]
		if binary.NativeEndian.Uint64(page) != id { // it belongs to the page before it
			continue
		}
		heads++
		kept := bytes.Clone(page)
		for name, damage := range map[string]func(){
			"zeros":     func() { clear(page) },
			"random":    func() { fill(random, page) },
			"kind":      func() { page[8] ^= 0x40 },
			"another":   func() { copy(page, db[(pages[0])*pageSize:][:pageSize]); page[0]++ },
			"overflow":  func() { page[15] = 0xff },
			"many":      func() { page[10], page[11] = 0xff, 0xff },
			"positions": func() { fill(random, page[pageHeader:pageHeader+elementSize]) },
		} {
			damage()
			if _, err := readDB(t, db); err == nil && binary.NativeEndian.Uint16(kept[10:]) > 0 {
				t.Errorf("page %d: %s: no error", id, name)
			}
			copy(page, kept)
		}
		for range 20 { // anything else may be the contents of a value
			page[random.IntN(len(page))] ^= byte(1 + random.IntN(255))
			readDB(t, db)
			copy(page, kept)
		}
	}
	if heads < 20 {
		t.Errorf("got %d pages, want more", heads)
	}
}

func fill(r *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// TestKeysOutOfOrder holds that a key greater than the first one of the next page is found.
// Otherwise the keys after it could not be read, and their objects would be lost silently.
func TestKeysOutOfOrder(t *testing.T) {
	dir, db := closedStore(t, 300, 900)
	pages, err := readDB(t, db)
	if err != nil {
		t.Fatal(err)
	}
	pageSize := uint64(os.Getpagesize())
	for _, id := range pages {
		page := db[id*pageSize:]
		count := uint64(binary.NativeEndian.Uint16(page[10:]))
		if binary.NativeEndian.Uint64(page) != id || binary.NativeEndian.Uint16(page[8:]) != leafPage || count < 2 {
			continue
		}
		at := pageHeader + (count-1)*elementSize
		key := page[at+uint64(binary.NativeEndian.Uint32(page[at+4:])):][:binary.NativeEndian.Uint32(page[at+8:])]
		if len(key) != 17 { // a revision
			continue
		}
		key[0] = 0x7f
		_, err := readDB(t, db)
		if err == nil { // the last page of the bucket has no next one
			key[0] = 0
			continue
		}
		if !strings.Contains(err.Error(), "not those for which it is named") {
			t.Fatalf("page %d: %v", id, err)
		}
		if err := os.WriteFile(filepath.Join(dir, memberDir, snapDir, dbFile), db, 0o600); err != nil {
			t.Fatal(err)
		}
		var as *store.DamagedError
		if _, err := Open(context.Background(), Config{DataDir: dir, Fast: true}); !errors.As(err, &as) {
			t.Errorf("got %v, want a DamagedError", err)
		}
		return
	}
	t.Errorf("no page with a next one")
}
