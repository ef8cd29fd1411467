package cel

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/keelson-io/keelson/cel/internal/eval"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file defines Expression, a compiled expression of a Language, and its properties.

// Vars are the variables of an evaluation by name. Eval does not change the values, so that
// evaluations may share them.
type Vars map[string]Value

// Expression is a compiled expression of a [Language]. It is immutable and safe
// for concurrent use.
type Expression struct {
	lang      *Language
	source    string
	tree      *ast.AST
	unchecked bool
	maxCost   uint64

	value  val.EvalFn
	slots  int
	inputs []eval.Input

	frames sync.Pool // of *val.Frame

	partsOnce sync.Once // compiled at the first partial evaluation
	parts     *parts
	partsErr  error

	explainOnce sync.Once // compiled at the first explanation
	explainer   *Explainer
	explainErr  error
}

// build compiles the tree to closures.
func (x *Expression) build() error {
	lc := &eval.LangCompiler{Lang: &x.lang.words, Unchecked: x.unchecked, Slots: map[string]int{}}
	root, slots, err := lc.Compile(x.tree)
	if err != nil {
		return err
	}
	x.value, x.slots, x.inputs = root.Eval, slots, lc.Inputs
	return nil
}

// Source returns the text of the expression.
func (x *Expression) Source() string { return x.source }

// Type returns the type of the result, dyn if types were not checked.
func (x *Expression) Type() string { return x.tree.GetType(x.tree.Expr().ID()).String() }

// MaxCost returns the static estimate of the greatest cost of one evaluation. It is math.MaxUint64
// if an input has no bound of its size.
func (x *Expression) MaxCost() uint64 {
	if x.unchecked {
		return math.MaxUint64
	}
	return x.maxCost
}

// Inputs returns the names of the variables that the expression uses, in the order of their first
// use.
func (x *Expression) Inputs() []string {
	var names []string
	for _, in := range x.inputs {
		names = append(names, in.Name)
	}
	return names
}

// Selects reports whether the expression selects that member of a variable, as x.f, has(x.f) or
// x.?f.
func (x *Expression) Selects(variable, member string) bool {
	found := false
	ast.PreOrderVisit(x.tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.SelectKind:
			s := e.AsSelect()
			found = found || s.FieldName() == member && isVariable(s.Operand(), variable)
		case ast.CallKind:
			args := e.AsCall().Args()
			found = found || e.AsCall().FunctionName() == operators.OptSelect && len(args) == 2 && isVariable(args[0], variable) &&
				args[1].Kind() == ast.LiteralKind && args[1].AsLiteral().Value() == member
		}
	}))
	return found
}

// isVariable reports whether e is the variable with that name.
func isVariable(e ast.Expr, name string) bool {
	return e.Kind() == ast.IdentKind && e.AsIdent() == name
}

// String returns the text, type and estimate.
func (x *Expression) String() string {
	return fmt.Sprintf("%s ; type %s, estimate %d, inputs %v", x.source, x.Type(), x.MaxCost(), x.Inputs())
}

// Eval evaluates the expression. It returns the value and the cost in units. The error is the
// result of the expression, or the reason why the evaluation ended: [ErrCostLimit] if the cost
// exceeds limit, [ErrInterrupted] if ctx ends. A limit of 0 means no limit.
func (x *Expression) Eval(ctx context.Context, vars Vars, limit uint64) (Value, uint64, error) {
	fr := x.frame()
	v, cost, err := eval.RunIn(ctx, fr, x.value, x.slots, limit, x.inputs, vars)
	x.frames.Put(fr)
	return v, cost, err
}

// frame returns an unused frame.
func (x *Expression) frame() *val.Frame {
	if fr, ok := x.frames.Get().(*val.Frame); ok {
		return fr
	}
	return &val.Frame{}
}

// Tree returns the checked expression. The caller must not change it.
func (x *Expression) Tree() *ast.AST { return x.tree }

// SchemaOf returns the type of a document that a variable has ([Variable.Schema]), nil if it has
// none.
func (x *Expression) SchemaOf(variable string) *Type { return x.lang.words.Schemas[variable] }

// LenientPresence reports whether has(x.f) is false if x cannot have members ([LanguageOptions.LenientPresence]).
func (x *Expression) LenientPresence() bool { return !x.lang.words.Strict }

// Position returns the line and the column of a part of the expression, both from 1.
func (x *Expression) Position(part ast.Expr) (line, column int) {
	at := x.tree.SourceInfo().GetStartLocation(part.ID())
	return at.Line(), at.Column() + 1
}

// Text returns a part of the expression as text, which may be spaced otherwise than the source.
func (x *Expression) Text(part ast.Expr) (string, error) {
	text, err := unparse(part, x.tree.SourceInfo())
	if err != nil {
		return "", fmt.Errorf("text of a part: %w", err)
	}
	return text, nil
}
