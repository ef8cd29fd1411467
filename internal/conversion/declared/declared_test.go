package declared

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/jsondoc"
)

// definition returns the definition in testdata/widgets.yaml, with changes to its text: pairs of old
// and new.
func definition(t testing.TB, changes ...string) *apiextv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile("testdata/widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer(changes...).Replace(string(text))
	if len(changes) > 0 && changed == string(text) {
		t.Fatal("the changes change nothing")
	}
	out := new(apiextv1.CustomResourceDefinition)
	if err := yaml.UnmarshalStrict([]byte(changed), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// conversionOf parses a Conversion whose only spoke has the given text.
func conversionOf(t testing.TB, spoke string) *Conversion {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte("apiVersion: keelson.io/v1alpha1\nkind: Conversion\nmetadata: {name: widgets.example.com}\nspec:\n  hub: v1\n  versions:\n  - name: v1beta1\n" +
		"    " + strings.ReplaceAll(strings.TrimSpace(spoke), "\n", "\n    ") + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// compiled compiles a Conversion whose only spoke has the given text.
func compiled(t testing.TB, spoke string, changes ...string) *Converter {
	t.Helper()
	c, err := Compile(definition(t, changes...), conversionOf(t, spoke))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// published is the spoke in testdata/conversion.yaml.
func published(t testing.TB) *Converter {
	t.Helper()
	text, err := os.ReadFile("testdata/conversion.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		t.Fatal(err)
	}
	c, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Compile(definition(t), c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// object returns an object of a version with the given spec, as JSON.
func object(t testing.TB, version, spec string) []byte {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte("apiVersion: example.com/" + version + "\nkind: Widget\nmetadata: {name: a, labels: {x: z}}\nspec: " + spec))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// convert converts an object and prunes the result.
func convert(t testing.TB, c *Converter, object []byte, version string) []byte {
	t.Helper()
	out, err := c.Convert(context.Background(), "example.com/"+version, [][]byte{object})
	if err != nil {
		t.Fatal(err)
	}
	v := c.hub
	if s := c.spoke("example.com/" + version); s != nil {
		v = s.version
	}
	text, wrong, _ := v.read(context.Background(), out[0])
	if wrong != "" {
		t.Fatalf("%s: %s", text, wrong)
	}
	return text
}

// same reports whether two JSON texts are the same value.
func same(a, b []byte) bool {
	var x, y jsondoc.Doc
	return jsondoc.Parse(&x, a) == nil && jsondoc.Parse(&y, b) == nil && jsondoc.Equal(x.Root(), y.Root())
}

// TestConvert converts an object to the hub and back, for each form of a step.
func TestConvert(t *testing.T) {
	c := published(t)
	beta := object(t, "v1beta1", `{replicaCount: 3, mode: fast, address: "h:80", routes: [{prefix: /a, weight: 1, tags: [x]}, {prefix: /b, debug: true}],
  env: [{name: B, value: "2"}, {name: A, value: "1"}], labels: {k: v}, template: {image: i}, secret: s}`)
	hub := convert(t, c, beta, "v1")
	want := object(t, "v1", `{replicas: 3, mode: Fast, host: h, port: 80, rules: [{path: /a, weight: 1, tags: [x]}, {path: /b}],
  env: {A: "1", B: "2"}, labelList: [{key: k, text: v}], images: [i], summary: "fast h:80"}`)
	got := decoded(hub).(map[string]any)
	kept := got["metadata"].(map[string]any)["annotations"].(map[string]any)
	delete(got["metadata"].(map[string]any), "annotations")
	text, _ := json.Marshal(got)
	if !same(text, want) {
		t.Errorf("to the hub:\n got %s\nwant %s", text, want)
	}
	if !strings.Contains(kept[annotationPrefix+"v1beta1"].(string), `"spec.secret"`) {
		t.Errorf("got annotations %v, want the secret", kept)
	}
	// The order of env is declared as dropped.
	want = object(t, "v1beta1", `{replicaCount: 3, mode: fast, address: "h:80", routes: [{prefix: /a, weight: 1, tags: [x]}, {prefix: /b, debug: true}],
  env: [{name: A, value: "1"}, {name: B, value: "2"}], labels: {k: v}, template: {image: i}, secret: s}`)
	if back := convert(t, c, hub, "v1beta1"); !same(back, want) {
		t.Errorf("back:\n got %s\nwant %s", back, want)
	}
}

// TestRestored changes an object in the hub: what is preserved returns to its place unless the change
// contradicts it.
func TestRestored(t *testing.T) {
	c := published(t)
	beta := object(t, "v1beta1", `{replicaCount: 3, mode: turbo, routes: [{prefix: /a}, {prefix: /b, debug: true}, {prefix: /c}], secret: s}`)
	rows := []struct{ name, old, new, want string }{
		{"nothing", `"replicas":3`, `"replicas":3`, `{replicaCount: 3, mode: turbo, routes: [{prefix: /a}, {prefix: /b, debug: true}, {prefix: /c}], secret: s}`},
		{"another field", `"replicas":3`, `"replicas":4`, `{replicaCount: 4, mode: turbo, routes: [{prefix: /a}, {prefix: /b, debug: true}, {prefix: /c}], secret: s}`},
		{"the field itself", `"mode":"Fast"`, `"mode":"Slow"`, `{replicaCount: 3, mode: slow, routes: [{prefix: /a}, {prefix: /b, debug: true}, {prefix: /c}], secret: s}`},
		{"an item less", `{"path":"/a"},`, ``, `{replicaCount: 3, mode: turbo, routes: [{prefix: /b, debug: true}, {prefix: /c}], secret: s}`},
		{"another item", `{"path":"/a"}`, `{"path":"/z"}`, `{replicaCount: 3, mode: turbo, routes: [{prefix: /z}, {prefix: /b, debug: true}, {prefix: /c}], secret: s}`},
		{"the item gone", `{"path":"/b"},`, ``, `{replicaCount: 3, mode: turbo, routes: [{prefix: /a}, {prefix: /c}], secret: s}`},
	}
	for _, row := range rows {
		hub := string(convert(t, c, beta, "v1"))
		changed := strings.Replace(hub, row.old, row.new, 1)
		if !strings.Contains(hub, row.old) {
			t.Fatalf("%s: %s lacks %s", row.name, hub, row.old)
		}
		back := convert(t, c, []byte(changed), "v1beta1")
		if want := object(t, "v1beta1", row.want); !same(back, want) {
			t.Errorf("%s:\n got %s\nwant %s", row.name, back, want)
		}
		// What was changed in the hub is still so after another round trip.
		var a, b jsondoc.Doc
		if jsondoc.Parse(&a, []byte(changed)) != nil || jsondoc.Parse(&b, convert(t, c, back, "v1")) != nil || !jsondoc.Equal(a.Root().Get("spec"), b.Root().Get("spec")) {
			t.Errorf("%s: the hub has %s after a round trip of %s", row.name, b.AppendJSON(nil, b.Root().Node), changed)
		}
	}
}

// TestProblems has mistakes in a Conversion, with their places.
func TestProblems(t *testing.T) {
	long := strings.Repeat("self.spec.secret + ", 200) + "'x'"
	rows := []struct{ spoke, path, text string }{
		{"both: [{move: {version: spec.replicaCont, hub: spec.replicas}}]", "spec.versions[0].both[0].move.version", `unknown field "spec.replicaCont" in spec in v1beta1: did you mean "replicaCount"?`},
		{"both: [{move: {version: spec.replicaCount, hub: spec.mode}}]", "spec.versions[0].both[0].move", "spec.replicaCount is integer in v1beta1, and spec.mode is string in v1"},
		{"both: [{move: {version: 'spec.routes[*].prefix', hub: spec.mode}}]", "spec.versions[0].both[0].move", "are in different lists"},
		{"both: [{move: {version: spec.routes.prefix, hub: spec.mode}}]", "spec.versions[0].both[0].move.version", "spec.routes in v1beta1 is a list: write [*]"},
		{"both: [{move: {version: 'spec.mode[*]', hub: spec.mode}}]", "spec.versions[0].both[0].move.version", "got type string, want a list"},
		{"both: [{move: {version: 'spec.x[1]', hub: spec.mode}}]", "spec.versions[0].both[0].move.version", "want a path with [*], [0]"},
		{"both: [{move: {version: metadata.name, hub: spec.mode}}]", "spec.versions[0].both[0].move.version", "other metadata cannot be converted"},
		{"both: [{values: {version: spec.mode, hub: spec.mode, pairs: [{version: fast, hub: fsst}]}}]", "spec.versions[0].both[0].values.pairs[0].hub", `got "fsst", want a value of the enum: did you mean "Fast"?`},
		{"both: [{move: {version: spec.replicaCount, hub: spec.replicas}}, {move: {version: spec.replicaCount, hub: spec.port}}]", "spec.versions[0].both[1].move", "spec.replicaCount of v1beta1 is in spec.versions[0].both[0].move, too"},
		{"both: [{split: {version: spec.replicaCount, hub: [spec.host, spec.port], separator: ':'}}]", "spec.versions[0].both[0].split", "got type integer, want a string"},
		{"both: [{listToMap: {version: spec.env, hub: spec.env, key: nam}}]", "spec.versions[0].both[0].listToMap.key", `did you mean "name"?`},
		{"toHub: {set: [{field: spec.replicas, expression: self.spec.mode}]}", "spec.versions[0].toHub.set[0].expression", "got an expression of type string, want integer, the type of spec.replicas in v1"},
		{"toHub: {set: [{field: spec.replicas, expression: self.spec.modes}]}", "spec.versions[0].toHub.set[0].expression", "undefined field 'modes'"},
		{"toHub: {set: [{field: spec.replicas, expression: '1', when: \"'a'\"}]}", "spec.versions[0].toHub.set[0].when", "want bool"},
		{"toHub: {set: [{field: spec.replicas, value: many}]}", "spec.versions[0].toHub.set[0].value", `got "many", want integer`},
		{"toHub: {set: [{field: spec.replicas}]}", "spec.versions[0].toHub.set[0]", "want either a value or an expression"},
		{"toHub: {set: [{field: spec.summary, expression: \"" + long + "\"}]}", "spec.versions[0].toHub.set[0].expression", "may cost more than"},
		{"toHub: {set: [{field: 'spec.rules[*].path', item: spec.routes, value: x}]}", "spec.versions[0].toHub.set[0].item", "want a path that ends in [*]"},
		{"toHub: {preserve: [spec.host]}", "spec.versions[0].toHub.preserve[0]", `unknown field "spec.host" in spec in v1beta1`},
		{"toHub: {preserve: ['spec.routes[*].tags[*]']}", "spec.versions[0].toHub.preserve[0]", "at most one [*]"},
		{"fromHub: {drop: [{field: spec.secret}]}", "spec.versions[0].fromHub.drop[0].field", `unknown field "spec.secret" in spec in v1`},
	}
	for _, row := range rows {
		_, err := Compile(definition(t), conversionOf(t, row.spoke))
		var problems Problems
		if !errors.As(err, &problems) || problems[0].Path != row.path || !strings.Contains(problems[0].Message, row.text) {
			t.Errorf("%s:\n got %v\nwant %s: …%s", row.spoke, err, row.path, row.text)
		}
	}
	for text, want := range map[string]string{
		`{"apiVersion":"keelson.io/v1alpha1","kind":"Conversion","metadata":{"name":"a"},"spec":{"hup":"v1","versions":[{"name":"b"}]}}`:                                   `spec.hup: unknown field "hup": did you mean "hub"?`,
		`{"apiVersion":"keelson.io/v1","kind":"Conversion","metadata":{"name":"a"},"spec":{"hub":"v1","versions":[{"name":"b"}]}}`:                                         "kind: got Conversion of keelson.io/v1, want Conversion of keelson.io/v1alpha1",
		`{"apiVersion":"keelson.io/v1alpha1","kind":"Conversion","metadata":{},"spec":{"hub":"v1","versions":[{"name":"b"}]}}`:                                             "metadata.name: want the name of a CustomResourceDefinition",
		`{"apiVersion":"keelson.io/v1alpha1","kind":"Conversion","metadata":{"name":"a"},"spec":{"hub":"v1","versions":[{"name":"b","both":[{"move":{"version":"x"}}]}]}}`: "spec.versions[0].both[0].move.hub: Required value",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}
