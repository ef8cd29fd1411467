// Package builtin has the kinds that are always there: namespaces, secrets,
// roles, and all the kinds of workloads, which are kept and never run.
//
// # Model
//
// A built-in kind is data. Its schemas are those that Kubernetes publishes for its API types. Their
// structure is in the files in definitions, which conformance/definitions generates from the module
// versions in conformance/go.mod. The files are read and compiled for a kind when it is used first.
// Descriptions are not in the files: documentation.go takes them from the Go modules that have
// them, for each OpenAPI document that is made.
// A [describe.Description] has the parts of a kind that a schema lacks: names, scope, its
// [kind.Traits], the prefix of store keys, columns, selectable fields, and hooks in Go. The result is
// a [kind.Kind] like any other. There is a folder of descriptions for each API group.
//
// # Terms
//
//   - An OpenAPI schema is named as in OpenAPI documents:
//     io.k8s.api.core.v1.Pod.
//   - A field is named by schema and member: core.v1.PodSpec.dnsPolicy.
//
// # Decoding
//
// The body of a request is decoded into the published Go type, and printed from it. So quantities,
// times and numbers get the form in which Kubernetes stores them, and errors have its texts. Answers
// have the order of the type's fields (kind/order.go).
//
// # Defaults and validation
//
// A default that depends on its field only is a row of the table defaults, and the schema's decoder
// fills it in. Every other one is set by a hook. Schemas check types, enumerations and formats. The
// Check hooks of kinds check the rest; docs/compat.md lists the checks that are missing.
//
// # Invariants
//
//   - No file is read before it is used.
//   - An object that a client sent is stored in the same form as Kubernetes
//     stores it, as JSON; one that Kubernetes stored, in protobuf or JSON, can be
//     read.
package builtin

//go:generate sh -c "cd ../../conformance/definitions && go run ."
