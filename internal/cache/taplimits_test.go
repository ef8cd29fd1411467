package cache

import (
	"errors"
	"testing"

	"github.com/keelson-io/keelson/internal/store"
)

// TestTapsAreBounded lets more changes, and more bytes, wait for the reader of a tap than it holds: the reader learns that changes
// were lost, and nothing is held for it.
func TestTapsAreBounded(t *testing.T) {
	for _, test := range []struct {
		name        string
		size, most  int
		least, held int
	}{
		{"changes", 0, 70_000, 65_536, 0},
		{"bytes", 1 << 20, 100, 60, 0},
	} {
		tap := &Tap{wake: make(chan struct{}, 1)}
		value, held := make([]byte, test.size), 0
		for n := range test.most {
			tap.put([]store.Event{{Key: "k", Value: value}}, int64(n+1), false)
			held = max(held, len(tap.pending))
		}
		if held < test.least || held > 65_536 || held*test.size > 64<<20 || len(tap.pending) != 0 || !tap.lost {
			t.Errorf("%s: got at most %d changes and %d at the end, lost: %v", test.name, held, len(tap.pending), tap.lost)
		}
		if _, rev, err := tap.Next(t.Context()); !errors.Is(err, ErrExpired) || rev != int64(test.most) {
			t.Errorf("%s: got revision %d, %v", test.name, rev, err)
		}
	}
}
