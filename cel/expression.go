package cel

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
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

	value  evalFn
	slots  int
	inputs []input

	frames sync.Pool // of *frame

	partsOnce sync.Once // for partial evaluation, when it is first asked for
	parts     *parts
	partsErr  error
}

// input is a variable that the expression mentions.
type input struct {
	name string
	slot int
}

// build makes the closures.
func (x *Expression) build() error {
	lc := &langCompiler{lang: x.lang, strict: x.lang.strict, unchecked: x.unchecked, slots: map[string]int{}}
	root, slots, err := lc.compile(x.tree)
	if err != nil {
		return err
	}
	x.value, x.slots, x.inputs = root.eval, slots, lc.inputs
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
		names = append(names, in.name)
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
	v, cost, err := fr.run(ctx, x.value, x.slots, limit, x.inputs, vars)
	x.frames.Put(fr)
	return v, cost, err
}

// frame is one that is not in use.
func (x *Expression) frame() *frame {
	if fr, ok := x.frames.Get().(*frame); ok {
		return fr
	}
	return &frame{}
}

// bindInputs sets the variables.
func bindInputs(fr *frame, inputs []input, vars Vars) {
	for _, in := range inputs {
		v, ok := vars[in.name]
		if !ok {
			v = errorf("no such attribute(s): %s", in.name)
		}
		fr.slots[in.slot] = v
	}
}

// run evaluates code in the frame.
func (fr *frame) run(ctx context.Context, eval evalFn, slots int, limit uint64, inputs []input, vars Vars) (Value, uint64, error) {
	if limit == 0 {
		limit = math.MaxUint64
	}
	fr.begin(ctx, slots, limit)
	bindInputs(fr, inputs, vars)
	v := eval(fr)
	cost := fr.cost
	fr.end()
	switch {
	case cost > fr.limit:
		return Value{}, cost, ErrCostLimit
	case v.kind == KindError && v.flag == errInterrupted:
		return interruption(ctx, cost, fr.limit)
	case v.kind == KindError:
		return Value{}, cost, v.err()
	}
	return v, cost, nil
}

// general reports whether expressions mean what the definition of the language
// says rather than what Kubernetes' rules do.
func (c *compiler) general() bool { return c.lang != nil && !c.lang.lang.kubernetes }

// langCompiler is what the compiler knows about an expression of a Language.
type langCompiler struct {
	lang      *Language
	strict    bool
	unchecked bool
	slots     map[string]int
	inputs    []input
	trace     *trace // nil: parts of the expression are not asked for
}

func (lc *langCompiler) compile(tree *ast.AST) (*code, int, error) {
	c := &compiler{env: lc.lang.env, ast: tree, refs: tree.ReferenceMap(), slots: firstLocal, lang: lc, paths: new(paths)}
	var root *code
	err := c.catch(func() { root = c.node(tree.Expr()) })
	return root, c.slots, err
}

// node compiles a node and remembers it if parts are asked for.
func (lc *langCompiler) node(c *compiler, e ast.Expr) *code {
	if lc.trace == nil {
		return c.anyNode(e)
	}
	return lc.trace.node(c, e)
}

// used notes that a variable of a comprehension is read.
func (lc *langCompiler) used(v *variable) {
	if lc.trace != nil {
		lc.trace.used(v)
	}
}

// global compiles the use of an input.
func (lc *langCompiler) global(c *compiler, name string) *code {
	if !lc.lang.known[name] {
		if !lc.unchecked {
			c.fail("undeclared reference to '%s'", name)
		}
		missing := errorf("no such attribute(s): %s", name)
		return &code{eval: func(*frame) Value { return missing }}
	}
	slot, ok := lc.slots[name]
	if !ok {
		slot = c.newSlot()
		lc.slots[name] = slot
		lc.inputs = append(lc.inputs, input{name, slot})
	}
	if lc.trace != nil {
		return (&attribute{path: path{slot: int32(slot), root: costSelect}, name: name}).code()
	}
	return pathCode(c.paths.variable(slot), lc.lang.schemas[name])
}

// checkNewKey refuses a key that a map literal cannot have, or has already.
func checkNewKey(m *mapBox, k Value) Value {
	switch k.kind {
	case KindString, KindBool, KindInt, KindUint:
	default:
		return errorf("unsupported key type: %s", k.typeName())
	}
	if _, found := m.find(k); found {
		return errorf("duplicate map key: %v", k.ref())
	}
	return Value{}
}

// sortedNames are the keys of m in order.
func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// unbound compiles the call of a function that is not there.
func (lc *langCompiler) unbound(c *compiler, name string) *code {
	if !lc.unchecked {
		c.unsupported(name + "()")
	}
	missing := errorf("unbound function: %s", name)
	return &code{eval: func(*frame) Value { return missing }}
}
