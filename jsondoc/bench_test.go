package jsondoc

import (
	gojson "encoding/json"
	"os"
	"testing"
)

// route is an HTTPRoute as a client sends it.
var route = func() []byte {
	b, err := os.ReadFile("testdata/httproute.json")
	if err != nil {
		panic(err)
	}
	return b
}()

func TestParseAllocatesNothing(t *testing.T) {
	d := Get()
	defer d.Release()
	var out []byte
	n := testing.AllocsPerRun(100, func() {
		if err := Parse(d, route); err != nil {
			t.Fatal(err)
		}
		out = d.Root().AppendJSON(out[:0])
		if !Equal(d.Root(), d.Root()) {
			t.Fatal("not equal to itself")
		}
	})
	if n != 0 {
		t.Errorf("parse, print and compare: got %v allocations, want 0", n)
	}
}

func BenchmarkParse(b *testing.B) {
	d := Get()
	b.SetBytes(int64(len(route)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Parse(d, route); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseEncodingJSON(b *testing.B) {
	b.SetBytes(int64(len(route)))
	b.ReportAllocs()
	for b.Loop() {
		var m map[string]any
		if err := gojson.Unmarshal(route, &m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	d := Get()
	if err := Parse(d, route); err != nil {
		b.Fatal(err)
	}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = d.Root().AppendJSON(out[:0])
	}
}

func BenchmarkAppendEncodingJSON(b *testing.B) {
	var m map[string]any
	if err := gojson.Unmarshal(route, &m); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := gojson.Marshal(m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEqual(b *testing.B) {
	x, y := Get(), Get()
	if Parse(x, route) != nil || Parse(y, route) != nil {
		b.Fatal("broken sample")
	}
	b.ReportAllocs()
	for b.Loop() {
		if !Equal(x.Root(), y.Root()) {
			b.Fatal("not equal")
		}
	}
}

func BenchmarkSlot(b *testing.B) {
	s := NewShape([]string{"backendRefs", "filters", "matches", "name", "retry", "sessionPersistence", "timeouts"}, nil, false)
	names := []string{"matches", "backendRefs", "timeouts", "name", "filters", "bogus"}
	b.Run("table", func(b *testing.B) {
		i := 0
		for b.Loop() {
			s.Slot(names[i%len(names)])
			i++
		}
	})
	b.Run("map", func(b *testing.B) {
		m := map[string]int{}
		for i, name := range s.Names {
			m[name] = i
		}
		i := 0
		for b.Loop() {
			_ = m[names[i%len(names)]]
			i++
		}
	})
}

func BenchmarkMergePatch(b *testing.B) {
	patch := []byte(`{"metadata":{"labels":{"x":"y"}},"spec":{"hostnames":["a.example.com"]}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := MergePatch(route, patch); err != nil {
			b.Fatal(err)
		}
	}
}
