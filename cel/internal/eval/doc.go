// Package eval compiles checked trees to closures over document nodes and a fixed array of
// variables. Results, error texts and costs are those of cel-go as Kubernetes configures it.
//
// [CompileRule] compiles a rule over self, [LangCompiler] an expression of a host's language.
// compile.go compiles any node, compile_logic.go, compile_call.go and compile_fold.go the forms;
// path.go and fold.go run what is general; direct.go, number.go, native*.go, text_code.go,
// fold_*.go, plainobject.go, equal_code.go and fast.go compile the usual cases, each of which
// either succeeds and charges or does nothing at all, so that the general way finds out why;
// diagram_layout.go lays tests out for package fast.
package eval
