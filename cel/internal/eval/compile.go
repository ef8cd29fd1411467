package eval

import (
	"fmt"
	"math"

	"github.com/keelson-io/keelson/internal/fastpath"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/cel/internal/check"
	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file compiles a checked syntax tree to closures.

// code is a compiled node. Eval is always set. The other functions are faster ways to the same
// result for special cases, nil if the node has no such way. A fast way either succeeds and adds
// its cost to the frame, or it has no effect and the caller uses Eval.
type code struct {
	Eval    val.EvalFn
	test    val.TestFn // nil: derived from Eval
	inverse val.TestFn // the negation of test with its cost; nil if nothing is faster than negating test
	num     numFn      // computes an integer without a Value
	count   countFn    // computes an integer without a Value, but must not be repeated if it fails
	str     textFn     // computes a string without a Value; nil also if directOf reads it
	passing textFn     // computes a string in memory of the frame
	// resolve evaluates the node as a branch of ?: or as an index, where the root of a path costs
	// nothing. Nil: as Eval.
	resolve val.EvalFn
	made    *origin   // the text from which the node is computed, if there is one
	cased   *casing   // set if the node is lowerAscii() or upperAscii() of a string
	counts  *filtered // size() of the value as a loop of a diagram
	counted countFn   // computes size() of the value, without making the value
	// none answers Yes for a text of made for which the node is an optional without a value,
	// otherwise Bad.
	none  fast.TextTest
	konst *val.Value // the value of a constant
	// elements are the elements of a list literal without optional elements.
	elements []val.EvalFn
	collects *fold        // set if the node is map() or filter()
	present  []val.TestFn // the elements as tests, if all of them are has()
	path     *path        // the path, if the node is one; further steps may extend it
	// choose evaluates a ?: as the root of a path, and says whether the chosen branch has steps
	// already.
	choose func(fr *val.Frame) (val.Value, bool)
	mixed  bool       // the node is a ?: that is typed bool with a branch that may be null
	static val.Kind   // the kind of the value if it is not an error; KindNone if unknown
	param  *val.Type  // the type of the schema, nil if there is none
	attr   *attribute // the path, if the node may be unknown in a partial evaluation

	// traced and above are set in an instrumented program: the node as a path that records its parts,
	// and the path that the node extends.
	traced, above *traced

	asks   asking    // the node as a test of a diagram
	sum    summing   // a sum of constants, in a diagram
	adds   adding    // any sum, in a diagram
	tally  *filtered // the count of items that the node is, in a diagram
	sized  *spot     // the value whose size the node is, in a diagram
	beside *spot     // where a diagram finds the value of a map for the key of a loop

	patterns int // size of the constant patterns; only set for a whole expression
}

// asTest returns the node as a test.
func (c *code) asTest() val.TestFn {
	if c.test != nil {
		return c.test
	}
	eval := c.Eval
	return func(fr *val.Frame) val.Tri { return fr.Verdict(eval(fr)) }
}

// asBranch returns the node as a branch of ?: or as an index.
func (c *code) asBranch() val.EvalFn {
	if c.path != nil {
		return c.path.resolve
	}
	if c.resolve != nil {
		return c.resolve
	}
	return c.Eval
}

// asBranchTest returns the node as a test in a branch of ?:.
func (c *code) asBranchTest() val.TestFn {
	if p := c.path; p != nil && (!p.test || p.root != 0) {
		return func(fr *val.Frame) val.Tri { return fr.Verdict(p.resolve(fr)) }
	}
	return c.asTest()
}

// constant returns the node of a constant.
func constant(v val.Value) *code {
	c := &code{Eval: func(*val.Frame) val.Value { return v }, konst: &v, static: v.K}
	if v.K == val.KindInt {
		c.num = numConstant(v.Int())
	}
	if v.K == val.KindBool {
		outcome := val.Tri(v.Bits)
		c.test = func(*val.Frame) val.Tri { return outcome }
		c.asks = askConstant(outcome)
	}
	return c
}

// folded returns the node of a list or map of constants. If it failed, evaluating the node fails.
func folded(v val.Value) *code {
	if v.Failed() {
		return &code{Eval: func(*val.Frame) val.Value { return v }, konst: &v}
	}
	return constant(v)
}

// testCode returns a node that is computed as a test.
//
//go:noinline
func testCode(t val.TestFn) *code {
	return &code{test: t, Eval: func(fr *val.Frame) val.Value { return fr.Outcome(t(fr)) }, static: val.KindBool}
}

// valueOfTest returns a function that evaluates a test to a Value.
//
//go:noinline
func valueOfTest(t val.TestFn) val.EvalFn {
	return func(fr *val.Frame) val.Value { return fr.Outcome(t(fr)) }
}

// variable is a variable of a comprehension, in a list from the innermost.
type variable struct {
	name  string
	slot  int
	view  uint8   // the number by which diagrams refer to it; 0 if they do not
	keyOf *direct // the map over whose keys it runs, nil if it does not
	// init computes the value when it is first read; nil if it is set otherwise.
	init  val.EvalFn
	param *val.Type
	next  *variable
}

// compiler compiles one expression.
type compiler struct {
	env   *check.Declarations
	ast   *ast.AST
	refs  map[int64]*ast.ReferenceInfo
	self  *val.Type
	scope *variable
	slots int
	loops int           // the number of loops around the current node
	opt   bool          // oldSelf is an optional value
	lang  *LangCompiler // nil for a rule over self
	paths *Paths
	probe *Probe // set for an instrumented program

	patterns int // size of the constant patterns so far
}

// compileError carries an error out of the compiler from any depth; catch returns it.
type compileError struct{ err error }

// rootOf compiles a checked tree. Where upstream fails, too, the error has its text.
func rootOf(env *check.Declarations, paths *Paths, tree *ast.AST, self *val.Type, optionalOldSelf bool) (root *code, slots int, err error) {
	c := &compiler{env: env, ast: tree, refs: tree.ReferenceMap(), self: self, slots: val.FirstLocal, opt: optionalOldSelf, paths: paths}
	err = c.catch(func() {
		root = c.node(tree.Expr())
		root.asks = c.asks(root, false)
		root.patterns = c.patterns
	})
	return root, c.slots, err
}

// catch runs fn and returns the error that ended it.
func (c *compiler) catch(fn func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			failure, ok := r.(compileError)
			if !ok {
				panic(r)
			}
			err = failure.err
		}
	}()
	fn()
	return nil
}

