package cel

import (
	"fmt"
	"math"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// This file compiles a checked syntax tree to closures.

// code is a compiled node.
type code struct {
	eval    evalFn
	test    testFn  // nil: made from eval
	inverse testFn  // the negation of test, with its price; nil if there is no shorter way
	num     numFn   // an integer without a Value; nil if there is no such way
	count   countFn // an integer without a Value that cannot be asked for twice; nil if there is no such way
	str     textFn  // a text without a Value; nil if there is no such way, or a direct one
	passing textFn  // a text in memory of the frame; nil if there is no such way
	// resolve evaluates the node as a branch of ?: or as an index, where the
	// root of a path is free; nil: as eval.
	resolve evalFn
	made    *origin   // what the node is computed of, if that is a text
	cased   *casing   // the node, if it is lowerAscii() or upperAscii() of a text
	counts  *filtered // size() of the value as a loop of a diagram; nil if it is none
	counted countFn   // size() of the value, cheaper than making it; nil if there is no such way
	// none says yes of a text (that made names) for which the node is an optional without a
	// value, bad of others. nil: there is no such way.
	none  textTest
	konst *Value // the value, if it is constant
	// elements are what a list is made of that is written out, if all are plain.
	elements []evalFn
	collects *fold    // the map() or filter() that the node is; nil: another
	present  []testFn // the same, if all of it are has()
	path     *path    // the node, if it is a path; its steps may grow
	// choose evaluates a node that is ?:, whose branches take the steps that
	// follow it, and says whether the branch has steps already.
	choose func(fr *frame) (Value, bool)
	mixed  bool       // the node is ?: with a branch that may be no bool although it is typed so
	static Kind       // the kind that the value has if it is no error; KindNone if unknown
	param  *Type      // the type in the schema, if there is one
	attr   *attribute // the node, if it is one that may be unknown

	asks   asking    // the node as questions of a diagram; nil if it is none
	sum    summing   // the same of a sum of constants
	adds   adding    // the same of a sum of anything
	tally  *filtered // the number of items that the node is
	sized  *spot     // what the node is the size of
	beside *spot     // where the node is found, if it stands beside the key of a loop

	patterns int // sizes of the constant patterns, where the node is a whole expression
}

// asTest is the node as a test.
func (c *code) asTest() testFn {
	if c.test != nil {
		return c.test
	}
	eval := c.eval
	return func(fr *frame) tri { return fr.verdict(eval(fr)) }
}

// asBranch is the node as a branch of ?: or an index.
func (c *code) asBranch() evalFn {
	if c.path != nil {
		return c.path.resolve
	}
	if c.resolve != nil {
		return c.resolve
	}
	return c.eval
}

// asBranchTest is the node as a test in a branch of ?:.
func (c *code) asBranchTest() testFn {
	if p := c.path; p != nil && (!p.test || p.root != 0) {
		return func(fr *frame) tri { return fr.verdict(p.resolve(fr)) }
	}
	return c.asTest()
}

func constant(v Value) *code {
	c := &code{eval: func(*frame) Value { return v }, konst: &v, static: v.kind}
	if v.kind == KindInt {
		c.num = numConstant(v.Int())
	}
	if v.kind == KindBool {
		outcome := tri(v.bits)
		c.test = func(*frame) tri { return outcome }
		c.asks = askConstant(outcome)
	}
	return c
}

// folded is a list or map of constants, which may have failed: then whatever needs it fails when it is evaluated.
func folded(v Value) *code {
	if v.failed() {
		return &code{eval: func(*frame) Value { return v }, konst: &v}
	}
	return constant(v)
}

// testCode is a node that is computed as a test.
//
//go:noinline
func testCode(t testFn) *code {
	return &code{test: t, eval: func(fr *frame) Value { return fr.outcome(t(fr)) }, static: KindBool}
}

//go:noinline
func valueOfTest(t testFn) evalFn {
	return func(fr *frame) Value { return fr.outcome(t(fr)) }
}

// variable is a name in scope while a comprehension is compiled.
type variable struct {
	name  string
	slot  int
	view  uint8   // what a diagram sees of it; 0: nothing
	keyOf *direct // the map whose keys it runs over; nil: another value
	init  evalFn
	param *Type
	next  *variable
}

// compiler compiles one expression.
type compiler struct {
	env   *Env
	ast   *ast.AST
	refs  map[int64]*ast.ReferenceInfo
	self  *Type
	scope *variable
	slots int
	loops int           // around what is compiled
	opt   bool          // oldSelf is optional
	lang  *langCompiler // nil: a rule over self
	paths *paths

	patterns int // sizes of the constant patterns
}

// compileError carries an error out of the compiler.
type compileError struct{ err error }

// program is the program for a checked tree. The error says why it cannot be
// made: the text is what upstream says where it fails too.
func (ts *TypeSet) program(tree *ast.AST, self *Type, optionalOldSelf bool) (root *code, slots int, err error) {
	c := &compiler{env: ts.env, ast: tree, refs: tree.ReferenceMap(), self: self, slots: firstLocal, opt: optionalOldSelf, paths: &ts.paths}
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

func (c *compiler) fail(format string, args ...any) {
	panic(compileError{fmt.Errorf(format, args...)})
}

// unsupported refuses what cel-go accepts and this package cannot run.
func (c *compiler) unsupported(what string) {
	c.fail("%s is not supported by this version of keelson", what)
}

// node compiles any node.
func (c *compiler) node(e ast.Expr) *code {
	var out *code
	if c.lang != nil {
		out = c.lang.node(c, e)
	} else {
		out = c.anyNode(e)
	}
	if out.static == KindNone {
		out.static = staticKind(c.ast.GetType(e.ID()))
	}
	return out
}

func (c *compiler) anyNode(e ast.Expr) *code {
	switch e.Kind() {
	case ast.LiteralKind:
		return c.paths.constant(asciiFlag(fromRef(e.AsLiteral())))
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

// asciiFlag works out a constant string's flag.
func asciiFlag(v Value) Value {
	if v.kind == KindString {
		return constString(v.text())
	}
	return v
}

// staticKind is the kind of the values of a type, KindNone if there are several.
func staticKind(t *types.Type) Kind {
	switch t.Kind() {
	case types.BoolKind:
		return KindBool
	case types.IntKind:
		return KindInt
	case types.UintKind:
		return KindUint
	case types.DoubleKind:
		return KindDouble
	case types.StringKind:
		return KindString
	case types.ListKind:
		return KindList
	case types.MapKind, types.StructKind:
		return KindMap
	}
	return KindNone
}

// reference is the constant that a name stands for, nil if it is a variable.
func (c *compiler) reference(e ast.Expr) (name string, konst *code) {
	ref, ok := c.refs[e.ID()]
	if !ok {
		return "", nil
	}
	if ref.Value != nil {
		return ref.Name, constant(asciiFlag(fromRef(ref.Value)))
	}
	if c.ast.GetType(e.ID()).Kind() == types.TypeKind {
		v, found := c.env.base.CELTypeProvider().FindIdent(ref.Name)
		if !found {
			c.fail("reference to undefined type: %s", ref.Name)
		}
		return ref.Name, constant(fromRef(v))
	}
	return ref.Name, nil
}

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

// variable compiles the use of a name. A leading dot means the outermost scope.
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
				return pathCode(newPath(path{slot: int32(v.slot), init: v.init, root: costSelect}), v.param)
			}
			return pathCode(c.paths.variable(v.slot), v.param)
		}
	}
	if c.lang != nil {
		return c.lang.global(c, name)
	}
	switch name {
	case "self":
		return pathCode(c.paths.variable(slotSelf), c.self)
	case "oldSelf":
		if c.opt {
			return pathCode(c.paths.variable(slotOldSelf), nil)
		}
		return pathCode(c.paths.variable(slotOldSelf), c.self)
	}
	c.fail("undeclared reference to '%s'", name)
	return nil
}

