package jsondoc

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestPartList holds the list against a slice.
func TestPartList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, start := range []int{0, 1, chunkItems - 1, chunkItems, 5 * chunkItems} {
		want := make([]*part, start)
		for i := range want {
			want[i] = new(part)
		}
		l := newPartList(slices.Clone(want))
		for step := range 8000 {
			grow := step/2000%2 == 0
			switch n := len(want); {
			case n == 0 || grow && r.IntN(4) > 0:
				i, v := r.IntN(n+1), new(part)
				if r.IntN(2) == 0 {
					i = 0
				}
				l.insert(i, v)
				want = slices.Insert(want, i, v)
			case r.IntN(4) == 0:
				i, v := r.IntN(n), new(part)
				l.set(i, v)
				want[i] = v
			default:
				i := r.IntN(n)
				l.remove(i)
				want = slices.Delete(want, i, i+1)
			}
			if n := len(want); n != l.n || n > 0 && l.at(n/2) != want[n/2] || step%500 == 0 && !slices.Equal(slices.Concat(l.chunks...), want) {
				t.Fatalf("step %d of %d items differs", step, n)
			}
		}
		i := 0
		for at, p := range l.all() {
			if at != i || p != want[i] {
				t.Fatalf("item %d differs", i)
			}
			i++
		}
	}
}

// TestJSONPatchEnds: a patch looks at its context before each operation.
func TestJSONPatchEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	patch := "[" + strings.Repeat(`{"op":"add","path":"/a","value":1},`, 10) + `{"op":"bogus"}]`
	if _, err := JSONPatch(ctx, []byte(`{}`), []byte(patch)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the context has ended", err)
	}
}
