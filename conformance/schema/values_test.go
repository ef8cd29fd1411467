package schema_test

import (
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// This file compares how rules see values: those that cannot be read, nulls, lists of each type, objects with members that nobody declares.

// TestValuesOfRules has a schema of one property and, for it, rules and values: each value with each rule, as a new one and in place of each other one.
func TestValuesOfRules(t *testing.T) {
	const items = `items: {type: object, properties: {k: {type: string}, a-b: {type: string}, v: {type: integer, nullable: true}}, required: [k]}`
	for _, row := range []struct {
		schema        string
		rules, values []string
	}{
		{`type: integer`, []string{"self == 6", "self > 5 || self < 0"}, []string{"6", "6.0", "7"}},
		{`type: number`, []string{"self == 6.0", "self > 5"}, []string{"6", "6.0", "6.5"}},
		{`type: string, format: date-time`, []string{"self > timestamp('2024-01-01T00:00:00Z')", "string(self) != ''"},
			[]string{`"2024-01-01T00:00:00Z"`, `"2024-01-01t00:00:00z"`, `"2024-01-01T00:00:00.123456789+02:00"`, `"2024-06-30T23:59:59.5Z"`, `"2024-01-01T00:00:00"`, `"0000-01-01T00:00:00Z"`}},
		{`type: string, format: date`, []string{"self > timestamp('2024-01-01T00:00:00Z')", "string(self) != ''"}, []string{`"2024-01-02"`, `"2024-02-30"`, `"0001-01-01"`}},
		{`type: string, format: duration`, []string{"self > duration('1m')", "string(self) != ''"}, []string{`"90s"`, `"1 day 2 hours"`, `"2w"`, `"1h30m"`, `"-5m"`, `"0"`}},
		{`type: string, format: byte`, []string{"self.size() > 2", "self == b'abc'"}, []string{`"YWJj"`, `"+/+/"`, `"-_-_"`, `"YWI="`, `""`}},
		{`x-kubernetes-int-or-string: true`, []string{"self == 'a' || self == 1", "type(self) == int ? self > 0 : self.size() > 0"}, []string{`"a"`, "1", "-1", `""`}},
		{`type: object, properties: {v: {type: string, nullable: true}, w: {type: string}}`, []string{"has(self.v)", "self.v == 'a'", "self.?v.orValue('x') == 'x'", "has(self.w) || self == oldSelf"},
			[]string{`{}`, `{"v":null}`, `{"v":"a"}`, `{"w":"x"}`}},
		{`type: object, additionalProperties: {type: string, nullable: true}`, []string{"has(self.v)", "'v' in self", "self['v'] == 'a'", "self.size() == 1", "self.all(k, self[k] == 'a')"},
			[]string{`{}`, `{"v":null}`, `{"v":"a"}`, `{"w":"x"}`}},
		{`type: array, x-kubernetes-list-type: set, items: {type: string}`, []string{"self == ['b', 'a']", "self + ['a', 'c', 'c'] == ['c', 'b', 'a']", "(self + ['a', 'c'])[1] == 'b'", "self == oldSelf", "['a', 'b'] == self"},
			[]string{`["a","b"]`, `["b","a"]`, `["a"]`, `[]`}},
		{`type: array, x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: atomic, properties: {k: {type: string}}}`, []string{"self == self", "self == oldSelf", "(self + self).size() > 0"},
			[]string{`[{"k":"a"}]`, `[{"k":"a"},{"k":"b"}]`, `[{"k":"b"},{"k":"a"}]`, `[]`}},
		{`type: array, items: {type: string}`, []string{"self + ['a'] == ['a', 'b', 'a']", "self == oldSelf", "self[1] == 'b'", "self[5] == 'a' || true"}, []string{`["a","b"]`, `["b","a"]`, `[]`}},
		{`type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], ` + items, []string{"self == oldSelf", "(self + oldSelf).size() == 2", "(oldSelf + self)[0].v == 1", "self.exists(x, x.v == 1)"},
			[]string{`[{"k":"a","v":1},{"k":"b"}]`, `[{"k":"b"},{"k":"a","v":1}]`, `[{"k":"a","v":2}]`, `[{"k":"a","v":null},{"k":"c","v":1}]`}},
		{`type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, a-b], items: {type: object, properties: {k: {type: string}, a-b: {type: string}}, required: [k, a-b]}`,
			[]string{"self == oldSelf", "(self + oldSelf).size() == 2"}, []string{`[{"k":"a","a-b":"x"},{"k":"a","a-b":"y"}]`, `[{"k":"a","a-b":"y"},{"k":"a","a-b":"x"}]`, `[{"k":"a","a-b":"z"}]`}},
		{`type: object, x-kubernetes-preserve-unknown-fields: true, properties: {v: {type: integer}}`, []string{"self == oldSelf", "self != oldSelf", "self.v == 1"},
			[]string{`{"v":1,"x":{"a":[1,1.5]}}`, `{"v":1,"x":{"a":[1,1.5]},"y":null}`, `{"v":1,"x":{"a":[1.0,1.5]}}`, `{"v":1}`, `{"x":1}`}},
		{`type: boolean`, []string{"self || 1 / 0 > 1", "self && 1 / 0 > 1", "[1, 0].all(x, self && 1 / x > 1)", "[1, 0].exists(x, self || 1 / x > 1)"}, []string{"true", "false"}},
	} {
		for _, rule := range row.rules {
			var s apiextv1.JSONSchemaProps
			text := "{type: object, properties: {x: {" + row.schema + `, x-kubernetes-validations: [{rule: "` + rule + `"}]}}}`
			if err := yaml.Unmarshal([]byte(text), &s); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			p := newPair(t, text, &s)
			for _, value := range row.values {
				p.check(t, []byte(`{"x":`+value+`}`), nil, false)
				for _, old := range row.values {
					p.check(t, []byte(`{"x":`+value+`}`), []byte(`{"x":`+old+`}`), false)
				}
			}
			if p.valid+p.invalid < len(row.values)*(len(row.values)+1) {
				t.Errorf("%s: only %d valid and %d invalid values compared", text, p.valid, p.invalid)
			}
		}
	}
}
