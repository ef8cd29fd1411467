package schema

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// This file tests what is easily lost: where bounds are, which of several errors is shown, what is correlated.

// TestFacts has a row for each fact. Errors are in upstream's words.
func TestFacts(t *testing.T) {
	const (
		text   = `{type: object, properties: {a: {type: string, %}}}`
		number = `{type: object, properties: {a: {type: number, %}}}`
		listed = `{type: object, properties: {a: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object,
			required: [k], properties: {k: {type: string}, v: {type: string, maxLength: 1}}}}}}`
		several = `{type: object, properties: {a: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l], items: {type: object,
			required: [k, l], properties: {k: {type: number}, l: {type: string}, v: {type: string, maxLength: 1}}}}}}`
		rule    = `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [%]}}}`
		skipped = `<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation`
	)
	of := func(schema, with string) string { return strings.ReplaceAll(schema, "%", with) }
	for _, row := range []struct {
		where, schema, old, new string
		errs                    []string
	}{
		// Lengths are counted in characters, and a bound is a length that is allowed.
		{here(), of(text, "minLength: 5, maxLength: 5"), ``, `{"a":"äöüßé"}`, nil},
		{here(), of(text, "maxLength: 4"), ``, `{"a":"äöüßé"}`, []string{`a: Too long: may not be more than 4 bytes`}},
		{here(), of(text, "minLength: 6"), ``, `{"a":"äöüßé"}`, []string{`a: Invalid value: "äöüßé": a in body should be at least 6 chars long`}},
		{here(), of(number, "minimum: 2, maximum: 2, multipleOf: 2"), ``, `{"a":2}`, nil},
		{here(), of(number, "minimum: 2, exclusiveMinimum: true"), ``, `{"a":2}`, []string{`a: Invalid value: 2: a in body should be greater than 2`}},
		{here(), `{type: object, properties: {a: {type: array, minItems: 1, maxItems: 1, items: {type: integer}}}}`, ``, `{"a":[1]}`, nil},
		{here(), `{type: object, properties: {a: {type: object, minProperties: 1, maxProperties: 1, additionalProperties: {type: integer}}}}`, ``, `{"a":{"b":1}}`, nil},
		// Fractional bounds are cut where integers are compared, and wrong where only integers are allowed.
		{here(), of(number, "maximum: 1.5"), ``, `{"a":2}`, []string{`a: Invalid value: 2: a in body should be less than or equal to 1`}},
		{here(), of(number, "minimum: 1.5"), ``, `{"a":1}`, nil},
		{here(), `{type: object, properties: {a: {type: integer, maximum: 1.5}}}`, ``, `{"a":2}`,
			[]string{`<nil>: Invalid value: "": Maximum boundary value must be of type integer (default format) in a`, `a: Invalid value: 2: a in body should be less than or equal to 1.5`}},
		{here(), of(number, "format: float"), ``, `{"a":1e39}`, []string{`<nil>: Invalid value: "": Checked value must be of type number with format float in a`}},
		// The branch is shown in which most is right, the first of those; a text is said once.
		{here(), `{type: object, properties: {a: {type: object, properties: {b: {type: string}, c: {type: string}}, anyOf: [{required: [b]}, {required: [c]}]}}}`, ``, `{"a":{}}`,
			[]string{`<nil>: Invalid value: "": "a" must validate at least one schema (anyOf)`, `a.b: Required value`}},
		{here(), of(text, "maxLength: 1, allOf: [{maxLength: 1}]"), ``, `{"a":"zz"}`,
			[]string{`a: Too long: may not be more than 1 byte`, `<nil>: Invalid value: "": "a" must validate all the schemas (allOf). None validated`}},
		// Of duplicates the first is said; 1 is not 1.0; an item that is null has the wrong type only.
		{here(), listed, ``, `{"a":[{"k":"a"},{"k":"b"},{"k":"a"},{"k":"a"}]}`, []string{`a[2]: Duplicate value: {"k":"a"}`}},
		{here(), `{type: object, properties: {a: {type: array, x-kubernetes-list-type: set, items: {type: number}}}}`, ``, `{"a":[1,1.0,2]}`, nil},
		{here(), `{type: object, properties: {a: {type: array, x-kubernetes-list-type: set, items: {type: number}}}}`, ``, `{"a":[1,1.0,2,2]}`, []string{`a[3]: Duplicate value: 2`}},
		{here(), `{type: object, properties: {a: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object,
			required: [k], properties: {k: {type: number}}}}}}`, ``, `{"a":[{"k":1},{"k":1.0},{"k":2},{"k":2}]}`, []string{`a[3]: Duplicate value: {"k":2}`}},
		{here(), listed, ``, `{"a":[null,{"k":"a"}]}`, []string{`a[0]: Invalid value: "null": a[0] in body must be of type object: "null"`}},
		{here(), listed, `{"a":[{"k":"a"},{"k":"a"}]}`, `{"a":[{"k":"b"},{"k":"b"}]}`, nil},
		// Defaults are checked even where the definition says what none may say.
		{here(), `{type: object, properties: {a: {type: array, uniqueItems: true, items: {type: number}}}}`, ``, `{"a":[1,1.0,2,2]}`, []string{`a: Invalid value: "": a in body shouldn't contain duplicates`}},
		{here(), `{type: object, properties: {a: {type: array, items: {type: string}, anyOf: [{not: {uniqueItems: true}}]}}}`, ``, `{"a":["a","a"]}`, nil},
		// What is not changed is forgiven: but for kind, in items of the same keys, however many keys are written.
		{here(), `{type: object, properties: {kind: {type: string, maxLength: 1}, b: {type: string, maxLength: 1}}}`, `{"kind":"KK","b":"bb"}`, `{"kind":"KK","b":"bb","metadata":{}}`,
			[]string{`kind: Too long: may not be more than 1 byte`}},
		{here(), listed, `{"a":[{"k":"a","v":"zz"},{"k":"b"}]}`, `{"a":[{"k":"b","v":"yy"},{"k":"a","v":"zz"}]}`, []string{`a[0].v: Too long: may not be more than 1 byte`}},
		{here(), several, `{"a":[{"k":1.0000001,"l":"a","v":"zz"}]}`, `{"a":[{"k":1.0000002,"l":"a","v":"zz"}]}`, nil},
		{here(), several, `{"a":[{"k":1.00001,"l":"a","v":"zz"}]}`, `{"a":[{"k":1.00002,"l":"a","v":"zz"}]}`, []string{`a[0].v: Too long: may not be more than 1 byte`}},
		// Rules wait for errors of some kinds.
		{here(), `{type: object, properties: {a: {type: array, maxItems: 1, items: {type: integer}, x-kubernetes-validations: [{rule: "false"}]}}}`, ``, `{"a":[1,2]}`,
			[]string{`a: Too many: 2: must have at most 1 item`, skipped}},
		{here(), of(rule, `{rule: "false"}, {rule: "self > 1"}`), ``, `{"a":1}`, []string{`a: Invalid value: 1: failed rule: false`, `a: Invalid value: 1: failed rule: self > 1`}},
		{here(), of(rule, `{rule: "self > 5 && self != 6"}`), ``, `{"a":6.0}`,
			[]string{`a: Invalid value: "integer": invalid data, expected int, got float64 evaluating rule: self > 5 && self != 6`}},
		// A messageExpression knows oldSelf if the rules do, and never as an optional value.
		{here(), of(rule, `{rule: "self > 5", message: m, messageExpression: "'was ' + string(oldSelf)"}`), `{"a":7}`, `{"a":1}`, []string{`a: Invalid value: 1: m`}},
		{here(), of(rule, `{rule: "self > oldSelf", message: m, messageExpression: "'was ' + string(oldSelf)"}`), `{"a":7}`, `{"a":1}`, []string{`a: Invalid value: 1: was 7`}},
		{here(), of(rule, `{rule: "!oldSelf.hasValue()", optionalOldSelf: true, message: m, messageExpression: "oldSelf.hasValue() ? 'x' : 'y'"}`), `{"a":7}`, `{"a":1}`, []string{`a: Invalid value: 1: m`}},
		{here(), of(rule, `{rule: "self > 5", message: m, messageExpression: "'a\\nb'"}`), ``, `{"a":1}`, []string{`a: Invalid value: 1: m`}},
	} {
		p := compileYAML(t, row.schema, Options{Resource: true})
		d, old := object(t, p, row.new), object(t, p, row.old)
		if got := lines(p.Validate(context.Background(), d, old, Whole).Errors); !slices.Equal(got, row.errs) {
			t.Errorf("%s: got\n  %s\nwant\n  %s", row.where, strings.Join(got, "\n  "), strings.Join(row.errs, "\n  "))
		}
		code, err := p.load()
		if err != nil {
			t.Fatal(err)
		}
		if got := lines(code.explain(context.Background(), d, old, Whole, nil, nil).Errors); !slices.Equal(got, row.errs) {
			t.Errorf("%s: the slow path alone: got\n  %s", row.where, strings.Join(got, "\n  "))
		}
	}
}

