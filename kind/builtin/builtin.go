package builtin

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/keelson-io/keelson/kind"
)

// This file lists the kinds.

// All are the built-in kinds, those of package kind included. They never
// change, so all servers of a process have the same ones.
func All() []*kind.Kind { return slices.Clone(made()) }

var made = sync.OnceValue(func() []*kind.Kind {
	lib := new(library)
	all := kind.Builtins()
	for _, k := range all {
		for _, v := range k.Versions {
			if name := publishedElsewhere[k.Plural+"/"+v.Name]; name != "" {
				v.Definition, v.Published = name, func() (map[string]json.RawMessage, error) { return published(name, name+"List") }
			}
		}
	}
	for _, desc := range descriptions() {
		all = append(all, newKind(lib, desc).made)
	}
	return append(all, eventKinds(lib)...)
})

// descriptions are those of the kinds that stand on their own.
func descriptions() []description {
	return slices.Concat(coreKinds(), rbacKinds(), coordinationKinds(), podKinds(), appsKinds(), batchKinds(), networkKinds(), storageKinds(),
		policyKinds(), certificateKinds(), deviceKinds(), flowKinds(), admissionKinds(), reviewKinds())
}

// publishedElsewhere are the schemas that Kubernetes publishes for kinds of package kind.
var publishedElsewhere = map[string]string{
	"namespaces/v1":                "io.k8s.api.core.v1.Namespace",
	"customresourcedefinitions/v1": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
}

// Published are schemas that Kubernetes publishes, and what they refer to, by name, in the form of OpenAPI 3.
func Published(names ...string) (map[string]json.RawMessage, error) { return published(names...) }
