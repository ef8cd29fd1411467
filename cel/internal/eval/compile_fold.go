package eval

import (
	"github.com/google/cel-go/common/ast"

	"github.com/keelson-io/keelson/cel/internal/check"
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file compiles comprehensions. The common macros are recognised by the form of their
// expansion. They run as loops that cost what the expansion would cost.

// fold is a comprehension: a range, variables, an accumulator, and the operations for each element.
type fold struct {
	over         val.EvalFn
	list         direct       // the range, if listed or keyed
	listed       bool         // the range is a list that is read directly
	keyed        bool         // the range is a map that is read directly
	same         bool         // map() collects the element itself, as filter() does
	items        jsondoc.Kind // the kind of the items that are written into the variable in place: Object, Int or String; otherwise Absent
	literal      []val.EvalFn // the elements of the range, if it is a list literal
	elem         *val.Type    // the type of the items
	iter, iter2  int          // slots of the variables; iter2 is -1 if there is only one
	accu         int
	cond         val.TestFn // nil if always true
	step, result val.EvalFn
	predicate    val.TestFn // of a recognised macro
	transform    val.EvalFn // of a recognised macro
	number       numFn      // transform without a Value, for integers; nil if there is no such way
	text         textFn     // transform without a Value, for strings; nil if there is no such way
	source       *fold      // the range, if it is a map() or filter() whose list need not be made
	price        uint64     // the cost of collecting one value

	probed *probedLoop // of an instrumented program, otherwise nil

	tally *tally // counts the results of a range of has(); nil for other ranges
}

// newSlot returns the number of a new slot.
func (c *compiler) newSlot() int {
	c.slots++
	return c.slots - 1
}

// declare adds a variable to the scope and returns its slot.
func (c *compiler) declare(name string, init val.EvalFn, param *val.Type) int {
	slot := c.newSlot()
	c.scope = &variable{name: name, slot: slot, init: init, param: param, next: c.scope}
	return slot
}

// comprehension compiles a loop.
func (c *compiler) comprehension(e ast.Expr) *code {
	comp := e.AsComprehension()
	outer, loops := c.scope, c.loops
	defer func() { c.scope, c.loops = outer, loops }()

	over := c.node(comp.IterRange())
	init := c.node(comp.AccuInit())
	// cel.bind expands to a loop over an empty list, whose accumulator is the bound name.
	bind := comp.IterRange().Kind() == ast.ListKind && comp.IterRange().AsList().Size() == 0
	f := &fold{over: over.Eval, iter2: -1}
	if !comp.HasIterVar2() {
		f.readDirectly(over, c.lang == nil)
	}
	f.accu = c.declare(comp.AccuVar(), firstAccu(init, bind), init.param)
	inner := c.scope
	c.iterVariables(f, comp, over.param)
	if f.keyed {
		c.scope.keyOf = &f.list
	}
	if f.listed || f.keyed {
		c.see(c.scope)
	}

	kind, parts := check.Recognise(comp)
	f.probed = c.probe.loop(e, f)
	switch kind {
	case check.ShapeAll, check.ShapeExists, check.ShapeExistsOne:
		predicate := c.node(parts[0])
		f.predicate = f.probed.test(predicate.asTest())
		return f.quantifier(c, kind, over, predicate)
	case check.ShapeMap:
		return c.mapping(f, comp, over, parts)
	}
	cond := c.node(comp.LoopCondition())
	if cond.konst == nil || !val.IsTrue(*cond.konst) {
		f.cond = cond.asTest()
	}
	f.step = f.probed.step(c.node(comp.LoopStep()).Eval)
	c.scope = inner
	f.result = c.node(comp.Result()).Eval
	switch {
	case bind:
		return &code{Eval: f.bind}
	case len(f.literal) > 0:
		return f.overLiteral(kind)
	}
	return &code{Eval: f.general}
}

// firstAccu returns the first value of the accumulator. An empty list or map that the loop fills
// belongs to the loop, so that its steps can append in place.
func firstAccu(init *code, bind bool) val.EvalFn {
	switch {
	case bind && init.konst == nil:
		return withoutEmpty(init.Eval)
	case bind || init.konst == nil || init.konst.K != val.KindList && init.konst.K != val.KindMap || init.konst.Size() != 0:
		return init.Eval
	case init.konst.K == val.KindList:
		return func(*val.Frame) val.Value { v := val.ListValue(nil); v.Flag = val.FlagOwn; return v }
	}
	return func(*val.Frame) val.Value { v := val.MapValue(&val.MapBox{}); v.Flag = val.FlagOwn; return v }
}

// readDirectly finds out whether the loop can read its range without making a list of it: from the
// document, or, in a rule over self, from the loop that computes it or from the elements of a literal.
func (f *fold) readDirectly(over *code, isRule bool) {
	if d, ok := directList(over); ok {
		f.list, f.listed, f.elem = d, true, over.param.Elem
		f.items = itemsInPlace(f.elem)
	}
	if d, ok := directData(over); ok && over.param.Kind == val.Map {
		f.list, f.keyed = d, true
	}
	if !isRule {
		return
	}
	f.source = over.collects
	if over.konst == nil {
		f.literal = over.elements
	}
}

// quantifier returns the code of all(), exists() or exists_one().
func (f *fold) quantifier(c *compiler, kind check.Shape, over, predicate *code) *code {
	switch {
	case len(f.literal) > 0:
		return f.overLiteral(kind)
	case kind == check.ShapeAll:
		return testCode(f.all).asking(c.askQuantified(f, over, predicate, val.No, 2))
	case kind == check.ShapeExists:
		return testCode(f.exists).asking(c.askQuantified(f, over, predicate, val.Yes, 3))
	}
	return testCode(f.existsOne).asking(c.askOne(f, over, predicate))
}

// mapping returns the code of map() or filter(). The parts are the predicate, nil if there is none,
// and the collected value.
func (c *compiler) mapping(f *fold, comp ast.ComprehensionExpr, over *code, parts [2]ast.Expr) *code {
	var predicate *code
	if parts[0] != nil {
		predicate = c.node(parts[0])
		f.predicate = f.probed.test(predicate.asTest())
	}
	transform := c.node(parts[1])
	f.same = transform.path != nil && int(transform.path.slot) == f.iter && len(transform.path.steps) == 0
	if transform.static == val.KindInt {
		f.number = numberOf(transform)
	}
	if !f.same {
		f.text = textOf(transform)
	}
	f.transform, f.price = f.probed.transform(transform.Eval, predicate == nil), val.CostSelect+val.CostList+1
	if transform.konst != nil {
		f.price -= val.CostList // a list of constants is a constant
	}
	if f.same && over.present != nil && parts[0] != nil && onlyNames(parts[0], comp.IterVar()) {
		f.tally = f.forecast(c.slots, over.present)
	}
	if f.tally != nil {
		out := f.overLiteral(check.ShapeMap)
		out.counted = f.tally.count
		return out
	}
	if len(f.literal) > 0 {
		return f.overLiteral(check.ShapeMap)
	}
	return &code{Eval: f.mapped, counted: f.counted, counts: c.countOf(f, over, predicate), collects: f}
}

// withoutEmpty returns the initial value of a bound name. Upstream treats an empty list or map as
// an accumulator and replaces it by its own, which has no type.
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

// overLiteral compiles a comprehension over a list literal. The elements are on the stack while it
// runs.
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

// itemsInPlace returns the kind of the items that a loop writes into its variable without a Value;
// Absent for others.
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

// iterVariables declares the variables of the loop.
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
