// Package testkinds gives tests the kinds of a server: the built-in ones, and definitions of their own.
package testkinds

import (
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/kind/builtin"
)

// Widgets is a definition, established, of a kind without a schema to speak of: widgets.demo.io, in version v1, in namespaces.
const Widgets = `
metadata: {name: widgets.demo.io}
spec:
  group: demo.io
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
status: {conditions: [{type: Established, status: "True"}], acceptedNames: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}}
`

// Registry has the built-in kinds and those of definitions, in YAML.
func Registry(t testing.TB, definitions ...string) *kind.Registry {
	t.Helper()
	kinds := new(kind.Registry)
	for _, k := range builtin.All() {
		kinds.Put(k)
	}
	for _, text := range definitions {
		crd := &apiextv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal([]byte(text), crd); err != nil {
			t.Fatal(err)
		}
		kind.DefaultCRD(crd)
		k, err := kind.Compile(crd)
		if err != nil {
			t.Fatal(err)
		}
		kinds.Put(k)
	}
	return kinds
}
