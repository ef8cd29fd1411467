// Package crd reads, defaults, validates and compiles CustomResourceDefinitions.
//
// # Terms
//
// A definition is a CustomResourceDefinition, in apiextensions.k8s.io/v1 or v1beta1. [Definitions] returns
// the kind that definitions are objects of; its hooks are the functions of this package.
//
// The checks work on what Kubernetes calls the internal form of a definition, where
// schemas, subresources, columns and selectable fields that all versions share
// are hoisted to the top; see hoist.go. The paths of errors show it.
//
// A [Stored] definition is read as far as it has to be. Its schemas are by far the largest part of it;
// an outline is a definition without them (outline.go, parts.go).
//
// # Invariants
//
//   - A definition is stored as v1beta1, which is how Kubernetes stores it.
//   - The schemas of a definition that was read are shared, and never changed.
//   - A stored definition is compiled without its schemas, which are read when the kind is used first.
//   - An update is not refused for what was wrong before (ratchet.go).
//
// # Use
//
// [New] reads a definition as clients write it and checks it, [Compile] makes a Kind of it. [Validate] and
// [ValidateUpdate] check definitions that are read already. A server reads what it has stored with
// [ParseStored], sets the conditions with [NameConditions] and [OtherConditions], and compiles with
// [CompileStored].
package crd
