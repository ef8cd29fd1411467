//go:build unix

package datadir

import (
	"errors"
	"os"
	"testing"
)

func TestLock(t *testing.T) {
	dir := t.TempDir()
	locked := func(want bool) {
		t.Helper()
		if got, err := IsLocked(dir); got != want || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	locked(false)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("got %v, %v, want no file", entries, err)
	}
	held, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	locked(true)
	if _, err := Lock(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("a second lock: got %v", err)
	}
	held.Close()
	locked(false)
	again, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}
