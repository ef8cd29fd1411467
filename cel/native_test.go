package cel

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/cel/internal/val"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// This file compares the usual cases with the general ones.

// TestSame compares the comparison of documents in place with the general one.
func TestSame(t *testing.T) {
	const schema = `{type: object, properties: {
		a: {type: string}, b: {type: integer}, c: {type: boolean}, d: {type: number, nullable: true}, e: {type: string, format: duration}, f: {x-kubernetes-int-or-string: true},
		l: {type: array, items: {type: object, properties: {x: {type: string}, y: {type: integer}}}},
		s: {type: array, x-kubernetes-list-type: set, items: {type: string}},
		so: {type: array, x-kubernetes-list-type: set, items: {type: object, properties: {x: {type: string}}}},
		k: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [x], items: {type: object, properties: {x: {type: string}, y: {type: integer}}}},
		k2: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [in], items: {type: object, properties: {in: {type: string}, y: {type: integer}}}},
		m: {type: object, additionalProperties: {type: integer}}, o: {type: object, properties: {p: {type: object, properties: {q: {type: string}}}}}}}`
	var s apiextv1.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(schema), &s); err != nil {
		t.Fatal(err)
	}
	b := newShaper()
	typ := b.build(&s, false)
	values := map[string][]string{
		"a": {`"x"`, `"y"`, `""`, `1`, `null`}, "b": {`1`, `2`, `"1"`}, "c": {`true`, `false`}, "d": {`1.5`, `2`, `null`}, "e": {`"1s"`, `"1000ms"`, `"x"`}, "f": {`1`, `"1"`, `"2"`, `true`},
		"l": {`[]`, `[{"x":"a","y":1}]`, `[{"x":"a"}]`, `[{"x":"a","y":1},{"x":"b"}]`, `[{"x":"b"},{"x":"a","y":1}]`, `[null]`}, "s": {`["a","b"]`, `["b","a"]`, `["a","a"]`, `[1]`, `["a",null]`, `[]`}, "so": {`[{"x":"a"}]`, `[]`},
		"k": {`[{"x":"a","y":1},{"x":"b"}]`, `[{"x":"b"},{"x":"a","y":1}]`, `[{"x":"a","y":1},{"x":"a","y":2}]`, `[{"y":1}]`, `["a"]`}, "k2": {`[{"in":"a","y":1}]`, `[{"in":"a","y":1},{"in":"b","y":1}]`},
		"m": {`{"a":1,"b":2}`, `{"a":1,"c":2}`, `{"a":1}`, `{"a":"1","b":2}`, `{}`, `{"a":null}`}, "o": {`{}`, `{"p":{}}`, `{"p":{"q":"z"}}`, `{"p":null}`, `{"z":1}`},
	}
	names := []string{"a", "b", "c", "d", "e", "f", "l", "s", "so", "k", "k2", "m", "o", "undeclared"}
	values["undeclared"] = []string{`1`, `2`}
	r := rand.New(rand.NewPCG(3, 4))
	object := func(chosen []int) string {
		var parts []string
		for i, name := range names {
			if chosen[i] >= 0 {
				parts = append(parts, `"`+name+`": `+values[name][chosen[i]])
			}
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	decided := map[val.Tri]int{}
	for range 5_000 {
		chosen := make([]int, len(names))
		for i, name := range names {
			if chosen[i] = -1; r.IntN(4) == 0 {
				chosen[i] = min(r.IntN(len(values[name])), r.IntN(len(values[name])))
			}
		}
		x := object(chosen)
		if i := r.IntN(2 * len(names)); i < len(names) {
			chosen[i] = r.IntN(len(values[names[i]])+1) - 1
		}
		y := object(chosen)
		v, w := b.document(t, x, typ, true), b.document(t, y, typ, true)
		left, right := val.LoadVariable(v, typ), val.LoadVariable(w, typ)
		check := func(left, right Value) {
			same, want := val.SameData(left, right), val.NewComparison(nil).PlainlyEqual(left, right)
			decided[same]++
			if same != val.Bad && (want.K != KindBool || want.Bool() != (same == val.Yes)) {
				t.Errorf("%s == %s: got %v, want %v", x, y, same, want)
			}
			same, size := val.Sides{A: left.Doc(), B: right.Doc(), Known: val.Nothing}.Sized(left.Node, right.Node, left.Typ)
			if same != val.Bad && (want.K != KindBool || want.Bool() != (same == val.Yes)) || size != min(left.Size(), right.Size()) {
				t.Errorf("%s == %s: got %v of size %d, want %v", x, y, same, size, want)
			}
		}
		check(left, right)
		for _, name := range names { // one level down, so that the general comparison of a level does not rest on its own parts alone
			m, _ := left.Find(name)
			n, _ := right.Find(name)
			if (m.K == KindList || m.K == KindMap) && m.K == n.K {
				check(m, n)
			}
		}
	}
	if decided[val.Yes] < 300 || decided[val.No] < 300 || decided[val.Bad] < 300 {
		t.Errorf("too few of a sort: %v", decided)
	}
}

// TestNested holds that what is computed again in the general way is not
// computed again at each level of an expression: else this would not end.
func TestNested(t *testing.T) {
	env := testEnv(t)
	f := newFixture(t, env, `{type: object, properties: {s: {type: string, maxLength: 10}, l: {type: array, maxItems: 3, items: {type: string}}}}`, `{"s": "AB/c"}`)
	texts := "self.s" + strings.Repeat(".split('/')[0].lowerAscii().upperAscii()", 20) + " == 'AB'"
	sizes := "true"
	for range 30 {
		sizes = "((" + sizes + " ? size(self.l) : 1) > 0 || true)"
	}
	for _, expr := range []string{texts, sizes} {
		if got := f.outcome(t, expr, true); !strings.Contains(got, "bool true") {
			t.Errorf("%s: %s", expr, got)
		}
	}
}
