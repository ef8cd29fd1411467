package cel

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/doc"
)

// This file compiles comprehensions. The usual macros are recognised by their
// shape and run as plain loops that charge what the general form would.

// fold is a comprehension: a range, variables, an accumulator and what is done
// with them for each element.
type fold struct {
	over         evalFn
	list         direct   // the range, if listed
	listed       bool     // the range is a list that is read directly
	keyed        bool     // the range is a map that is read directly
	same         bool     // the transformed is the element itself
	items        doc.Kind // of the items that are written in place: Object, Int or String
	literal      []evalFn // the range, if it is a list that is written out
	elem         *Type    // the type of its items
	iter, iter2  int      // slots; iter2 is -1 if there is one variable
	accu         int
	cond         testFn // nil: always true
	step, result evalFn
	predicate    testFn // of a recognised form
	transform    evalFn // of a recognised form
	number       numFn  // the same without a Value; nil if there is no such way
	text         textFn // the same of a text
	source       *fold  // the range, if it is a map() or filter() that is not kept
	price        uint64 // of collecting one value

	tally *tally // the range, if it is has() of members, whose outcomes are counted; else nil
}

// shape is the macro that a comprehension comes from.
type shape uint8

const (
	shapeGeneral shape = iota
	shapeAll
	shapeExists
	shapeExistsOne
	shapeMap
)

func (c *compiler) newSlot() int {
	c.slots++
	return c.slots - 1
}

func (c *compiler) declare(name string, init evalFn, param *Type) int {
	slot := c.newSlot()
	c.scope = &variable{name: name, slot: slot, init: init, param: param, next: c.scope}
	return slot
}

func (c *compiler) comprehension(e ast.Expr) *code {
	comp := e.AsComprehension()
	outer, loops := c.scope, c.loops
	defer func() { c.scope, c.loops = outer, loops }()

	over := c.node(comp.IterRange())
	init := c.node(comp.AccuInit())
	f := &fold{over: over.eval, iter2: -1}
	start := init.eval
	bind := comp.IterRange().Kind() == ast.ListKind && comp.IterRange().AsList().Size() == 0
	if !bind && init.konst != nil && init.konst.kind == KindList && init.konst.size() == 0 {
		start = func(*frame) Value { v := listValue(nil); v.flag = flagOwn; return v }
	}
	if !bind && init.konst != nil && init.konst.kind == KindMap && init.konst.size() == 0 {
		start = func(*frame) Value { v := mapValue(&mapBox{}); v.flag = flagOwn; return v }
	}
	if d, ok := directList(over); ok && !comp.HasIterVar2() {
		f.list, f.listed, f.elem = d, true, over.param.Elem
		f.items = itemsInPlace(f.elem)
	}
	if d, ok := directData(over); ok && over.param.Kind == Map && !comp.HasIterVar2() {
		f.list, f.keyed = d, true
	}
	if !comp.HasIterVar2() && c.lang == nil {
		f.source = over.collects
	}
	if !comp.HasIterVar2() && c.lang == nil && over.konst == nil {
		f.literal = over.elements
	}
	if bind && init.konst == nil {
		start = withoutEmpty(init.eval)
	}
	f.accu = c.declare(comp.AccuVar(), start, init.param)
	inner := c.scope
	c.iterVariables(f, comp, over.param)
	if f.keyed {
		c.scope.keyOf = &f.list
	}
	if f.listed || f.keyed {
		c.see(c.scope)
	}

	kind, parts := recognise(comp)
	var predicate *code
	switch kind {
	case shapeAll, shapeExists, shapeExistsOne:
		predicate = c.node(parts[0])
		f.predicate = predicate.asTest()
	case shapeMap:
		if parts[0] != nil {
			predicate = c.node(parts[0])
			f.predicate = predicate.asTest()
		}
		transform := c.node(parts[1])
		f.same = transform.path != nil && int(transform.path.slot) == f.iter && len(transform.path.steps) == 0
		if transform.static == KindInt {
			f.number = numberOf(transform)
		}
		if !f.same {
			f.text = textOf(transform)
		}
		f.transform, f.price = transform.eval, costSelect+costList+1
		if transform.konst != nil {
			f.price -= costList // a list of constants is a constant
		}
		if f.same && over.present != nil && parts[0] != nil && onlyNames(parts[0], comp.IterVar()) {
			f.tally = f.forecast(c.slots, over.present)
		}
	default:
		cond := c.node(comp.LoopCondition())
		if cond.konst == nil || !isTrue(*cond.konst) {
			f.cond = cond.asTest()
		}
		f.step = c.node(comp.LoopStep()).eval
		c.scope = inner
		result := c.node(comp.Result())
		f.result = result.eval
		if bind {
			return &code{eval: f.bind}
		}
	}
	if f.tally != nil {
		out := f.overLiteral(kind)
		out.counted = f.tally.count
		return out
	}
	if len(f.literal) > 0 {
		return f.overLiteral(kind)
	}
	switch kind {
	case shapeAll:
		return testCode(f.all).asking(c.askQuantified(f, over, predicate, no, 2))
	case shapeExists:
		return testCode(f.exists).asking(c.askQuantified(f, over, predicate, yes, 3))
	case shapeExistsOne:
		return testCode(f.existsOne).asking(c.askOne(f, over, predicate))
	case shapeMap:
		return &code{eval: f.mapped, counted: f.counted, counts: c.countOf(f, over, predicate), collects: f}
	}
	return &code{eval: f.general}
}

