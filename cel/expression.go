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

// This file defines Expression, a compiled expression of a Language, and what
// the compiler knows about one.

// Vars are the inputs of an evaluation by name. The values are not changed and
// may be shared by many evaluations.
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

	frames sync.Pool // of *frame

	partsOnce sync.Once // for partial evaluation, when it is first asked for
	parts     *parts
	partsErr  error
}

// build makes the closures.
func (x *Expression) build() error {
	lc := &eval.LangCompiler{Lang: &x.lang.words, Unchecked: x.unchecked, Slots: map[string]int{}}
	root, slots, err := lc.Compile(x.tree)
	if err != nil {
		return err
	}
	x.value, x.slots, x.inputs = root.Eval, slots, lc.Inputs
	return nil
}

// Source is the text that the expression was compiled from.
func (x *Expression) Source() string { return x.source }

// Type is the type that the checker found, dyn if it was not asked.
func (x *Expression) Type() string { return x.tree.GetType(x.tree.Expr().ID()).String() }

// MaxCost is the static estimate of the most that one evaluation costs; inputs
// of unbounded size make it unbounded (math.MaxUint64).
func (x *Expression) MaxCost() uint64 {
	if x.unchecked {
		return math.MaxUint64
	}
	return x.maxCost
}

// Inputs are the names of the variables that the expression mentions, in the
// order in which it does.
func (x *Expression) Inputs() []string {
	var names []string
	for _, in := range x.inputs {
		names = append(names, in.Name)
	}
	return names
}

// Selects reports whether the expression selects that member of a variable
// anywhere, as x.f, has(x.f) or x.?f.
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

func isVariable(e ast.Expr, name string) bool {
	return e.Kind() == ast.IdentKind && e.AsIdent() == name
}

// String describes the expression: its text, type and estimate.
func (x *Expression) String() string {
	return fmt.Sprintf("%s ; type %s, estimate %d, inputs %v", x.source, x.Type(), x.MaxCost(), x.Inputs())
}

// Eval evaluates the expression. It returns the value, what the evaluation cost
// in units, and the error that the expression evaluates to or that ended the
// evaluation: [ErrCostLimit] if it costs more than limit, [ErrInterrupted] if
// ctx ends. A limit of 0 means none.
func (x *Expression) Eval(ctx context.Context, vars Vars, limit uint64) (Value, uint64, error) {
	fr := x.frame()
	v, cost, err := eval.RunIn(ctx, fr, x.value, x.slots, limit, x.inputs, vars)
	x.frames.Put(fr)
	return v, cost, err
}

// frame is one that is not in use.
func (x *Expression) frame() *val.Frame {
	if fr, ok := x.frames.Get().(*val.Frame); ok {
		return fr
	}
	return &val.Frame{}
}
