package schema_test

import (
	"math/rand/v2"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// This file compares what surrounds the evaluation of rules: where they hang,
// what old value they get, how failures are worded, forgiven and paid for.

var ruleSchemas = map[string]string{
	"transitions": `
type: object
x-kubernetes-validations:
- rule: "!has(self.a) || !has(oldSelf.a) || self.a >= oldSelf.a"
properties:
  a:
    type: integer
    x-kubernetes-validations:
    - {rule: "self >= oldSelf", message: "must not shrink"}
    - {rule: "self == oldSelf.orValue(1)", optionalOldSelf: true, messageExpression: "'was ' + string(oldSelf.orValue(0))"}
    - {rule: "oldSelf.hasValue() || self < 100", optionalOldSelf: true, reason: FieldValueForbidden, message: "not new"}
  b:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [name, type]
    items:
      type: object
      required: [name]
      properties:
        name: {type: string}
        type: {type: integer, default: 1}
        x-y: {type: string, maxLength: 5, x-kubernetes-validations: [{rule: "self == oldSelf", message: "fixed"}]}
      x-kubernetes-validations:
      - {rule: "self.type >= oldSelf.type", fieldPath: ".type", reason: FieldValueInvalid}
  items:
    type: array
    items:
      type: object
      properties:
        a: {type: string, x-kubernetes-validations: [{rule: "self != 'abc'"}]}
      x-kubernetes-validations:
      - {rule: "has(self.a)", reason: FieldValueRequired, fieldPath: ".a", message: " a is needed "}
  name:
    type: array
    x-kubernetes-list-type: set
    items: {type: string}
    x-kubernetes-validations:
    - {rule: "self.all(x, x in oldSelf)", messageExpression: "'lost ' + string(size(oldSelf)) + ' of ' + string(size(self))"}
`,
	"messages": `
type: object
properties:
  a:
    type: object
    additionalProperties:
      type: string
      x-kubernetes-validations:
      - {rule: "self.size() < 3", messageExpression: "'long: ' + self", reason: FieldValueDuplicate}
      - {rule: "self != 'a'", messageExpression: "''", message: "plain"}
      - {rule: "self != 'A'", messageExpression: "'two\\nlines'"}
      - {rule: "self != 'abc'", messageExpression: "string(1/0)"}
      - {rule: "self != '80'", messageExpression: "oldSelf"}
    x-kubernetes-validations:
    - {rule: "self.all(k, k != 'a')", fieldPath: "['a']", message: "no a"}
    - {rule: "size(self) > 1 / size(self)"}
    - {rule: "self['a'] == 'x'", message: "must be x"}
  b:
    x-kubernetes-int-or-string: true
    x-kubernetes-validations:
    - {rule: "self > 1"}
    - {rule: "type(self) == int || self.endsWith('%')", message: "int or percent"}
  name:
    type: string
    nullable: true
    x-kubernetes-validations: [{rule: "self.startsWith('a')", reason: FieldValueForbidden}]
  type:
    type: number
    x-kubernetes-validations: [{rule: "self < 2.0"}]
  items:
    type: string
    format: date-time
    x-kubernetes-validations: [{rule: "self > timestamp('2020-01-01T00:00:00Z')"}]
  ü:
    type: string
    x-kubernetes-validations: [{rule: "self == 'b'"}]
  x-y:
    type: object
    x-kubernetes-preserve-unknown-fields: true
    x-kubernetes-embedded-resource: true
    properties:
      metadata: {type: object, properties: {name: {type: string, x-kubernetes-validations: [{rule: "self != 'n'"}]}}}
    x-kubernetes-validations:
    - {rule: "self.metadata.name.startsWith('x') && self.kind == 'ConfigMap'"}
`,
	"ratcheting": `
type: object
properties:
  apiVersion: {type: string, x-kubernetes-validations: [{rule: "self == 'x'"}]}
  a:
    type: object
    properties:
      b: {type: integer, maximum: 10, x-kubernetes-validations: [{rule: "self % 2 == 0"}]}
      name: {type: string, pattern: "^a"}
      items: {type: array, items: {type: string, enum: [a, b], x-kubernetes-validations: [{rule: "self != 'a'"}]}, maxItems: 2}
    required: [name]
    x-kubernetes-validations: [{rule: "has(self.b)"}]
  items:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [name]
    items:
      type: object
      required: [name]
      properties: {name: {type: string, minLength: 2}, type: {type: string, enum: [x], x-kubernetes-validations: [{rule: "self != 'x'"}]}}
  status:
    type: object
    properties: {a: {type: integer, x-kubernetes-validations: [{rule: "self > 5"}]}, name: {type: string, minLength: 1}}
`,
	"untyped": `
type: object
properties:
  a:
    type: object
    x-kubernetes-validations: [{rule: "self == oldSelf"}, {rule: "!(self != oldSelf)", message: "differs"}]
    properties:
      b: {x-kubernetes-preserve-unknown-fields: true}
      name: {type: string}
  b:
    type: array
    items:
      type: object
      x-kubernetes-preserve-unknown-fields: true
      properties:
        a: {x-kubernetes-preserve-unknown-fields: true}
        type: {type: string, enum: [""]}
    x-kubernetes-validations: [{rule: "size(self) < 2 || self[0] == self[1]"}]
`,
	"budget": `
type: object
properties:
  a:
    type: array
    items: {type: string}
    x-kubernetes-validations:
    - {rule: "self.all(x, self.all(y, self.all(z, x + y + z != 'q')))", message: "cubic"}
    - {rule: "size(self) < 3", messageExpression: "string(self.map(x, self.map(y, self.map(z, x + y + z))))"}
  b:
    type: array
    items:
      type: array
      items: {type: integer}
      x-kubernetes-validations:
      - {rule: "self.all(x, self.all(y, self.all(z, x + y + z > 0)))"}
    x-kubernetes-validations: [{rule: "size(self) >= 0"}]
`,
}

// Ledger: cel-untyped-equality.
func TestRuleCorners(t *testing.T) {
	for name, text := range ruleSchemas {
		t.Run(name, func(t *testing.T) {
			var s apiextv1.JSONSchemaProps
			if err := yaml.Unmarshal([]byte(text), &s); err != nil {
				t.Fatal(err)
			}
			p := newPair(t, name, &s)
			g := &generator{rand.New(rand.NewPCG(*seed, 1))}
			for i := 0; i < *rounds*5 && !t.Failed(); i++ {
				src := []byte(mustJSON(g.root(p.up.schema, "g/v1", "K")))
				p.check(t, src, nil, false)
				p.check(t, src, src, false)
				changed := g.damaged(t, src, 1)
				p.check(t, changed, src, false)
				p.check(t, changed, src, true)
				p.check(t, g.damaged(t, changed, 1), changed, false)
			}
			t.Logf("%d valid, %d invalid objects, %d with warnings", p.valid, p.invalid, p.warned)
			if p.invalid == 0 {
				t.Error("nothing compared")
			}
		})
	}
}

// TestEmbeddedMetadata compares what becomes of declared metadata of embedded
// resources: nulls in it, and defaults for fields that metadata has not got.
func TestEmbeddedMetadata(t *testing.T) {
	const metadata = `
type: object
properties:
  name: {type: string, default: nn}
  extra: {type: string, default: x}
  deep: {type: object, properties: {a: {type: integer, default: 1}}}
  labels: {type: object, additionalProperties: {type: string}, properties: {}}
  annotations: {type: object, properties: {a: {type: string, default: b}, c: {type: string}, n: {type: string, nullable: true}}}
  finalizers: {type: array, items: {type: string}}
  ownerReferences: {type: array, items: {type: object, properties: {uid: {type: string, default: u}, more: {type: string, default: m}, name: {type: string}}}}
`
	var meta map[string]any
	if err := yaml.Unmarshal([]byte(metadata), &meta); err != nil {
		t.Fatal(err)
	}
	text := mustJSON(map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{
		"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
		"properties": map[string]any{"metadata": meta, "kind": map[string]any{"type": "string", "default": "K"}},
	}}})
	var s apiextv1.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	p := newPair(t, "embedded metadata", &s)
	for _, meta := range []string{
		`{}`, `null`, `{"name":null}`, `{"name":"x","extra":"y"}`, `{"labels":null}`, `{"labels":{"a":null,"b":"c"}}`,
		`{"annotations":{}}`, `{"annotations":{"c":null,"n":null,"q":null,"z":"z"}}`, `{"annotations":{"a":"own"}}`, `{"finalizers":[null,"a"]}`,
		`{"ownerReferences":[{},{"uid":null,"name":null,"more":"q"},null]}`, `{"deep":{}}`, `{"deep":{"a":null}}`, `{"labels":{"a":"b"},"uid":"u"}`,
	} {
		p.check(t, []byte(`{"apiVersion":"g/v1","kind":"K","metadata":{},"a":{"apiVersion":"v1","metadata":`+meta+`}}`), nil, false)
	}
	p.check(t, []byte(`{"apiVersion":"g/v1","kind":"K","metadata":{},"a":{"apiVersion":"v1"}}`), nil, false)
}

