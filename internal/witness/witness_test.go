package witness_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/witness"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// parse returns the structural schema of a YAML text.
func parse(t testing.TB, text string) *structural.Schema {
	t.Helper()
	var props apiextv1.JSONSchemaProps
	if err := yaml.UnmarshalStrict([]byte(text), &props); err != nil {
		t.Fatal(err)
	}
	s, errs := structural.Parse(&props, nil)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return s
}

// options returns the options of all tests.
func options(t testing.TB) witness.Options {
	t.Helper()
	env, err := cel.NewEnv(cel.EnvOptions{Stored: true})
	if err != nil {
		t.Fatal(err)
	}
	operations, err := witness.NewOperations()
	if err != nil {
		t.Fatal(err)
	}
	return witness.Options{Env: env, Operations: operations}
}

// everything is a schema with members of all types.
const everything = `
type: object
properties:
  text: {type: string, maxLength: 300}
  name: {type: string, pattern: '^[a-z]([-a-z0-9]*[a-z0-9])?$', maxLength: 20}
  kind: {type: string, enum: [A, B, C]}
  count: {type: integer, minimum: 0, maximum: 1000}
  least: {type: integer}
  most: {type: integer}
  ratio: {type: number}
  enabled: {type: boolean}
  when: {type: string, format: date-time}
  day: {type: string, format: date}
  timeout: {type: string, format: duration}
  bytes: {type: string, format: byte}
  port: {x-kubernetes-int-or-string: true}
  list: {type: array, maxItems: 20, items: {type: string, maxLength: 40}}
  set: {type: array, x-kubernetes-list-type: set, maxItems: 20, items: {type: string, maxLength: 40}}
  labels: {type: object, maxProperties: 20, additionalProperties: {type: string, maxLength: 40}}
  items:
    type: array
    maxItems: 20
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [name]
    items:
      type: object
      required: [name]
      properties: {name: {type: string, maxLength: 20}, weight: {type: integer}, tag: {type: string, maxLength: 20}, x-kubernetes: {type: string, maxLength: 20}}
  nested:
    type: object
    required: [mode]
    properties:
      mode: {type: string, maxLength: 20}
      size: {type: integer, default: 3}
      namespace: {type: string, maxLength: 20}
`

