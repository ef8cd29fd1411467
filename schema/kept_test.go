package schema

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file tests that an update which leaves something as it was is validated as if all of it were new, and is spared what cannot
// have changed.

const keptSchema = `
type: object
x-kubernetes-validations:
- {rule: "self.metadata.name == 'a' || has(self.metadata.generateName)"}
- {rule: "!has(self.spec) || !has(self.status) || self.status.seen <= self.spec.count"}
- {rule: "!has(oldSelf.spec) || has(self.spec)"}
properties:
  metadata: {type: object, properties: {name: {type: string}, generateName: {type: string, maxLength: 2}}}
  spec:
    type: object
    x-kubernetes-validations:
    - {rule: "self.count < 9"}
    - {rule: "self.fixed == oldSelf.fixed"}
    - {rule: "!oldSelf.hasValue() || self.count >= oldSelf.value().count", optionalOldSelf: true}
    properties:
      count: {type: integer, maximum: 10}
      fixed: {type: string, default: a}
  strict:
    type: object
    properties: {num: {type: integer, x-kubernetes-validations: [{rule: "self > oldSelf"}]}}
  whole:
    type: object
    x-kubernetes-validations: [{rule: "self == oldSelf"}]
    properties: {x: {type: string}, list: {type: array, items: {type: integer}}}
  keyed:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [name]
    items:
      type: object
      required: [name]
      properties:
        name: {type: string}
        v: {type: integer, x-kubernetes-validations: [{rule: "self >= oldSelf"}, {rule: "self < 5"}]}
        w: {type: integer, x-kubernetes-validations: [{rule: "oldSelf.hasValue() || self < 3", optionalOldSelf: true}]}
  loose:
    type: array
    x-kubernetes-list-type: atomic
    items: {type: object, x-kubernetes-validations: [{rule: "has(self.x)"}, {rule: "self.x != 'z' || oldSelf.orValue(self) == self", optionalOldSelf: true}], properties: {x: {type: string}}}
  timed:
    type: object
    x-kubernetes-validations: [{rule: "self == oldSelf"}]
    properties: {when: {type: string, format: date-time}, wait: {type: string, format: duration}, day: {type: string, format: date}, text: {type: string, format: byte}, count: {type: integer}}
  status: {type: object, properties: {seen: {type: integer, minimum: 0}}}
`

var keptValues = map[string][]string{
	"metadata": {`{"name":"a"}`, `{"name":"a"}`, `{"name":"a","labels":{"x":"y"}}`, `{"name":"b","generateName":"g"}`, `{"name":"b"}`, `{"name":"a","generateName":"ggg"}`},
	"spec":     {`{"count":1}`, `{"count":1,"fixed":"b"}`, `{"count":2}`, `{"count":9}`, `{"count":11}`, `{"count":8,"fixed":"a"}`},
	"strict":   {`{"num":1}`, `{"num":2}`, `{}`},
	"whole":    {`{"x":"a","list":[1,2]}`, `{"x":"a","list":[1,2]}`, `{"x":"a","list":[2,1]}`, `{}`},
	"keyed":    {`[{"name":"a","v":1},{"name":"b","v":2,"w":1}]`, `[{"name":"b","v":2,"w":4},{"name":"a","v":1}]`, `[{"name":"a","v":0}]`, `[{"name":"a","v":5}]`, `[{"name":"c","w":3}]`, `[{"name":"a"},{"name":"a"}]`},
	"timed": {`{"when":"2026-01-31T00:00:00Z","wait":"1s"}`, `{"wait":"1 day"}`, `{"when":"2026-01-01t00:00:00z"}`, `{"count":1.0}`, `{"day":"2026-01-31","text":"YQ=="}`, `{"text":"+/+/"}`,
		`{"when":"2026-01-01T00:00:00.5+01:00"}`},
	"loose":  {`[{"x":"a"}]`, `[{"x":"z"},{"x":"b"}]`, `[{}]`},
	"status": {`{"seen":1}`, `{"seen":2}`, `{"seen":-1}`, `{"seen":7}`},
}

