package kind

import (
	"slices"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// This file holds what differs on purpose in the defaults of embedded resources, and defaults of lists that cannot be.

func embedding(t *testing.T, schema string) *apiextv1.CustomResourceDefinition {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(`{metadata: {name: widgets.example.org}, spec: {group: example.org, scope: Cluster, names: {plural: widgets, kind: Widget},
		versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {a: ` + schema + `}}}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

// Ledger: embedded-default-metadata, nested-embedded-defaults.
func TestEmbeddedDefaults(t *testing.T) {
	const resource = "{type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, default: {apiVersion: v1, kind: K, metadata: {nope: 1}}}"
	crd := embedding(t, resource)
	want := theirs(t, crd, nil)
	if got := ours(crd, nil); len(got) > 0 || len(want) > 0 {
		t.Errorf("got %v, upstream %v", got, want)
	}
	if kept := string(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["a"].Default.Raw); !strings.Contains(kept, "nope") {
		t.Errorf("the definition's default has become %s", kept)
	}

	crd = embedding(t, `{type: array, default: [{metadata: {nope: 1}, b: {c: 1}}], items: {type: object, x-kubernetes-embedded-resource: true, properties: {b: {type: object}}}}`)
	differ := compare(ours(crd, nil), theirs(t, crd, nil))
	if len(differ) != 2 || !strings.Contains(differ[0], `"nope":1`) || strings.Contains(differ[1], "nope") {
		t.Errorf("differ in %q, want a value that is shown with nope only here", differ)
	}
	if differ := new(verdicts).compare(t, crd, nil); len(differ) > 0 {
		t.Errorf("differ in %q", differ)
	}

	crd = embedding(t, `{type: object, x-kubernetes-embedded-resource: true, default: {metadata: {metadata: {name: 1}}}, properties:
		{metadata: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}`)
	got, theirs := texts(ours(crd, nil)), texts(theirs(t, crd, nil))
	const refused = "FieldValueForbidden spec.validation.openAPIV3Schema.properties[a].properties[metadata].x-kubernetes-embedded-resource: Forbidden: must not be used inside of resource meta"
	if len(theirs) != 2 || len(got) != 5 || theirs[0] != refused || got[0] != refused {
		t.Errorf("got %q, upstream %q", got, theirs)
	}
}

// TestListsOfNoObjects holds that such a list, which is refused, is not equal to itself, as upstream has it.
func TestListsOfNoObjects(t *testing.T) {
	crd := embedding(t, `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a], default: [[6]],
		items: {type: array, items: {type: integer}}, x-kubernetes-validations: [{rule: "self == oldSelf"}]}`)
	got, theirs := texts(ours(crd, nil)), texts(theirs(t, crd, nil))
	if len(got) != 2 || !slices.Equal(got, theirs) {
		t.Errorf("got %q, upstream %q, want a default that is not equal to itself", got, theirs)
	}
}
