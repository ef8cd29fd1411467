package eval

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/internal/fastpath"

	"github.com/keelson-io/keelson/cel/internal/check"
	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file compiles rules to programs.

// CompileRule compiles a checked rule over self. Rules with the same paths argument share their
// paths.
func CompileRule(env *check.Declarations, paths *Paths, tree *ast.AST, self *val.Type, optionalOldSelf bool) (*fast.Program, error) {
	root, slots, err := rootOf(env, paths, tree, self, optionalOldSelf)
	if err != nil {
		return nil, err
	}
	p := &fast.Program{Value: root.Eval, Test: root.test, Slots: slots, Optional: optionalOldSelf, Diagram: fast.Ends[val.Bad]}
	if output := tree.GetType(tree.Expr().ID()); output == types.BoolType && fastpath.Diagrams.On() {
		p.Diagram = lay(root.asks)
	}
	if root.mixed {
		p.Test = nil // the branch of a ?: may be null
	}
	if p.Test != nil {
		p.Value = nil
	}
	p.Self, p.Loops, p.Patterns = self, slots > val.FirstLocal, root.patterns
	for _, r := range tree.ReferenceMap() {
		p.UsesOldSelf = p.UsesOldSelf || r.Name == "oldSelf"
	}
	return p, nil
}
