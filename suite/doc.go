// Package suite tests custom resource definitions: what becomes of objects, by the rules of the server and without one.
//
// # Terms
//
// [Kinds] are the kinds of some definitions; they answer to an object as the server would: with the object as it is stored, or
// with a refusal. A [Suite] is a YAML file of definitions and [Case]s; a case is an object to create, or an object as it is and
// as it shall be, and what must come of it. docs/testing.md describes the file.
//
// # Invariants
//
//   - The answers are the server's: the code that decodes, prunes, defaults and validates is the same.
//   - A case that expects nothing is an error of the suite, as is a key that a suite does not have.
//   - [Suite.Update] changes nothing in a file but expectations that were not met.
//
// # Calls
//
// [NewKinds], [Kinds.Create] and [Kinds.Update] for a program of your own; [Load], [Suite.Run] and [Suite.Update] for files.
package suite
