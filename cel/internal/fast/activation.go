package fast

import (
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file defines Activation, what a program is evaluated with.

// Accounted is how many evaluations may together do as much work as one may.
const Accounted = 4

// Settle begins a new account of the work of this activation.
func (a *Activation) Settle() { a.fr.Before, a.fr.Work = 0, 0 }

// Overdrawn reports whether the evaluations since Settle overdrew their account ([Account]).
func (a *Activation) Overdrawn() bool {
	return a.fr.Before+a.fr.Work > Accounted*val.MaxWork
}

// Activation is the input of an evaluation and the memory it works in. The
// zero value is ready; reuse one for many evaluations. It holds on to what the
// last one worked on until Reset. It is not safe for concurrent use.
type Activation struct {
	Self    jsondoc.Value
	OldSelf jsondoc.Value
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

	fr    val.Frame
	old   val.Value
	items [maxItems]jsondoc.Value // that loops of diagrams are at
	sum   int64                   // of a diagram
	one   Tests                   // a single diagram, which tests.holdInFrame runs: a local variable would escape to the heap
}

// valid is the document of self if what is seen of it is known to be valid, else nil.
func (a *Activation) valid() *jsondoc.Doc {
	if !a.Valid || a.OldSelf.Doc == a.Self.Doc && !a.Kept {
		return nil
	}
	return a.Self.Doc
}

// knows is what is known of what is seen of two documents.
func (a *Activation) knows(x, y *jsondoc.Doc) val.Knowledge {
	return val.KnownOf(a.valid(), a.Kept, x, y)
}

// Reset forgets what the last evaluation worked on.
func (a *Activation) Reset() {
	a.Self, a.OldSelf, a.Valid, a.Kept, a.HasOldSelf, a.old = jsondoc.Value{}, jsondoc.Value{}, false, false, false, val.Value{}
	a.fr.Slots = a.fr.Slots[:cap(a.fr.Slots)]
	a.items = [maxItems]jsondoc.Value{}
	a.fr.End()
}
