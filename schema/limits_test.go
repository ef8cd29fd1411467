package schema

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file tests that hostile input stays within bounds: work is counted in
// units of cost, nodes and bytes, never in time.

// maxBody is how long the bodies are: a fifth of the longest one of a request, so
// that the test is quick. The measurements beside this module take the longest.
const maxBody = 600 << 10

// filled repeats a part until the whole is as long as a body may be.
func filled(before, part, after string) string {
	return before + strings.Repeat(part, (maxBody-len(before)-len(after))/len(part)) + after
}

// TestHostileObjects holds how much memory a body of the greatest length takes
// on its way, whether it is valid or not, and that what is said of it is short.
func TestHostileObjects(t *testing.T) {
	names := make([]string, 4000)
	for i := range names {
		names[i] = fmt.Sprintf("a-long-value-of-an-enum-%d", i)
	}
	list := "[" + strings.Join(names, ", ") + "]"
	wide := strings.Builder{}
	for i := range 500 {
		fmt.Fprintf(&wide, "p%d: {type: string}, ", i)
	}
	for _, row := range []struct {
		name, schema, body string
		most               int // MB
	}{
		{"a long enum", `{type: object, properties: {l: {type: array, items: {type: string, enum: ` + list + `}}}}`, filled(`{"l":["x"`, `,"y"`, `]}`), 120},
		{"many required members", `{type: object, properties: {l: {type: array, items: {type: object, required: ` + list + `}}}}`, filled(`{"l":[{}`, `,{}`, `]}`), 140},
		{"empty objects of a wide schema", `{type: object, properties: {l: {type: array, items: {type: object, properties: {` + wide.String() + `}}}}}`, filled(`{"l":[{}`, `,{}`, `]}`), 80},
		{"a long key and a duplicate", `{type: object, properties: {m: {type: object, additionalProperties: {type: object, additionalProperties: {type: string}}}}}`,
			`{"m":{"` + strings.Repeat("k", maxBody/3) + `":` + filled(`{"a":1`, `,"b":1`, `}`)[maxBody/3:], 4},
		{"members below a long key", `{type: object, properties: {m: {type: object, additionalProperties: {type: object, additionalProperties: {type: object, properties: {x: {type: string}}}}}}}`,
			`{"m":{"` + strings.Repeat("k", maxBody/3) + `":{` + manyMembers(maxBody*2/3) + `}}}`, 50},
		{"equal items of a set", `{type: object, properties: {l: {type: array, x-kubernetes-list-type: set, items: {type: integer}}}}`, filled(`{"l":[1`, `,1`, `]}`), 150},
		{"a rule for each item", `{type: object, properties: {l: {type: array, items: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}}}}`, filled(`{"l":[1`, `,1`, `]}`), 240},
		{"a pattern that backtracks", `{type: object, properties: {s: {type: string, pattern: "^(x+x+)+y$", x-kubernetes-validations: [{rule: "self.matches('(x+x+)+y')"}]}}}`,
			filled(`{"s":"`, "x", `"}`), 4},
		{"deep nesting", `{type: object}`, strings.Repeat(`{"a":`, 10_001) + "1" + strings.Repeat("}", 10_001), 4},
		{"duplicate keys that stay", `{type: object, x-kubernetes-preserve-unknown-fields: true}`, filled(`{"a":1`, `,"a":1`, `}`), 30},
		{"unknown duplicate keys", `{type: object}`, filled(`{"a":1`, `,"a":1`, `}`), 4},
	} {
		p := compileYAML(t, row.schema, Options{Resource: true})
		p.code.Load().compileRules()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var d jsondoc.Doc
		var text int
		_, err := p.Decode(&d, []byte(row.body))
		if err != nil {
			text = len(err.Error())
		} else {
			for _, e := range p.Validate(context.Background(), &d, nil, Whole).Errors {
				text += len(e.Field) + len(e.Detail)
			}
		}
		runtime.ReadMemStats(&after)
		total := int(after.TotalAlloc-before.TotalAlloc) >> 20
		t.Logf("%s: %d MB, %d bytes of errors", row.name, total, text)
		if total > row.most {
			t.Errorf("%s: took %d MB altogether, want at most %d", row.name, total, row.most)
		}
		if text > 3*maxText {
			t.Errorf("%s: lists %d bytes of errors, want at most %d", row.name, text, 3*maxText)
		}
	}
}

