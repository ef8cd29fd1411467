package eval

import (
	"unsafe"

	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file runs the most frequent comprehensions, those over a list of objects of the document,
// without a cursor. For an item that is not an object, or a predicate that fails, the loop
// continues with a cursor, so that nothing is evaluated twice.

// objects prepares a loop over a list of objects that is read directly.
func (f *fold) objects(fr *val.Frame) (*jsondoc.Doc, jsondoc.Node, bool) {
	if f.items != jsondoc.Object {
		return nil, jsondoc.Node{}, false
	}
	d, list := f.list.container(fr)
	if list.Kind() != jsondoc.Array {
		return nil, jsondoc.Node{}, false
	}
	fr.Cost += f.list.units
	slot := &fr.Slots[f.iter]
	slot.K, slot.Flag, slot.Bits, slot.Ptr, slot.Typ = val.KindMap, val.FlagFromDoc, 0, unsafe.Pointer(d), f.elem
	return d, list, true
}

// at returns a cursor at item i of a list that objects prepared.
func at(d *jsondoc.Doc, list jsondoc.Node, i int) cursor {
	return cursor{d: d, list: list, i: i, n: list.Len()}
}

// quantifyObjects is quantify for objects.
func (f *fold) quantifyObjects(fr *val.Frame, d *jsondoc.Doc, list jsondoc.Node, decisive val.Tri, condition uint64) val.Tri {
	slot := f.iter
	for i := range list.Len() {
		item := d.Item(list, i)
		if item.Kind() != jsondoc.Object {
			c := at(d, list, i)
			return f.quantifyOn(fr, &c, decisive, condition)
		}
		fr.Slots[slot].Node = item
		fr.Cost += condition + 1
		t := f.predicate(fr)
		if t == val.Bad {
			c := at(d, list, i+1)
			return f.quantifyFailed(fr, &c, decisive, condition)
		}
		if !fr.Tick() {
			return fr.InterruptedTest()
		}
		if t == decisive {
			if i+1 < list.Len() {
				fr.Cost += condition
			}
			fr.Cost++
			return decisive
		}
	}
	fr.Cost++
	return val.Yes - decisive
}

// oneObject is existsOne for objects.
func (f *fold) oneObject(fr *val.Frame, d *jsondoc.Doc, list jsondoc.Node) val.Tri {
	slot, count := f.iter, 0
	for i := range list.Len() {
		item := d.Item(list, i)
		if item.Kind() != jsondoc.Object {
			c := at(d, list, i)
			return f.existsOneOn(fr, &c, count)
		}
		fr.Slots[slot].Node = item
		switch f.predicate(fr) {
		case val.Yes:
			fr.Cost += 2
			count++
		case val.Bad:
			failure := fr.Fail
			c := at(d, list, i+1)
			if !fr.Tick() {
				return fr.InterruptedTest()
			}
			if t := f.existsOneOn(fr, &c, count); t == val.Bad {
				return val.Bad
			}
			fr.Fail = failure
			return val.Bad
		}
		if !fr.Tick() {
			return fr.InterruptedTest()
		}
	}
	fr.Cost += 2
	return val.Truth(count == 1)
}

// countObjects counts the objects for which the predicate of a filter is true.
func (f *fold) countObjects(fr *val.Frame, d *jsondoc.Doc, list jsondoc.Node) (n int64, ok bool) {
	slot := f.iter
	for i := range list.Len() {
		item := d.Item(list, i)
		if item.Kind() != jsondoc.Object {
			c := at(d, list, i)
			return f.countOn(fr, &c, n, val.Value{})
		}
		fr.Slots[slot].Node = item
		switch f.predicate(fr) {
		case val.Yes:
			fr.Cost += val.CostSelect + f.price
			n++
		case val.Bad:
			failure := fr.Fail
			c := at(d, list, i+1)
			if !fr.Tick() {
				fr.Fail = fr.Interrupted()
				return 0, false
			}
			return f.countOn(fr, &c, n, failure)
		}
		if !fr.Tick() {
			fr.Fail = fr.Interrupted()
			return 0, false
		}
	}
	fr.Cost++
	return n, true
}