// keptObject changes some members of an object that is given by its members.
func keptObject(r *rand.Rand, members map[string]string, one string) string {
	names := []string{"metadata", "spec", "strict", "whole", "keyed", "loose", "timed", "status"}
	var text []string
	for _, name := range names {
		switch values := keptValues[name]; {
		case one != "" && name != one || r.IntN(4) > 0:
		case name != "metadata" && r.IntN(6) == 0:
			delete(members, name)
		default:
			members[name] = values[r.IntN(1+r.IntN(len(values)))]
		}
		if v := members[name]; v != "" {
			text = append(text, fmt.Sprintf("%q:%s", name, v))
		}
	}
	return "{" + strings.Join(text, ",") + "}"
}

// TestKept makes chains of updates, and validates each with what is known of the one before and without.
func TestKept(t *testing.T) {
	p := compileYAML(t, keptSchema, Options{Resource: true})
	r := rand.New(rand.NewPCG(11, 22))
	ctx := context.Background()
	seen := map[string]int{}
	for range 3000 {
		members := map[string]string{"metadata": `{"name":"a"}`}
		var old *jsondoc.Doc
		var before Result
		for range 12 {
			scope, one := Whole, ""
			if old != nil && r.IntN(3) == 0 {
				scope, one = Status, "status"
			}
			tried := map[string]string{}
			for k, v := range members {
				tried[k] = v
			}
			text := keptObject(r, tried, one)
			d := object(t, p, text)
			kept := Kept{}
			if old != nil {
				if kept = Keep(d, old); before.KnownValid && !old.MayHaveFloats() {
					kept = kept.After(before.Spent)
				}
			}
			want := p.Validate(ctx, d, old, scope)
			got := p.ValidateAmong(ctx, d, old, scope, kept, nil, nil)
			if a, b := lines(got.Errors), lines(want.Errors); !slices.Equal(a, b) || got.KnownValid != want.KnownValid {
				t.Fatalf("%s (scope %v, %+v): got %q, sound %t; want %q, sound %t", text, scope, kept, a, got.KnownValid, b, want.KnownValid)
			}
			if got.KnownValid && got.Spent < want.Spent {
				t.Fatalf("%s: costs %d, said to be at most %d", text, want.Spent, got.Spent)
			}
			seen[fmt.Sprintf("valid %t, known %t, all %t, status %t", len(want.Errors) == 0, kept.knownValid, kept.all(), scope == Status)]++
			if len(want.Errors) == 0 {
				members, old, before = tried, d, got
			}
		}
	}
	for _, what := range []string{"valid %t, known true, all false, status false", "valid %t, known true, all true, status false", "valid %t, known true, all false, status true"} {
		for _, valid := range []bool{true, false} {
			if n := seen[fmt.Sprintf(what, valid)]; n < 100 {
				t.Errorf("%s: only %d times", fmt.Sprintf(what, valid), n)
			}
		}
	}
}