// TestManyDefaults holds that copies of a long default value in many objects end
// before they take all memory.
func TestManyDefaults(t *testing.T) {
	for _, long := range []string{`"` + strings.Repeat("x", 10_000) + `"`, `{a: [` + strings.Repeat("1, ", 1000) + `1]}`} {
		p := compileYAML(t, `{type: object, properties: {l: {type: array, items: {type: object, properties: {p: {x-kubernetes-preserve-unknown-fields: true, default: `+long+`}}}}}}`, Options{Resource: true})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var d jsondoc.Doc
		_, err := p.Decode(&d, []byte(filled(`{"l":[{}`, `,{}`, `]}`)))
		runtime.ReadMemStats(&after)
		if want := ErrManyDefaults.Error(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if total := (after.TotalAlloc - before.TotalAlloc) >> 20; total > 200 {
			t.Errorf("took %d MB altogether, want at most 200", total)
		}
		if _, err := p.Decode(&d, []byte(`{"l":[{},{},{}]}`)); err != nil {
			t.Error(err)
		}
	}
}

// manyMembers are different members that fill a body.
func manyMembers(size int) string {
	var b strings.Builder
	b.WriteString(`"n":{"x":1}`)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,"n%d":{"x":1}`, i)
	}
	return b.String()
}

// TestErrorsEnd holds that the list of errors says so if it is not complete, and
// that what it lists comes first.
// Ledger: error-lists.
func TestErrorsEnd(t *testing.T) {
	p := compileYAML(t, `{type: object, properties: {l: {type: array, items: {type: string, maxLength: 1}}}}`, Options{Resource: true})
	r := p.Validate(context.Background(), object(t, p, filled(`{"l":["aa"`, `,"aa"`, `]}`)), nil, Whole)
	const want = "<nil>: Invalid value: there are more errors than are listed"
	if got := lines(r.Errors); got[0] != `l[0]: Too long: may not be more than 1 byte` && !strings.HasPrefix(got[0], "l[0]: Too long") || !strings.Contains(strings.Join(got, "\n"), want) {
		t.Errorf("got %s … %s", got[0], got[len(got)-1])
	}
}

// TestLinear holds that work grows no faster than objects and rules do.
func TestLinear(t *testing.T) {
	work := func(items, rules int) (nodes, cost float64) {
		var list strings.Builder
		for i := range rules {
			fmt.Fprintf(&list, `, {rule: "self.name != 'n%d' || self.num > %d"}`, -i, i)
		}
		p := compileYAML(t, `{type: object, properties: {spec: {type: object, properties: {l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name],
			items: {type: object, required: [name], properties: {name: {type: string, maxLength: 20}, num: {type: integer, minimum: 1}},
			x-kubernetes-validations: [{rule: "self.name.startsWith('n')"}`+list.String()+`]}}}}}}`, Options{Resource: true})
		var body strings.Builder
		body.WriteString(`{"spec":{"l":[{"name":"n","num":1}`)
		for i := range items - 1 {
			fmt.Fprintf(&body, `,{"name":"n%d","num":%d}`, i, 1000+i)
		}
		body.WriteString(`]}}`)
		d := object(t, p, body.String())
		if r := p.Validate(context.Background(), d, nil, Whole); len(r.Errors) > 0 {
			t.Fatal(r.Errors.ToAggregate())
		}
		spent, ok := p.code.Load().runRules(context.Background(), d, nil, false)
		if !ok {
			t.Fatal("rules do not hold")
		}
		return float64(d.Size()), float64(spent)
	}
	nodes, cost := work(30, 10)
	for _, times := range []int{10, 100, 1000} {
		n, c := work(30*times, 10)
		if most := 1.1 * float64(times); n > most*nodes || c > most*cost {
			t.Errorf("an object %d times as large takes %.1f times the nodes and %.1f times the cost", times, n/nodes, c/cost)
		}
	}
	for _, times := range []int{5, 50} {
		if _, c := work(30, 10*times); c > 1.1*float64(times)*cost {
			t.Errorf("%d times the rules cost %.1f times as much", times, c/cost)
		}
	}
}

// TestLongEnums compares long enums with their plain twin.
func TestLongEnums(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	parts := []string{`1`, `1.0`, `1.5`, `-2`, `65`, `65.0`, `"A"`, `"1"`, `""`, `true`, `false`, `null`, `[]`, `{}`, `[1]`, `[1.0]`, `{"a":1}`, `{"a":1.0}`, `{"b":[1,{"c":null}]}`, `"\u00e9"`, `233`, `1e300`}
	for range 2000 {
		var enum []any
		for range random.IntN(2 * len(parts)) {
			var e any
			if err := utiljson.Unmarshal([]byte(parts[random.IntN(len(parts))]), &e); err != nil {
				t.Fatal(err)
			}
			enum = append(enum, e)
		}
		plain, large := values{enum: enum}, values{enum: enum, large: newEnumSet(enum)}
		for _, e := range enum {
			if text, ok := e.(string); ok {
				plain.texts = append(plain.texts, text)
			}
		}
		for _, part := range parts {
			var d jsondoc.Doc
			if err := jsondoc.Parse(&d, []byte(part)); err != nil {
				t.Fatal(err)
			}
			x := d.Root().Node
			if x.Kind() == jsondoc.Null {
				continue
			}
			if got, want := large.enumOK(&d, x, x.Kind()), plain.enumOK(&d, x, x.Kind()); got != want {
				t.Fatalf("%s in %v: got %v, want %v", part, enum, got, want)
			}
		}
	}
}

// TestPresent holds that walks over an object that is a map take its members, not
// all that the schema declares.
func TestPresent(t *testing.T) {
	p := compileYAML(t, `{type: object, properties: {a: {type: string}, b: {type: string}, c: {type: string}, e: {type: string}}}`, Options{})
	root := p.code.Load().root
	for text, want := range map[string]string{`{}`: "", `{"b":"","d":1}`: "b", `{"a":1,"aa":2,"c":3,"e":4,"f":5}`: "a c e"} {
		var d jsondoc.Doc
		if err := jsondoc.Parse(&d, []byte(text)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for p := range root.present(&d, d.Root().Node) {
			got = append(got, p.name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// TestJunctorsEnd holds that work below junctors ends at its bound or with the
// context, whether branches hold or not, and that what is said then is said once
// and is not about branches.
// Ledger: junctor-steps.
func TestJunctorsEnd(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	const few = 4 * betweenUp
	const over = "<nil>: Invalid value: validation of values below allOf, anyOf, oneOf and not takes more than 10000000 steps, it was not completed"
	branches := func(part string, n int) string { return strings.Repeat(part+", ", n) }
	for _, row := range []struct {
		name, junctor, part string
		parts               int
	}{
		{"allOf that holds", "allOf: [" + branches("{minimum: 0}", 300) + "]", "1", 1000},
		{"anyOf whose last branch holds", "anyOf: [" + branches("{maximum: 0}", 300) + "{minimum: 1}]", "1", 1000},
		{"oneOf that holds", "oneOf: [" + branches("{maximum: 0}", 300) + "{minimum: 1}]", "1", 1000},
		{"not that holds", "not: {allOf: [" + branches("{minimum: 0}", 300) + "{minimum: 2}]}", "1", 1000},
		{"long texts", "allOf: [" + branches("{pattern: x}", 300) + "]", `"` + strings.Repeat("x", 10_000) + `"`, 5},
		{"values below a branch", "allOf: [" + branches("{additionalProperties: {minimum: 0}}", 30) + "]", `{"a":1,"b":1,"c":1,"d":1}`, 4000},
	} {
		p := compileYAML(t, `{type: object, properties: {l: {type: array, items: {x-kubernetes-preserve-unknown-fields: true, `+row.junctor+`}}}}`, Options{Resource: true})
		root := p.code.Load().root
		check := func(name string, ctx context.Context, parts int, want string) {
			d := object(t, p, `{"l":[`+row.part+strings.Repeat(","+row.part, parts-1)+`]}`)
			w, e := newWork(ctx, few), explainer{work: newWork(ctx, few)}
			if ok := root.ok(d, &w, d.Root().Node); ok != (want == "") {
				t.Errorf("%s, %s: the fast path says %v", row.name, name, ok)
			}
			if got := strings.Join(lines(e.list(nil, root, d.Root(), nil)), "\n"); got != want {
				t.Errorf("%s, %s: got %q", row.name, name, got)
			}
		}
		check("many", context.Background(), row.parts, over)
		check("many after the context", ended, row.parts, "<nil>: Invalid value: validation of values was interrupted: context canceled")
		check("one", context.Background(), 1, "")
	}
	p := compileYAML(t, `{type: object, properties: {s: {type: string, allOf: [`+branches("{pattern: x}", 300)+`]}}}`, Options{Resource: true})
	d := object(t, p, `{"s":"`+strings.Repeat("x", perStep*(maxSteps/300))+`"}`)
	if got := lines(p.Validate(context.Background(), d, nil, Whole).Errors); len(got) != 1 || got[0] != over {
		t.Errorf("the bound of an object: got %q", got)
	}
}
