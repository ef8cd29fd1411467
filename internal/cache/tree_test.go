package cache

// This file holds tests of the tree and of objects.

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/keelson-io/keelson/internal/meta"
)

func TestTree(t *testing.T) {
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		var tree *node
		plain := map[string]*Object{}
		size := 40 << (2 * seed)
		for n := range 6000 {
			key := fmt.Sprintf("k/%d/%d", rnd.IntN(3), rnd.IntN(size))
			if n%3000 > 2000 || rnd.IntN(3) == 0 {
				var old *Object
				if tree, old = tree.remove(key); old != plain[key] {
					t.Fatalf("seed %d: removed %v, want %v", seed, old, plain[key])
				}
				delete(plain, key)
			} else {
				o := &Object{Key: key}
				var old *Object
				if tree, old = tree.insert(o); old != plain[key] {
					t.Fatalf("seed %d: replaced %v, want %v", seed, old, plain[key])
				}
				plain[key] = o
			}
			if n%500 == 0 {
				compareTree(t, tree, plain, rnd)
			}
		}
		compareTree(t, tree, plain, rnd)
	}
}

// compareTree compares a tree with a map.
func compareTree(t *testing.T, tree *node, plain map[string]*Object, rnd *rand.Rand) {
	t.Helper()
	if !tree.check() || tree.len() != len(plain) {
		t.Fatalf("broken tree of %d, want %d", tree.len(), len(plain))
	}
	keys := slices.Sorted(maps.Keys(plain))
	for range 50 {
		from := fmt.Sprintf("k/%d/%d", rnd.IntN(4), rnd.IntN(1000))
		i := sort.SearchStrings(keys, from)
		if tree.rank(from) != i {
			t.Fatalf("rank of %s: got %d, want %d", from, tree.rank(from), i)
		}
		var got []string
		tree.ascend(from, func(o *Object) bool {
			got = append(got, o.Key)
			return len(got) < 70
		})
		if want := keys[i:min(i+70, len(keys))]; !slices.Equal(got, want) {
			t.Fatalf("from %s: got %v, want %v", from, got, want)
		}
		prefix := from[:2+rnd.IntN(len(from)-1)]
		n := 0
		for _, k := range keys {
			if len(k) >= len(prefix) && k[:len(prefix)] == prefix {
				n++
			}
		}
		if got := (Snapshot{root: tree}).Count(prefix); got != n {
			t.Fatalf("count of %s: got %d, want %d", prefix, got, n)
		}
	}
}

func TestBuilder(t *testing.T) {
	for _, n := range []int{0, 1, 31, 32, 33, 64, 1023, 1024, 1025, 40000} {
		var b builder
		for i := range n {
			b.add(&Object{Key: fmt.Sprintf("%06d", i)})
		}
		tree := b.tree()
		if tree.len() != n || !tree.check() {
			t.Errorf("tree of %d is broken", n)
		}
		tree, _ = tree.insert(&Object{Key: "000000x"})
		tree, _ = tree.remove("000000")
		if !tree.check() {
			t.Errorf("tree of %d is broken after changes", n)
		}
	}
}

// counter renders, and counts how often; it fails as often as it is told.
type counter struct {
	n, fail  int
	identity meta.RendererID
}

func (c *counter) Identity() *meta.RendererID { return &c.identity }

func (c *counter) Render(raw []byte, rev int64) (*meta.View, error) {
	c.n++
	if c.n <= c.fail {
		return nil, errors.New("no")
	}
	return &meta.View{JSON: fmt.Appendf(nil, "%s@%d", raw, rev)}, nil
}

func TestView(t *testing.T) {
	o := &Object{Key: "k", Rev: 5, Raw: []byte("x")}
	rs := []*counter{{}, {}, {fail: 1}, {}}
	if _, err := o.View(rs[2]); err == nil || o.Known(rs[2]) != nil {
		t.Errorf("got error %v, want one, and that it is not remembered", err)
	}
	for range 3 {
		for _, r := range rs[:3] {
			v, err := o.View(r)
			if err != nil || string(v.JSON) != "x@5" || o.Known(r) == nil {
				t.Errorf("got %v, %v", v, err)
			}
		}
	}
	for i, r := range rs[:3] {
		if r.n != 1+r.fail {
			t.Errorf("renderer %d was called %d times, want %d", i, r.n, 1+r.fail)
		}
	}
	at := o.At(7)
	if at.Rev != 7 || o.At(7) != at || o.At(8) == at {
		t.Errorf("content at another revision: got %v", at)
	}
	o.View(rs[3]) // pushes out the first
	o.View(rs[1])
	o.View(rs[0])
	if rs[0].n != 2 || rs[1].n != 1 {
		t.Errorf("after a fourth renderer: got calls %d and %d, want 2 and 1", rs[0].n, rs[1].n)
	}
}
