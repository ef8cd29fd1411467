package cel

import (
	"strings"
	"testing"
)

// This file tests lists of type set and map, and objects that are compared.

// TestListTypes has what is true of such lists and objects of a document, in both of its layouts.
func TestListTypes(t *testing.T) {
	f := newFixture(t, testEnv(t), `{type: object, properties: {
		s: {type: array, x-kubernetes-list-type: set, items: {type: string}}, s2: {type: array, x-kubernetes-list-type: set, items: {type: string}},
		l: {type: array, items: {type: string}}, l2: {type: array, items: {type: string}},
		m: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}, v: {type: integer}}}},
		m2: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}, v: {type: integer}}}},
		m3: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}, v: {type: integer}}}},
		m4: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}, v: {type: integer}}}},
		o: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {v: {type: integer}}}}}}`,
		`{s: [a, b], s2: [b, a, c, c], l: [a, b], l2: [b, a], m: [{k: a, v: 1}, {k: b, v: 2}], m2: [{k: b, v: 3}, {k: c, v: 4}], m3: [{k: b, v: 2}, {k: a, v: 1}], m4: [{k: a, v: 1}, {k: a, v: 1}],
		o: [{v: 1, x: 1}, {v: 1, x: 1}, {v: 1, x: 2}, {v: 1}]}`)
	for _, expr := range []string{
		"self.s + self.s2 == ['a', 'b', 'c']", "(self.s + self.s2).size() == 3", "(self.s + self.s2)[2] == 'c'", "self.s == ['b', 'a']", "self.s != ['a', 'a']", "self.s != ['a', 'c']",
		"self.l != self.l2", "(self.l + self.l2).size() == 4",
		"dyn(self.m) == dyn(self.m3)", "dyn(self.m) != dyn(self.m2)", "dyn(self.m) != dyn(self.m4)", "(dyn(self.m) + dyn(self.m2)).size() == 3", "(dyn(self.m) + dyn(self.m2))[1].v == 3", "(dyn(self.m) + dyn(self.m2))[0].v == 1", "(dyn(self.m) + dyn(self.m2))[2].k == 'c'",
		"self.o[0] == self.o[1]", "self.o[0] != self.o[2]", "self.o[0] != self.o[3]", "self.o[3] != self.o[0]",
	} {
		for _, shaped := range []bool{true, false} {
			if got := f.outcome(t, expr, shaped); !strings.Contains(got, "value=bool true") {
				t.Errorf("%s (shaped %t): got %s", expr, shaped, got)
			}
		}
	}
}
