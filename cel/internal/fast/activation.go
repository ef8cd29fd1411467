package fast

import (
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file defines Activation, the input of a program.

// Accounted is the number of evaluations that may together do as much uncounted work as one
// evaluation may do each.
const Accounted = 4

// ResetWork restarts the account of uncounted work.
func (a *Activation) ResetWork() { a.fr.Before, a.fr.Work = 0, 0 }

// Overdrawn reports whether the evaluations since ResetWork did too much work that cost units do
// not cover.
func (a *Activation) Overdrawn() bool {
	return a.fr.Before+a.fr.Work > Accounted*val.MaxWork
}

// Activation is the input of an evaluation, with the memory for it. The zero value is ready. Use
// one for many evaluations. It refers to the last input until Reset. It is not safe for concurrent
// use.
type Activation struct {
	Self    jsondoc.Value
	OldSelf jsondoc.Value
	// Valid: Self is valid by the schema of its type. Comparisons of whole objects are then faster,
	// because they need not look for values that do not fit their types.
	Valid bool
	// Kept: an update left the value unchanged, so that OldSelf is Self. It is Valid, has no Float,
	// and every string parses as its format. Most comparisons with old values then need not read
	// the values.
	Kept       bool
	HasOldSelf bool // if false, oldSelf is missing, or optional.none() if it is optional
	// PlainOldSelf: oldSelf is never wrapped in an optional, even if the expression was checked
	// with an optional oldSelf. Upstream evaluates messageExpressions in this way.
	PlainOldSelf bool

	fr    val.Frame
	old   val.Value
	items [maxItems]jsondoc.Value // the current items of the loops of diagrams
	sum   int64                   // the sum of a diagram
	one   Tests                   // a single diagram for Tests.holdInFrame; a local variable would escape to the heap
}

// valid returns the document of self if all values of it that the program reads are valid,
// otherwise nil.
func (a *Activation) valid() *jsondoc.Doc {
	if !a.Valid || a.OldSelf.Doc == a.Self.Doc && !a.Kept {
		return nil
	}
	return a.Self.Doc
}

// knows returns what is known about the values of two documents.
func (a *Activation) knows(x, y *jsondoc.Doc) val.Knowledge {
	return val.KnownOf(a.valid(), a.Kept, x, y)
}

// Reset removes the references to the last input.
func (a *Activation) Reset() {
	a.Self, a.OldSelf, a.Valid, a.Kept, a.HasOldSelf, a.old = jsondoc.Value{}, jsondoc.Value{}, false, false, false, val.Value{}
	a.fr.Slots = a.fr.Slots[:cap(a.fr.Slots)]
	a.items = [maxItems]jsondoc.Value{}
	a.fr.End()
}
