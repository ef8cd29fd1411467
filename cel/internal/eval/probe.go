package eval

import (
	"github.com/google/cel-go/common/ast"

	"github.com/keelson-io/keelson/cel/internal/check"
	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file compiles instrumented programs, which record what each part of an expression evaluates
// to. An instrumented program is compiled beside the usual one, on demand, so that recording costs
// nothing when it is off. It has none of the fused operations: each part is evaluated by itself.

// Part is a part of an expression as it was written. A macro is one part, with its arguments as its
// parts.
type Part struct {
	Expr  ast.Expr // the node; for a macro, what it expands to
	Macro ast.Expr // the call of the macro, nil for other parts
	Parts []int32  // the parts of this part, in the order of the text
	End   int32    // the number of the first part behind this one and its parts
	Loop  int32    // the loop that the macro is, -1 for other parts
	// Constant is the value of a part that is computed when the expression is compiled; KindNone for
	// other parts.
	Constant val.Value
	// Compiled: the part is evaluated. Names of variables that a macro declares are not.
	Compiled bool
	// Operand: the part belongs to a decision, see [Probe.wrapDecision].
	Operand bool
	// Bool: the static type of the part is bool.
	Bool bool
}

// Probe instruments one expression. Parts are in the order of the text, each before its own parts.
type Probe struct {
	Parts   []Part
	loops   []*probedLoop
	numbers map[int64]int32
}

// NewProbe returns a Probe for a tree whose macro calls were tracked. The parts behind the first most
// are not recorded.
func NewProbe(tree *ast.AST, most int) *Probe {
	p := &Probe{numbers: map[int64]int32{}}
	nodes := map[int64]ast.Expr{}
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) { nodes[e.ID()] = e }))
	p.add(tree.Expr(), nodes, tree.SourceInfo().MacroCalls(), most)
	p.findOperands(tree)
	return p
}

// add appends a part and its parts. It returns the part's number, -1 if there is none.
func (p *Probe) add(e ast.Expr, nodes map[int64]ast.Expr, macros map[int64]ast.Expr, most int) int32 {
	actual, ok := nodes[e.ID()]
	if _, twice := p.numbers[e.ID()]; !ok || twice || len(p.Parts) >= most {
		return -1
	}
	at := int32(len(p.Parts))
	p.numbers[e.ID()] = at
	part := Part{Expr: actual, Loop: -1}
	below := actual
	if macro, ok := macros[e.ID()]; ok {
		part.Macro = macro
		if actual.Kind() != ast.SelectKind { // the argument of has() is not a part
			below = macro
		}
	}
	p.Parts = append(p.Parts, part)
	_ = check.VisitChildren(below, func(child ast.Expr) error {
		if n := p.add(child, nodes, macros, most); n >= 0 {
			p.Parts[at].Parts = append(p.Parts[at].Parts, n)
		}
		return nil
	})
	p.Parts[at].End = int32(len(p.Parts))
	return at
}

// InstrumentRule compiles a checked rule over self with a Probe.
func InstrumentRule(env *check.Declarations, probe *Probe, tree *ast.AST, self *val.Type, optionalOldSelf bool) (*fast.Program, error) {
	c := &compiler{env: env, ast: tree, refs: tree.ReferenceMap(), self: self, slots: val.FirstLocal, opt: optionalOldSelf, paths: new(Paths), probe: probe}
	var root *code
	if err := c.catch(func() { root = c.node(tree.Expr()) }); err != nil {
		return nil, err
	}
	p := &fast.Program{Value: root.Eval, Slots: c.slots, Optional: optionalOldSelf, Loops: true, Self: self}
	for _, r := range tree.ReferenceMap() {
		p.UsesOldSelf = p.UsesOldSelf || r.Name == "oldSelf"
	}
	return p, nil
}

// NewRecording returns a Recording for the expression.
func (p *Probe) NewRecording() *val.Recording {
	r := val.NewRecording(len(p.Parts), len(p.loops))
	r.Reset()
	return r
}