// fail ends the compilation with an error.
func (c *compiler) fail(format string, args ...any) {
	panic(compileError{fmt.Errorf(format, args...)})
}

// unsupported ends the compilation of an expression that cel-go accepts and this package cannot
// run.
func (c *compiler) unsupported(what string) {
	c.fail("%s is not supported by this version of keelson", what)
}

// node compiles a node.
func (c *compiler) node(e ast.Expr) *code {
	var out *code
	switch {
	case c.probe != nil:
		out = c.probe.node(c, e)
	case c.lang != nil:
		out = c.lang.node(c, e)
	default:
		out = c.anyNode(e)
	}
	if out.static == val.KindNone {
		out.static = staticKind(c.ast.GetType(e.ID()))
	}
	return out
}

// anyNode compiles a node by its form.
func (c *compiler) anyNode(e ast.Expr) *code {
	switch e.Kind() {
	case ast.LiteralKind:
		return c.paths.constant(asciiFlag(val.FromRef(e.AsLiteral())))
	case ast.IdentKind:
		return c.ident(e)
	case ast.SelectKind:
		return c.selection(e)
	case ast.CallKind:
		return c.call(e)
	case ast.ListKind:
		return c.list(e)
	case ast.MapKind:
		return c.mapLiteral(e)
	case ast.ComprehensionKind:
		return c.comprehension(e)
	case ast.StructKind:
		if c.lang != nil {
			return c.message(e)
		}
	}
	c.unsupported("an expression of this form")
	return nil
}

// asciiFlag sets the flag for ASCII of a constant string.
func asciiFlag(v val.Value) val.Value {
	if v.K == val.KindString {
		return val.ConstString(v.Text())
	}
	return v
}

// staticKind returns the kind of the values of a type, KindNone if there are several.
func staticKind(t *types.Type) val.Kind {
	switch t.Kind() {
	case types.BoolKind:
		return val.KindBool
	case types.IntKind:
		return val.KindInt
	case types.UintKind:
		return val.KindUint
	case types.DoubleKind:
		return val.KindDouble
	case types.StringKind:
		return val.KindString
	case types.ListKind:
		return val.KindList
	case types.MapKind, types.StructKind:
		return val.KindMap
	}
	return val.KindNone
}

// reference returns the name to which a node refers, and the constant that it denotes, nil for a
// variable.
func (c *compiler) reference(e ast.Expr) (name string, konst *code) {
	ref, ok := c.refs[e.ID()]
	if !ok {
		return "", nil
	}
	if ref.Value != nil {
		return ref.Name, constant(asciiFlag(val.FromRef(ref.Value)))
	}
	if c.ast.GetType(e.ID()).Kind() == types.TypeKind {
		v, found := c.env.Base.CELTypeProvider().FindIdent(ref.Name)
		if !found {
			c.fail("reference to undefined type: %s", ref.Name)
		}
		return ref.Name, constant(val.FromRef(v))
	}
	return ref.Name, nil
}

