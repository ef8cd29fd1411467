package builtin

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/builtin/admissionregistration"
	"github.com/keelson-io/keelson/internal/builtin/apiregistration"
	"github.com/keelson-io/keelson/internal/builtin/apps"
	"github.com/keelson-io/keelson/internal/builtin/authentication"
	"github.com/keelson-io/keelson/internal/builtin/authorization"
	"github.com/keelson-io/keelson/internal/builtin/autoscaling"
	"github.com/keelson-io/keelson/internal/builtin/batch"
	"github.com/keelson-io/keelson/internal/builtin/certificates"
	"github.com/keelson-io/keelson/internal/builtin/coordination"
	"github.com/keelson-io/keelson/internal/builtin/core"
	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/builtin/discovery"
	"github.com/keelson-io/keelson/internal/builtin/events"
	"github.com/keelson-io/keelson/internal/builtin/flowcontrol"
	"github.com/keelson-io/keelson/internal/builtin/networking"
	"github.com/keelson-io/keelson/internal/builtin/node"
	"github.com/keelson-io/keelson/internal/builtin/policy"
	"github.com/keelson-io/keelson/internal/builtin/rbac"
	"github.com/keelson-io/keelson/internal/builtin/resource"
	"github.com/keelson-io/keelson/internal/builtin/scheduling"
	"github.com/keelson-io/keelson/internal/builtin/storage"
	"github.com/keelson-io/keelson/internal/builtin/storagemigration"
	"github.com/keelson-io/keelson/kind"
)

// This file lists the kinds.

// All returns CustomResourceDefinition, which c compiles, Namespace, APIService, and the kinds that have a
// Description. Kinds other than CustomResourceDefinition never change, so all servers of a process
// share them.
func All(c *crd.Compiler) []*kind.Kind {
	definitions := c.Definitions()
	publish(definitions)
	return slices.Insert(slices.Clone(made()), 1, definitions)
}

// publish gives a kind without a description the schemas that Kubernetes publishes for it.
func publish(k *kind.Kind) {
	for _, v := range k.Versions {
		if name := publishedElsewhere[k.Plural+"/"+v.Name]; name != "" {
			v.Definition, v.Published = name, func() (map[string]json.RawMessage, error) { return published(name, name+"List") }
		}
	}
}

// made returns the built-in kinds but definitions.
var made = sync.OnceValue(func() []*kind.Kind {
	lib := new(library)
	all := []*kind.Kind{core.Namespaces(), apiregistration.Kind()}
	for _, k := range all {
		publish(k)
	}
	for _, desc := range descriptions() {
		all = append(all, newKind(lib, desc).made)
	}
	return append(all, madeEvents(lib)...)
})

// madeEvents makes the two kinds of events. Objects of the second are stored as those of the first.
func madeEvents(lib *library) []*kind.Kind {
	one, other := events.Kinds()
	first, second := newKind(lib, one), newKind(lib, other)
	second.made.Storage.IsStorage = false
	second.made.Storage = first.made.Storage
	second.made.All = append(second.made.All, first.made.Storage)
	second.by[first.made.Storage] = first.by[first.made.Storage]
	return []*kind.Kind{first.made, second.made}
}

// descriptions returns those of the kinds that stand on their own.
func descriptions() []describe.Description {
	return slices.Concat(
		admissionregistration.Kinds(),
		apps.Kinds(),
		authentication.Kinds(),
		authorization.Kinds(),
		autoscaling.Kinds(),
		batch.Kinds(),
		certificates.Kinds(),
		coordination.Kinds(),
		core.Kinds(),
		discovery.Kinds(),
		flowcontrol.Kinds(),
		networking.Kinds(),
		node.Kinds(),
		policy.Kinds(),
		rbac.Kinds(),
		resource.Kinds(),
		scheduling.Kinds(),
		storage.Kinds(),
		storagemigration.Kinds(),
	)
}

// Published are schemas that Kubernetes publishes, and what they refer to, by name, in the form of OpenAPI 3.
func Published(names ...string) (map[string]json.RawMessage, error) { return published(names...) }

// publishedElsewhere are the schemas that Kubernetes publishes for kinds without a description.
var publishedElsewhere = map[string]string{
	"namespaces/v1":                "io.k8s.api.core.v1.Namespace",
	"customresourcedefinitions/v1": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
}