// node compiles a node, and makes it record its value if it is a part.
func (p *Probe) node(c *compiler, e ast.Expr) *code {
	out := c.anyNode(e)
	n, ok := p.numbers[e.ID()]
	if !ok {
		return out
	}
	part := &p.Parts[n]
	part.Compiled = true
	if out.static == val.KindNone {
		out.static = staticKind(c.ast.GetType(e.ID()))
	}
	if out.konst != nil {
		part.Constant = *out.konst
		return out
	}
	w := &code{static: out.static, param: out.param}
	if out.path != nil {
		w.traced = newTraced(out, n)
		w.Eval, w.resolve = w.traced.eval, w.traced.resolve
		return w
	}
	eval := out.Eval
	w.Eval = func(fr *val.Frame) val.Value {
		v := eval(fr)
		fr.Rec.Note(n, v)
		return v
	}
	if choose := out.choose; choose != nil {
		w.choose = func(fr *val.Frame) (val.Value, bool) {
			v, closed := choose(fr)
			fr.Rec.Note(n, v)
			return v, closed
		}
	}
	if part.Loop >= 0 {
		p.wrapLoop(w, part)
	}
	p.wrapDecision(w, n)
	return w
}

// probedLoop is a loop of an instrumented program. All methods of nil return their argument.
type probedLoop struct {
	parts       val.LoopParts
	iter, iter2 int
}

// loop returns the loop that a comprehension is, nil if it is none that was written as a macro over a
// range. It is called before the body is compiled.
func (p *Probe) loop(e ast.Expr, f *fold) *probedLoop {
	if p == nil {
		return nil
	}
	n, ok := p.numbers[e.ID()]
	if !ok || p.Parts[n].Macro == nil {
		return nil
	}
	part := &p.Parts[n]
	over, ok := p.numbers[e.AsComprehension().IterRange().ID()]
	if !ok || len(part.Parts) == 0 || part.Parts[0] != over {
		return nil
	}
	part.Loop = int32(len(p.loops))
	l := &probedLoop{iter: f.iter, iter2: f.iter2}
	l.parts = val.LoopParts{Loop: part.Loop, First: p.Parts[over].End, End: part.End, Inner: part.Loop + 1}
	p.loops = append(p.loops, l)
	return l
}

// wrapLoop makes the node of a macro start and end the record of its loop.
func (p *Probe) wrapLoop(w *code, part *Part) {
	l := &p.loops[part.Loop].parts
	l.Last = int32(len(p.loops)) // the body is compiled
	eval := w.Eval
	w.Eval = func(fr *val.Frame) val.Value {
		fr.Rec.Begin(l)
		v := eval(fr)
		fr.Rec.Finish(l, v)
		return v
	}
}

// next starts the next element.
func (l *probedLoop) next(fr *val.Frame) {
	var second val.Value
	if l.iter2 >= 0 {
		second = fr.Slots[l.iter2]
	}
	fr.Rec.Next(&l.parts, fr.Slots[l.iter], second)
}

// test returns the predicate of a macro, which starts an element.
func (l *probedLoop) test(predicate val.TestFn) val.TestFn {
	if l == nil {
		return predicate
	}
	return func(fr *val.Frame) val.Tri {
		l.next(fr)
		t := predicate(fr)
		fr.Rec.Result(&l.parts, fr.Outcome(t))
		return t
	}
}

// transform returns the value that map() collects. It starts an element if there is no predicate.
func (l *probedLoop) transform(value val.EvalFn, starts bool) val.EvalFn {
	switch {
	case l == nil:
		return value
	case starts:
		return l.step(value)
	}
	return func(fr *val.Frame) val.Value {
		v := value(fr)
		if v.Failed() {
			fr.Rec.Result(&l.parts, v)
		}
		return v
	}
}

// step returns the step of a loop, which starts an element.
func (l *probedLoop) step(value val.EvalFn) val.EvalFn {
	if l == nil {
		return value
	}
	return func(fr *val.Frame) val.Value {
		l.next(fr)
		v := value(fr)
		fr.Rec.Result(&l.parts, v)
		return v
	}
}
