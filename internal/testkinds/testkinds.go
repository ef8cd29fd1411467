// Package testkinds provides tests with kinds: the built-in ones, and those of given definitions.
package testkinds

import (
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/kind"
)

// Widgets is an established definition of the namespaced resource widgets.demo.io, version v1, with
// an open schema.
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

// Registry returns a registry with the built-in kinds and those of definitions in YAML.
func Registry(t testing.TB, definitions ...string) *kind.Registry {
	t.Helper()
	kinds := kind.NewRegistry(builtin.All(nil)...)
	for _, text := range definitions {
		definition := &apiextv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal([]byte(text), definition); err != nil {
			t.Fatal(err)
		}
		crd.Default(definition)
		k, err := crd.Compile(definition)
		if err != nil {
			t.Fatal(err)
		}
		if err := kinds.Put(k); err != nil {
			t.Fatal(err)
		}
	}
	return kinds
}
