package jsondoc

import (
	gojson "encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// testShapes is a table of shapes: 1 is a resource, 2 its metadata (open), 3
// its spec (closed) with an array of 4.
func testShapes() []*Shape {
	return []*Shape{nil,
		NewShape([]string{"apiVersion", "kind", "metadata", "spec"}, []uint16{0, 0, 2, 3}, false),
		NewShape([]string{"labels", "name"}, nil, true),
		NewShape([]string{"items", "n", "sub"}, []uint16{4, 0, 3}, false),
		NewShape([]string{"k", "v"}, nil, true),
	}
}

// checkDoc checks the invariants of the package's comment below v.
func checkDoc(t *testing.T, v Value) {
	t.Helper()
	switch v.Kind() {
	case Array:
		for _, item := range v.Items() {
			if !item.Exists() {
				t.Fatal("absent item")
			}
			checkDoc(t, item)
		}
	case Object:
		last, count := "", 0
		for name, member := range v.Members() {
			if count > 0 && name <= last {
				t.Fatalf("key %q after %q", name, last)
			}
			if !member.Exists() {
				t.Fatalf("absent member %q", name)
			}
			if got := v.Get(name); got.Node != member.Node {
				t.Fatalf("Get(%q) is not the member", name)
			}
			checkDoc(t, member)
			last = name
			count++
		}
		if v.Len() != count {
			t.Fatalf("Len: got %d, want %d", v.Len(), count)
		}
	}
}

func TestSetAndRemove(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(d *Doc)
		want string
	}{
		{"root", func(d *Doc) { d.Set(IntNode(1)) }, `1`},
		{"slot", func(d *Doc) { d.Set(d.NewString("x"), "kind") }, `{"kind":"x"}`},
		{"shaped parent", func(d *Doc) { d.Set(d.NewString("x"), "metadata", "name") }, `{"metadata":{"name":"x"}}`},
		{"overflow", func(d *Doc) {
			d.Set(d.NewString("x"), "metadata", "zone")
			d.Set(d.NewString("y"), "metadata", "a")
			d.Set(IntNode(1), "metadata", "name")
			d.Set(IntNode(2), "metadata", "a")
			d.Set(NullNode, "metadata", "m", "n")
		}, `{"metadata":{"a":2,"m":{"n":null},"name":1,"zone":"x"}}`},
		{"map below a slot", func(d *Doc) {
			d.Set(d.NewString("2"), "metadata", "labels", "b")
			d.Set(d.NewString("1"), "metadata", "labels", "a")
			d.Set(d.NewString("3"), "metadata", "labels", "c")
		}, `{"metadata":{"labels":{"a":"1","b":"2","c":"3"}}}`},
		{"closed shape", func(d *Doc) {
			d.Set(IntNode(1), "spec", "n")
			d.Set(IntNode(2), "spec", "extra")
			d.Set(IntNode(3), "spec", "sub", "n")
		}, `{"spec":{"extra":2,"n":1,"sub":{"n":3}}}`},
		{"scalar parent", func(d *Doc) {
			d.Set(IntNode(1), "spec")
			d.Set(IntNode(2), "spec", "n")
		}, `{"spec":{"n":2}}`},
		{"remove", func(d *Doc) {
			d.Set(IntNode(1), "spec", "n")
			d.Set(IntNode(1), "kind")
			d.Set(IntNode(1), "metadata", "b")
			d.Set(IntNode(1), "metadata", "a")
			d.Set(IntNode(1), "metadata", "c")
			d.Remove("kind")
			d.Remove("spec", "n")
			d.Remove("spec", "bogus", "x")
			d.Remove("bogus")
			d.Remove("metadata", "b")
			d.Remove("metadata", "b")
			d.Remove("metadata", "labels", "x")
		}, `{"metadata":{"a":1,"c":1},"spec":{}}`},
		{"strings", func(d *Doc) { d.Set(d.NewStrings([]string{"a", "<", ""}), "spec", "items") }, `{"spec":{"items":["a","\u003c",""]}}`},
	} {
		var d Doc
		d.Reset(testShapes())
		d.SetRoot(d.NewShaped(1))
		tt.edit(&d)
		checkDoc(t, d.Root())
		if got := string(d.Root().AppendJSON(nil)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		var plain Doc
		tt.edit(&plain)
		if plain.root.Kind() == Absent {
			t.Fatalf("%s: nothing happened to an empty document", tt.name)
		}
		if !Equal(plain.Root(), d.Root()) {
			t.Errorf("%s: without shapes %s", tt.name, plain.Root().AppendJSON(nil))
		}
	}
}

func TestNewString(t *testing.T) {
	for _, s := range []string{"", "a", "a\xffb\xc3", "é", "\u2028\xff", "<\xed\xa0\x80>", "\ufffd"} {
		var d Doc
		d.SetRoot(d.NewString(s))
		want, err := gojson.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back Doc
		if err := Parse(&back, want); err != nil {
			t.Fatal(err)
		}
		if !Equal(d.Root(), back.Root()) || string(d.Root().AppendJSON(nil)) != string(back.Root().AppendJSON(nil)) || d.root.flags() != back.root.flags() {
			t.Errorf("NewString(%q): got %s, want %s", s, d.Root().AppendJSON(nil), want)
		}
	}
}

func TestImport(t *testing.T) {
	const src = `{"apiVersion":"v1","bogus":{"x":[1]},"metadata":{"a":1,"labels":{"l":"1"},"name":"n","z":{}},"spec":{"items":[{"k":1},{"k":2,"w":"<"},3],"n":1.5,"sub":{"sub":{"n":null},"items":[]}}}`
	var plain Doc
	if err := Parse(&plain, []byte(src)); err != nil {
		t.Fatal(err)
	}
	shaped := new(Doc)
	shaped.Reset(testShapes())
	spec := shaped.ImportAs(plain.Root().Get("spec"), 3)
	shaped.SetRoot(shaped.ImportAs(plain.Root(), 1))
	if shaped.root.ShapeIndex() != 0 {
		t.Error("an object with an undeclared member got a closed shape")
	}
	if spec.ShapeIndex() != 3 || shaped.Item(shaped.Slot(spec, 0), 1).ShapeIndex() != 4 || shaped.Slot(spec, 2).ShapeIndex() != 3 {
		t.Error("objects below a shape did not get the shapes of its kids")
	}
	meta := shaped.ImportAs(plain.Root().Get("metadata"), 2)
	other := new(Doc)
	other.Reset(testShapes())
	for name, v := range map[string]Value{
		"root":             shaped.Root(),
		"clone":            shaped.Root().Clone(),
		"imported shaped":  {shaped, shaped.Import(Value{shaped, shaped.root})},
		"other table":      {other, other.Import(shaped.Root())},
		"other table's as": {other, other.ImportAs(Value{shaped, shaped.root}, 1)},
	} {
		checkDoc(t, v)
		if !Equal(v, plain.Root()) || string(v.AppendJSON(nil)) != string(plain.Root().AppendJSON(nil)) {
			t.Errorf("%s: got %s", name, v.AppendJSON(nil))
		}
		if !reflect.DeepEqual(v.Interface(), plain.Root().Interface()) {
			t.Errorf("%s: Interface differs", name)
		}
	}
	for path, v := range map[string]Value{
		"spec": {shaped, spec}, "metadata": {shaped, meta},
	} {
		checkDoc(t, v)
		back := Value{other, other.Import(v)}
		if back.Node.ShapeIndex() != 0 || !Equal(v, back) || !Equal(v, plain.Root().Get(path)) {
			t.Errorf("%s: got %s", path, v.AppendJSON(nil))
		}
	}
}

// Random edits of a document, shaped and plain, against a map.
func TestEditsAgainstMap(t *testing.T) {
	names := []string{"apiVersion", "kind", "metadata", "spec", "labels", "name", "items", "sub", "n", "x", "y"}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var shaped, plain Doc
		shaped.Reset(testShapes())
		shaped.SetRoot(shaped.NewShaped(1))
		plain.SetRoot(plain.NewMap(nil))
		want := map[string]any{}
		for range 60 {
			path := make([]string, 1+r.IntN(3))
			for i := range path {
				path[i] = names[r.IntN(len(names))]
			}
			if r.IntN(3) == 0 {
				shaped.Remove(path...)
				plain.Remove(path...)
				mapRemove(want, path)
			} else {
				v := fmt.Sprint(r.IntN(1000))
				shaped.Set(shaped.NewString(v), path...)
				plain.Set(plain.NewString(v), path...)
				mapSet(want, path, v)
			}
			checkDoc(t, shaped.Root())
			if !reflect.DeepEqual(shaped.Root().Interface(), any(want)) || !Equal(shaped.Root(), plain.Root()) {
				t.Fatalf("seed %d: got %s and %s, want %v", seed, shaped.Root().AppendJSON(nil), plain.Root().AppendJSON(nil), want)
			}
		}
	}
}

