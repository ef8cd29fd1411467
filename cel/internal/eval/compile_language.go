package eval

import (
	"context"
	"math"
	"strconv"

	"github.com/google/cel-go/common/ast"

	"github.com/keelson-io/keelson/cel/internal/check"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file compiles the inputs of expressions of a Language.

// Input is a variable that the expression uses.
type Input struct {
	Name string
	slot int
}

// bindInputs sets the variables. A missing one becomes an error, which the expression returns if it
// reads it.
func bindInputs(fr *val.Frame, inputs []Input, vars map[string]val.Value) {
	for _, in := range inputs {
		v, ok := vars[in.Name]
		if !ok {
			v = val.ErrorOf(&val.MissingAttributeError{Name: in.Name})
		}
		fr.Slots[in.slot] = v
	}
}

// RunIn evaluates code in a frame.
func RunIn(ctx context.Context, fr *val.Frame, eval val.EvalFn, slots int, limit uint64, inputs []Input, vars map[string]val.Value) (val.Value, uint64, error) {
	if limit == 0 {
		limit = math.MaxUint64
	}
	fr.Begin(ctx, slots, limit)
	bindInputs(fr, inputs, vars)
	v := eval(fr)
	cost := fr.Cost
	fr.End()
	switch {
	case cost > fr.Limit:
		return val.Value{}, cost, val.ErrCostLimit
	case v.K == val.KindError && v.Flag == val.CodeInterrupted:
		return val.Interruption(ctx, cost, fr.Limit)
	case v.K == val.KindError:
		return val.Value{}, cost, v.Err()
	}
	return v, cost, nil
}

// general reports whether expressions have the semantics of the language definition and not those
// of Kubernetes' rules.
func (c *compiler) general() bool { return c.lang != nil && !c.lang.Lang.Kubernetes }

// LangCompiler has what the compiler needs to know about an expression of a Language.
type LangCompiler struct {
	Lang      *check.Vocabulary
	Unchecked bool
	Slots     map[string]int
	Inputs    []Input
	Trace     *Trace // not nil if parts of the expression are evaluated, too
	Probe     *Probe // not nil for an instrumented program
}

// Compile compiles a checked tree, and returns the number of slots that it needs.
func (lc *LangCompiler) Compile(tree *ast.AST) (*code, int, error) {
	c := &compiler{env: lc.Lang.Env, ast: tree, refs: tree.ReferenceMap(), slots: val.FirstLocal, lang: lc, paths: new(Paths), probe: lc.Probe}
	var root *code
	err := c.catch(func() { root = c.node(tree.Expr()) })
	return root, c.slots, err
}

// node compiles a node, and records it if parts are evaluated.
func (lc *LangCompiler) node(c *compiler, e ast.Expr) *code {
	if lc.Trace == nil {
		return c.anyNode(e)
	}
	return lc.Trace.node(c, e)
}

// used records that a variable of a comprehension is read.
func (lc *LangCompiler) used(v *variable) {
	if lc.Trace != nil {
		lc.Trace.used(v)
	}
}

// global compiles the use of an input.
func (lc *LangCompiler) global(c *compiler, name string) *code {
	if !lc.Lang.Known[name] {
		if !lc.Unchecked {
			c.fail("undeclared reference to '%s'", name)
		}
		missing := val.ErrorOf(&val.MissingAttributeError{Name: name})
		return &code{Eval: func(*val.Frame) val.Value { return missing }}
	}
	slot, ok := lc.Slots[name]
	if !ok {
		slot = c.newSlot()
		lc.Slots[name] = slot
		lc.Inputs = append(lc.Inputs, Input{name, slot})
	}
	if lc.Trace != nil {
		return (&attribute{path: path{slot: int32(slot), root: val.CostSelect}, name: name}).code()
	}
	return pathCode(c.paths.variable(slot), lc.Lang.Schemas[name])
}

// unbound compiles the call of a function without an implementation.
func (lc *LangCompiler) unbound(c *compiler, name string) *code {
	if !lc.Unchecked {
		c.unsupported(name + "()")
	}
	missing := val.Errorf("unbound function: %s", name)
	return &code{Eval: func(*val.Frame) val.Value { return missing }}
}

// block compiles cel.block(). Each part is computed when it is first read.
func (c *compiler) block(e ast.Expr) *code {
	args := e.AsCall().Args()
	if len(args) != 2 || args[0].Kind() != ast.ListKind {
		c.unsupported(check.BlockFunction)
	}
	outer := c.scope
	defer func() { c.scope = outer }()
	var slots []int
	for i, part := range args[0].AsList().Elements() {
		slots = append(slots, c.declare("@index"+strconv.Itoa(i), c.node(part).Eval, nil))
	}
	body := c.node(args[1]).Eval
	return &code{Eval: func(fr *val.Frame) val.Value {
		for _, slot := range slots {
			fr.Slots[slot] = val.Value{}
		}
		return body(fr)
	}}
}
