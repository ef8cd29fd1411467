package builtin

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file tests all kinds alike, with the examples that come with the API
// types: objects in which every field is set.

// examples is the folder of examples: group.version.Kind.json and .pb.
func examples(t *testing.T) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "testdata", "HEAD")
}

// example reads an example of v, in a form.
func example(t *testing.T, dir string, v *kind.Version, form string) []byte {
	t.Helper()
	group := v.Kind.Group
	if group == "" {
		group = "core"
	}
	text, err := os.ReadFile(filepath.Join(dir, group+"."+v.Name+"."+v.Kind.Name+"."+form))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// own are the versions that this package describes.
func own() []*kind.Version {
	var out []*kind.Version
	for _, k := range All(nil) {
		if k.Name != "CustomResourceDefinition" && k.Name != "Namespace" && k.Name != "APIService" {
			out = append(out, k.Versions...)
		}
	}
	return out
}

// typed is a text as a Go object of v.
func typed(t *testing.T, v *kind.Version, text []byte) runtime.Object {
	t.Helper()
	obj := v.NewTyped()
	if err := json.Unmarshal(text, obj); err != nil {
		t.Fatalf("%s: %v\n%s", v.GVK(), err, text)
	}
	return obj
}

// TestSpellingsOfAPIVersion holds that an apiVersion that upstream reads as the kind's is stored as it
// should be spelled, in writes and in applies, and that no other is.
func TestSpellingsOfAPIVersion(t *testing.T) {
	for _, row := range []struct{ group, sent, want string }{ // want is empty if it must be refused
		{"", "v1", "v1"},
		{"", "/v1", "v1"}, // Go programs make it of a group without a name
		{"", "", "v1"},
		{"", "/v2", ""},
		{"apps", "apps/", "apps/v1"},
		{"apps", "/v1", ""},
	} {
		i := slices.IndexFunc(own(), func(v *kind.Version) bool {
			return v.Kind.Group == row.group && v.Name == "v1" && (v.Kind.Name == "ConfigMap" || v.Kind.Name == "Deployment")
		})
		v := own()[i]
		text := []byte(`{"apiVersion":"` + row.sent + `","kind":"` + v.Kind.Name + `","metadata":{"name":"a"}}`)
		var d, applied jsondoc.Doc
		_, err := v.Decode(&d, text)
		_, appliedErr := v.DecodeApplied(&applied, text)
		if row.want == "" {
			if err == nil && d.Root().Get("apiVersion").Text() == v.APIVersion() || appliedErr == nil && applied.Root().Get("apiVersion").Text() == v.APIVersion() {
				t.Errorf("%s: %q: taken for %s", v.Kind.Name, row.sent, v.APIVersion())
			}
			continue
		}
		if err != nil || appliedErr != nil {
			t.Fatalf("%s: %q: %v, %v", v.Kind.Name, row.sent, err, appliedErr)
		}
		for _, d := range []*jsondoc.Doc{&d, &applied} {
			if got := d.Root().Get("apiVersion").Text(); got != row.want {
				t.Errorf("%s: %q: got %q, want %q", v.Kind.Name, row.sent, got, row.want)
			}
		}
	}
}

func TestNothingIsLost(t *testing.T) {
	dir := examples(t)
	for _, v := range own() {
		text := example(t, dir, v, "json")
		var d jsondoc.Doc
		found, err := v.Decode(&d, text)
		if err != nil {
			t.Errorf("%s: %v", v.GVK(), err)
			continue
		}
		if found != 0 {
			t.Errorf("%s: unknown fields: %q", v.GVK(), v.Strict(text))
		}
		want := typed(t, v, text)
		if fill := fillOf(v); fill != nil {
			fill(want)
		}
		stored, err := v.Encode(&d, nil)
		if err != nil {
			t.Errorf("%s: %v", v.GVK(), err)
			continue
		}
		var back jsondoc.Doc
		if err := v.Load(&back, stored, 1); err != nil {
			t.Errorf("%s: %v", v.GVK(), err)
			continue
		}
		back.Remove("metadata", "resourceVersion")
		back.Set(back.NewString(d.Root().At("metadata", "resourceVersion").Text()), "metadata", "resourceVersion")
		if v.Kind.Group == "autoscaling" && v.Name == "v1" { // what it says of the past is in an annotation, too
			back.Remove("metadata", "annotations", "autoscaling.alpha.kubernetes.io/current-metrics")
		}
		if got := typed(t, v, back.AppendJSON(nil, back.Root().Node)); !reflect.DeepEqual(values(got), values(want)) {
			t.Errorf("%s: got\n%s\nwant\n%s", v.GVK(), marshal(got), marshal(want))
		}
	}
}

// fillOf is the hook that fills in defaults of v.
func fillOf(v *kind.Version) func(runtime.Object) {
	return fills()[metav1.GroupVersionKind(v.GVK()).String()]
}

// Ledger: stored-json.
func TestProtobufSaysTheSame(t *testing.T) {
	dir := examples(t)
	for _, v := range own() {
		pick := func(m metav1.TypeMeta) (*kind.GoType, error) { return v.Kind.Behavior.GoType(v), nil }
		text, err := kind.FromProtobuf(example(t, dir, v, "pb"), pick)
		if err != nil {
			t.Errorf("%s: %v", v.GVK(), err)
			continue
		}
		plain := example(t, dir, v, "json")
		got, want := typed(t, v, text), typed(t, v, plain)
		if string(marshal(got)) != string(marshal(want)) {
			t.Errorf("%s: protobuf gives\n%s\nJSON gives\n%s", v.GVK(), marshal(got), marshal(want))
		}
		again, err := kind.ToProtobuf(plain, v.NewTyped())
		if err != nil {
			t.Errorf("%s: %v", v.GVK(), err)
			continue
		}
		if back, err := kind.FromProtobuf(again, pick); err != nil || string(back) != string(marshal(want)) {
			t.Errorf("%s: %v: there and back gives\n%s\nwant\n%s", v.GVK(), err, back, marshal(want))
		}
		// What Kubernetes stored is read.
		var d jsondoc.Doc
		if err := v.Load(&d, example(t, dir, v, "pb"), 7); err != nil {
			t.Errorf("%s: %v", v.GVK(), err)
		} else if rv := d.Root().At("metadata", "resourceVersion").Text(); rv != "7" {
			t.Errorf("%s: resource version %q", v.GVK(), rv)
		}
	}
}

// values is an object as plain values, whatever the order of what is embedded.
func values(obj any) (out any) {
	if err := json.Unmarshal(marshal(obj), &out); err != nil {
		panic("BUG: " + err.Error())
	}
	return out
}

func marshal(obj any) []byte {
	text, err := json.Marshal(obj)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return text
}

func TestPublishedSchemasAreComplete(t *testing.T) {
	for _, v := range own() {
		p, err := v.Published()
		if err != nil {
			t.Fatalf("%s: %v", v.GVK(), err)
		}
		if p[v.Definition] == nil || !v.Kind.Behavior.Virtual && p[v.Definition+"List"] == nil {
			t.Errorf("%s: no schema %s", v.GVK(), v.Definition)
		}
		for name, text := range p {
			var s map[string]any
			if err := json.Unmarshal(text, &s); err != nil {
				t.Fatal(err)
			}
			for _, ref := range refsOf(s) {
				if p[ref] == nil {
					t.Errorf("%s: %s refers to %s, which is not there", v.GVK(), name, ref)
				}
			}
		}
	}
}

// fills are the hooks that fill in defaults, by kind.
func fills() map[string]func(runtime.Object) {
	all := map[string]func(runtime.Object){}
	for _, desc := range descriptions() {
		for _, v := range desc.Versions {
			gvk := metav1.GroupVersionKind{Group: desc.Group, Version: v.Name, Kind: desc.Kind}
			all[gvk.String()] = v.Fill
		}
	}
	return all
}

func TestDefaultsAreOfFieldsThatMayBeMissing(t *testing.T) {
	lib := new(library)
	for at, text := range defaults {
		name, field := cut(apiPrefix + at)
		d := lib.definition(name)
		switch {
		case d.Properties[field] == nil:
			t.Errorf("%s: there is no such field", at)
		case slices.Contains(d.Required, field):
			t.Errorf("%s: the Go type always prints it, so the default is never used", at)
		case string(d.Properties[field].Default) == text:
			t.Errorf("%s: the published schema has this default", at)
		case text == "" && d.Properties[field].Default != nil:
		case !json.Valid([]byte(text)):
			t.Errorf("%s: %s is no JSON", at, text)
		}
	}
}

// TestJobLabels: a job without labels gets those of its pods, with the labels that the server adds. One
// that is sent with the labels of its pods keeps them.
func TestJobLabels(t *testing.T) {
	v := versionFor(t, "batch", "jobs")
	const labels = "a b batch.kubernetes.io/controller-uid batch.kubernetes.io/job-name controller-uid job-name"
	for _, c := range []struct{ text, want string }{
		{jobText, strings.TrimPrefix(labels, "a b ")}, // its pods have none of their own
		{strings.Replace(jobText, "template: {", "template: {metadata: {labels: {a: x, b: w}}, ", 1), labels},
		{"{metadata: {labels: {b: w, a: x}}, " + strings.Replace(jobText, "template: {", "template: {metadata: {labels: {a: x, b: w}}, ", 1) + "}", "a b"},
		{"{metadata: {labels: {c: z}}, " + strings.Replace(jobText, "template: {", "template: {metadata: {labels: {a: x}}, ", 1) + "}", "c"},
	} {
		d := read(t, v, c.text)
		v.PrepareCreate(d)
		var names []string
		for name := range d.Root().At("metadata", "labels").Members() {
			names = append(names, name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: labels %q, want %q", c.text, got, c.want)
		}
	}
}

// TestNullInMap checks that the key of a null stays in a map of bytes, too, as it does where the Go type decodes the object: a Secret
// whose value is null has an empty value.
func TestNullInMap(t *testing.T) {
	for _, c := range []struct{ kind, text, want string }{
		{"Secret", `{"data":{"a":null,"b":"Yg=="}}`, `{"data":{"a":"","b":"Yg=="}}`},
		{"ConfigMap", `{"data":{"a":null},"binaryData":{"b":null}}`, `{"data":{"a":""},"binaryData":{"b":""}}`},
	} {
		for _, v := range own() {
			if v.Kind.Name != c.kind {
				continue
			}
			var d jsondoc.Doc
			if _, err := v.Decode(&d, []byte(c.text)); err != nil {
				t.Fatal(err)
			}
			for _, member := range []string{"data", "binaryData", "stringData"} {
				var want map[string]json.RawMessage
				if err := json.Unmarshal([]byte(c.want), &want); err != nil {
					t.Fatal(err)
				}
				got := ""
				if m := d.Root().At(member); m.Exists() {
					got = string(d.AppendJSON(nil, m.Node))
				}
				if got != string(want[member]) {
					t.Errorf("%s: %s: %s: got %s, want %s", c.kind, c.text, member, got, want[member])
				}
			}
		}
	}
}
