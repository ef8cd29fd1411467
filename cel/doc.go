// Package cel runs expressions of the Common Expression Language: the rules of
// custom resource definitions, and those of any Go program that embeds the
// language.
//
// # Embedding the language
//
// A program that lets users write conditions makes a [Language] once. It declares variables with
// their types, and optionally chooses libraries, adds functions, and lists the permitted functions
// and macros ([Subset]). [Language.CompileExpression] compiles a text to an [Expression], which is
// checked, immutable and safe for concurrent use. [Expression.Eval] evaluates it over [Vars].
//
// Values. The types of the language are null_type, bool, int (64 bits), uint, double, string (of
// code points), bytes, list, map, type, timestamp, google.protobuf.Duration, optional_type, and the
// types of libraries. A [Value] has one of them. [FromGo] and [FromJSON] convert plain data to
// values, [Value.Go] and [Value.JSON] convert values to plain data, and [Value.Kind] with
// [Value.Int], [Value.Str] and so on read a value without allocation. Data with a schema need not
// be converted ([TypeOfSchema], [FromDoc]): expressions over it are checked against the schema, and
// read only the members that they use. Convert Go structs to JSON.
//
// Arithmetic does not wrap around: an overflow is an error. int, uint and double are compared by
// value, but never converted implicitly. JSON objects are maps. To test for a member that may be
// missing, write has(x.y) or x.?y.
//
// Errors. Compile errors show the line of the expression with a mark under the position. The error
// of an evaluation is the Go error that Eval returns, with cel-go's text: "no such key: x",
// "division by zero". [Explanation.ErrorText] adds the position. An error is absorbed if the result
// does not depend on it: false && error is false, and so is error && false. An evaluation that was
// ended early returns [ErrCostLimit] or [ErrInterrupted] (errors.Is).
//
// Units. The cost of an evaluation is counted in units that do not depend on the machine: 1 for a
// variable, a member, an index or a simple call, 1 for each 10 code points or bytes that are
// visited, 10 for a list, 30 for a map, 40 for a message. Eval has a limit as its parameter and
// returns the cost. A unit takes a few nanoseconds. [Expression.MaxCost] estimates the cost in
// advance, from the sizes in schemas: compare it with a limit when you accept an expression, and
// use a limit at run time nevertheless. The estimate does not know the contents of variables of
// type dyn.
//
// Some calls cost one unit for a text of any length. That work has a bound of its own for each
// evaluation, which ends with [ErrCostLimit] if it exceeds the bound. A program that evaluates many
// expressions for one request should bound the sum with an [Account]: use [Expression.EvalOn], or
// [Activation.Overdrawn] for rules.
//
// Reasons. [Expression.Explainer], and [TypeSet.Explainer] for rules, compile the expression a second
// time, so that each part records its value. An [Explanation] is an evaluation with the tree of the
// parts: value or error, position, the place in the data, and the element that decided a macro.
//
// Unknown data. [Expression.Partial] evaluates an expression while parts of the data are unknown
// ([Language.Pattern]). It returns the result if that does not depend on the unknown parts.
// Otherwise it returns the parts on which the result depends, and the residual expression as text,
// which can be compiled.
//
// Sources. The language is defined at https://github.com/google/cel-spec; the module conformance
// runs its published test suite. github.com/google/cel-go parses, checks types and estimates. A
// Language follows the definition where cel-go, and with it Kubernetes' rules, differ from it,
// unless it is the language of a version of Kubernetes:
//
//   - a map literal with a repeated key, or with a key that is not a string, int, uint or bool, is
//     an error;
//   - getMilliseconds() of a duration returns the milliseconds within its second;
//   - an offset beyond the end in indexOf() and lastIndexOf() is an error;
//   - has(x.y) is an error if x cannot have members, unless LenientPresence is set;
//   - a member of an optional value in the middle of a path is optional;
//   - an IPv4 address that is written as IPv6 without dots is accepted as the IPv4 address.
//
// [LanguageOptions.Kubernetes] selects the language of a version of Kubernetes instead of
// libraries. It has what that version and earlier ones introduced, so that an expression that
// compiles is valid in such a cluster.
//
// # How it works
//
// cel-go parses, type-checks and estimates; this package evaluates. A checked expression is
// compiled once, to closures over document nodes ([jsondoc.Value]) and a fixed array of variables.
// Results, error texts, estimates and runtime costs equal those of cel-go in Kubernetes'
// configuration. The module conformance compares them for tables, published definitions and random
// expressions.
//
// Most rules do not need cel-go's parser and checker: package check has its own for the common part
// of the language. They give up on everything else, including all errors, and cel-go continues.
// Equal rules over equal types share one program, through weak pointers.
//
// # Terms
//
//   - A [Type] describes a schema node to rules. Package schema builds the tree of types.
//   - An [Env] has the libraries of a version, a [TypeSet] the types of one version of a kind, and
//     a [Program] is one compiled expression.
//   - A [Value] is the result of an expression: a union that is copied, not referred to. Errors and
//     unknowns are values until [Program.Eval] returns them.
//   - A unit is the unit of cost. The static estimate ([Program.MaxCost]) limits what definitions
//     may contain, the runtime cost what an evaluation may use.
//   - A path is a variable with the members selected from it. A direct read evaluates a path
//     without a Value for each step.
//   - A function of a text is a test, a part or a number that is computed from one text alone, with
//     its cost. It is used both in frames and in diagrams.
//   - A diagram is a test in the form of questions about members, texts and items, each of which
//     leads to the next. If a diagram cannot answer, the expression is evaluated in a frame.
//
// # Invariants
//
//   - Compile refuses, with an error that names it, what cel-go accepts and this package cannot
//     run. No result differs silently.
//   - A fused operation costs as much as the operations that it replaces.
//   - Rules that read, compare, index and iterate allocate nothing.
//   - A value that does not fit its type is an error when it is read, not before.
//
// # Calls
//
// For rules of custom resource definitions: [NewEnv] once, [Env.Types] for each version of a kind, [TypeSet.Compile] for
// each rule, [Program.Eval] for each place in an object where the rule applies.
//
// # Reading
//
// env.go (rules: environments, types, compiling), rule.go (their programs), language.go,
// expression.go, conditions.go, partial.go and residual.go (the language for other programs),
// explain.go, explain_parts.go and explain_source.go (why a result is what it is),
// cel.go (names that the packages below define). The packages in internal, from the ground up:
//
//   - lib: Kubernetes' functions, bound for cel-go
//   - val: types, values, frames, costs
//   - fast: programs of rules, and decision diagrams, which answer without a frame
//   - check: parsing, type checks, static cost
//   - eval: compiles checked trees to closures
package cel
