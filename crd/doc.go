// Package crd reads, defaults, validates and compiles CustomResourceDefinitions.
//
// # Terms
//
// A definition is a CustomResourceDefinition, in apiextensions.k8s.io/v1 or v1beta1. [Definitions] returns
// the kind that definitions are objects of; its hooks are the functions of this package.
//
// The checks work on Kubernetes' internal form of a definition: schemas, subresources, columns and
// selectable fields that all versions share are at the top of the spec; see hoist.go. The paths in
// errors show that form.
//
// A [Stored] definition is read only as far as needed. Schemas are most of its bytes; an outline is
// a definition without its schemas (outline.go, parts.go).
//
// # Invariants
//
//   - A definition is stored as v1beta1, which is how Kubernetes stores it.
//   - Schemas that were read from a definition are shared, and never changed.
//   - A stored definition is compiled without its schemas. They are read when the kind is first
//     used.
//   - An update is not refused for an error that the live definition has already (ratchet.go).
//
// # Use
//
// [New] decodes and checks a definition that a client wrote, and [Compile] compiles it to a Kind.
// [Validate] and [ValidateUpdate] check decoded definitions. A server reads its store with
// [ParseStored], sets the conditions with [NameConditions] and [OtherConditions], and compiles with
// [CompileStored].
package crd
