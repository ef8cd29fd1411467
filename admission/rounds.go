package admission

import (
	"bytes"

	"github.com/keelson-io/keelson/doc"
)

// This file is which of those that change objects are asked again in the second
// round: who was asked before the object changed for the last time, and wants to
// be (reinvocationPolicy IfNeeded).

// Rounds is what a step remembers from the first round to the second.
type Rounds struct {
	r              *Request
	invoked, again map[string]bool // by names that the step gives
	last           []byte          // the object after the step
}

// Rounds are a step's, who is key. Done ends each of them.
func (r *Request) Rounds(key any) *Rounds {
	n, _ := r.notes[key].(*Rounds)
	if n == nil {
		n = &Rounds{r: r, invoked: map[string]bool{}, again: map[string]bool{}}
		if r.notes == nil {
			r.notes = map[any]any{}
		}
		r.notes[key] = n
	}
	if r.round > 0 && !bytes.Equal(n.last, textOf(r.New)) {
		n.require()
	}
	return n
}

// require makes all that were asked be asked again.
func (n *Rounds) require() {
	for id := range n.invoked {
		n.again[id] = true
	}
	clear(n.invoked)
}

// Asks reports whether one of the step is to be asked in this round.
func (n *Rounds) Asks(id string) bool { return n.r.round == 0 || n.again[id] }

// Asked notes that one was asked, whether that changed the object, and whether
// it wants to be asked again if somebody else changes it.
func (n *Rounds) Asked(id string, changed, again bool) {
	if changed {
		n.require()
		n.r.changed = true
	}
	if again {
		n.invoked[id] = true
	}
}

// Done ends the step's round.
func (n *Rounds) Done() { n.last = textOf(n.r.New) }

func textOf(d *doc.Doc) []byte {
	if d == nil {
		return nil
	}
	return d.AppendJSON(nil, d.Root().Node)
}