// TestPaidMessages runs out of the budget, and close to it, by messages that
// cannot be made: with an old value that is not there, or is not optional.
func TestPaidMessages(t *testing.T) {
	for _, message := range []string{
		"self.all(x, x != 'q') && oldSelf.hasValue() ? 'a' : 'b'",
		"self.map(x, self.map(y, x + y + string(oldSelf.hasValue()))) == [] ? 'a' : 'b'",
		"string(self.map(x, self.map(y, x + y))) + oldSelf.value()[0]",
	} {
		text := `{type: object, properties: {a: {type: array, maxItems: 5000, items: {type: array, maxItems: 500, items: {type: string, maxLength: 5},
			x-kubernetes-validations: [{rule: "oldSelf.hasValue() && false", optionalOldSelf: true, messageExpression: "` + message + `", message: "plain"}]}}}}`
		var s apiextv1.JSONSchemaProps
		if err := yaml.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		p := newPair(t, message, &s)
		for _, lists := range []int{3, 200} {
			for _, n := range []int{1, 40, 120, 400} {
				var inner, outer []any
				for range n {
					inner = append(inner, "x")
				}
				for range lists {
					outer = append(outer, inner)
				}
				src := []byte(mustJSON(map[string]any{"apiVersion": "g/v1", "kind": "K", "metadata": map[string]any{}, "a": outer}))
				p.check(t, src, nil, false)
				p.check(t, src, src, false)
			}
		}
	}
}

// TestBudget runs out of the budget of an object, and of an evaluation.
func TestBudget(t *testing.T) {
	var s apiextv1.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(ruleSchemas["budget"]), &s); err != nil {
		t.Fatal(err)
	}
	p := newPair(t, "budget", &s)
	list := func(n int, v any) []any {
		out := make([]any, n)
		for i := range out {
			out[i] = v
		}
		return out
	}
	for _, obj := range []map[string]any{
		{"a": list(30, "x")},
		{"a": list(50, "x")},
		{"a": list(120, "x")},
		{"b": list(12, list(40, 1))},
		{"b": list(30, list(40, 1))},
		{"b": list(30, list(45, 0))},
		{"b": list(3, list(200, 1))},
	} {
		obj["apiVersion"], obj["kind"], obj["metadata"] = "g/v1", "K", map[string]any{}
		p.check(t, []byte(mustJSON(obj)), nil, false)
	}
}
