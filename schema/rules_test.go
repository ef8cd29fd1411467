package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file tests what is said about rules when a schema is written.

func TestCheckRules(t *testing.T) {
	const help = " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
	for _, row := range []struct {
		where, schema string
		check         RuleCheck
		errs          []string
	}{
		{here(), `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: "self.a > 1"}]}`, RuleCheck{}, nil},
		{here(), `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "self.m == 1"}]}}}`, RuleCheck{Path: field.NewPath("root")}, []string{
			`root.properties[a].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.m == 1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:5: type 'int' does not support field selection
 | self.m == 1
 | ....^`}},
		{here(), `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "self"}]}}}`, RuleCheck{}, []string{
			`properties[a].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: cel expression must evaluate to a bool`}},
		{here(), `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "self > 1", messageExpression: "self"}]}}}`, RuleCheck{}, []string{
			`properties[a].x-kubernetes-validations[0].messageExpression: Invalid value: {"Rule":"self \u003e 1","Message":"","MessageExpression":"self","Reason":null,"FieldPath":"","OptionalOldSelf":null}: messageExpression must evaluate to a string`}},
		{here(), `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "self > 1", optionalOldSelf: true}]}}}`, RuleCheck{}, []string{
			`properties[a].x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule`}},
		{here(), `{type: object, properties: {a: {type: array, items: {type: integer, x-kubernetes-validations: [{rule: "self > oldSelf"}]}}}}`, RuleCheck{Path: field.NewPath("root")}, []string{
			`root.properties[a].items.x-kubernetes-validations[0].rule: Invalid value: "self > oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within root.properties[a]`}},
		{here(), `{type: object, properties: {a: {type: array, items: {x-kubernetes-preserve-unknown-fields: true, x-kubernetes-validations: [{rule: "true"}]}}}}`, RuleCheck{}, []string{
			`properties[a].items.x-kubernetes-validations: Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations`}},
		{here(), `{type: object, properties: {a: {type: array, items: {type: string}, x-kubernetes-validations: [{rule: "self.all(x, self.all(y, x == y))"}]}}}`, RuleCheck{Path: field.NewPath("root")}, []string{
			`root.properties[a].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x` + help,
			`root.properties[a].x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema`,
			`root: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x` + help}},
		{here(), `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "self.m == 1"}]}}}`,
			RuleCheck{Skip: func(path string) bool { return path == "properties[a]" }}, nil},
	} {
		p := compileYAML(t, row.schema, Options{Resource: true})
		if got := lines(p.CheckRules(row.check)); !slices.Equal(got, row.errs) {
			t.Errorf("%s:\n got %s\nwant %s", row.where, strings.Join(got, "\n     "), strings.Join(row.errs, "\n     "))
		}
	}
}

// TestRulePatterns: the machines of all rules together are bounded, for new schemas.
// Ledger: cel-patterns.
func TestRulePatterns(t *testing.T) {
	rules := func(n int) string {
		list := ""
		for i := range n {
			list += fmt.Sprintf(`{rule: "!self.a.matches('a%d(b|c){1000}')", messageExpression: "'x'.find('(b|c){1000}')"}, `, i)
		}
		return `{type: object, properties: {a: {type: string, maxLength: 9}}, required: [a], x-kubernetes-validations: [` + list + `]}`
	}
	for n, want := range map[int]string{
		10:  "",
		100: "root: Forbidden: the patterns of the rules are too large: ",
	} {
		p := compileYAML(t, rules(n), Options{Resource: true})
		got := strings.Join(lines(p.CheckRules(RuleCheck{Path: field.NewPath("root")})), "\n")
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%d rules: got %q, want %q", n, got, want)
		}
		if got := p.CheckRules(RuleCheck{KeepCost: true}); len(got) > 0 {
			t.Errorf("%d rules that are kept: %v", n, got)
		}
	}
}

