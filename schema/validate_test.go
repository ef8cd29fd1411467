package schema

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/strfmt"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file tests validation: its texts by a table, and that the fast path and
// the slow one agree.

// object decodes text by p.
func object(t testing.TB, p *Program, text string) *jsondoc.Doc {
	t.Helper()
	if text == "" {
		return nil
	}
	d := new(jsondoc.Doc)
	if _, err := p.Decode(d, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return d
}

func lines(errs field.ErrorList) []string {
	var list []string
	for _, err := range errs {
		list = append(list, err.Error())
	}
	return list
}

func TestValidate(t *testing.T) {
	const skipped = `<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation`
	for _, row := range []struct {
		where, schema, old, new string
		scope                   Scope
		errs                    []string
	}{
		{here(), `{type: object, properties: {a: {type: string}}}`, ``, `{"a":1}`, Whole,
			[]string{`a: Invalid value: "integer": a in body must be of type string: "integer"`}},
		{here(), `{type: object, minProperties: 3}`, ``, `{"kind":"K"}`, Whole,
			[]string{`<nil>: Invalid value: 1:  in body should have at least 3 properties`}},
		{here(), `{type: object, required: [a], properties: {a: {type: string}}}`, ``, `{}`, Whole, []string{`a: Required value`}},
		{here(), `{type: object, properties: {a: {type: integer}}}`, ``, `{"a":5.5}`, Whole,
			[]string{`a: Invalid value: "number": a in body must be of type integer: "number"`, `<nil>: Invalid value: "": Checked value must be of type integer (default format) in a`}},
		{here(), `{type: object, properties: {a: {type: integer}}}`, ``, `{"a":2147483649.5}`, Whole,
			[]string{`<nil>: Invalid value: "": Checked value must be of type integer (default format) in a`}},
		{here(), `{type: object, properties: {a: {type: string, enum: [x, why]}}}`, ``, `{"a":"z"}`, Whole,
			[]string{`a: Unsupported value: "z": supported values: "x", "why"`}},
		{here(), `{type: object, properties: {a: {type: string, maxLength: 1, pattern: "^x"}}}`, ``, `{"a":"zz"}`, Whole,
			[]string{`a: Too long: may not be more than 1 byte`}},
		{here(), `{type: object, properties: {a: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}`, ``, `{"a":["x","y","x","x"]}`, Whole,
			[]string{`a[2]: Duplicate value: "x"`}},
		{here(), `{type: object, properties: {a: {type: object, properties: {b: {type: string}, c: {type: string}}, oneOf: [{required: [b]}, {required: [c]}]}}}`, ``, `{"a":{}}`, Whole,
			[]string{`<nil>: Invalid value: "": "a" must validate one and only one schema (oneOf). Found none valid`, `a.b: Required value`}},
		{here(), `{type: object, properties: {a: {type: string, format: date-time, x-kubernetes-validations: [{rule: "self == self"}]}}}`, ``, `{"a":"foo"}`, Whole,
			[]string{`a: Invalid value: "foo": a in body must be of type date-time: "foo"`, skipped}},
		{here(), `{type: object, properties: {e: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}`, ``, `{"e":{"kind":"","metadata":{"name":"a/b"}}}`, Whole,
			[]string{`e.apiVersion: Required value`, `e.kind: Invalid value: "": must not be empty`, `e.metadata.name: Invalid value: "a/b": may not contain '/'`}},
		// Ratcheting.
		{here(), `{type: object, properties: {a: {type: string, maxLength: 1}}}`, `{"a":"zz"}`, `{"a":"zz","metadata":{}}`, Whole, nil},
		{here(), `{type: object, properties: {a: {type: array, items: {type: string, maxLength: 1}}}}`, `{"a":["zz"]}`, `{"a":["zz","y"]}`, Whole,
			[]string{`a[0]: Too long: may not be more than 1 byte`}},
		// The status subresource.
		{here(), `{type: object, required: [a], properties: {status: {type: object, properties: {b: {type: string}}}}}`, `{}`, `{"status":{"b":1}}`, Status,
			[]string{`status.b: Invalid value: "integer": b in body must be of type string: "integer"`}},
		// Rules.
		{here(), `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "self > 5"}]}}}`, ``, `{"a":1}`, Whole,
			[]string{`a: Invalid value: 1: failed rule: self > 5`}},
		{here(), `{type: object, properties: {a: {type: object, properties: {b: {type: integer}}, x-kubernetes-validations: [{rule: "self.b > 5", fieldPath: ".b", reason: FieldValueForbidden}]}}}`, ``, `{"a":{"b":1}}`, Whole,
			[]string{`a.b: Forbidden: failed rule: self.b > 5`}},
		{here(), `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "self == oldSelf", message: " fixed "}]}}}`, `{"a":2}`, `{"a":1}`, Whole,
			[]string{`a: Invalid value: 1: fixed`}},
	} {
		p := compileYAML(t, row.schema, Options{Resource: true})
		r := p.Validate(context.Background(), object(t, p, row.new), object(t, p, row.old), row.scope)
		if got := lines(r.Errors); !slices.Equal(got, row.errs) {
			t.Errorf("%s:\n got %s\nwant %s", row.where, strings.Join(got, "\n     "), strings.Join(row.errs, "\n     "))
		}
	}
}

// TestForgivenRule: what an update leaves alone becomes a warning.
func TestForgivenRule(t *testing.T) {
	p := compileYAML(t, `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "self > 5"}]}}}`, Options{Resource: true})
	r := p.Validate(context.Background(), object(t, p, `{"a":1,"kind":"K"}`), object(t, p, `{"a":1}`), Whole)
	if want := []string{"a: Invalid value: 1: failed rule: self > 5"}; len(r.Errors) > 0 || !slices.Equal(r.Warnings, want) {
		t.Errorf("got %v and warnings %q, want warnings %q", r.Errors, r.Warnings, want)
	}
}

// TestLongLists: old items are found at once however long the list is.
func TestLongLists(t *testing.T) {
	for _, keys := range []string{"[name]", "[name, num]"} {
		p := compileYAML(t, `
type: object
properties:
  l:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: `+keys+`
    items:
      type: object
      required: [name, num]
      properties: {name: {type: string}, num: {type: integer}, v: {type: integer, x-kubernetes-validations: [{rule: self == oldSelf}]}}
`, Options{Resource: true})
		const size = 20_000
		var old, new strings.Builder
		for i := range size {
			fmt.Fprintf(&old, `,{"name":"n%d","num":1,"v":%d}`, i, i)
			fmt.Fprintf(&new, `,{"name":"n%d","num":1,"v":%d}`, size-1-i, size-1-i)
		}
		oldDoc := object(t, p, `{"l":[`+old.String()[1:]+`]}`)
		r := p.Validate(context.Background(), object(t, p, `{"l":[`+new.String()[1:]+`]}`), oldDoc, Whole)
		if len(r.Errors) > 0 {
			t.Fatalf("keys %s: got %v", keys, r.Errors.ToAggregate())
		}
		changed := strings.Replace(new.String()[1:], `"v":7}`, `"v":8}`, 1)
		r = p.Validate(context.Background(), object(t, p, `{"l":[`+changed+`]}`), oldDoc, Whole)
		if got, want := lines(r.Errors), []string{"l[19992].v: Invalid value: 8: failed rule: self == oldSelf"}; !slices.Equal(got, want) {
			t.Errorf("keys %s: got %s, want %s", keys, got, want)
		}
	}
}

// TestForeignShapes validates documents that another program laid out.
func TestForeignShapes(t *testing.T) {
	const text = `{type: object, properties: {a: {type: string, maxLength: 1}, b: {type: integer}}}`
	other := compileYAML(t, `{type: object, properties: {zz: {type: string}, a: {type: string}}}`, Options{Resource: true})
	p := compileYAML(t, text, Options{Resource: true})
	var plain jsondoc.Doc
	if err := jsondoc.Parse(&plain, []byte(`{"a":"xx"}`)); err != nil {
		t.Fatal(err)
	}
	for _, d := range []*jsondoc.Doc{object(t, other, `{"a":"xx"}`), &plain} {
		if r := p.Validate(context.Background(), d, nil, Whole); len(r.Errors) != 1 {
			t.Errorf("got %v, want one error", r.Errors)
		}
	}
}

// FuzzValidate compares the fast path with the slow one, whatever the input.
func FuzzValidate(f *testing.F) {
	text, err := os.ReadFile("testdata/everything.yaml")
	if err != nil {
		f.Fatal(err)
	}
	p := compileYAML(f, string(text), Options{Resource: true})
	p.code.Load().compileRules()
	for _, seed := range []string{
		`{"spec":{}}`, `{"spec":{"name":"forbidden"}}`, `{"spec":{"count":1,"ratio":1.5,"when":"2024-01-01T00:00:00Z","kind":"a"}}`,
		`{"spec":{"list":[{"name":"x"},{"name":"x"}],"set":["a","a"],"map":{"a":1},"one":{"a":"b"}}}`,
		`{"spec":{"port":"x","one":{"a":"","b":"c"},"any":{"a":[]},"kind":null,"count":null}}`,
	} {
		f.Add([]byte(seed), []byte(`{}`))
	}
	ctx := context.Background()
	f.Fuzz(func(t *testing.T, src, oldSrc []byte) {
		var d, old jsondoc.Doc
		if _, err := p.Decode(&d, src); err != nil {
			return
		}
		r := p.code.Load().explain(ctx, &d, nil, Whole, nil, nil)
		if _, ok := p.code.Load().ok(steps(), &d, nil, Whole, Kept{}); ok != (len(r.Errors) == 0) {
			t.Fatalf("%s: fast path says %v, slow path %v", src, ok, r.Errors.ToAggregate())
		}
		if _, err := p.Decode(&old, oldSrc); err != nil {
			return
		}
		for _, scope := range []Scope{Whole, Status} {
			r := p.code.Load().explain(ctx, &d, &old, scope, nil, nil)
			if _, ok := p.code.Load().ok(steps(), &d, &old, scope, Kept{}); ok && len(r.Errors)+len(r.Warnings) > 0 {
				t.Fatalf("%s after %s: fast path says valid, slow path %v, warnings %q", src, oldSrc, r.Errors.ToAggregate(), r.Warnings)
			}
		}
	})
}

// TestStamps holds the quick answer on time stamps against the plain ones.
func TestStamps(t *testing.T) {
	const good = "2026-01-28T23:59:59Z"
	if !isStamp(good) {
		t.Fatalf("%s is no time stamp", good)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		b := []byte(good)
		for range random.IntN(4) {
			b[random.IntN(len(b))] = "0123456789-:TtZz+. "[random.IntN(19)]
		}
		s := string(b[:len(b)-random.IntN(2)])
		if !isStamp(s) {
			continue
		}
		if _, err := time.Parse(time.RFC3339, s); err != nil || !strfmt.IsDateTime(s) {
			t.Fatalf("%q counts as a time stamp, but %v, %v", s, err, strfmt.IsDateTime(s))
		}
	}
}

// steps are those of one object.
func steps() *work {
	w := newWork(context.Background(), maxSteps)
	return &w
}
