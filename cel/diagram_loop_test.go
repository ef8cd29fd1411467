package cel

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/internal/fastpath"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file holds loops and sums of diagrams against the general way.

const loopSchema = `{type: object, properties: {
	ns: {type: array, items: {type: integer}}, t: {type: array, items: {type: string}}, b: {type: array, items: {type: boolean}}, k: {type: integer}, z: {type: boolean},
	o: {type: array, items: {type: object, properties: {s: {type: string}, i: {type: integer}, z: {type: boolean}, p: {type: object, properties: {q: {type: string}}},
		v: {type: array, items: {type: string}}, m: {type: object, additionalProperties: {type: string}}}}},
	ll: {type: array, items: {type: array, items: {type: integer}}},
	m: {type: object, additionalProperties: {type: string}}, mo: {type: object, additionalProperties: {type: object, properties: {s: {type: string}}}}}}`

// loopRules are tests with loops and sums.
var loopRules = []string{
	"self.ns.all(x, x > 0)", "self.ns.exists(x, x == 2)", "self.ns.exists_one(x, x == 2)", "self.ns.filter(x, x > 1).size() <= 1", "!self.ns.exists(x, x < 0)", "self.ns.all(x, self.k == 1)", "self.ns.exists(x, self.z && has(self.k))",
	"self.t.all(x, x != '')", "self.t.all(x, duration(x) <= duration('1s'))", "self.t.exists(x, x == 'one' || x == 'two')", "self.t.exists_one(x, x in ['one', 'two'])", "self.b.all(x, x)", "self.b.exists(x, !x)",
	"self.o.all(x, has(x.s) && x.s != 'one')", "self.o.exists(x, x.z)", "self.o.exists_one(x, x.i == 2)", "self.o.filter(x, has(x.s) && x.s == 'one').size() == 1", "size(self.o.filter(x, has(x.p))) != 1",
	"self.o.exists(x, x.p.q == 'one')", "self.o.all(x, has(x.s) == has(x.i))",
	"self.o.all(x, has(x.v) ? x.v.size() >= x.i : true)", "self.o.all(x, size(x.v) == size(self.t))",
	"self.o.all(x, x.z != has(x.s))",
	"self.ll.all(x, x.size() < 3)",
	"self.m.all(k, k != '' && self.m[k] != '')", "self.m.exists(k, self.m[k] == 'one')", "self.m.exists_one(k, k == 'a')",
	"self.ns.size() + self.t.size() == 3", "self.ns.size() == self.t.size()", "self.ns.size() < self.k", "(self.ns.size() > 0 ? self.ns[0] : 0) + (self.ns.size() > 1 ? self.ns[1] + 3 : self.k) > 2",
	"(self.o.size() > 0 ? self.o[0].v.size() : 0) + (self.o.size() > 1 ? self.o[1].v.size() : 0) <= 2", "self.k + self.ns.filter(x, x > 1).size() >= self.t.filter(x, x != 'one').size()",
	"self.k + self.k == 2", "self.o.filter(x, x.i + x.v.size() > 2).size() + self.k > 3", "self.k == self.ns[0]", "self.o[0].s == 'one'", "self.o[1].p.q == self.o[0].p.q", "self.t[0] == self.t[1]", "self.b[0] != self.b[1]", "self.ll[0][1] == 2",
	"self == oldSelf", "self.o == oldSelf.o", "self.m != oldSelf.m", "self.ns == oldSelf.ns && self.k == oldSelf.k",
}

// nestedRules have loops inside of loops, which diagrams do not have.
var nestedRules = []string{
	"self.t.all(x, self.t.exists_one(y, x == y))", "self.o.all(x, self.o.exists_one(y, x == y))", "self.o.all(x, self.o.exists_one(y, x.s == y.s && x.i == y.i))", "self.o.all(x, has(x.v) ? x.v.all(y, y != x.s) : true)",
	"self.o.exists(x, x.v.exists(y, self.t.exists(z, z == y)))", "self.o.all(x, self.o.filter(y, y.i == x.i && y.z).size() <= 1)", "self.o.exists(x, x.z == self.o.exists(y, y.i > x.i))", "self.ll.all(x, x.all(y, y > 0))",
	"self.ll.exists(x, x.exists_one(y, y == 2))", "self.o.exists(x, x.m.all(k, x.m[k] == 'one' && k != 'b'))", "oldSelf.o.all(x, self.o.exists(y, x == y))", "self.o.all(x, oldSelf.o.exists(y, y.s == x.s)) || has(self.k)",
}