// ident compiles a name.
func (c *compiler) ident(e ast.Expr) *code {
	name, konst := c.reference(e)
	if konst != nil {
		return konst
	}
	if name == "" {
		name = e.AsIdent()
	}
	return c.variable(name)
}

// variable compiles the use of a variable. A leading dot refers to the outermost scope.
func (c *compiler) variable(name string) *code {
	global := len(name) > 0 && name[0] == '.'
	if global {
		name = name[1:]
	}
	for v := c.scope; v != nil && !global; v = v.next {
		if v.name == name {
			if c.lang != nil {
				c.lang.used(v)
			}
			if v.init != nil {
				return pathCode(newPath(path{slot: int32(v.slot), init: v.init, root: val.CostSelect}), v.param)
			}
			return pathCode(c.paths.variable(v.slot), v.param)
		}
	}
	if c.lang != nil {
		return c.lang.global(c, name)
	}
	switch name {
	case "self":
		return pathCode(c.paths.variable(val.SlotSelf), c.self)
	case "oldSelf":
		if c.opt {
			return pathCode(c.paths.variable(val.SlotOldSelf), nil)
		}
		return pathCode(c.paths.variable(val.SlotOldSelf), c.self)
	}
	c.fail("undeclared reference to '%s'", name)
	return nil
}

// pathCode returns the node of a path. param is the type of the value in the schema.
func pathCode(p madePath, param *val.Type) *code {
	return &code{Eval: p.alone, test: p.present, inverse: p.absent, path: p.path, param: param}
}

// extend returns the path that adds one step to a node. test says that the step is the one of
// has().
func (c *compiler) extend(operand *code, s step, test bool) *code {
	if c.lang != nil {
		s.strict = c.lang.Lang.Strict
	}
	if operand.attr != nil {
		return operand.attr.extend(s, test)
	}
	p := path{slot: -1, root: val.CostSelect}
	var from *path
	stem := operand.stem()
	switch {
	case stem != nil && !stem.test:
		from = stem
		p = *from
	case operand.choose != nil:
		p.base, p.choose, p.root = operand.Eval, operand.choose, 0
	default:
		p.base = operand.Eval
	}
	if test {
		p.test = true
		p.root--
	}
	var param *val.Type
	if t := operand.param; t != nil {
		switch {
		case t.Kind == val.Object && s.index == nil && s.key.K == val.KindString:
			if name, ok := val.Unescape(s.key.Text()); ok {
				if f := t.Field(name); f != nil && f.Type != nil {
					s.typ, s.field = t, f
					param = f.Type
				}
			}
		case t.Kind == val.List && s.index == nil && s.key.K == val.KindInt && s.key.Int() >= 0 && t.Elem != nil:
			s.typ, s.item, param = t, true, t.Elem
		case t.Kind == val.Map, t.Kind == val.List:
			param = t.Elem
		}
	}
	for i := range p.steps {
		if p.steps[i].optional {
			param = nil
		}
	}
	if s.optional {
		param = nil
	}
	out := pathCode(c.paths.extend(from, p, s), param)
	out.above = operand.traced
	return out
}

// stem returns the path that a step after the node extends, nil if the node is not a path.
func (c *code) stem() *path {
	if c.traced != nil {
		return c.traced.path
	}
	return c.path
}

// fuses reports whether a call and its arguments may become one operation.
func (c *compiler) fuses() bool { return c.lang == nil && c.probe == nil && fastpath.Closures.On() }

// selection compiles a.b and has(a.b).
func (c *compiler) selection(e ast.Expr) *code {
	if _, konst := c.reference(e); konst != nil {
		return konst
	}
	if name, ok := c.refs[e.ID()]; ok {
		return c.variable(name.Name)
	}
	sel := e.AsSelect()
	operand := c.node(sel.Operand())
	out := c.extend(operand, step{key: c.paths.constant(val.ConstString(sel.FieldName())).konst}, sel.IsTestOnly())
	if !sel.IsTestOnly() {
		if c.ast.GetType(e.ID()).Kind() == types.StringKind {
			out.str = c.plainText(out.path)
		}
		return out
	}
	out.static, out.param, out.asks = val.KindBool, nil, c.askHas(out)
	if out.path == nil {
		return out
	}
	if out.test != nil {
		return out
	}
	general := out.path.presence
	if out.test = c.plainPresence(out.path, general); out.test != nil {
		out.Eval = valueOfTest(out.test)
	} else {
		out.test = general
	}
	return out
}

