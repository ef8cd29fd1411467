package schema

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/jsondoc"
)

// TestCoverage checks which goals objects reach.
func TestCoverage(t *testing.T) {
	for _, test := range []struct {
		schema  string
		objects []string // "old => new" is an update
		want    []string // the goals that are reached, as path: text
		missing int      // the number of other goals
	}{
		{"{type: integer, minimum: 1, maximum: 9}", []string{"1", "10"},
			[]string{"minimum: is at its edge, 1", "maximum: is more than 9", "FIELD"}, 2},
		{"{type: integer, minimum: 1, exclusiveMinimum: true}", []string{"2", "1"},
			[]string{"minimum: is at its edge, 2", "minimum: is 1, or less than that", "FIELD"}, 0},
		{"{type: number, maximum: 1, exclusiveMaximum: true, multipleOf: 0.5}", []string{"0.5"},
			[]string{"maximum: is near its edge, 1", "multipleOf: is a multiple of 0.5", "FIELD"}, 2},
		{"{type: string, minLength: 0, maxLength: 3, pattern: '^é*$'}", []string{"ééé", "abcd"},
			[]string{"maxLength: is at its edge, 3", "maxLength: is more than 3", "pattern: matches ^é*$", "pattern: does not match ^é*$", "FIELD"}, 0},
		{"{type: string, format: ipv4}", []string{"'1.2.3'"}, []string{"format: does not have the format ipv4", "FIELD"}, 1},
		{"{type: string, enum: [a, b]}", []string{"b"}, []string{"enum[1]: is \"b\"", "FIELD"}, 2},
		{"{type: array, minItems: 1, maxItems: 2, x-kubernetes-list-type: set, items: {type: integer, maximum: 5}}", []string{"[5]", "[1, 1]"},
			[]string{"minItems: is at its edge, 1", "maxItems: is at its edge, 2", "x-kubernetes-list-type: has an item twice", "items.maximum: is at its edge, 5", "FIELD"}, 4},
		{"{type: object, required: [a], maxProperties: 2, properties: {a: {type: string}, b: {type: string, default: x}}}", []string{"{}"},
			[]string{"required: a is missing", "properties.b: is set", "properties.b.default: is filled in: \"x\"", "FIELD"}, 3},
		{"{type: object, default: {}, properties: {b: {type: string, default: x}}}", []string{"{b: x}"},
			[]string{"properties.b: is set", "FIELD"}, 2},
		{"{type: object, default: {}, properties: {b: {type: string, default: x}}}", []string{""},
			[]string{"default: is filled in: {}", "properties.b: is set", "properties.b.default: is filled in: \"x\"", "FIELD"}, 0},
		{"{type: object, properties: {a: {type: string}, b: {type: string}}, oneOf: [{required: [a]}, {required: [b]}]}", []string{"{b: x}"},
			[]string{"oneOf[1]: satisfies this branch", "properties.b: is set", "FIELD"}, 3},
		{"{type: object, additionalProperties: {type: integer, maximum: 3}, anyOf: [{maxProperties: 1}], allOf: [{minProperties: 2}], not: {minProperties: 9}}", []string{"{a: 4, b: 3}"},
			[]string{"anyOf: satisfies no branch", "allOf[0].minProperties: is at its edge, 2", "additionalProperties.maximum: is at its edge, 3", "additionalProperties.maximum: is more than 3", "FIELD"}, 3},
		{"{type: integer, x-kubernetes-validations: [{rule: 'self > 1 && self < 5'}]}", []string{"3", "1"},
			[]string{"x-kubernetes-validations[0].rule: accepts a value", "x-kubernetes-validations[0].rule: refuses a value", "x-kubernetes-validations[0].rule: is true: self > 1",
				"x-kubernetes-validations[0].rule: is false: self > 1", "x-kubernetes-validations[0].rule: decides about the result: self > 1",
				"x-kubernetes-validations[0].rule: is true: self < 5", "FIELD"}, 2},
		{"{type: integer, x-kubernetes-validations: [{rule: 'self >= oldSelf'}]}", []string{"3", "3 => 2"},
			[]string{"x-kubernetes-validations[0].rule: refuses a value", "FIELD"}, 1},
		{"{type: string, maxLength: 2, x-kubernetes-validations: [{rule: 'self == \"x\"'}]}", []string{"abc"}, // the rule is not evaluated
			[]string{"maxLength: is more than 2", "FIELD"}, 3},
	} {
		p := compileYAML(t, fmt.Sprintf("{type: object, properties: {f: %s}}", test.schema), Options{})
		c, err := p.NewCoverage()
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range test.objects {
			was, is, update := strings.Cut(text, " => ")
			if !update {
				is = was
			}
			text := func(f string) string {
				if f == "" {
					return "{}"
				}
				json, err := yaml.YAMLToJSON([]byte("{f: " + f + "}"))
				if err != nil {
					t.Fatal(err)
				}
				return string(json)
			}
			v := Validated{New: object(t, p, text(is)), Sent: new(jsondoc.Doc)}
			if update {
				v.Old = object(t, p, text(was))
			}
			if err := jsondoc.Parse(v.Sent, []byte(text(is))); err != nil {
				t.Fatal(err)
			}
			v.Errors = p.Validate(context.Background(), v.New, v.Old, Whole).Errors
			c.Add(context.Background(), v)
		}
		var got []string
		missing := 0
		for _, g := range c.Goals() {
			switch name := strings.TrimPrefix(strings.TrimPrefix(g.Path, "properties.f"), "."); {
			case !g.Reached:
				missing++
			case name == "":
				got = append(got, "FIELD")
			default:
				got = append(got, name+": "+g.Text)
			}
		}
		slices.Sort(got)
		slices.Sort(test.want)
		if !slices.Equal(got, test.want) || missing != test.missing {
			t.Errorf("%s: %v:\ngot  %q and %d others\nwant %q and %d", test.schema, test.objects, got, missing, test.want, test.missing)
		}
	}
}
