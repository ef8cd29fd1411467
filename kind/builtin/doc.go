// Package builtin has the kinds that are always there: namespaces, secrets,
// roles, and all the kinds of workloads, which are kept and never run.
//
// # Model
//
// A built-in kind is data. Its schemas are those that Kubernetes publishes
// for its API types; they lie compressed in the binary (definitions.zip, made by
// conformance/definitions) and are unpacked and compiled for a kind when that is used first.
// A [description] says what no schema says: names, scope, where objects are
// stored, columns, selectable fields, and hooks in Go. From there on a built-in
// kind is a [kind.Kind] like any other.
//
// # Terms
//
//   - A definition is a schema in the archive, named as OpenAPI documents name
//     it: io.k8s.api.core.v1.Pod.
//   - A field is named by definition and member: core.v1.PodSpec.dnsPolicy.
//
// # Decoding
//
// What a client sends is read into the published Go type first and printed from
// it: so quantities, times and numbers get the form in which Kubernetes keeps
// them, and errors are worded as clients know them.
//
// # Defaults and validation
//
// A default that depends on nothing but where it stands is a row of the table
// defaults, and the schema's decoder fills it in. Every other one is a hook.
// Values are checked as far as schemas say something (types, enumerations,
// formats) and by the rules of validate.go and the hooks of kinds. That is less
// than Kubernetes checks in kinds of workloads: nothing here runs them.
//
// # Invariants
//
//   - Nothing is unpacked before it is used.
//   - An object that a client sent is stored in the same form as Kubernetes
//     stores it, as JSON; one that Kubernetes stored, in protobuf or JSON, can be
//     read.
package builtin

//go:generate sh -c "cd ../../conformance/definitions && go run ."