// indexing compiles a[b], a[?b] and a.?b.
func (c *compiler) indexing(e ast.Expr, optional bool) *code {
	args := e.AsCall().Args()
	if fused := c.splitItem(args[0], args[1]); fused != nil && !optional {
		return fused
	}
	operand, key := c.node(args[0]), c.node(args[1])
	s := step{optional: optional}
	if key.konst != nil {
		if bad := val.CheckKey(*key.konst); bad.Failed() {
			if c.general() {
				return &code{Eval: func(*val.Frame) val.Value { return bad }}
			}
			c.fail("%w", bad.Err())
		}
		s.key = key.konst
	} else {
		s.index = key.asBranch()
	}
	out := c.extend(operand, s, false)
	if s.index != nil && !optional && c.lang == nil {
		out.str, out.beside = c.textOfMap(operand, key), c.besideKey(operand, key)
	}
	return out
}

// list compiles a list literal. A list of constants is a constant.
func (c *compiler) list(e ast.Expr) *code {
	l := e.AsList()
	elems := make([]*code, len(l.Elements()))
	evals := make([]val.EvalFn, len(elems))
	allConst := true
	for i, elem := range l.Elements() {
		elems[i] = c.node(elem)
		if evals[i] = elems[i].Eval; elems[i].test != nil && elems[i].static == val.KindBool {
			evals[i] = valueOfTest(elems[i].test)
		}
		allConst = allConst && elems[i].konst != nil
	}
	optional := make([]bool, len(elems))
	for _, i := range l.OptionalIndices() {
		optional[i] = true
	}
	build := func(fr *val.Frame) val.Value {
		items := make([]val.Value, 0, len(evals))
		for i, eval := range evals {
			v := eval(fr)
			if v.Failed() {
				return v
			}
			if optional[i] {
				if v.K != val.KindOptional {
					return val.Errorf("cannot initialize optional list element from non-optional value %v", v.Ref())
				}
				if v.Ptr == nil {
					continue
				}
				v = *v.Optional()
			}
			items = append(items, v)
		}
		return val.ListValue(items)
	}
	if allConst {
		return folded(build(&val.Frame{Limit: math.MaxUint64}))
	}
	out := &code{Eval: func(fr *val.Frame) val.Value {
		v := build(fr)
		fr.Cost += val.CostList
		return v
	}}
	if len(l.OptionalIndices()) == 0 && c.probe == nil && fastpath.Closures.On() {
		out.elements, out.present = evals, presences(elems)
	}
	return out
}

// presences returns the nodes as tests if all of them are has(), otherwise nil.
func presences(nodes []*code) []val.TestFn {
	var tests []val.TestFn
	for _, node := range nodes {
		if node.path == nil || !node.path.test || node.inverse == nil {
			return nil
		}
		tests = append(tests, node.test)
	}
	return tests
}

// mapLiteral compiles a map literal. A map of constants is a constant.
func (c *compiler) mapLiteral(e ast.Expr) *code {
	type entry struct {
		key, val val.EvalFn
		optional bool
	}
	var entries []entry
	allConst, strictKeys, panics := true, c.general(), false
	for _, en := range e.AsMap().Entries() {
		me := en.AsMapEntry()
		k, v := c.node(me.Key()), c.node(me.Value())
		entries = append(entries, entry{k.Eval, v.Eval, me.IsOptional()})
		allConst = allConst && k.konst != nil && v.konst != nil
	}
	build := func(fr *val.Frame) val.Value {
		m := &val.MapBox{}
		for _, en := range entries {
			k := en.key(fr)
			if k.Failed() {
				return k
			}
			if strictKeys {
				if bad := val.CheckNewKey(m, k); bad.Failed() {
					return bad
				}
			}
			v := en.val(fr)
			if v.Failed() {
				return v
			}
			if en.optional {
				if v.K != val.KindOptional {
					return val.Errorf("cannot initialize optional entry '%v' from non-optional value %v", k.Ref(), v.Ref())
				}
				if v.Ptr == nil {
					m.Remove(k)
					continue
				}
				v = *v.Optional()
			}
			if bad := val.Unhashable(k); bad.Failed() {
				if allConst {
					panics = true
				}
				return bad
			}
			m.Put(k, v)
		}
		return val.MapValue(m)
	}
	if allConst {
		v := build(&val.Frame{Limit: math.MaxUint64})
		if panics && !c.general() {
			c.fail("%w", v.Err())
		}
		return folded(v)
	}
	return &code{Eval: func(fr *val.Frame) val.Value {
		v := build(fr)
		fr.Cost += val.CostMap
		return v
	}}
}

// asking sets the node's form as a test of a diagram.
func (c *code) asking(a asking) *code {
	c.asks = a
	return c
}