// TestExpressions finds objects for which expressions of many forms are true and false.
func TestExpressions(t *testing.T) {
	o := options(t)
	s := parse(t, everything)
	for _, expr := range []string{
		"self.count > 17", "self.count <= 17", "self.count == 400", "self.count != 0", "self.least < self.most", "self.count % 7 == 3",
		"self.count + self.least == 12", "self.count * 2 > 21", "-self.least > 3", "self.ratio > 0.5", "double(self.count) / 2.0 < 3.5",
		"self.text == 'abc'", "self.text.startsWith('v1.')", "self.text.endsWith('.svc') && self.text.size() > 10", "self.text.contains('--')",
		"self.text.matches('^[0-9]{3}-[0-9]{4}$')", "!self.name.matches('^ab+c?$')", "self.name.matches('b.*d') && !self.name.startsWith('b')",
		"self.text.lowerAscii() == 'abc'", "self.text.split('/')[1] == 'x'", "self.text.split(',').size() == 3", "self.text.substring(2) == 'cd'",
		"self.text.replace('a', 'b') == 'bb'", "self.text.indexOf('z') == 2", "self.text.trim() == 'x'", "self.text.charAt(1) == 'q'",
		"self.text.find('[0-9]+') == '42'", "int(self.text) > 5", "self.text + self.name == 'xy'",
		"self.kind in ['A', 'B']", "self.kind == 'A' ? has(self.text) : !has(self.text)", "has(self.nested) && has(self.nested.namespace)",
		"self.nested.__namespace__ == 'x'", "self.nested.size > 5", "self.enabled", "self.enabled == has(self.count)", "has(self.text) != has(self.name)",
		"self.when > timestamp('2024-05-01T00:00:00Z')", "self.when.getFullYear() == 1999", "self.when - timestamp('2024-01-01T00:00:00Z') > duration('24h')",
		"self.day < timestamp('2001-01-01T00:00:00Z')", "self.timeout > duration('5m')", "self.timeout < duration('1s')", "duration(self.text) == duration('90s')",
		"self.bytes == b'abc'", "self.port == 80", "type(self.port) == string", "self.port == 'http'",
		"self.list.size() > 2", "self.list.size() == 0", "size(self.labels) == 2", "self.list.all(x, x.startsWith('a'))", "self.list.exists(x, x == 'q')",
		"self.list.exists_one(x, x.size() > 3)", "self.list.filter(x, x.contains('/')).size() == 2", "self.list.map(x, x.size()).exists(n, n > 4)",
		"self.list[1] == 'b'", "'a' in self.list", "self.text in self.list", "'app' in self.labels", "self.labels['app'] == 'x'",
		"self.labels.all(k, k.startsWith('x-'))", "self.labels.exists(k, self.labels[k] == 'v')", "self.set.all(x, x != 'z')", "self.set.exists(x, x == 'z')",
		"self.items.all(i, has(i.weight) && i.weight > 0)", "self.items.exists(i, i.name == 'web' && i.weight == 3)",
		"self.items.all(a, self.items.exists_one(b, has(a.tag) && has(b.tag) && a.tag == b.tag))", "self.items.map(i, has(i.weight) ? i.weight : 0).sum() == 100",
		"self.items.filter(i, has(i.tag)).size() <= 1", "self.list.isSorted()", "self.items.size() == self.count",
		"(has(self.text) ? 1 : 0) + (has(self.name) ? 1 : 0) + (has(self.count) ? 1 : 0) == 2", "[has(self.text), has(self.name)].exists_one(x, x)",
		"self.?nested.?mode.orValue('none') == 'none'", "self.?text.hasValue()", "self.?count.orValue(5) > 4", "self.?nested.mode == optional.of('x')",
		"quantity(self.text).isGreaterThan(quantity('1Gi'))", "isQuantity(self.text)", "isIP(self.text)", "ip(self.text).family() == 6", "isCIDR(self.text)",
		"cidr('10.0.0.0/8').containsIP(self.text)", "isURL(self.text) && url(self.text).getScheme() == 'https'", "url(self.text).getHost() == 'example.com'",
		"!format.dns1123Label().validate(self.text).hasValue()", "self.list == ['a', 'b']", "self.count > 3 || self.enabled",
		"self.list.all(x, self.set.exists(y, x == y))", "isSemver(self.text)", "semver(self.text).major() > 1",
		"sets.contains(self.list, ['a'])", "self.list.join('-') == 'a-b'", "self.list.indexOf('b') == 1",
		"self.items.all(i, i.name in self.labels)", "{'A': 1, 'B': 2, 'C': 3}[self.kind] > 1",
	} {
		search, rule, err := witness.Expression(s, expr, o)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		for _, want := range []witness.Want{witness.Accept, witness.Refuse} {
			got := search.Find(context.Background(), rule, want)
			if got.Object == nil {
				t.Errorf("%s: %s: %s", expr, want, got.Reason)
				continue
			}
			confirm(t, s, expr, o, got, want)
		}
	}
}

// confirm checks a witness with the validator of the server.
func confirm(t *testing.T, s *structural.Schema, expr string, o witness.Options, got witness.Result, want witness.Want) {
	t.Helper()
	root := *s
	root.Rules = append(root.Rules[:len(root.Rules):len(root.Rules)], apiextv1.ValidationRule{Rule: expr, Message: "the rule"})
	p, err := schema.Compile(&root, schema.Options{Env: o.Env})
	if err != nil {
		t.Fatal(err)
	}
	decode := func(text []byte) *jsondoc.Doc {
		d := new(jsondoc.Doc)
		if text == nil {
			return nil
		}
		if _, err := p.Decode(d, text); err != nil {
			t.Fatal(err)
		}
		return d
	}
	errs := p.Validate(context.Background(), decode(got.Object), decode(got.Old), schema.Whole).Errors
	switch {
	case want == witness.Accept && len(errs) > 0:
		t.Errorf("%s: %s is refused: %v", expr, got.Object, errs)
	case want == witness.Refuse && (len(errs) != 1 || !strings.Contains(errs[0].Detail, "the rule")):
		t.Errorf("%s: %s: got errors %v, want one of the rule", expr, got.Object, errs)
	case want == witness.Fail && (len(errs) != 1 || !strings.Contains(errs[0].Detail, "evaluating rule")):
		t.Errorf("%s: %s: got errors %v, want an evaluation that fails", expr, got.Object, errs)
	}
}