// loopData are objects whose members fit their types, and that do not.
var loopData = []string{
	`{}`, `{t: [1s, 20ms, 0s]}`, `{t: [1s, 1001ms]}`, `{ns: [], t: [], b: [], o: [], ll: [], m: {}, mo: {}, k: 0}`, `{ns: [1], t: [one], b: [true], o: [{s: one, i: 1, z: true}], ll: [[1]], m: {a: one}, mo: {a: {s: one}}, k: 1, z: true}`,
	`{ns: [1, 2, 3], t: [one, two, three], b: [true, false], o: [{s: one, i: 2, z: true, v: [one, two]}, {s: two, i: 2, z: false, v: [x], p: {q: one}, m: {a: one, b: one}}, {i: 3, z: true, v: []}], ll: [[1, 2], [2], []], m: {a: one, b: "", c: three}, mo: {a: {}, b: {s: two}}, k: 3}`,
	`{ns: [2, 2, -1], t: [two, two], b: [false, false], o: [{s: two, i: 7, z: false, v: [a], p: {q: one}, m: {}}, {s: two, i: 7, z: false, v: [a], p: {q: one}, m: {}}], ll: [[2, 2]], m: {"": one}, k: -4}`,
	`{ns: [1, two, null], t: [ö, 3, one], b: [1, true], o: [{s: ö}, null, [s], {s: 4, i: x, z: 1, p: [], v: {}, m: []}], ll: [1, [x]], m: {a: 1, b: null}, mo: {a: 1}, k: x}`,
	`{ns: {a: 1}, t: one, o: {s: one}, m: [one], ll: {}, k: 9007199254740993}`, `{ns: [9223372036854775807, 1], k: 9223372036854775807, t: [a, b]}`, `{o: [{}, {s: ""}, {s: x, v: [ö]}], t: ["", ""], ns: null}`,
}

// TestDiagramLoops compares rules with limits below and above what they cost.
func TestDiagramLoops(t *testing.T) {
	fastpath.Diagrams.Need(t)
	f := newFixture(t, testEnv(t), strings.ReplaceAll(loopSchema, "\t", " "), "{}")
	var docs []jsondoc.Value
	for _, text := range loopData {
		docs = append(docs, f.document(t, text, f.self, true), f.document(t, text, f.self, false))
	}
	for i, rule := range slices.Concat(loopRules, nestedRules) {
		p, err := f.types.Compile(rule, f.self, CompileOptions{})
		if err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		nested := i >= len(loopRules)
		if nested == p.code.HasDiagram() {
			t.Errorf("%s: diagram: %v", rule, nested)
		}
		answered, tests := 0, NewTests([]*Program{p})
		for i, self := range docs {
			for _, old := range []jsondoc.Value{{}, self, docs[(i+2)%len(docs)]} {
				a := Activation{Self: self, OldSelf: old, HasOldSelf: old.Exists()}
				answered += holdsAlike(t, p, &tests, &a)
			}
		}
		if !nested && answered == 0 {
			t.Errorf("%s: the diagram never answers", rule)
		}
	}
}

// TestDiagramLists compares rules about a list.
func TestDiagramLists(t *testing.T) {
	fastpath.Diagrams.Need(t)
	f := newFixture(t, testEnv(t), "{type: array, items: {type: object, properties: {s: {type: string}, i: {type: integer}, v: {type: array, items: {type: string}}}}}", "[]")
	for _, rule := range []string{
		"self.size() > 0 ? self[0].s == 'one' : false", "(self.size() > 0 ? self[0].v.size() : 0) + (self.size() > 1 ? self[1].v.size() : 0) <= 2", "self.all(x, x.v.size() >= x.i)",
		"self.exists(x, self[0].i == x.i)", "self.all(x, oldSelf[0].s == x.s)", "self.exists(x, x == oldSelf[0])", "self.exists(x, oldSelf[0] == x)", "self == oldSelf",
	} {
		p, err := f.types.Compile(rule, f.self, CompileOptions{})
		if err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		answered, tests := 0, NewTests([]*Program{p})
		for _, self := range []string{"[]", "[{s: one, i: 1, v: [a]}]", "[{s: one, i: 1, v: [a]}, {s: two, i: 0, v: [a, b]}]", "[{s: ö, v: []}, null]", "[{v: 1, i: x}]", "{a: b}"} {
			for _, old := range []string{"[]", "[{s: one, i: 1, v: [a]}]", "[x]"} {
				a := Activation{Self: f.document(t, self, f.self, true), OldSelf: f.document(t, old, f.self, true), HasOldSelf: old != "[x]"}
				answered += holdsAlike(t, p, &tests, &a)
			}
		}
		if answered == 0 {
			t.Errorf("%s: the diagram never answers", rule)
		}
	}
}

// TestDiagramLoopEnds ends a loop with the context.
func TestDiagramLoopEnds(t *testing.T) {
	f := newFixture(t, testEnv(t), `{type: array, items: {type: integer}}`, "["+strings.Repeat("1,", 4*val.CheckFrequency)+"1]")
	p, err := f.types.Compile("self.all(x, x > 0)", f.self, CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tests, a := NewTests([]*Program{p}), Activation{Self: f.doc}
	ctx, cancel := context.WithCancel(context.Background())
	if _, holds := tests.Hold(ctx, &a, math.MaxUint64, math.MaxUint64); !holds {
		t.Error("does not hold")
	}
	cancel()
	if _, holds := tests.Hold(ctx, &a, math.MaxUint64, math.MaxUint64); holds {
		t.Error("holds although the context ended")
	}
}
