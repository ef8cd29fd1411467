package apply

import (
	"fmt"

	smdvalue "sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file bounds what structured-merge-diff (SMD) has to do for one write. SMD keeps the items of sets and map lists in sorted
// slices. It inserts one item after the other, in the order of the list, so that a list in descending order takes quadratic time.

const (
	// maxTracked is the number of members and items that SMD may visit in one write. An item of a set or
	// map list counts as itemWeight.
	maxTracked = 400_000
	itemWeight = 8
	// maxMoves is how many sorted items SMD may have to move in each of its slices to insert others before them.
	maxMoves = 40_000_000
)

// tracking counts the work of one write.
type tracking struct{ values, moves int }

// checkWork returns an error if a write with these objects would keep SMD busy for too long. Live
// may be nil.
func (m *Manager) checkWork(live, incoming *jsondoc.Doc) error {
	var w tracking
	for _, d := range []*jsondoc.Doc{live, incoming} {
		if d != nil {
			w.add(m.own.root, d.Root())
		}
	}
	// SMD compares the objects in each version in which a manager wrote.
	versions := map[string]bool{string(m.version): true}
	for _, d := range []*jsondoc.Doc{live, incoming} {
		for _, entry := range managedFieldsOf(d).Items() {
			versions[entry.Get("apiVersion").Text()] = true
		}
	}
	if w.values*len(versions) > maxTracked || w.moves*len(versions) > maxMoves {
		return status.TooLarge(fmt.Sprintf("tracking the managers of fields takes too many steps: got %d for values and %d for the order of lists, want at most %d and %d",
			w.values*len(versions), w.moves*len(versions), maxTracked, maxMoves))
	}
	return nil
}

// exceeded reports whether there is nothing to count any more.
func (w *tracking) exceeded() bool { return w.values > maxTracked || w.moves > maxMoves }

// add adds the work for a value to the sum.
func (w *tracking) add(t *typ, v jsondoc.Value) {
	switch k := v.Kind(); {
	case w.exceeded():
	case k == jsondoc.Object && t.object != nil && !t.object.atomic:
		at := 0
		for name, member := range v.Members() {
			var mt *typ
			if mt, at = t.object.field(name, at); mt == nil {
				return // does not fit its type: SMD refuses it
			}
			w.values++
			w.add(mt, member)
		}
	case k == jsondoc.Array && t.list != nil && t.list.granul:
		var greatest jsondoc.Value
		for i, item := range v.Items() {
			w.values += itemWeight
			switch {
			case i == 0 || t.list.compare(greatest, item) < 0:
				greatest = item
			default:
				w.moves += i // at most: all items so far may be greater
			}
			w.add(t.list.elem, item)
			if w.exceeded() {
				return
			}
		}
	}
}

// compare compares two items in the order in which SMD keeps them.
func (l *listType) compare(a, b jsondoc.Value) int {
	if l.keys == nil {
		return smdvalue.Compare(node{a}, node{b})
	}
	for _, key := range l.sortedKeys {
		if c := smdvalue.Compare(node{a.Get(key)}, node{b.Get(key)}); c != 0 {
			return c
		}
	}
	return 0
}
