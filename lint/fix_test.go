package lint_test

import (
	"context"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/lint"
)

// definition returns a definition whose schema is a YAML text in flow style or below an indent.
func definition(schema string) string {
	return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n" +
		"  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:" + schema
}

// TestFixForms repairs definitions in unusual forms. The result must be free of the mistake.
func TestFixForms(t *testing.T) {
	const dear = "self.parts.all(a, self.parts.exists_one(b, a == b))"
	for _, c := range []struct{ about, schema, keeps string }{
		{"an alias", " {type: object, x-kubernetes-validations: [{rule: '" + dear + "'}], properties: {parts: &l {type: array, items: {type: integer}}, more: *l}}\n", "more: *l"},
		{"quoted keys", " {\"type\": \"object\", \"x-kubernetes-validations\": [{\"rule\": \"" + dear + "\"}], \"properties\": {\"parts\": {\"type\": \"array\", \"items\": {\"type\": \"integer\"}}}}\n", `"items": {"type"`},
		{"carriage returns", "\r\n        type: object\r\n        x-kubernetes-validations:\r\n        - rule: " + dear + "\r\n        properties:\r\n          parts:\r\n            items: {type: integer}\r\n            type: array\r\n", "- rule: "},
		{"no line break at the end", "\n        properties:\n          parts:\n            items:\n              type: integer\n            type: array\n        type: object\n        x-kubernetes-validations:\n        - rule: " + dear, "type: integer"},
		{"the bound comes last", "\n        type: object\n        x-kubernetes-validations:\n        - rule: " + dear + "\n        properties:\n          parts:\n            items:\n              type: integer\n            # before the type\n            type: array\n          z: {type: string}\n", "# before the type"},
		{"a literal rule of the draft", "\n        type: object\n        properties: {a: {type: integer}, b: {type: integer}}\n        x-kubernetes-validator:\n        - rule: |\n            a <\n            b\n          message: stays\n", "message: stays"},
		{"a quoted rule of the draft", "\n        type: object\n        properties: {a: {type: string}}\n        x-kubernetes-validator:\n        - rule: \"a == \\\"x\\\"\"\n", `self.a == \"x\"`},
		{"a rule with characters of several bytes", "\n        type: object\n        properties: {a: {type: string}}\n        x-kubernetes-validator: [{rule: 'a == ''é''', message: ä}, {rule: \"a != 'ö'\"}]\n", "message: ä"},
	} {
		before := definition(c.schema)
		text, repairs, err := lint.Fix(context.Background(), lint.Source{Name: "f.yaml", Text: []byte(before)}, nil)
		if err != nil || text == nil || len(repairs) == 0 {
			t.Errorf("%s: got %d repairs and error %v", c.about, len(repairs), err)
			continue
		}
		if !strings.Contains(string(text), c.keeps) {
			t.Errorf("%s: got %s, want %q in it", c.about, text, c.keeps)
		}
		d, err := lint.Load(lint.Source{Name: "f.yaml", Text: text})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range lint.Check(context.Background(), d, nil).Findings {
			if f.Check == "cost" || f.Check == "draft" || f.Check == "rule" {
				t.Errorf("%s: still has %s: %s\n%s", c.about, f.ID, f.Message, text)
			}
		}
		if again, _, err := lint.Fix(context.Background(), lint.Source{Name: "f.yaml", Text: text}, nil); again != nil || err != nil {
			t.Errorf("%s: a second fix changes the text to %s, error %v", c.about, again, err)
		}
	}
}

// TestFixLeavesAlone holds that Fix changes nothing that it does not understand, and nothing that
// the caller skips.
func TestFixLeavesAlone(t *testing.T) {
	const dear = " {type: object, x-kubernetes-validations: [{rule: 'self.parts.all(a, self.parts.exists_one(b, a == b))'}], properties: {parts: {type: array, items: {type: integer}}}}\n"
	var ids []string
	skip := func(f lint.Finding) bool { ids = append(ids, f.ID); return true }
	if text, _, err := lint.Fix(context.Background(), lint.Source{Text: []byte(definition(dear))}, skip); text != nil || err != nil || len(ids) == 0 || ids[0] != "rule" && ids[0] != "cost/rule" {
		t.Errorf("skipped: got %s, error %v, asked for %v", text, err, ids)
	}
	for _, schema := range []string{
		" {type: object}\n",
		" {type: object, properties: {a: {type: string}}, x-kubernetes-validator: a list}\n",
		"\n        type: object\n        x-kubernetes-validations:\n        - rule: nothing.here > 3\n",
	} {
		if text, _, err := lint.Fix(context.Background(), lint.Source{Text: []byte(definition(schema))}, nil); text != nil || err != nil {
			t.Errorf("%s: got %s, error %v", schema, text, err)
		}
	}
}
