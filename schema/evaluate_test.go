package schema

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file compares the evaluation of rules of objects that are known to be valid with that of any object.

// TestRulesOfValidObjects holds that rules which compare whole values say and cost the same, whether the evaluation is told that the
// values are valid or not. Some are valid and yet equal nothing, not even themselves.
func TestRulesOfValidObjects(t *testing.T) {
	properties := map[string]string{
		"a": `{type: string}`, "b": `{type: integer}`, "c": `{type: number}`, "d": `{type: string, nullable: true}`, "e": `{x-kubernetes-int-or-string: true}`,
		"t": `{type: string, format: date-time}`, "y": `{type: string, format: byte}`, "f": `{type: string, format: duration}`,
		"m": `{type: object, additionalProperties: {type: string}}`, "n": `{type: object, additionalProperties: {type: string, format: date}}`,
		"s": `{type: array, x-kubernetes-list-type: set, items: {type: string}}`, "i": `{type: array, items: {type: integer}}`,
		"so": `{type: array, x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: atomic, properties: {x: {type: string}}}}`,
		"k":  `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [in], items: {type: object, required: [in], properties: {in: {type: string}, v: {type: integer}}}}`,
		"p":  `{type: object, x-kubernetes-preserve-unknown-fields: true}`, "q": `{type: object, properties: {in: {type: string}, "x-y": {type: integer}}}`,
		"z": `{type: boolean}`, "dm": `{type: object, additionalProperties: {type: string, nullable: true}}`, "dl": `{type: array, items: {type: boolean, nullable: true}}`,
	}
	values := map[string][]string{
		"a": {`"x"`, `"y"`, `""`, `"é"`, `"a\\n"`}, "b": {`1`, `2`, `1.0`}, "c": {`1`, `1.5`, `1.0`}, "d": {`"x"`, `null`}, "e": {`1`, `"1"`}, "t": {`"2026-01-01T00:00:00Z"`, `"2026-01-01T01:00:00+01:00"`, `"2026-01-01t00:00:00z"`},
		"y": {`"YQ=="`, `"+/+/"`}, "f": {`"1s"`, `"1000ms"`, `"1 day"`}, "m": {`{"a": "b"}`, `{"a": "c"}`, `{}`}, "n": {`{"a": "2026-01-01"}`, `{}`}, "s": {`["a", "b"]`, `["b", "a"]`, `[]`}, "i": {`[1, 2]`, `[1, 3]`, `[1.0]`},
		"so": {`[{"x": "a"}]`, `[]`}, "k": {`[{"in": "a", "v": 1}, {"in": "b"}]`, `[{"in": "a"}]`}, "p": {`{"z": 1}`, `{"z": 1.5}`, `{}`}, "q": {`{"in": "x", "x-y": 1}`, `{"in": "y"}`, `{}`},
		"z": {`true`, `false`}, "dm": {`{"a": null}`, `{"a": "b"}`, `{}`}, "dl": {`[true, null]`, `[false]`, `[]`},
	}
	names := []string{"a", "b", "c", "d", "e", "t", "y", "f", "m", "n", "s", "i", "so", "k", "p", "q", "z", "dm", "dl"}
	r := rand.New(rand.NewPCG(5, 8))
	object := func(names []string) string {
		var parts []string
		for _, name := range names {
			if v := values[name]; r.IntN(2) == 0 {
				parts = append(parts, `"`+name+`": `+v[r.IntN(1+r.IntN(len(v)))])
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	outcomes, same := map[bool]int{}, 0
	for _, rule := range []string{
		"self.o == oldSelf.o", "self.o != oldSelf.o", "!has(oldSelf.o.a) || self.o == oldSelf.o", "self.l == oldSelf.l", "self == oldSelf", "self.l.all(x, self.l.exists_one(y, x == y))", "self.o == self.o", "self.l == self.l",
		"self.l.exists(x, x == oldSelf.o)", "self.l.all(x, !oldSelf.l.exists(y, x == y))", "oldSelf.l.exists(x, oldSelf.o == x)",
	} {
		for round := range 2 * len(names) {
			of := names[:1+round%len(names)] // some kinds of values spoil a type
			switch round % 3 {
			case 0:
				of = []string{"a", names[round%len(names)], "m", "q"}
			case 1:
				of = []string{"a", names[round%len(names)], "m"}
			}
			declared := "{type: object, properties: {"
			for _, name := range of {
				declared += name + ": " + properties[name] + ", "
			}
			declared += "}}"
			p := compileYAML(t, `{type: object, properties: {o: `+declared+`, l: {type: array, items: `+declared+`}, pad: {type: string}}, required: [o, l], x-kubernetes-validations: [{rule: "`+rule+`"}]}`, Options{})
			for range 20 {
				o := object(of)
				text := `{"pad": "` + strings.Repeat("x", r.IntN(9)) + `", "l": [` + o + `, ` + object(of) + `, ` + o + `], "o": ` + o + `}`
				other := text
				if r.IntN(2) == 0 {
					other = `{"l": [` + o + `, ` + object(of) + `], "o": ` + object(of) + `}`
				}
				var d, old jsondoc.Doc
				for at, source := range map[*jsondoc.Doc]string{&d: text, &old: other} {
					if _, err := p.Decode(at, []byte(source)); err != nil {
						t.Fatalf("%s: %v", source, err)
					}
				}
				code := p.code.Load()
				code.compileRules()
				w := newWork(context.Background(), maxSteps)
				if !code.root.ok(&d, &w, d.Root().Node) {
					continue
				}
				cost, ok := code.runRules(context.Background(), &d, &old, false)
				if got, is := code.runRules(context.Background(), &d, &old, true); got != cost || is != ok {
					t.Errorf("%s of %s, before %s: %t for %d if it is known to be valid, else %t for %d", rule, text, other, is, got, ok, cost)
				}
				if kept := Keep(&d, &old); kept.Content && strings.Contains(rule, "oldSelf") && !d.MayHaveFloats() && !w.formatsUnverified {
					if got, is := code.runKept(context.Background(), &d, &old, true, kept.After(0)); got != cost || is != ok {
						t.Errorf("%s of %s, which is as it was: %t for %d if that is known, else %t for %d", rule, text, is, got, ok, cost)
					}
					same++
				}
				outcomes[ok]++
			}
		}
	}
	if outcomes[true] < 500 || outcomes[false] < 500 || same < 500 {
		t.Errorf("too few of a sort: %v, %d are as they were", outcomes, same)
	}
}