// withoutEmpty is the value of a name that is bound: upstream takes an empty list
// or map for an accumulator, and replaces it by one of its own, which has no type.
func withoutEmpty(init evalFn) evalFn {
	return func(fr *frame) Value {
		v := init(fr)
		switch {
		case v.kind == KindList && v.size() == 0:
			return listValue(nil)
		case v.kind == KindMap && v.size() == 0:
			return mapValue(&mapBox{})
		}
		return v
	}
}

// overLiteral is the comprehension over elements that are written out: they are
// kept on the stack while it runs.
func (f *fold) overLiteral(kind shape) *code {
	test := func(run func(*fold, *frame) tri) *code {
		return testCode(func(fr *frame) tri {
			base := len(fr.stack)
			t := run(f, fr)
			fr.drop(base)
			return t
		})
	}
	value := func(run func(*fold, *frame) Value) evalFn {
		return func(fr *frame) Value {
			base := len(fr.stack)
			v := run(f, fr)
			fr.drop(base)
			return v
		}
	}
	counted := func(fr *frame) (int64, bool) {
		base := len(fr.stack)
		n, ok := f.counted(fr)
		fr.drop(base)
		return n, ok
	}
	switch kind {
	case shapeAll:
		return test((*fold).all)
	case shapeExists:
		return test((*fold).exists)
	case shapeExistsOne:
		return test((*fold).existsOne)
	case shapeMap:
		return &code{eval: value((*fold).mapped), counted: counted}
	}
	return &code{eval: value((*fold).general)}
}

// itemsInPlace is the kind of the items of a list that a loop writes into its
// variable without a Value in between; Absent if they are not of that kind.
func itemsInPlace(elem *Type) doc.Kind {
	if elem != nil {
		switch elem.Kind {
		case Object:
			return doc.Object
		case Int:
			return doc.Int
		case String:
			return doc.String
		}
	}
	return doc.Absent
}

// iterVariables declares the variables that run over the range.
func (c *compiler) iterVariables(f *fold, comp ast.ComprehensionExpr, over *Type) {
	var item *Type
	if over != nil && over.Kind == List {
		item = over.Elem
	}
	if comp.HasIterVar2() {
		f.iter = c.declare(comp.IterVar(), nil, nil)
		if over != nil && (over.Kind == Map || over.Kind == List) {
			item = over.Elem
		}
		f.iter2 = c.declare(comp.IterVar2(), nil, item)
		return
	}
	f.iter = c.declare(comp.IterVar(), nil, item)
}

// recognise finds the macro that made a comprehension and its arguments: the
// predicate, and what map() collects.
func recognise(comp ast.ComprehensionExpr) (shape, [2]ast.Expr) {
	accu := comp.AccuVar()
	cond, step := comp.LoopCondition(), comp.LoopStep()
	init := comp.AccuInit()
	isAccu := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == accu }
	switch {
	case isLiteral(init, types.True) && isAccu(comp.Result()):
		if args, ok := callOf(cond, operators.NotStrictlyFalse, 1); ok && isAccu(args[0]) {
			if args, ok := callOf(step, operators.LogicalAnd, 2); ok && isAccu(args[0]) {
				return shapeAll, [2]ast.Expr{args[1]}
			}
		}
	case isLiteral(init, types.False) && isAccu(comp.Result()):
		args, ok := callOf(cond, operators.NotStrictlyFalse, 1)
		if !ok {
			break
		}
		if not, ok := callOf(args[0], operators.LogicalNot, 1); ok && isAccu(not[0]) {
			if args, ok := callOf(step, operators.LogicalOr, 2); ok && isAccu(args[0]) {
				return shapeExists, [2]ast.Expr{args[1]}
			}
		}
	case isLiteral(init, types.Int(0)) && isLiteral(cond, types.True):
		return recogniseOne(comp, isAccu)
	case init.Kind() == ast.ListKind && init.AsList().Size() == 0 && isLiteral(cond, types.True) && isAccu(comp.Result()):
		var predicate ast.Expr
		if args, ok := callOf(step, operators.Conditional, 3); ok && isAccu(args[2]) {
			predicate, step = args[0], args[1]
		}
		if args, ok := callOf(step, operators.Add, 2); ok && isAccu(args[0]) && args[1].Kind() == ast.ListKind {
			if l := args[1].AsList(); l.Size() == 1 && len(l.OptionalIndices()) == 0 {
				return shapeMap, [2]ast.Expr{predicate, l.Elements()[0]}
			}
		}
	}
	return shapeGeneral, [2]ast.Expr{}
}

func recogniseOne(comp ast.ComprehensionExpr, isAccu func(ast.Expr) bool) (shape, [2]ast.Expr) {
	args, ok := callOf(comp.LoopStep(), operators.Conditional, 3)
	if !ok || !isAccu(args[2]) {
		return shapeGeneral, [2]ast.Expr{}
	}
	inc, ok := callOf(args[1], operators.Add, 2)
	if !ok || !isAccu(inc[0]) || !isLiteral(inc[1], types.Int(1)) {
		return shapeGeneral, [2]ast.Expr{}
	}
	eq, ok := callOf(comp.Result(), operators.Equals, 2)
	if !ok || !isAccu(eq[0]) || !isLiteral(eq[1], types.Int(1)) {
		return shapeGeneral, [2]ast.Expr{}
	}
	return shapeExistsOne, [2]ast.Expr{args[0]}
}

func isLiteral(e ast.Expr, v any) bool { return e.Kind() == ast.LiteralKind && any(e.AsLiteral()) == v }

// callOf is the arguments of e if it is a call of that operator.
func callOf(e ast.Expr, fn string, n int) ([]ast.Expr, bool) {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != fn || e.AsCall().IsMemberFunction() {
		return nil, false
	}
	args := e.AsCall().Args()
	return args, len(args) == n
}
