package declared

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/jsondoc"
)

// TestHostileAnnotation holds that a client cannot do harm with the annotation of preserved fields.
func TestHostileAnnotation(t *testing.T) {
	c := published(t)
	for _, text := range []string{"", "x", "[]", "{}", `[{"field":"spec.replicaCount","value":9}]`, `[{"field":"metadata.name","value":"b"}]`, `[{"field":"spec.secret","value":{"a":1}}]`,
		`[{"field":"spec.routes[*].debug","value":true,"of":"zz"}]`, `[{"field":"spec[*","value":1}]`, strings.Repeat("[", 9000),
		"[" + strings.TrimSuffix(strings.Repeat(`{"field":"spec.routes[*].debug","value":true,"of":"zz"},`, 2000), ",") + "]"} {
		hub := object(t, "v1", `{replicas: 3, rules: [{path: /a}, {path: /b}]}`)
		hub, err := annotated(context.Background(), hub, annotationPrefix+"v1beta1", text)
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.Convert(context.Background(), "example.com/v1beta1", [][]byte{hub})
		if err != nil {
			t.Fatalf("%.60s: %v", text, err)
		}
		want := object(t, "v1beta1", `{replicaCount: 3, routes: [{prefix: /a}, {prefix: /b}]}`)
		if !same(out[0], want) {
			t.Errorf("%.60s:\n got %s\nwant %s", text, out[0], want)
		}
	}
}

// strictFields are the changes to the definition for the tests of forged fields: v1beta1 gets fields with rules that v1 lacks.
var strictFields = []string{
	"            properties:\n              replicaCount: {type: integer}", `            x-kubernetes-validations:
            - {rule: "!has(self.secret) || !has(self.limit) || self.secret != string(self.limit)", message: the secret is the limit}
            anyOf: [{not: {required: [free]}}, {required: [options]}]
            properties:
              replicaCount: {type: integer}`,
	"secret: {type: string}", `secret: {type: string, maxLength: 9}
              limit: {type: integer, minimum: 1, default: 5}
              options: {type: object, required: [a], properties: {a: {type: string}, pod: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}`,
}

const strictSpoke = `
both:
- move: {version: spec.replicaCount, hub: spec.replicas}
- move: {version: spec.routes, hub: spec.rules}
- move: {version: "spec.routes[*].prefix", hub: "spec.rules[*].path"}
toHub:
  preserve: [spec.secret, spec.limit, spec.options, spec.free, "spec.routes[*].debug"]
`

