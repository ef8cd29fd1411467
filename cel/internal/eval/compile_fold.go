package eval

import (
	"github.com/google/cel-go/common/ast"

	"github.com/keelson-io/keelson/cel/internal/check"
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file compiles comprehensions. The usual macros are recognised by their
// shape and run as plain loops that charge what the general form would.

// fold is a comprehension: a range, variables, an accumulator and what is done
// with them for each element.
type fold struct {
	over         val.EvalFn
	list         direct       // the range, if listed
	listed       bool         // the range is a list that is read directly
	keyed        bool         // the range is a map that is read directly
	same         bool         // the transformed is the element itself
	items        jsondoc.Kind // of the items that are written in place: Object, Int or String
	literal      []val.EvalFn // the range, if it is a list that is written out
	elem         *val.Type    // the type of its items
	iter, iter2  int          // slots; iter2 is -1 if there is one variable
	accu         int
	cond         val.TestFn // nil: always true
	step, result val.EvalFn
	predicate    val.TestFn // of a recognised form
	transform    val.EvalFn // of a recognised form
	number       numFn      // the same without a Value; nil if there is no such way
	text         textFn     // the same of a text
	source       *fold      // the range, if it is a map() or filter() that is not kept
	price        uint64     // of collecting one value

	tally *tally // the range, if it is has() of members, whose outcomes are counted; else nil
}

func (c *compiler) newSlot() int {
	c.slots++
	return c.slots - 1
}

func (c *compiler) declare(name string, init val.EvalFn, param *val.Type) int {
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
	f := &fold{over: over.Eval, iter2: -1}
	start := init.Eval
	bind := comp.IterRange().Kind() == ast.ListKind && comp.IterRange().AsList().Size() == 0
	if !bind && init.konst != nil && init.konst.K == val.KindList && init.konst.Size() == 0 {
		start = func(*val.Frame) val.Value { v := val.ListValue(nil); v.Flag = val.FlagOwn; return v }
	}
	if !bind && init.konst != nil && init.konst.K == val.KindMap && init.konst.Size() == 0 {
		start = func(*val.Frame) val.Value { v := val.MapValue(&val.MapBox{}); v.Flag = val.FlagOwn; return v }
	}
	if d, ok := directList(over); ok && !comp.HasIterVar2() {
		f.list, f.listed, f.elem = d, true, over.param.Elem
		f.items = itemsInPlace(f.elem)
	}
	if d, ok := directData(over); ok && over.param.Kind == val.Map && !comp.HasIterVar2() {
		f.list, f.keyed = d, true
	}
	if !comp.HasIterVar2() && c.lang == nil {
		f.source = over.collects
	}
	if !comp.HasIterVar2() && c.lang == nil && over.konst == nil {
		f.literal = over.elements
	}
	if bind && init.konst == nil {
		start = withoutEmpty(init.Eval)
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

	kind, parts := check.Recognise(comp)
	var predicate *code
	switch kind {
	case check.ShapeAll, check.ShapeExists, check.ShapeExistsOne:
		predicate = c.node(parts[0])
		f.predicate = predicate.asTest()
	case check.ShapeMap:
		if parts[0] != nil {
			predicate = c.node(parts[0])
			f.predicate = predicate.asTest()
		}
		transform := c.node(parts[1])
		f.same = transform.path != nil && int(transform.path.slot) == f.iter && len(transform.path.steps) == 0
		if transform.static == val.KindInt {
			f.number = numberOf(transform)
		}
		if !f.same {
			f.text = textOf(transform)
		}
		f.transform, f.price = transform.Eval, val.CostSelect+val.CostList+1
		if transform.konst != nil {
			f.price -= val.CostList // a list of constants is a constant
		}
		if f.same && over.present != nil && parts[0] != nil && onlyNames(parts[0], comp.IterVar()) {
			f.tally = f.forecast(c.slots, over.present)
		}
	default:
		cond := c.node(comp.LoopCondition())
		if cond.konst == nil || !val.IsTrue(*cond.konst) {
			f.cond = cond.asTest()
		}
		f.step = c.node(comp.LoopStep()).Eval
		c.scope = inner
		result := c.node(comp.Result())
		f.result = result.Eval
		if bind {
			return &code{Eval: f.bind}
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
	case check.ShapeAll:
		return testCode(f.all).asking(c.askQuantified(f, over, predicate, val.No, 2))
	case check.ShapeExists:
		return testCode(f.exists).asking(c.askQuantified(f, over, predicate, val.Yes, 3))
	case check.ShapeExistsOne:
		return testCode(f.existsOne).asking(c.askOne(f, over, predicate))
	case check.ShapeMap:
		return &code{Eval: f.mapped, counted: f.counted, counts: c.countOf(f, over, predicate), collects: f}
	}
	return &code{Eval: f.general}
}

// withoutEmpty is the value of a name that is bound: upstream takes an empty list
// or map for an accumulator, and replaces it by one of its own, which has no type.
func withoutEmpty(init val.EvalFn) val.EvalFn {
	return func(fr *val.Frame) val.Value {
		v := init(fr)
		switch {
		case v.K == val.KindList && v.Size() == 0:
			return val.ListValue(nil)
		case v.K == val.KindMap && v.Size() == 0:
			return val.MapValue(&val.MapBox{})
		}
		return v
	}
}

// overLiteral is the comprehension over elements that are written out: they are
// kept on the stack while it runs.
func (f *fold) overLiteral(kind check.Shape) *code {
	test := func(run func(*fold, *val.Frame) val.Tri) *code {
		return testCode(func(fr *val.Frame) val.Tri {
			base := len(fr.Stack)
			t := run(f, fr)
			fr.Drop(base)
			return t
		})
	}
	value := func(run func(*fold, *val.Frame) val.Value) val.EvalFn {
		return func(fr *val.Frame) val.Value {
			base := len(fr.Stack)
			v := run(f, fr)
			fr.Drop(base)
			return v
		}
	}
	counted := func(fr *val.Frame) (int64, bool) {
		base := len(fr.Stack)
		n, ok := f.counted(fr)
		fr.Drop(base)
		return n, ok
	}
	switch kind {
	case check.ShapeAll:
		return test((*fold).all)
	case check.ShapeExists:
		return test((*fold).exists)
	case check.ShapeExistsOne:
		return test((*fold).existsOne)
	case check.ShapeMap:
		return &code{Eval: value((*fold).mapped), counted: counted}
	}
	return &code{Eval: value((*fold).general)}
}

// itemsInPlace is the kind of the items of a list that a loop writes into its
// variable without a Value in between; Absent if they are not of that kind.
func itemsInPlace(elem *val.Type) jsondoc.Kind {
	if elem != nil {
		switch elem.Kind {
		case val.Object:
			return jsondoc.Object
		case val.Int:
			return jsondoc.Int
		case val.String:
			return jsondoc.String
		}
	}
	return jsondoc.Absent
}

// iterVariables declares the variables that run over the range.
func (c *compiler) iterVariables(f *fold, comp ast.ComprehensionExpr, over *val.Type) {
	var item *val.Type
	if over != nil && over.Kind == val.List {
		item = over.Elem
	}
	if comp.HasIterVar2() {
		f.iter = c.declare(comp.IterVar(), nil, nil)
		if over != nil && (over.Kind == val.Map || over.Kind == val.List) {
			item = over.Elem
		}
		f.iter2 = c.declare(comp.IterVar2(), nil, item)
		return
	}
	f.iter = c.declare(comp.IterVar(), nil, item)
}
