package cel

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/doc"
)

// This file defines Program, a compiled expression, and its evaluation.

// Program is a compiled expression. It is immutable and safe for concurrent
// use.
type Program struct {
	source      string
	value       evalFn
	test        testFn  // nil if the result is no bool
	diagram     diagram // the test, as far as it can be laid out
	slots       int
	maxCost     uint64
	patterns    int
	usesOldSelf bool
	optional    bool // oldSelf is an optional
	want        ResultKind
	loops       bool // the context is looked at
	self        *Type
}

// compile makes the closures.
func (p *Program) compile(ts *TypeSet, tree *ast.AST, self *Type, optionalOldSelf bool) error {
	root, slots, err := ts.program(tree, self, optionalOldSelf)
	if err != nil {
		return err
	}
	p.value, p.test, p.slots, p.optional, p.diagram = root.eval, root.test, slots, optionalOldSelf, &ends[bad]
	if output := tree.GetType(tree.Expr().ID()); output == types.BoolType {
		p.diagram = lay(root.asks)
	}
	if root.mixed {
		p.test = nil // what ?: chooses need not be a bool: a member may be null
	}
	if p.test != nil {
		p.value = nil
	}
	p.self, p.loops, p.patterns = self, slots > firstLocal, root.patterns
	return nil
}

// MaxCost is the static estimate of the most that one evaluation costs.
func (p *Program) MaxCost() uint64 { return p.maxCost }

// PatternSize is how large the constant patterns of the expression are, in instructions
// of the machines that they may be compiled to, of which each takes some 50 bytes.
func (p *Program) PatternSize() int { return p.patterns }

// UsesOldSelf reports whether the expression mentions oldSelf.
func (p *Program) UsesOldSelf() bool { return p.usesOldSelf }

// OptionalOldSelf reports whether oldSelf is an optional value.
func (p *Program) OptionalOldSelf() bool { return p.optional }

// Source is the text that the program was compiled from.
func (p *Program) Source() string { return p.source }

// String describes the program: its text and figures.
func (p *Program) String() string {
	return fmt.Sprintf("%s ; estimate %d, slots %d, oldSelf %t", p.source, p.maxCost, p.slots, p.usesOldSelf)
}

// Activation is the input of an evaluation and the memory it works in. The
// zero value is ready; reuse one for many evaluations. It holds on to what the
// last one worked on until Reset. It is not safe for concurrent use.
type Activation struct {
	Self    doc.Value
	OldSelf doc.Value
	// Valid: Self is valid by the schema that its type was made of. Whoever has validated it says so, to make
	// comparisons of whole objects faster: they need not look for values that do not fit their types.
	Valid bool
	// Kept: OldSelf is Self, which an update leaves as it was; it is Valid, there is no Float in it, and every text of it that a
	// format reads can be read. Then most values equal what they were without a look at them.
	Kept       bool
	HasOldSelf bool // false: oldSelf is missing, or optional.none() where it is optional
	// PlainOldSelf: oldSelf is never wrapped in an optional, even where the
	// expression was checked as if it were. Upstream runs messageExpressions so.
	PlainOldSelf bool

	fr    frame
	old   Value
	items [maxItems]doc.Value // that loops of diagrams are at
	sum   int64               // of a diagram
}

// Eval evaluates the program. It returns the result, what the evaluation cost
// in upstream's units, and the error that the expression evaluates to or that
// ended the evaluation. An unknown result is no error.
func (p *Program) Eval(ctx context.Context, a *Activation, limit uint64) (Value, uint64, error) {
	fr := &a.fr
	if len(fr.slots) < p.slots {
		fr.slots = make([]Value, p.slots+8)
	}
	fr.before += fr.work
	fr.cost, fr.limit, fr.ticks, fr.work, fr.stop, fr.valid, fr.kept = 0, min(limit, math.MaxUint64-1), checkFrequency, 0, false, a.valid(), a.Kept
	if fr.looks = p.loops; p.loops {
		fr.ctx, fr.done, fr.compared.done = ctx, ctx.Done(), 0
	}
	p.bindSelf(fr, a.Self)
	if p.usesOldSelf {
		p.bindOldSelf(a)
	}
	var v Value
	if p.test != nil {
		t := p.test(fr)
		if t != bad && fr.cost <= limit {
			return Value{kind: KindBool, bits: uint64(t)}, fr.cost, nil
		}
		v = fr.outcome(t)
	} else {
		v = p.value(fr)
	}
	cost := fr.cost
	fr.fail = Value{}
	switch {
	case cost > limit:
		return Value{}, cost, ErrCostLimit
	case v.kind == KindError:
		if v.flag == errInterrupted {
			return interruption(ctx, cost, fr.limit)
		}
		return Value{}, cost, v.err()
	}
	return v, cost, nil
}