// withAnnotation adds the annotation of the fields that are preserved for a version.
func withAnnotation(t *testing.T, object []byte, version, text string) []byte {
	t.Helper()
	out, err := annotated(context.Background(), object, annotationPrefix+version, text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestForgedFields writes the annotation of preserved fields as a client of v1: what v1beta1 does not allow is not restored, beside fields
// that are.
func TestForgedFields(t *testing.T) {
	c := compiled(t, strictSpoke, strictFields...)
	const plain = `replicaCount: 3, routes: [{prefix: /a}, {prefix: /b}]`
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for _, row := range []struct{ kept, want string }{
		{`{"field":"spec.secret","value":"s"}`, `secret: s`},
		{`{"field":"spec.secret","value":7}`, ``},
		{`{"field":"spec.secret","value":null}`, ``},
		{`{"field":"spec.secret","value":["s"]}`, ``},
		{`{"field":"spec.secret","value":"longer than 9"}`, ``},
		{`{"field":"spec.secret","value":"s"},{"field":"spec.secret","value":7}`, ``},
		{`{"field":"spec.limit","value":0}`, ``},
		{`{"field":"spec.limit","value":null}`, ``},
		{`{"field":"spec.limit","value":1.5},{"field":"spec.secret","value":"s"}`, `secret: s`},
		{`{"field":"spec.limit","value":7},{"field":"spec.secret","value":"7"}`, `secret: "7"`}, // the first one counts
		{`{"field":"spec.secret","value":"5"}`, ``},                                             // the default of limit
		{`{"field":"spec.options","value":{"b":1}}`, ``},
		{`{"field":"spec.options","value":{"a":1}}`, ``},
		{`{"field":"spec.options","value":{"a":"x","b":1}}`, `options: {a: x}`},
		{`{"field":"spec.options.a","value":"x"}`, ``},
		{`{"field":"spec","value":{"secret":"s"}}`, ``},
		{`{"field":"spec.options","value":{"a":"x","pod":{"apiVersion":"v1"}}}`, ``},
		{`{"field":"spec.free","value":{"x":{"y":[1]}}}`, ``},
		{`{"field":"spec.free","value":{"x":{"y":[1]}}},{"field":"spec.options","value":{"a":"x"}}`, `options: {a: x}, free: {x: {"y": [1]}}`},
		{`{"field":"spec.free","value":{"x":` + deep + `}},{"field":"spec.options","value":{"a":"x"}}`, ``},
		{`{"field":"spec.free","value":[1]},{"field":"spec.options","value":{"a":"x"}}`, `options: {a: x}`},
		{`{"field":"spec.unknown","value":1},{"field":"metadata.finalizers","value":["x"]},{"field":"kind","value":"X"}`, ``},
		{`{"field":"spec.replicaCount"},{"field":"spec.replicaCount","value":"x"}`, ``},
	} {
		hub := withAnnotation(t, object(t, "v1", `{replicas: 3, rules: [{path: /a}, {path: /b}]}`), "v1beta1", "["+row.kept+"]")
		got, err := c.Convert(context.Background(), "example.com/v1beta1", [][]byte{hub})
		if err != nil {
			t.Fatalf("%.100s: %v", row.kept, err)
		}
		want := object(t, "v1beta1", "{"+strings.TrimSuffix(plain+", "+row.want, ", ")+"}")
		if !same(got[0], want) {
			t.Errorf("%.100s:\n got %.1000s\nwant %s", row.kept, got[0], want)
		}
		if _, wrong, _ := c.spokes[0].read(context.Background(), got[0]); wrong != "" {
			t.Errorf("%.100s: the result is not valid: %s", row.kept, wrong)
		}
	}
}

// TestForgedItems forges a field of list items, beside one that was preserved.
func TestForgedItems(t *testing.T) {
	c := compiled(t, strictSpoke, strictFields...)
	for _, row := range []struct{ value, debug string }{{"true", "true"}, {"false", "false"}, {`"x"`, ""}, {"null", ""}, {"{}", ""}} {
		hub := convert(t, c, object(t, "v1beta1", `{secret: s, routes: [{prefix: /a, debug: true}]}`), "v1")
		forged := bytes.Replace(hub, []byte(`\"value\":true`), fmt.Appendf(nil, `\"value\":%s`, strings.ReplaceAll(row.value, `"`, `\"`)), 1)
		if bytes.Equal(forged, hub) && row.value != "true" {
			t.Fatalf("%s has no such value", hub)
		}
		want := object(t, "v1beta1", `{limit: 5, secret: s, routes: [{prefix: /a`+strings.TrimSuffix(", debug: "+row.debug, ", debug: ")+`}]}`)
		if got := convert(t, c, forged, "v1beta1"); !same(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", row.value, got, want)
		}
	}
}

// TestForgedBesideErrors restores fields of an object that is not valid without them: they may remove errors, and add none.
func TestForgedBesideErrors(t *testing.T) {
	changes := append([]string{"            properties:\n              replicaCount: {type: integer}",
		"            required: [secret, summary]\n            properties:\n              summary: {type: string}\n              replicaCount: {type: integer}"}, strictFields[2:]...)
	c := compiled(t, strictSpoke, changes...)
	for kept, want := range map[string]string{
		`{"field":"spec.secret","value":"s"}`: `{replicaCount: 3, secret: s}`,
		`{"field":"spec.secret","value":7}`:   `{replicaCount: 3}`,
		`{"field":"spec.limit","value":0}`:    `{replicaCount: 3}`,
	} {
		hub := withAnnotation(t, object(t, "v1", `{replicas: 3}`), "v1beta1", "["+kept+"]")
		got, err := c.Convert(context.Background(), "example.com/v1beta1", [][]byte{hub})
		if err != nil {
			t.Fatal(err)
		}
		if want := object(t, "v1beta1", want); !same(got[0], want) {
			t.Errorf("%s:\n got %s\nwant %s", kept, got[0], want)
		}
	}
}

// TestOwnAnnotation holds that a client cannot preserve fields for the version in which it writes.
func TestOwnAnnotation(t *testing.T) {
	c := compiled(t, strictSpoke, strictFields...)
	forged := withAnnotation(t, object(t, "v1beta1", `{replicaCount: 3}`), "v1beta1", `[{"field":"spec.secret","value":"s"}]`)
	want := object(t, "v1beta1", `{limit: 5, replicaCount: 3}`) // with the default
	if got := convert(t, c, convert(t, c, forged, "v1"), "v1beta1"); !same(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestDeepPreservedFields holds that a field with very many levels is refused, since it could not be restored.
func TestDeepPreservedFields(t *testing.T) {
	c := compiled(t, strictSpoke, strictFields...)
	var d map[string]any
	if err := json.Unmarshal(object(t, "v1beta1", `{options: {a: x}}`), &d); err != nil {
		t.Fatal(err)
	}
	for levels, wrong := range map[int]bool{maxKeptDepth - 3: false, maxKeptDepth + 3: true} {
		d["spec"].(map[string]any)["free"] = map[string]any{"x": json.RawMessage(strings.Repeat("[", levels) + strings.Repeat("]", levels))}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		hub, err := c.Convert(context.Background(), "example.com/v1", [][]byte{text})
		if wrong != (err != nil) || wrong && !strings.Contains(err.Error(), "declare deep fields under drop") {
			t.Errorf("%d levels: got error %v", levels, err)
		}
		if wrong {
			continue
		}
		var free jsondoc.Doc
		if err := jsondoc.Parse(&free, convert(t, c, hub[0], "v1beta1")); err != nil || !free.Root().At("spec", "free", "x").Exists() {
			t.Errorf("%d levels: the field is not restored: %v", levels, err)
		}
	}
}
