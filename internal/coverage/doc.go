// Package coverage reports which parts of definitions the cases of test suites reach.
//
// # Model
//
// A [Recorder] receives the objects that a server validates, and collects for each version of a
// definition what they reach: see [schema.Coverage]. A [Report] has the goals of each version with
// their positions in the file. A goal is something that a suite should reach, such as a rule that
// refuses a value, or a value at a bound. The percentage of a report is that of the goals that were
// reached.
//
// # Terms
//
//   - A condition is one of the parts that && || ! and ?: combine. It decides if there were two
//     evaluations with different values of the condition and different results, each because of this
//     value. This is masking MC/DC.
//   - An error is absorbed if the result did not depend on it, such as that of a in a || true.
//
// # Invariants
//
//   - Recording uses the programs of explanations. Nothing is recorded, and nothing costs time, unless
//     a request names a Recorder.
//   - Versions that no case uses are listed, and do not count.
//   - Reports with equal inputs are equal.
//   - HTML, XML and LCOV contain texts of the definitions only in escaped form. The HTML page has no
//     script and loads nothing.
//
// # Calls
//
// [New], [Recorder.Define], [Recorder.Validated], [Recorder.Report]; then [Report.Write].
package coverage
