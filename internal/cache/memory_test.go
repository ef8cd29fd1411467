package cache

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store/mem"
)

// TestStoredIsCounted holds that the bytes of a cache are those of its objects after any changes.
func TestStoredIsCounted(t *testing.T) {
	r := newRig(t, Options{}, mem.Options{})
	res := r.cache.Resource("g/things")
	check := func(when string) {
		t.Helper()
		if err := res.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		res.Snapshot().Ascend("", func(o *Object) bool { want += o.memory(); return true })
		if got := r.cache.Stored(); got != want || res.Stored() != want {
			t.Errorf("%s: the cache counts %d bytes, the resource %d, want %d", when, got, res.Stored(), want)
		}
	}
	check("empty")
	var revs []int64
	for i := range 20 {
		rev, err := r.store.Create(t.Context(), fmt.Sprint("g/things/", i), make([]byte, 100*i))
		if err != nil {
			t.Fatal(err)
		}
		revs = append(revs, rev)
	}
	check("created")
	for i := range 10 {
		if _, err := r.store.Update(t.Context(), fmt.Sprint("g/things/", i), make([]byte, 5000), revs[i]); err != nil {
			t.Fatal(err)
		}
	}
	check("updated")
	for i := 10; i < 20; i++ {
		if _, err := r.store.Delete(t.Context(), fmt.Sprint("g/things/", i), revs[i]); err != nil {
			t.Fatal(err)
		}
	}
	check("deleted")
	r.cache.Drop("g/things")
	if got := r.cache.Stored(); got != 0 {
		t.Errorf("after Drop: the cache counts %d bytes, want 0", got)
	}
}

// TestObjectsThatKeepMore counts for objects of one resource what is made of them, through all changes.
func TestObjectsThatKeepMore(t *testing.T) {
	r := newRig(t, Options{Memory: map[string]func([]byte) int64{"g/heavy": func(raw []byte) int64 { return 10 * int64(len(raw)) }}}, mem.Options{})
	heavy, light := r.cache.Resource("g/heavy"), r.cache.Resource("g/heavier")
	want := func(when string, more int64) {
		t.Helper()
		r.fresh(heavy)
		r.fresh(light)
		plain := int64(0)
		for _, res := range []*Resource{heavy, light} {
			res.Snapshot().Ascend("", func(o *Object) bool { plain += o.memory(); return true })
		}
		if got := r.cache.Stored() - plain; got != more {
			t.Errorf("%s: %d bytes are counted beside what is stored, want %d", when, got, more)
		}
		if made := r.cache.Made(); made != more {
			t.Errorf("%s: %d bytes are made of what is stored, want %d", when, made, more)
		}
	}
	rev := r.create("g/heavy/a", strings.Repeat("x", 100))
	r.create("g/heavier/a", strings.Repeat("x", 100))
	want("created", 900)
	rev = r.update("g/heavy/a", strings.Repeat("x", 1000), rev)
	want("updated", 9000)
	r.delete("g/heavy/a", rev)
	want("deleted", 0)
	r.cache.o.Beside = func(raw []byte) int64 { return 7 }
	if got := light.Memory(make([]byte, 50)); got != 57 {
		t.Errorf("with 7 bytes beside: got %d, want 57", got)
	}
	r.cache.o.Beside = nil
	if heavy.Memory(make([]byte, 50)) != 500 || light.Memory(make([]byte, 50)) != 50 {
		t.Errorf("50 bytes: got %d and %d, want 500 and 50", heavy.Memory(make([]byte, 50)), light.Memory(make([]byte, 50)))
	}
}

// TestStatesHaveBytes asks for old states of two resources, and counts what is kept of them.
func TestStatesHaveBytes(t *testing.T) {
	const most = 200_000
	r := newRig(t, Options{StateBytes: most}, mem.Options{})
	var revs []int64
	for i := range 30 {
		for _, plural := range []string{"a", "b"} {
			rev, err := r.store.Create(t.Context(), fmt.Sprint("g/", plural, "/", i), make([]byte, 20_000))
			if err != nil {
				t.Fatal(err)
			}
			revs = append(revs, rev)
		}
	}
	a, b := r.cache.Resource("g/a"), r.cache.Resource("g/b")
	for _, rev := range revs {
		for _, res := range []*Resource{a, b} {
			if err := res.Fresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := res.SnapshotAt(rev, res.Prefix()); err != nil {
				t.Fatal(err)
			}
			// A state is read from the store here: the log begins after it.
			held, own := r.cache.StateBytes(), res.Stored()
			if held > max(most, own) {
				t.Fatalf("old states hold %d bytes, want at most %d, or one state", held, most)
			}
		}
	}
	if r.cache.StateBytes() == 0 || len(a.kept.wanted)+len(b.kept.wanted) == 0 {
		t.Error("no old state is kept")
	}
	r.cache.ShedStates()
	if n := r.cache.StateBytes(); n != 0 {
		t.Errorf("%d bytes are counted after all states were dropped", n)
	}
}
