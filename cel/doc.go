// Package cel runs the rules of custom resource definitions: expressions of the
// Common Expression Language with Kubernetes' libraries.
//
// # How it works
//
// cel-go parses, type-checks and estimates; this package evaluates. A checked
// expression is compiled once to closures over document nodes ([doc.Value]) and
// a fixed array of variables. Results, error texts, estimates and runtime costs
// are those of cel-go as Kubernetes configures it; module conformance proves it
// on tables, on published definitions and on random expressions.
//
// # Terms
//
//   - A [Type] is what a schema node is to rules. Package schema builds the tree.
//   - An [Env] is a version's libraries, a [TypeSet] the types of one version of
//     a kind, a [Program] one compiled expression.
//   - A [Value] is what an expression evaluates to: a union that is copied, not
//     pointed to. Errors and unknowns are values until they leave [Program.Eval].
//   - A unit is what cost is counted in. The static estimate ([Program.MaxCost])
//     bounds what a definition may ask for, the runtime cost what an evaluation
//     may use.
//   - A path is a variable and the members selected from it; a direct read is a
//     path that is read without a Value for each step.
//
// # Invariants
//
//   - What cel-go accepts and this package cannot run is refused by Compile with
//     an error that names it; nothing is evaluated differently in silence.
//   - A fused form charges what the unfused one costs.
//   - Rules that read, compare, index and iterate allocate nothing.
//   - A datum that does not fit its type is an error where it is read, not before.
//
// # Calls
//
// [NewEnv] once, [Env.Types] for each version of a kind, [TypeSet.Compile] for
// each rule, [Program.Eval] for each place in an object where the rule applies.
//
// # Reading
//
// env.go (checking), compile.go (nodes), path.go and direct.go (members),
// compile_logic.go, compile_call.go, compile_fold.go with fold.go
// (comprehensions), value.go with errors.go, load.go, equal.go, ops.go
// (values), cost.go and estimate.go (prices), bridge.go and lib_*.go
// (libraries).
package cel