// TestUnusedMessages checks the reasons for which a messageExpression is not used, for errors and for
// errors that ratcheting turns into warnings.
func TestUnusedMessages(t *testing.T) {
	const of = `{type: object, properties: {a: {type: object, properties: {b: {type: string}, c: {type: string}}, x-kubernetes-validations: [{rule: "false", message: m, messageExpression: "%s"}]}}}`
	for _, c := range []struct {
		where              string
		expression, reason string
	}{
		{here(), "'x' + self.b", ""},
		{here(), "self.c", "messageExpression evaluation failed due to: no such key: c"},
		{here(), "self.b.substring(9)", "messageExpression evaluation failed due to: index out of range: 9"},
		{here(), "'x' + self.b + '\\\\n' + self.b", "messageExpression should not contain line breaks"},
		{here(), "'  '", "messageExpression should evaluate to a non-empty string"},
		{here(), "[" + strings.TrimSuffix(strings.Repeat("'0123456789', ", 520), ", ") + "].join(self.b)", "messageExpression beyond allowable length of 5120"},
	} {
		p := compileYAML(t, fmt.Sprintf(of, c.expression), Options{Resource: true})
		d := object(t, p, `{"a":{"b":"x"}}`)
		for _, old := range []string{"", `{"a":{"b":"x"}}`} {
			r := p.Validate(context.Background(), d, object(t, p, old), Whole)
			var want []UnusedMessage
			if c.reason != "" {
				want = []UnusedMessage{{Field: "a", Expression: strings.ReplaceAll(c.expression, `\\`, `\`), Reason: c.reason}}
			}
			if !slices.Equal(r.UnusedMessages, want) || len(r.Errors)+len(r.Warnings) != 1 {
				t.Errorf("%s: on %q: got %.300q, errors %s and warnings %q, want %.300q", c.where, old, r.UnusedMessages, lines(r.Errors), r.Warnings, want)
			}
		}
	}
}

// TestLongMessages holds where a message is too long to be shown.
func TestLongMessages(t *testing.T) {
	p := compileYAML(t, `{type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: "false", message: m, messageExpression: self}]}}}`, Options{})
	for size, want := range map[int]string{maxMessage: strings.Repeat("x", maxMessage), maxMessage + 1: "m"} {
		text := strings.Repeat("x", size)
		if errs := p.Validate(context.Background(), object(t, p, `{"a":"`+text+`"}`), nil, Whole).Errors; len(errs) != 1 || errs[0].Detail != want {
			t.Errorf("%d bytes: got %v", size, lines(errs))
		}
	}
	if maxMessage != 5120 {
		t.Errorf("the longest message has %d bytes, upstream's 5120", maxMessage)
	}
}

// TestExactBudget holds that rules may cost all of their budget, and no more.
func TestExactBudget(t *testing.T) {
	p := compileYAML(t, `{type: object, properties: {a: {type: array, items: {type: integer}, x-kubernetes-validations: [{rule: "self.all(x, x > 0)"}, {rule: "self.size() > 1"}]}}}`, Options{})
	d := object(t, p, `{"a":[1,2,3]}`)
	budget := int64(1000)
	if errs := p.ValidateDefaultRules(context.Background(), d, nil, &budget); len(errs) > 0 || budget <= 0 || budget >= 1000 {
		t.Fatalf("got %v, %d left", lines(errs), budget)
	}
	cost := 1000 - budget
	for _, budget := range []int64{cost, cost - 1} {
		want := []string(nil)
		if budget < cost {
			want = []string{`a: Invalid value: "array": validation failed due to running out of cost budget, no further validation rules will be run`}
		}
		if got := lines(p.ValidateDefaultRules(context.Background(), d, nil, &budget)); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestCardinality holds how often a rule is evaluated at most.
func TestCardinality(t *testing.T) {
	const rule = `{type: string, maxLength: 8, x-kubernetes-validations: [{rule: "self != 'a'"}]}`
	for schema, want := range map[string]uint64{
		`{type: array, maxItems: 3, items: ` + rule + `}`:                                                                       3,
		`{type: array, maxItems: 0, items: ` + rule + `}`:                                                                       0,
		`{type: array, maxItems: -2, items: ` + rule + `}`:                                                                      0,
		`{type: array, maxItems: 3, items: {type: object, maxProperties: 5, additionalProperties: ` + rule + `}}`:               15,
		`{type: object, maxProperties: 5, properties: {b: ` + rule + `}}`:                                                       1,
		`{type: array, items: ` + rule + `}`:                                                                                    maxRequestSize / 3,
		`{type: array, items: {type: array, maxItems: 2, items: ` + rule + `}}`:                                                 maxRequestSize / 3,
		`{type: object, additionalProperties: {type: object, required: [b], properties: {b: ` + rule + `, c: {type: string}}}}`: maxRequestSize / 3,
	} {
		p := compileYAML(t, `{type: object, properties: {a: `+schema+`}}`, Options{})
		if costs := p.Costs(nil); len(costs) != 1 || costs[0].Times != want {
			t.Errorf("%s: got %+v, want %d times", schema, costs, want)
		}
	}
}
