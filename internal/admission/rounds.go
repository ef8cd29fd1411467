package admission

import (
	"bytes"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file decides which webhooks and policies are called again in the second round: those with
// reinvocationPolicy IfNeeded that were called before the last change of the object.

// Rounds is the state of one step in both rounds.
type Rounds struct {
	r              *Request
	invoked, again map[string]bool // names that were called, and those to call again
	last           []byte          // JSON of the object after the step
}

// Rounds returns the state of the step that key identifies. The step calls Done at the end of each
// round.
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

// require schedules all callers so far that want it for the second round.
func (n *Rounds) require() {
	for id := range n.invoked {
		n.again[id] = true
	}
	clear(n.invoked)
}

// Asks reports whether the webhook or policy id is to be called in this round.
func (n *Rounds) Asks(id string) bool { return n.r.round == 0 || n.again[id] }

// Asked records a call: whether it changed the object, and whether it is to be repeated if a later
// call changes the object.
func (n *Rounds) Asked(id string, changed, again bool) {
	if changed {
		n.require()
		n.r.changed = true
	}
	if again {
		n.invoked[id] = true
	}
}

// Done ends the round of the step.
func (n *Rounds) Done() { n.last = textOf(n.r.New) }

// textOf returns the JSON of a document, nil for none.
func textOf(d *jsondoc.Doc) []byte {
	if d == nil {
		return nil
	}
	return d.AppendJSON(nil, d.Root().Node)
}