// TestTransitions finds pairs of objects.
func TestTransitions(t *testing.T) {
	o := options(t)
	s := parse(t, everything)
	for _, expr := range []string{
		"self == oldSelf", "self.count >= oldSelf.count", "!has(oldSelf.text) || has(self.text)", "has(self.text) == has(oldSelf.text)",
		"oldSelf.items.all(o, self.items.exists(n, n.name == o.name))", "self.kind == oldSelf.kind || oldSelf.kind == 'A'",
		"self.items.all(n, oldSelf.items.exists(o, o.name == n.name))", "oldSelf.text == 'locked' ? self.text == 'locked' : true",
	} {
		search, rule, err := witness.Expression(s, expr, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []witness.Want{witness.Accept, witness.Refuse} {
			got := search.Find(context.Background(), rule, want)
			if got.Object == nil || got.Old == nil {
				t.Errorf("%s: %s: %+v", expr, want, got)
				continue
			}
			confirm(t, s, expr, o, got, want)
		}
	}
}

// TestProofs proves that rules are constant, and does not prove it of rules that are not.
func TestProofs(t *testing.T) {
	o := options(t)
	for _, c := range []struct {
		about, schema, expr string
		want                witness.Want
		constant            bool
	}{
		{"an enum", "{type: string, enum: [a, b]}", "self in ['a', 'b', 'c']", witness.Refuse, true},
		{"an enum below allOf", "{type: string, allOf: [{enum: [a, b]}]}", "self == 'a' || self == 'b'", witness.Refuse, true},
		{"an enum with another value", "{type: string, enum: [a, b, d]}", "self in ['a', 'b', 'c']", witness.Refuse, false},
		{"bounds", "{type: integer, minimum: 1, maximum: 9}", "self >= 1 && self < 10", witness.Refuse, true},
		{"bounds that are too wide", "{type: integer, minimum: 1, maximum: 10}", "self >= 1 && self < 10", witness.Refuse, false},
		{"bounds beyond the constant", "{type: integer, minimum: 20}", "self > 5", witness.Refuse, true},
		{"exclusive bounds", "{type: integer, minimum: 5, exclusiveMinimum: true}", "self > 5", witness.Refuse, true},
		{"a required member", "{type: object, required: [a], properties: {a: {type: string}}}", "has(self.a)", witness.Refuse, true},
		{"a member with a default", "{type: object, properties: {a: {type: string, default: x}}}", "has(self.a)", witness.Refuse, true},
		{"an optional member", "{type: object, properties: {a: {type: string}}}", "has(self.a)", witness.Refuse, false},
		{"two lists with minItems", "{type: object, properties: {a: {type: array, minItems: 1, items: {type: string}}, b: {type: array, minItems: 1, items: {type: string}}}}",
			"(has(self.a) ? 1 : 0) + (has(self.b) ? 1 : 0) <= 1", witness.Refuse, false},
		{"a size", "{type: array, minItems: 2, maxItems: 4, items: {type: string}}", "size(self) > 1 && size(self) < 5", witness.Refuse, true},
		{"a size that is possible", "{type: array, minItems: 2, maxItems: 5, items: {type: string}}", "size(self) > 1 && size(self) < 5", witness.Refuse, false},
		{"a pattern", "{type: string, pattern: '^[a-c]+$'}", "!self.contains('d') && self.matches('[abc]')", witness.Refuse, true},
		{"a pattern that is not anchored", "{type: string, pattern: '[a-c]+'}", "!self.contains('d')", witness.Refuse, false},
		{"a pattern of items", "{type: array, items: {type: string, pattern: '^a'}}", "self.all(x, x.startsWith('a'))", witness.Refuse, true},
		{"keys of a list map", "{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}}}}",
			"self.all(x, self.exists_one(y, x.k == y.k))", witness.Refuse, true},
		{"one of two keys of a list map",
			"{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l], items: {type: object, required: [k, l], properties: {k: {type: string}, l: {type: string}}}}",
			"self.all(x, self.exists_one(y, x.k == y.k))", witness.Refuse, false},
		{"a contradiction", "{type: object, properties: {a: {type: boolean}}}", "has(self.a) && !has(self.a)", witness.Accept, true},
		{"a failure that cannot be", "{type: object, required: [a], properties: {a: {type: boolean}}}", "self.a", witness.Fail, true},
		{"a failure that can be", "{type: object, properties: {a: {type: boolean}}}", "self.a", witness.Fail, false},
	} {
		search, rule, err := witness.Expression(parse(t, c.schema), c.expr, o)
		if err != nil {
			t.Fatal(err)
		}
		got := search.Find(context.Background(), rule, c.want)
		if got.Constant != c.constant || c.constant == (got.Object != nil) {
			t.Errorf("%s: %s: got object %s, constant %v (%s), want constant %v", c.about, c.expr, got.Object, got.Constant, got.Reason, c.constant)
		}
	}
}

// TestFailures finds objects for which rules fail.
func TestFailures(t *testing.T) {
	o := options(t)
	s := parse(t, everything)
	for _, expr := range []string{
		"self.text == 'x'", "self.list[2] == 'a'", "int(self.text) > 3", "10 / self.least > 1", "duration(self.text) > duration('1s')", "self.labels['a'] == 'b'",
		"has(self.items) && self.items[0].tag == 'x'", "has(self.text) && quantity(self.text).isGreaterThan(quantity('1'))",
	} {
		search, rule, err := witness.Expression(s, expr, o)
		if err != nil {
			t.Fatal(err)
		}
		got := search.Find(context.Background(), rule, witness.Fail)
		if got.Object == nil {
			t.Errorf("%s: %s", expr, got.Reason)
			continue
		}
		confirm(t, s, expr, o, got, witness.Fail)
	}
}

// TestDeterministic searches twice.
func TestDeterministic(t *testing.T) {
	o := options(t)
	s := parse(t, everything)
	var texts [2]string
	for i := range texts {
		search, rule, err := witness.Expression(s, "self.items.filter(i, has(i.tag)).size() == 2 && self.text.matches('^[a-f]+$')", o)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(search.Find(context.Background(), rule, witness.Accept))
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	if texts[0] != texts[1] {
		t.Errorf("two searches: got %s and %s", texts[0], texts[1])
	}
}

// TestBounded searches for what does not exist, and must end.
func TestBounded(t *testing.T) {
	o := options(t)
	o.Steps = 400
	s := parse(t, everything)
	for _, expr := range []string{
		"self.text.size() > 5000", "self.items.size() > 100000", strings.Repeat("self.list.all(a, ", 8) + "true" + strings.Repeat(")", 8) + " && self.text != self.text",
		"self.text.matches('^(a|b){500}$') && self.text.matches('^(b|c){499}$')", "self.count * self.count == 3", "self.least * self.least * self.least == 1234567",
		strings.Repeat("(", 60) + "self.enabled" + strings.Repeat(")", 60) + " && !self.enabled",
	} {
		search, rule, err := witness.Expression(s, expr, o)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if got := search.Find(ctx, rule, witness.Accept); got.Object != nil || got.Reason == "" || ctx.Err() != nil {
			t.Errorf("%.60s: got %s, reason %q, context %v", expr, got.Object, got.Reason, ctx.Err())
		}
		cancel()
	}
}
