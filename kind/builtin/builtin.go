package builtin

import (
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
