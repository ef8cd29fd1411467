// Package witness finds small objects for which a rule of a schema is true, is false, or fails.
//
// # Model
//
// A Search is for the objects of one structural schema. Find looks for an object for which one rule
// has a result, while the rest of the object is valid: it is pruned, has its defaults, and all other
// rules hold. For a rule that reads oldSelf there are two objects. Minimal looks for the smallest
// valid object.
//
// The search works backwards. It parses the rule, and asks for each form of expression what the
// object must be like: for a && b to be true, both must be; for size(x) > 3, the list needs items;
// for x.matches(p), the text must be accepted by the automaton of p, and by that of the schema's
// pattern. The answers are states: a pair of objects in which a place was changed. A state is judged
// by package schema. If other rules do not hold, or values are not valid, the search repairs them in
// the same way, and goes on until nothing is wrong. At last it leaves out and shortens what the
// result does not need.
//
// # Terms
//
//   - A witness is an object for which a rule has the wanted result.
//   - A state is an object with the one that it replaces. States do not change.
//   - A place is a path into one of the objects of a state.
//   - A goal enumerates the states that satisfy a condition, the most promising first. It passes
//     them to a sink, which ends the enumeration.
//   - The width is the number of alternatives that are tried at each choice. A search begins with a
//     small width, and starts again with larger ones.
//
// # Invariants
//
//   - The evaluator of package schema decides. The values that this package computes guide only.
//   - A search is deterministic: it has no clock, no randomness, and walks over sorted names. Only
//     the end of a context can cut it short.
//   - A search is bounded: by the number and size of the objects that it makes, and the number of
//     parts of expressions that it evaluates. When it ends without a witness, Result says whether
//     that is a proof. A proof covers all values that the schema allows, and possibly more.
//
// # Reading
//
// witness.go (the calls), judge.go (what is a witness, and repairs), solve.go (conditions), then
// compare.go, texttest.go, values.go and nudge.go (values, backwards), generate.go and automaton.go
// (values from schemas and patterns), mend.go, shrink.go, prove.go and provetext.go.
package witness
