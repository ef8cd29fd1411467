// Package eval compiles checked trees to closures over document nodes and a fixed array of
// variables. Results, error texts and costs equal those of cel-go in Kubernetes' configuration.
//
// [CompileRule] compiles a rule over self, [LangCompiler] an expression of a language for other
// programs. compile.go compiles any node, compile_logic.go, compile_call.go and compile_fold.go the
// forms of expressions. path.go and fold.go have the general implementations. direct.go, number.go,
// native*.go, text_code.go, fold_*.go, plainobject.go, equal_code.go and fast.go compile the common
// cases. Each of these either succeeds and adds its cost, or has no effect, so that the general
// implementation runs and finds the error. diagram_layout.go compiles tests to diagrams for package
// fast.
package eval
