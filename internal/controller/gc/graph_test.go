package gc

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unique"

	"github.com/keelson-io/keelson/internal/testkit"
)

// refers returns a node that refers to owners by their uids; the name of each is u and its uid, and its key is p/ and that.
func refers(g *graph, key string, uids ...string) *node {
	n := &node{key: key}
	for _, uid := range uids {
		n.refs = append(n.refs, reference{of: unique.Make(ownerType{"v1", "A"}), name: "u" + uid, uid: uid, place: g.placeOf("p/u" + uid)})
	}
	return n
}

// TestGraphLists compares the lists of a graph with plain ones through many changes.
func TestGraphLists(t *testing.T) {
	g, r := newGraph(), rand.New(rand.NewPCG(1, 2))
	plain := map[string][]string{} // uids by key
	for range 5000 {
		key := fmt.Sprint("k", r.IntN(30))
		if r.IntN(3) == 0 {
			g.drop(key)
			delete(plain, key)
		} else {
			var uids []string
			for range r.IntN(5) {
				uids = append(uids, fmt.Sprint(r.IntN(8)))
			}
			g.put(refers(g, key, uids...))
			plain[key] = uids
		}
		for i := range 8 {
			uid := fmt.Sprint(i)
			var want, got []string
			for key, uids := range plain {
				if slices.Contains(uids, uid) {
					want = append(want, key)
				}
			}
			slices.Sort(want)
			for _, n := range g.dependents(&node{key: "p/u" + uid, uid: uid}) {
				got = append(got, n.key)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("dependents of %s: got %v, want %v", uid, got, want)
			}
		}
	}
	for key := range plain {
		g.drop(key)
	}
	if len(g.nodes)+len(g.first)+len(g.unknown) > 0 {
		t.Errorf("an empty graph has %d nodes, %d places and %d unknown ones", len(g.nodes), len(g.first), len(g.unknown))
	}
}

// TestGraphRemembersLostOwners holds that a node keeps what was seen of its owners when it changes.
func TestGraphRemembersLostOwners(t *testing.T) {
	g := newGraph()
	g.put(refers(g, "a", "1", "2"))
	g.put(refers(g, "b", "2"))
	if got := g.lose("p/u2", func(*reference) bool { return true }); len(got) != 2 {
		t.Errorf("got %v, want a and b", got)
	}
	g.put(refers(g, "a", "2", "3"))
	if got := g.nodes["a"].lost(); len(got) != 1 || !got["2"] {
		t.Errorf("got %v, want 2", got)
	}
}

// TestHeavyReferencesAreCounted compares what Memory counts for references with what a graph keeps for them.
func TestHeavyReferencesAreCounted(t *testing.T) {
	const nodes, each = 300, 1000
	g, before, counted := newGraph(), testkit.Heap(), int64(0)
	for i := range nodes {
		text := []byte(`{"metadata":{"ownerReferences":[`)
		var uids []string
		for j := range each {
			uid := fmt.Sprintf("%x", i*each+j)
			uids = append(uids, uid)
			text = fmt.Appendf(text, `{"apiVersion":"v1","kind":"A","name":"u%s","uid":%q},`, uid, uid)
		}
		counted += Memory(text)
		g.put(refers(g, fmt.Sprint("k", i), uids...))
	}
	kept := testkit.Heap() - before
	runtime.KeepAlive(g)
	t.Logf("%d references keep %d bytes, %d for each; %d are counted", nodes*each, kept, kept/nodes/each, counted)
	if kept > counted || counted > 2*kept {
		t.Errorf("a graph of %d bytes counts for %d", kept, counted)
	}
}

// TestConcerns holds that the bytes of an object say whether the controller needs a node of it, wherever their words occur.
func TestConcerns(t *testing.T) {
	for text, want := range map[string]bool{
		`{"metadata":{"name":"a"}}`:                                                         false,
		`{"metadata":{"ownerReferences":[]}}`:                                               true,
		`{"data":{"otherReferences":"x"},"metadata":{"ownerReferences":[]}}`:                true,
		`{"data":{"otherReferences":"x","References":"y","ownerReferences ":"z"}}`:          false,
		`{"metadata":{"finalizers":["demo.io/a"]}}`:                                         false,
		`{"metadata":{"finalizers":["orphan"]}}`:                                            true,
		`{"data":{"sizers":"orphan"},"metadata":{"finalizers":["a","foregroundDeletion"]}}`: true,
		`{"data":{"sizers":"orphan"}}`:                                                      false,
	} {
		if got := concerns([]byte(text)); got != want {
			t.Errorf("concerns(%s) = %v, want %v", text, got, want)
		}
	}
}
