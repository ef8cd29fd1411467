package cel

import (
	"unsafe"

	"github.com/keelson-io/keelson/doc"
)

// This file runs the commonest comprehensions, those over a list of objects of
// the document, without a cursor. What is not the common case, an item that is
// no object or a predicate that fails, goes on where it is with a cursor, so
// that nothing is evaluated twice.

// objects prepares a loop over a list of objects that is read directly.
func (f *fold) objects(fr *frame) (*doc.Doc, doc.Node, bool) {
	if f.items != doc.Object {
		return nil, doc.Node{}, false
	}
	d, list := f.list.container(fr)
	if list.Kind() != doc.Array {
		return nil, doc.Node{}, false
	}
	fr.cost += f.list.units
	slot := &fr.slots[f.iter]
	slot.kind, slot.flag, slot.bits, slot.ptr, slot.typ = KindMap, flagFromDoc, 0, unsafe.Pointer(d), f.elem
	return d, list, true
}

// at is the cursor of a loop over a list that objects prepared.
func at(d *doc.Doc, list doc.Node, i int) cursor {
	return cursor{d: d, list: list, i: i, n: list.Len()}
}

// quantifyObjects is quantify for objects.
func (f *fold) quantifyObjects(fr *frame, d *doc.Doc, list doc.Node, decisive tri, condition uint64) tri {
	slot := f.iter
	for i := range list.Len() {
		item := d.Item(list, i)
		if item.Kind() != doc.Object {
			c := at(d, list, i)
			return f.quantifyOn(fr, &c, decisive, condition)
		}
		fr.slots[slot].node = item
		fr.cost += condition + 1
		t := f.predicate(fr)
		if t == bad {
			c := at(d, list, i+1)
			return f.quantifyFailed(fr, &c, decisive, condition)
		}
		if !fr.tick() {
			return fr.interruptedTest()
		}
		if t == decisive {
			if i+1 < list.Len() {
				fr.cost += condition
			}
			fr.cost++
			return decisive
		}
	}
	fr.cost++
	return yes - decisive
}

// oneObject is existsOne for objects.
func (f *fold) oneObject(fr *frame, d *doc.Doc, list doc.Node) tri {
	slot, count := f.iter, 0
	for i := range list.Len() {
		item := d.Item(list, i)
		if item.Kind() != doc.Object {
			c := at(d, list, i)
			return f.existsOneOn(fr, &c, count)
		}
		fr.slots[slot].node = item
		switch f.predicate(fr) {
		case yes:
			fr.cost += 2
			count++
		case bad:
			failure := fr.fail
			c := at(d, list, i+1)
			if !fr.tick() {
				return fr.interruptedTest()
			}
			if t := f.existsOneOn(fr, &c, count); t == bad {
				return bad
			}
			fr.fail = failure
			return bad
		}
		if !fr.tick() {
			return fr.interruptedTest()
		}
	}
	fr.cost += 2
	return truth(count == 1)
}

// countObjects counts the objects that the predicate of a filter is true of.
func (f *fold) countObjects(fr *frame, d *doc.Doc, list doc.Node) (n int64, ok bool) {
	slot := f.iter
	for i := range list.Len() {
		item := d.Item(list, i)
		if item.Kind() != doc.Object {
			c := at(d, list, i)
			return f.countOn(fr, &c, n, Value{})
		}
		fr.slots[slot].node = item
		switch f.predicate(fr) {
		case yes:
			fr.cost += costSelect + f.price
			n++
		case bad:
			failure := fr.fail
			c := at(d, list, i+1)
			if !fr.tick() {
				fr.fail = fr.interrupted()
				return 0, false
			}
			return f.countOn(fr, &c, n, failure)
		}
		if !fr.tick() {
			fr.fail = fr.interrupted()
			return 0, false
		}
	}
	fr.cost++
	return n, true
}
