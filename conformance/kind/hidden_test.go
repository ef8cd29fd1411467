package kind

import (
	"slices"
	"testing"
)

// This file compares rules that stand where rules of above see nothing.

// TestRulesBelowTheUnseen has rules below nodes whose type has no members or
// items: those of members are not asked about defaults, those of items and of
// other members cannot be compiled.
func TestRulesBelowTheUnseen(t *testing.T) {
	const rules = `x-kubernetes-validations: [{rule: "self.nope != 1"}, {rule: "self == self"}]`
	const object = `{type: object, ` + rules + `}`
	refused := 0
	for _, schema := range []string{
		`{type: array, items: {x-kubernetes-int-or-string: true, default: {b: {}}, properties: {b: ` + object + `}}}`,
		`{type: array, items: {x-kubernetes-int-or-string: true, default: {"ü": {}}, properties: {"ü": ` + object + `}}}`,
		`{x-kubernetes-int-or-string: true, default: {b: {c: {}}}, properties: {b: {type: object, properties: {c: ` + object + `}}}}`,
		`{x-kubernetes-int-or-string: true, default: {"ü": {c: {}}}, properties: {"ü": {type: object, properties: {c: ` + object + `}}}}`,
		`{x-kubernetes-int-or-string: true, default: {b: {}}, additionalProperties: ` + object + `}`,
		`{x-kubernetes-int-or-string: true, default: [{}], items: ` + object + `}`,
		`{x-kubernetes-int-or-string: true, default: [{b: {}}], items: {type: object, properties: {b: ` + object + `}}}`,
		`{x-kubernetes-int-or-string: true, default: [[{}]], items: {type: array, items: ` + object + `}}`,
		`{type: object, default: {b: {}}, properties: {b: ` + object + `}}`,
		`{type: object, default: {b: {}}, properties: {b: {x-kubernetes-preserve-unknown-fields: true, ` + rules + `}}}`,
		`{type: array, default: [[{}]], items: {type: array, items: {x-kubernetes-preserve-unknown-fields: true, properties: {b: ` + object + `}}}}`,
	} {
		crd := embedding(t, schema)
		got, want := texts(ours(crd, nil)), texts(theirs(t, crd, nil))
		if len(want) > 0 {
			refused++
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\ngot      %q\nupstream %q", schema, got, want)
		}
	}
	if refused == 0 {
		t.Error("nothing refused")
	}
}