// TestKeptIsSpared says of objects that are not valid that they were, and sees what nobody looks at any more.
func TestKeptIsSpared(t *testing.T) {
	p := compileYAML(t, keptSchema, Options{Resource: true})
	ctx := context.Background()
	for _, row := range []struct {
		old, new string
		scope    Scope
		want     []string
	}{
		// Nothing differs: neither values nor rules are looked at, but for those that ask what was before.
		{`{"metadata":{"name":"b"},"spec":{"count":11}}`, `{"metadata":{"name":"b","labels":{"a":"b"}},"spec":{"count":11}}`, Whole, nil},
		{`{"metadata":{"name":"a"},"strict":{"num":1}}`, `{"metadata":{"name":"a","labels":{"a":"b"}},"strict":{"num":1}}`, Whole, []string{"strict.num: Invalid value: 1: failed rule: self > oldSelf"}},
		{`{"metadata":{"name":"a"},"keyed":[{"name":"a","v":5}]}`, `{"metadata":{"name":"a","labels":{"a":"b"}},"keyed":[{"name":"a","v":5}]}`, Whole, nil},
		// Something else differs: rules of what does not are not asked, the root's are.
		{`{"metadata":{"name":"a"},"spec":{"count":9}}`, `{"metadata":{"name":"a"},"spec":{"count":9},"status":{"seen":1}}`, Whole, nil},
		{`{"metadata":{"name":"a"},"spec":{"count":9}}`, `{"metadata":{"name":"a"},"spec":{"count":9},"status":{"seen":1}}`, Status, nil},
		{`{"metadata":{"name":"b"},"spec":{"count":9}}`, `{"metadata":{"name":"b"},"spec":{"count":9},"status":{"seen":1}}`, Status, []string{
			`<nil>: Invalid value: failed rule: self.metadata.name == 'a' || has(self.metadata.generateName)`}},
		// What rules see of metadata differs.
		{`{"metadata":{"name":"b","generateName":"g"}}`, `{"metadata":{"name":"b"}}`, Whole, []string{
			`<nil>: Invalid value: failed rule: self.metadata.name == 'a' || has(self.metadata.generateName)`}},
	} {
		old, d := object(t, p, row.old), object(t, p, row.new)
		if got := lines(p.ValidateAmong(ctx, d, old, row.scope, Keep(d, old).After(0), nil, nil).Errors); !slices.Equal(got, row.want) {
			t.Errorf("%s after %s: got %q, want %q", row.new, row.old, got, row.want)
		}
	}
}

// TestKeptBudget: what rules cost is counted for the whole object, whatever an update leaves as it was.
func TestKeptBudget(t *testing.T) {
	const rule = `self.all(x, self.all(y, x != y + 1000))`
	p := compileYAML(t, `{type: object, properties: {a: {type: array, maxItems: 1000, items: {type: integer}, x-kubernetes-validations: [{rule: "`+rule+`"}]},
		b: {type: array, maxItems: 1000, items: {type: integer}, x-kubernetes-validations: [{rule: "`+rule+`"},{rule: "`+rule+`"},{rule: "`+rule+`"},{rule: "`+rule+`"},{rule: "`+rule+`"},{rule: "`+rule+`"}]}}}`, Options{Resource: true})
	ctx := context.Background()
	list := func(n int) string {
		var b []string
		for i := range n {
			b = append(b, fmt.Sprint(i))
		}
		return "[" + strings.Join(b, ",") + "]"
	}
	text := func(a, b int) string { return `{"a":` + list(a) + `,"b":` + list(b) + `}` }
	old := object(t, p, text(1, 320))
	before := p.Validate(ctx, old, nil, Whole)
	if !before.KnownValid || before.Spent < objectBudget/4 || before.Spent > objectBudget/2 {
		t.Fatalf("cost %d, errors %v", before.Spent, before.Errors)
	}
	sums := uint64(0)
	for _, n := range []int{2, 300, 320, 400} {
		d := object(t, p, text(n, 320))
		want := p.Validate(ctx, d, old, Whole)
		got := p.ValidateAmong(ctx, d, old, Whole, Keep(d, old).After(before.Spent), nil, nil)
		if a, b := lines(got.Errors), lines(want.Errors); !slices.Equal(a, b) {
			t.Errorf("%d items: got %q, want %q", n, a, b)
		}
		if got.KnownValid {
			sums = max(sums, got.Spent)
		}
	}
	if sums <= before.Spent {
		t.Error("costs do not add up")
	}
	// Near the limit an update that would exceed it if costs were added up is looked at as a whole.
	d := object(t, p, text(2, 320))
	if r := p.ValidateAmong(ctx, d, old, Whole, Keep(d, old).After(objectBudget-1), nil, nil); !r.KnownValid || r.Spent > objectBudget/2 {
		t.Errorf("sound %t, cost %d, errors %v", r.KnownValid, r.Spent, r.Errors)
	}
}
