package jsondoc

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// This file compares the quick comparisons with the plain ones.

// TestSameText compares texts of all lengths around the words that are compared, up to the end of the memory they are in.
func TestSameText(t *testing.T) {
	const text = "the quick brown fox jumps over the lazy dog."
	for size := range len(text) + 1 {
		for after := range 9 {
			var d, e Doc
			e.NewString("before")
			x, y := d.NewString(text[:size]), e.NewString(text[:size])
			d.NewString(text[:after])
			if !SameText(&d, x, &e, y) || !SameText(&e, y, &d, x) || !SameText(&d, x, &d, x) {
				t.Fatalf("%q: not the same", text[:size])
			}
			for i := range size {
				z := e.NewString(text[:i] + "_" + text[i+1:size])
				if SameText(&d, x, &e, z) || SameText(&e, z, &d, x) {
					t.Fatalf("%q: differs at %d", text[:size], i)
				}
			}
			if z := e.NewString(text[:size] + "."); SameText(&d, x, &e, z) || SameText(&e, z, &d, x) {
				t.Fatalf("%q: differs in length", text[:size])
			}
		}
	}
}

// TestCongruent compares Congruent with Equal, over objects that lie at other places and are mostly the same.
func TestCongruent(t *testing.T) {
	shapes := []*Shape{nil, NewShape([]string{"a", "b", "c", "k", "l", "m"}, []uint16{1, 0, 0, 2, 1, 0}, false), NewShape([]string{"k"}, nil, true)}
	r := rand.New(rand.NewPCG(1, 7))
	counts := map[string]int{}
	for range 20_000 {
		text := congruentText(r, 3)
		other := text
		if r.IntN(2) == 0 { // a byte of it is another one
			at := r.IntN(len(text))
			other = text[:at] + string("01aé\"{[,"[r.IntN(8)]) + text[at+1:]
		}
		var docs [2]Doc
		var nodes [2]Node
		edited := r.IntN(8) == 0
		for i, source := range []string{text, other} {
			var plain Doc
			if err := Parse(&plain, []byte(source)); err != nil {
				source = text
				if err := Parse(&plain, []byte(source)); err != nil {
					t.Fatal(err)
				}
			}
			d := &docs[i]
			d.Reset(shapes)
			before := d.ImportAs(plain.Root(), 1)
			for range r.IntN(3) {
				d.ImportAs(plain.Root(), 1)
			}
			nodes[i] = d.ImportAs(plain.Root(), 1)
			if edited && nodes[i].ShapeIndex() == 1 {
				d.SetSlot(nodes[i], 0, before) // an edit may leave a child before its parent
			}
		}
		x, y := Value{&docs[0], nodes[0]}, Value{&docs[1], nodes[1]}
		m, n, ok := Congruent(x.Doc, x.Node, y.Doc, y.Node)
		equal := Equal(x, y)
		if m != x.Len() || n != y.Len() || ok && !equal {
			t.Fatalf("%s and %s: %d and %d members, congruent %t; want %d and %d, equal %t", x.AppendJSON(nil), y.AppendJSON(nil), m, n, ok, x.Len(), y.Len(), equal)
		}
		counts[fmt.Sprintf("equal %t, congruent %t", equal, ok)]++
	}
	for _, sort := range []string{"equal true, congruent true", "equal true, congruent false", "equal false, congruent false"} {
		if counts[sort] < 1000 {
			t.Errorf("too few of a sort: %v", counts)
		}
	}
}

// congruentText is the text of an object.
func congruentText(r *rand.Rand, depth int) string {
	var parts []string
	for _, name := range []string{"a", "b", "c", "k", "l", "m", "undeclared"} {
		if r.IntN(2) == 0 || name == "undeclared" && r.IntN(5) > 0 {
			continue
		}
		value := []string{"1", "20", "true", `"text"`, `""`, `"long enough to be no word"`, `"\\u0041"`, "null", "1.5", `["x", "y"]`, `{"p": "q", "r": 1}`, "[]", "{}"}[r.IntN(13)]
		if depth > 0 && r.IntN(2) == 0 {
			switch name {
			case "a":
				value = congruentText(r, depth-1)
			case "l":
				value = "[" + congruentText(r, depth-1) + ", " + congruentText(r, depth-1) + "]"
			case "k":
				value = `{"k": "v"}`
			}
		}
		parts = append(parts, `"`+name+`": `+value)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