func TestFieldPath(t *testing.T) {
	leaf := &structural.Schema{Type: "string"}
	s := &structural.Schema{Properties: map[string]*structural.Schema{
		"a":   {Properties: map[string]*structural.Schema{"b.c": leaf, "it's": leaf}},
		"map": {Additional: leaf},
		"any": {AdditionalAllows: new(bool)},
	}}
	for _, row := range []struct{ where, text, path, err string }{
		{here(), ".a", "a", ""},
		{here(), ".a['b.c']", "a.b.c", ""},
		{here(), `['a']['it\'s']`, "a.it's", ""},
		{here(), ".map.x", "map[x]", ""},
		{here(), ".map['x y']", "map[x y]", ""},
		{here(), ".any.x", "any[x]", ""},
		{here(), ".any.x.y", "", "does not refer to a valid field"},
		{here(), "..a", "", "does not refer to a valid field"},
		{here(), "a", "", "expected [ or . but got: a"},
		{here(), ".b", "", "does not refer to a valid field"},
		{here(), ".a.b.c", "", "does not refer to a valid field"},
		{here(), ".", "", "unexpected end of JSON path"},
		{here(), "[", "", "unexpected end of JSON path"},
		{here(), "[0]", "", "expected single quoted string but got 0"},
		{here(), "['a'", "", "unexpected end of JSON path"},
		{here(), "['a'.", "", "expected ] but got ."},
		{here(), `['\q']`, "", `invalid string literal: invalid escape char \q`},
	} {
		_, path, _, err := FieldPath(row.text, s, true)
		switch {
		case err != nil && err.Error() != row.err, err == nil && row.err != "":
			t.Errorf("%s: got error %v, want %q", row.where, err, row.err)
		case err == nil && path.String() != row.path:
			t.Errorf("%s: got %s, want %s", row.where, path, row.path)
		}
	}
}

// FuzzFieldPath holds that the names of a path lead where the path leads.
func FuzzFieldPath(f *testing.F) {
	for _, seed := range []string{".a.b", ".a['b']", "['a'].b", ".", "[", "a", `['\'']`, ".a[0]", "'", `['a`, ".m.x.c"} {
		f.Add(seed)
	}
	leaf := &structural.Schema{Type: "string"}
	root := &structural.Schema{Properties: map[string]*structural.Schema{
		"a": {Properties: map[string]*structural.Schema{"b": leaf, "'": leaf}}, "m": {Additional: &structural.Schema{Properties: map[string]*structural.Schema{"c": leaf}}},
	}}
	f.Fuzz(func(t *testing.T, text string) {
		names, _, found, err := FieldPath(text, root, true)
		if err != nil {
			return
		}
		at := root
		for _, name := range names {
			if at.Properties != nil {
				at = at.Properties[name]
			} else {
				at = at.Additional
			}
		}
		if at != found {
			t.Errorf("%q: names %q lead elsewhere", text, names)
		}
		if _, _, _, err := FieldPath(text, root, false); err == nil && strings.Contains(text, "[") {
			t.Errorf("%q: brackets are not allowed", text)
		}
	})
}

// TestEnumSize holds that an enum of the empty text leaves no room for a text,
// which is not the same as there being no enum.
func TestEnumSize(t *testing.T) {
	p := compileYAML(t, `{type: object, properties: {
		empty: {type: string, enum: [""]}, long: {type: string, enum: ["", "abc"]}, free: {type: string}, bound: {type: string, enum: [""], maxLength: 2}}}`, Options{Resource: true})
	code := p.code.Load()
	types := typing{p: code, types: map[*node]*cel.Type{}}
	for name, want := range map[string]uint64{"empty": 0, "long": 3, "free": 3<<20 - 2, "bound": 8} {
		if got := types.of(code.root.prop(name)).MaxElements; got != want {
			t.Errorf("%s: got %d elements, want %d", name, got, want)
		}
	}
}
