// Package suite tests CustomResourceDefinitions without a running server: which objects they
// accept, and what they store.
//
// # Terms
//
// [Kinds] are the kinds of some definitions. They answer to an object as the server would: with the
// stored object or a refusal. A [Suite] is a YAML file with definitions and [Case]s. A case has an
// object to create, update or delete, and the expected result. docs/testing.md describes the file.
//
// # Invariants
//
//   - The answers are the server's: the code that decodes, prunes, defaults and validates is the
//     same.
//   - A case without an expectation is an error of the suite, and so is an unknown key.
//   - [Suite.Update] changes nothing in a file but expectations that were not met.
//
// # Calls
//
// [NewKinds], [Kinds.Create] and [Kinds.Update] for your own programs; [Load], [Suite.Run] and
// [Suite.Update] for files.
package suite