func pathCode(p madePath, param *Type) *code {
	return &code{eval: p.alone, test: p.present, inverse: p.absent, path: p.path, param: param}
}

// extend is the path that continues a node with one step.
func (c *compiler) extend(operand *code, s step, test bool) *code {
	if c.lang != nil {
		s.strict = c.lang.strict
	}
	if operand.attr != nil {
		return operand.attr.extend(s, test)
	}
	p := path{slot: -1, root: costSelect}
	var from *path
	switch {
	case operand.path != nil && !operand.path.test:
		from = operand.path
		p = *from
	case operand.choose != nil:
		p.base, p.choose, p.root = operand.eval, operand.choose, 0
	default:
		p.base = operand.eval
	}
	if test {
		p.test = true
		p.root--
	}
	var param *Type
	if t := operand.param; t != nil {
		switch {
		case t.Kind == Object && s.index == nil && s.key.kind == KindString:
			if name, ok := Unescape(s.key.text()); ok {
				if f := t.field(name); f != nil && f.Type != nil {
					s.typ, s.field = t, f
					param = f.Type
				}
			}
		case t.Kind == List && s.index == nil && s.key.kind == KindInt && s.key.Int() >= 0 && t.Elem != nil:
			s.typ, s.item, param = t, true, t.Elem
		case t.Kind == Map, t.Kind == List:
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
	return pathCode(c.paths.extend(from, p, s), param)
}

func (c *compiler) selection(e ast.Expr) *code {
	if _, konst := c.reference(e); konst != nil {
		return konst
	}
	if name, ok := c.refs[e.ID()]; ok {
		return c.variable(name.Name)
	}
	sel := e.AsSelect()
	operand := c.node(sel.Operand())
	out := c.extend(operand, step{key: c.paths.constant(constString(sel.FieldName())).konst}, sel.IsTestOnly())
	if !sel.IsTestOnly() {
		if c.ast.GetType(e.ID()).Kind() == types.StringKind {
			out.str = c.plainText(out.path)
		}
		return out
	}
	out.static, out.param, out.asks = KindBool, nil, c.askHas(out)
	if out.path == nil {
		return out
	}
	if out.test != nil {
		return out
	}
	general := out.path.presence
	if out.test = c.plainPresence(out.path, general); out.test != nil {
		out.eval = valueOfTest(out.test)
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
		if bad := checkKey(*key.konst); bad.failed() {
			if c.general() {
				return &code{eval: func(*frame) Value { return bad }}
			}
			c.fail("%w", bad.err())
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

func (c *compiler) list(e ast.Expr) *code {
	l := e.AsList()
	elems := make([]*code, len(l.Elements()))
	evals := make([]evalFn, len(elems))
	allConst := true
	for i, elem := range l.Elements() {
		elems[i] = c.node(elem)
		if evals[i] = elems[i].eval; elems[i].test != nil && elems[i].static == KindBool {
			evals[i] = valueOfTest(elems[i].test)
		}
		allConst = allConst && elems[i].konst != nil
	}
	optional := make([]bool, len(elems))
	for _, i := range l.OptionalIndices() {
		optional[i] = true
	}
	build := func(fr *frame) Value {
		items := make([]Value, 0, len(evals))
		for i, eval := range evals {
			v := eval(fr)
			if v.failed() {
				return v
			}
			if optional[i] {
				if v.kind != KindOptional {
					return errorf("cannot initialize optional list element from non-optional value %v", v.ref())
				}
				if v.ptr == nil {
					continue
				}
				v = *v.optional()
			}
			items = append(items, v)
		}
		return listValue(items)
	}
	if allConst {
		return folded(build(&frame{limit: math.MaxUint64}))
	}
	out := &code{eval: func(fr *frame) Value {
		v := build(fr)
		fr.cost += costList
		return v
	}}
	if len(l.OptionalIndices()) == 0 {
		out.elements, out.present = evals, presences(elems)
	}
	return out
}

// presences are nodes as tests, if all are has(); else nil.
func presences(nodes []*code) []testFn {
	var tests []testFn
	for _, node := range nodes {
		if node.path == nil || !node.path.test || node.inverse == nil {
			return nil
		}
		tests = append(tests, node.test)
	}
	return tests
}

func (c *compiler) mapLiteral(e ast.Expr) *code {
	type entry struct {
		key, val evalFn
		optional bool
	}
	var entries []entry
	allConst, strictKeys, panics := true, c.general(), false
	for _, en := range e.AsMap().Entries() {
		me := en.AsMapEntry()
		k, v := c.node(me.Key()), c.node(me.Value())
		entries = append(entries, entry{k.eval, v.eval, me.IsOptional()})
		allConst = allConst && k.konst != nil && v.konst != nil
	}
	build := func(fr *frame) Value {
		m := &mapBox{}
		for _, en := range entries {
			k := en.key(fr)
			if k.failed() {
				return k
			}
			if strictKeys {
				if bad := checkNewKey(m, k); bad.failed() {
					return bad
				}
			}
			v := en.val(fr)
			if v.failed() {
				return v
			}
			if en.optional {
				if v.kind != KindOptional {
					return errorf("cannot initialize optional entry '%v' from non-optional value %v", k.ref(), v.ref())
				}
				if v.ptr == nil {
					m.remove(k)
					continue
				}
				v = *v.optional()
			}
			if bad := unhashable(k); bad.failed() {
				if allConst {
					panics = true
				}
				return bad
			}
			m.put(k, v)
		}
		return mapValue(m)
	}
	if allConst {
		v := build(&frame{limit: math.MaxUint64})
		if panics && !c.general() {
			c.fail("%w", v.err())
		}
		return folded(v)
	}
	return &code{eval: func(fr *frame) Value {
		v := build(fr)
		fr.cost += costMap
		return v
	}}
}

// asking is the node with what it asks.
func (c *code) asking(a asking) *code {
	c.asks = a
	return c
}