// valid is the document of self if what is seen of it is known to be valid, else nil.
func (a *Activation) valid() *doc.Doc {
	if !a.Valid || a.OldSelf.Doc == a.Self.Doc && !a.Kept {
		return nil
	}
	return a.Self.Doc
}

// knows is what is known of what is seen of two documents.
func (a *Activation) knows(x, y *doc.Doc) knowledge { return knownOf(a.valid(), a.Kept, x, y) }

// Reset forgets what the last evaluation worked on.
func (a *Activation) Reset() {
	a.Self, a.OldSelf, a.Valid, a.Kept, a.HasOldSelf, a.old = doc.Value{}, doc.Value{}, false, false, false, Value{}
	a.fr.slots = a.fr.slots[:cap(a.fr.slots)]
	a.items = [maxItems]doc.Value{}
	a.fr.end()
}

// bindSelf sets the variable self. Objects, the commonest, are written in place.
func (p *Program) bindSelf(fr *frame, self doc.Value) {
	bind(&fr.slots[slotSelf], self, p.self)
}

// bind sets a variable to a value of a document.
func bind(slot *Value, v doc.Value, t *Type) {
	switch kind := v.Node.Kind(); {
	case t.Kind == Object && kind == doc.Object:
		slot.kind, slot.flag, slot.ptr, slot.typ, slot.node = KindMap, flagFromDoc, unsafe.Pointer(v.Doc), t, v.Node
	case t.Kind == List && kind == doc.Array:
		slot.kind, slot.flag, slot.ptr, slot.typ, slot.node = KindList, flagFromDoc, unsafe.Pointer(v.Doc), t, v.Node
	case t.Kind == Map && kind == doc.Object:
		slot.kind, slot.flag, slot.ptr, slot.typ, slot.node = KindMap, flagFromDoc, unsafe.Pointer(v.Doc), t, v.Node
	case t.Kind == String && kind == doc.String:
		text := v.Doc.Str(v.Node)
		slot.kind, slot.flag, slot.bits, slot.ptr, slot.typ = KindString, 0, uint64(len(text)), unsafe.Pointer(unsafe.StringData(text)), nil
		if v.Node.ASCII() {
			slot.flag = flagASCII
		}
	default:
		*slot = loadVariable(v, t)
	}
}

// bindOldSelf sets the variable oldSelf.
func (p *Program) bindOldSelf(a *Activation) {
	slot := &a.fr.slots[slotOldSelf]
	switch {
	case !a.HasOldSelf && p.optional && !a.PlainOldSelf:
		*slot = optionalNone
	case !a.HasOldSelf:
		*slot = errorValue(errNoOldSelf)
	case p.optional && !a.PlainOldSelf:
		a.old = loadVariable(a.OldSelf, p.self)
		*slot = optionalPointer(&a.old)
	default:
		bind(slot, a.OldSelf, p.self)
	}
}

// loadVariable is the value of self or oldSelf.
func loadVariable(v doc.Value, t *Type) Value {
	if !v.Exists() {
		return errorValue(errNullData)
	}
	return load(v.Doc, v.Node, t)
}

// begin prepares the frame for an evaluation.
func (fr *frame) begin(ctx context.Context, slots int, limit uint64) {
	if cap(fr.slots) < slots {
		fr.slots = make([]Value, slots, slots+8)
	}
	fr.slots = fr.slots[:slots]
	fr.stack = fr.stack[:0]
	fr.cost, fr.limit, fr.ticks, fr.work, fr.stop, fr.valid, fr.kept = 0, min(limit, math.MaxUint64-1), checkFrequency, 0, false, nil, false
	fr.ctx, fr.done, fr.looks, fr.compared.done = ctx, ctx.Done(), true, 0
}

// end forgets what the evaluation worked on.
func (fr *frame) end() {
	clear(fr.slots)
	fr.fail, fr.ctx, fr.done, fr.valid = Value{}, nil, nil, nil
}