func mapSet(m map[string]any, path []string, v any) {
	for _, name := range path[:len(path)-1] {
		next, ok := m[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			m[name] = next
		}
		m = next
	}
	m[path[len(path)-1]] = v
}

func mapRemove(m map[string]any, path []string) {
	for _, name := range path[:len(path)-1] {
		next, ok := m[name].(map[string]any)
		if !ok {
			return
		}
		m = next
	}
	delete(m, path[len(path)-1])
}

func TestEqualIsTypeExact(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{`1`, `1.0`, false}, {`1.0`, `1.00`, true}, {`0.0`, `-0.0`, true}, {`"1"`, `1`, false}, {`null`, `false`, false}, {`[]`, `{}`, false},
		{`{"a":1}`, `{"a":1,"b":null}`, false}, {`{"a":1,"b":2}`, `{"b":2,"a":1}`, true}, {`[1,2]`, `[2,1]`, false}, {`{"a":1}`, `{"b":1}`, false},
	} {
		var a, b Doc
		if Parse(&a, []byte(tt.a)) != nil || Parse(&b, []byte(tt.b)) != nil {
			t.Fatal("broken case")
		}
		if got := Equal(a.Root(), b.Root()); got != tt.want || got != Equal(b.Root(), a.Root()) {
			t.Errorf("Equal(%s, %s): got %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
	if !Equal(Value{}, Value{}) || Equal(Value{}, Value{Node: NullNode}) {
		t.Error("absent equals absent only")
	}
}

func TestShapeSlot(t *testing.T) {
	var same []string // all alike to the hash
	for i := range 200 {
		same = append(same, fmt.Sprintf("a%03dbm%03dz", i, i))
	}
	for _, names := range [][]string{
		nil, {""}, {"", "a"}, {"a", "b", "c"}, same,
		strings.Fields("apiVersion kind metadata spec status"),
		strings.Fields("annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation labels managedFields name namespace ownerReferences resourceVersion selfLink uid"),
	} {
		names = slices.Sorted(slices.Values(names))
		s := NewShape(names, nil, false)
		index := map[string]int{}
		for i, name := range names {
			index[name] = i
		}
		for _, name := range append(slices.Collect(maps.Keys(index)), "", "b", "bogus", "metadatb", "a000bm001z") {
			want, ok := index[name]
			if !ok {
				want = -1
			}
			for guess := range len(names) + 1 {
				if got := s.SlotAfter(name, guess); got != want {
					t.Fatalf("SlotAfter(%q, %d): got %d, want %d", name, guess, got, want)
				}
			}
		}
	}
	if s := NewShape(same, nil, false); s.table != nil && s.probe > maxProbe {
		t.Error("hostile names stay in the table")
	}
}
