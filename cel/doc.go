// Package cel runs expressions of the Common Expression Language: the rules of
// custom resource definitions, and those of any Go program that embeds the
// language.
//
// # Embedding the language
//
// A program that wants to let its users write conditions makes a [Language]
// once: it names the variables with their types, and if it likes the libraries,
// its own functions, and exactly the functions and macros that there are
// ([Subset]). [Language.CompileExpression] turns a text into an [Expression],
// which is checked, immutable and safe for concurrent use; [Expression.Eval]
// evaluates it over [Vars].
//
// Values. The types of the language are null_type, bool, int (64 bits), uint,
// double, string (of code points), bytes, list, map, type, timestamp,
// google.protobuf.Duration, optional_type, and the types of libraries. A [Value]
// is one of them: [FromGo] and [FromJSON] make values of plain data,
// [Value.Go] and [Value.JSON] make plain data of values, and [Value.Kind] with
// [Value.Int], [Value.Str] and so on read one without allocation. Data that has
// a schema is bound as it is ([TypeOfSchema], [FromDoc]): expressions over it
// are checked against the schema and read only what they ask for. The host's
// Go structs go through JSON.
//
// Arithmetic does not wrap around: what overflows is an error. int, uint and
// double are compared by value, but never converted silently. Objects of JSON
// are maps; a member that may be missing is asked for with has(x.y) or x.?y.
//
// Errors. Compile errors hold the line of the expression with a mark under the
// place. An error of an evaluation is the Go error that Eval returns, in
// cel-go's words: "no such key: x", "division by zero"; [Expression.Explain]
// adds the place. An error is absorbed where the answer does not depend on it:
// false && error is false, and so is error && false. Errors of the evaluation
// as such are [ErrCostLimit] and [ErrInterrupted] (errors.Is).
//
// Units. An evaluation is charged in units that do not depend on the machine:
// 1 for a variable, a member, an index or a simple call, 1 for each 10 code
// points or bytes that are visited, 10 for a list, 30 for a map, 40 for a
// message. Eval takes a limit and returns what was used; a unit takes a few
// nanoseconds. [Expression.MaxCost] estimates the cost before there is data,
// from the sizes in schemas: compare it with a limit where expressions are
// accepted, and keep a limit at run time all the same. The estimate knows
// nothing of the insides of variables of type dyn.
//
// Some calls cost a unit however long a text they read. That work is bounded
// for one evaluation, which ends with [ErrCostLimit] beyond it. A host that
// evaluates many expressions for one request bounds it for all of them with an
// [Account]: [Expression.EvalOn], or [Activation.Overdrawn] for rules.
//
// Unknown data. [Expression.Partial] evaluates with parts of the data marked
// unknown ([Language.Pattern]): it finds the answer if there is one whatever
// those parts are, and otherwise what it depends on and the expression that
// remains, as text that compiles again.
//
// Sources. The language is defined at https://github.com/google/cel-spec; the
// module conformance runs its published suite. Parsing, type checks and
// estimates are those of github.com/google/cel-go. A Language, other than one
// of a version of Kubernetes, follows the definition where cel-go and with it
// Kubernetes' rules differ:
//
//   - a map literal with a repeated key, or a key that is no string, int, uint
//     or bool, is an error;
//   - getMilliseconds() of a duration is what is left beside whole seconds;
//   - an offset beyond the end in indexOf() and lastIndexOf() is an error;
//   - has(x.y) of an x that can have no members is an error, unless
//     LenientPresence says otherwise;
//   - a member of an optional value in the middle of a path is optional;
//   - an IPv4 address that is written as IPv6 is that address, unless with dots.
//
// [LanguageOptions.Kubernetes] chooses the language of a version of Kubernetes
// in place of libraries: what it introduced is there and nothing later, so that
// an expression that compiles is valid in that cluster.
//
// # How it works
//
// cel-go parses, type-checks and estimates; this package evaluates. A checked
// expression is compiled once to closures over document nodes ([jsondoc.Value]) and
// a fixed array of variables. Results, error texts, estimates and runtime costs
// are those of cel-go as Kubernetes configures it; module conformance proves it
// on tables, on published definitions and on random expressions.
//
// Most expressions never reach cel-go's parser and checker: a parser and a
// checker of our own know the common part of the language and give up on
// anything else, errors first of all. Equal rules over equal types are one
// program, shared by weak pointers.
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
//   - A function of a text is a test, a part or a number that is made of one text and
//     says what it costs; it runs in a frame and in a diagram alike.
//   - A diagram is a test laid out as questions about members, texts and items, each of which
//     leads to the next; what it does not know is evaluated the general way.
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
// For rules of custom resource definitions: [NewEnv] once, [Env.Types] for each version of a kind, [TypeSet.Compile] for
// each rule, [Program.Eval] for each place in an object where the rule applies.
//
// # Reading
//
// env.go (rules: environments, types, compiling), rule.go (their programs), language.go,
// expression.go, conditions.go, partial.go and residual.go (the language for hosts), cel.go (names
// of what is defined below). The work is done in internal, from the ground up:
//
//   - lib: Kubernetes' functions, in cel-go's way
//   - val: types, values, frames, prices
//   - fast: programs of rules, and decision diagrams, which answer without a frame
//   - check: parsing, type checks, static cost
//   - eval: checked trees to closures
package cel
