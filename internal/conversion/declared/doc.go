// Package declared converts objects between the versions of a custom resource by a declaration: a
// Conversion, which lists moved fields, replaced values and CEL expressions. No webhook has to be
// written.
//
// # Model
//
// A [Conversion] is an object of kind Conversion in keelson.io/v1alpha1, with the name of a
// definition. One version of the definition is the hub. Each other version, a spoke, has the
// difference between itself and the hub. An object passes from one spoke to another by way of the
// hub, so that n versions need n-1 differences.
//
// A result starts as a copy of the object. The steps in both change it: forward on the way to the
// hub, reversed and in reverse order on the way back. Then the set entries of the direction write
// fields of the result. Their expressions read self, the object before all steps. At last, the
// reader of the result prunes the fields that its schema does not declare.
//
// What the other version cannot represent is lost, unless it is declared under preserve. The values
// of preserved fields travel in an annotation of the result, and return to their place on the way
// back, as long as the other version cannot tell the difference: the restored object must convert
// to what the object without them converts to.
//
// # Terms
//
//   - The source is the object that is converted, the result what it becomes.
//   - A step is an entry of both. It can run in both directions.
//   - A path names a field: spec.rules[*].port. [*] stands for each item of a list, [0] for the
//     first item, ['a.b/c'] for the member of a map.
//   - A loss is a difference between an object and what a round trip makes of it.
//
// # Invariants
//
//   - A [Converter] that compiled has known paths and types on both sides, and bounded costs. It
//     is immutable and safe for concurrent use.
//   - The source never changes. A failed conversion has no result.
//   - Metadata other than labels and annotations is copied.
//   - [Converter.Check] is deterministic: it has no clock and no randomness.
//
// # Calls
//
// [Parse] reads a Conversion, [Compile] checks it against its definition, [Converter.Convert]
// converts objects, [Converter.Check] searches for round trips that lose data, [NewHandler] serves
// conversions to a cluster as a webhook.
//
// # Reading
//
// spec.go (the resource), path.go, compile.go (checks against the schemas), step.go and set.go (what
// a direction does), tree.go (the result while it is made), convert.go, preserve.go, check.go,
// generate.go (objects for the check), handler.go.
package declared
