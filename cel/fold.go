package cel

import (
	"unsafe"

	"github.com/keelson-io/keelson/doc"
)

// This file runs comprehensions.

// cursor goes through the elements of a range.
type cursor struct {
	i, n  int
	d     *doc.Doc // of a list or map of the document: its items are read one by one
	list  doc.Node
	over  Value
	pairs *pairs // of a map that is not a plain one of the document

	literal []Value // of a range that is written out
}

type pairs struct{ keys, vals []Value }

// direct sets the cursor to a list that is read directly; false if it is not
// read so.
func (f *fold) direct(fr *frame, c *cursor) bool {
	if f.keyed {
		return f.directKeys(fr, c)
	}
	if !f.listed {
		return false
	}
	d, n := f.list.container(fr)
	if n.Kind() != doc.Array {
		return false
	}
	fr.cost += f.list.units
	c.d, c.list, c.n = d, n, n.Len()
	f.prepare(fr, d)
	return true
}

// directKeys sets the cursor to a map that is read directly.
func (f *fold) directKeys(fr *frame, c *cursor) bool {
	d, n := f.list.container(fr)
	if n.Kind() != doc.Object || n.ShapeIndex() != 0 {
		return false
	}
	fr.cost += f.list.units
	c.d, c.list, c.n = d, n, n.Len()
	slot := &fr.slots[f.iter]
	slot.kind, slot.typ = KindString, nil
	return true
}

// prepare writes what the items that are written in place have in common.
func (f *fold) prepare(fr *frame, d *doc.Doc) {
	slot := &fr.slots[f.iter]
	switch f.items {
	case doc.Object:
		*slot = Value{kind: KindMap, flag: flagFromDoc, ptr: unsafe.Pointer(d), typ: f.elem}
	case doc.Int:
		*slot = Value{kind: KindInt}
	case doc.String:
		*slot = Value{kind: KindString}
	}
}

// spread evaluates the elements of a range that is written out.
func (f *fold) spread(fr *frame, c *cursor) Value {
	base := len(fr.stack)
	failure := Value{}
	for _, eval := range f.literal {
		if failure = eval(fr); failure.failed() {
			break
		}
		fr.stack = append(fr.stack, failure)
		failure = Value{}
	}
	fr.cost += costList
	c.literal = fr.stack[base:len(fr.stack):len(fr.stack)]
	c.n = len(c.literal)
	return failure
}

// open evaluates the range. The result is a failure, or none.
func (f *fold) open(fr *frame, c *cursor) Value {
	if f.direct(fr, c) {
		return Value{}
	}
	if f.literal != nil {
		return f.spread(fr, c)
	}
	c.over = f.over(fr)
	switch {
	case c.over.failed():
		return c.over
	case c.over.kind == KindList:
		c.n = c.over.size()
	case c.over.kind == KindMap && c.over.fromDoc() && c.over.typ.Kind == Map && c.over.node.ShapeIndex() == 0:
		c.n = c.over.node.Len()
	case c.over.kind == KindMap:
		c.pairs = new(pairs)
		eachVisit(c.over, func(k, v Value) {
			c.pairs.keys, c.pairs.vals = append(c.pairs.keys, k), append(c.pairs.vals, v)
		})
		c.n = len(c.pairs.keys)
	case f.iter2 >= 0:
		return errorf("unsupported comprehension range type: %s", goTypeName(c.over))
	default:
		return errorf("got '%s', expected iterable type", goTypeName(c.over))
	}
	return Value{}
}

// next sets the variables to the next element; false if there is none.
func (f *fold) next(fr *frame, c *cursor) bool {
	if c.i >= c.n {
		return false
	}
	i := c.i
	c.i++
	if c.d == nil {
		f.nextOf(fr, c, i)
		return true
	}
	slot := &fr.slots[f.iter]
	if f.keyed {
		var key doc.Node
		key, slot.node = c.d.Pair(c.list, i) // the value stands by: see textOfMap
		slot.setText(c.d, key)
		return true
	}
	n := c.d.Item(c.list, i)
	if n.Kind() == f.items {
		switch f.items {
		case doc.Object:
			slot.node = n
			return true
		case doc.Int:
			slot.bits = uint64(n.Int())
			return true
		case doc.String:
			slot.setText(c.d, n)
			return true
		}
	}
	*slot = load(c.d, n, f.elem)
	if f.items != doc.Absent {
		// The slot is no longer prepared: go on the general way.
		c.over = Value{kind: KindList, flag: flagFromDoc, ptr: unsafe.Pointer(c.d), typ: f.list.of, node: c.list}
		c.d = nil
	}
	return true
}

// setText writes the text of a node into a variable that is a text already.
func (v *Value) setText(d *doc.Doc, n doc.Node) {
	text := d.Str(n)
	v.bits, v.ptr, v.flag = uint64(len(text)), unsafe.Pointer(unsafe.StringData(text)), 0
	if n.ASCII() {
		v.flag = flagASCII
	}
}

// nextOf sets the variables to element i of a range that is not read directly.
func (f *fold) nextOf(fr *frame, c *cursor, i int) {
	if c.literal != nil {
		fr.slots[f.iter] = c.literal[i]
		return
	}
	if c.over.kind == KindList {
		slot := &fr.slots[f.iter]
		if f.iter2 >= 0 {
			*slot = intValue(int64(i))
			slot = &fr.slots[f.iter2]
		}
		if c.over.flag != flagFromDoc {
			*slot = c.over.items()[i]
			return
		}
		d := c.over.doc()
		*slot = load(d, d.Item(c.over.node, i), c.over.typ.Elem)
		return
	}
	if c.pairs != nil {
		fr.slots[f.iter] = c.pairs.keys[i]
		if f.iter2 >= 0 {
			fr.slots[f.iter2] = c.pairs.vals[i]
		}
		return
	}
	d := c.over.doc()
	k, v := d.Pair(c.over.node, i)
	fr.slots[f.iter] = docString(d, k)
	if f.iter2 >= 0 {
		fr.slots[f.iter2] = load(d, v, c.over.typ.Elem)
	}
}

// general runs any comprehension as it is written.
func (f *fold) general(fr *frame) Value {
	fr.slots[f.accu] = Value{}
	var c cursor
	if failure := f.open(fr, &c); failure.failed() {
		return failure
	}
	for f.next(fr, &c) {
		if f.cond != nil && f.cond(fr) == no {
			break
		}
		fr.slots[f.accu] = f.step(fr)
		if !fr.tick() {
			return fr.interrupted()
		}
	}
	v := f.result(fr)
	if (v.kind == KindList || v.kind == KindMap) && v.flag == flagOwn {
		v.flag = 0
	}
	return v
}

// bind runs a comprehension over nothing, which gives a name to a value: the
// value is computed when the name is first used.
func (f *fold) bind(fr *frame) Value {
	fr.slots[f.accu] = Value{}
	return f.result(fr)
}

// all charges per element 2 for the condition and 1 and the predicate for the
// step, a last condition if it stops early, and 1 for the result.
func (f *fold) all(fr *frame) tri { return f.quantify(fr, no, 2) }

// exists charges like all, but 3 for the condition.
func (f *fold) exists(fr *frame) tri { return f.quantify(fr, yes, 3) }

// quantify looks for an element whose predicate is decisive.
func (f *fold) quantify(fr *frame, decisive tri, condition uint64) tri {
	if f.source != nil {
		return f.chain(fr, decisive, condition)
	}
	if d, list, ok := f.objects(fr); ok {
		return f.quantifyObjects(fr, d, list, decisive, condition)
	}
	var c cursor
	if stop := f.open(fr, &c); stop.failed() {
		fr.fail = stop
		return bad
	}
	return f.quantifyOn(fr, &c, decisive, condition)
}

// quantifyOn goes on with a quantifier that is not decided.
func (f *fold) quantifyOn(fr *frame, c *cursor, decisive tri, condition uint64) tri {
	for f.next(fr, c) {
		fr.cost += condition + 1
		switch f.predicate(fr) {
		case decisive:
			if !fr.tick() {
				return fr.interruptedTest()
			}
			return f.decided(fr, c, decisive, condition)
		case bad:
			return f.quantifyFailed(fr, c, decisive, condition)
		}
		if !fr.tick() {
			return fr.interruptedTest()
		}
	}
	fr.cost++
	return yes - decisive
}

// decided ends a quantifier: the condition is looked at once more if there is
// another element.
func (f *fold) decided(fr *frame, c *cursor, decisive tri, condition uint64) tri {
	if f.next(fr, c) {
		fr.cost += condition
	}
	fr.cost++
	return decisive
}

// quantifyFailed goes on after the predicate of an element failed: a decisive
// one may still come.
func (f *fold) quantifyFailed(fr *frame, c *cursor, decisive tri, condition uint64) tri {
	failure := fr.fail
	for {
		if !fr.tick() {
			return fr.interruptedTest()
		}
		if !f.next(fr, c) {
			break
		}
		fr.cost += condition + 1
		switch f.predicate(fr) {
		case decisive:
			if !fr.tick() {
				return fr.interruptedTest()
			}
			return f.decided(fr, c, decisive, condition)
		case bad:
			failure = firstFailure(failure, fr.fail)
		}
	}
	fr.cost++
	fr.fail = failure
	return bad
}

func (fr *frame) interruptedTest() tri {
	fr.fail = fr.interrupted()
	return bad
}

// existsOne charges the predicate, 2 for each element it is true of, and 2 for
// the result. A failure does not end it; the last one of the predicate counts.
func (f *fold) existsOne(fr *frame) tri {
	if d, list, ok := f.objects(fr); ok {
		return f.oneObject(fr, d, list)
	}
	var c cursor
	if stop := f.open(fr, &c); stop.failed() {
		fr.fail = stop
		return bad
	}
	return f.existsOneOn(fr, &c, 0)
}

// existsOneOn goes on with existsOne after count elements were found.
func (f *fold) existsOneOn(fr *frame, c *cursor, count int) tri {
	var failure Value
	for f.next(fr, c) {
		switch f.predicate(fr) {
		case yes:
			fr.cost += 2
			count++
		case bad:
			failure = fr.fail
		}
		if !fr.tick() {
			return fr.interruptedTest()
		}
	}
	fr.cost += 2
	if failure.failed() {
		fr.fail = failure
		return bad
	}
	return truth(count == 1)
}

// mapped runs map() and filter().
func (f *fold) mapped(fr *frame) Value {
	var c cursor
	if stop := f.open(fr, &c); stop.failed() {
		return stop
	}
	items, _, failure := f.collect(fr, &c, 0, Value{}, true)
	if failure.failed() {
		return failure
	}
	return listValue(items)
}

// counted is the size of what map() or filter() collects, without the list.
func (f *fold) counted(fr *frame) (n int64, ok bool) {
	if f.same && f.predicate != nil {
		if d, list, ok := f.objects(fr); ok {
			return f.countObjects(fr, d, list)
		}
	}
	var c cursor
	if stop := f.open(fr, &c); stop.failed() {
		fr.fail = stop
		return 0, false
	}
	return f.countOn(fr, &c, 0, Value{})
}

// countOn goes on with counted after n elements were collected, and perhaps one
// failed.
func (f *fold) countOn(fr *frame, c *cursor, n int64, failure Value) (int64, bool) {
	_, n, failure = f.collect(fr, c, n, failure, false)
	if failure.failed() {
		fr.fail = failure
		return 0, false
	}
	return n, true
}

// collect charges the transformation and what collecting it costs per element,
// and 1 for the result. A failure does not end it.
func (f *fold) collect(fr *frame, c *cursor, n int64, failure Value, keep bool) (items []Value, _ int64, _ Value) {
	if keep && f.predicate == nil {
		items = make([]Value, 0, min(c.n, 1<<12)) // a cost limit may end it long before
	}
	for f.next(fr, c) {
		outcome := yes
		if f.predicate != nil {
			if outcome = f.predicate(fr); outcome == bad {
				failure = fr.fail
			}
		}
		if outcome == yes && !keep && f.same && !fr.slots[f.iter].failed() {
			fr.cost += costSelect + f.price
			n++
			outcome = no
		}
		if outcome == yes && !keep && f.number != nil {
			if _, ok := f.number(fr); ok {
				fr.cost += f.price
				n++
				outcome = no
			}
		}
		if outcome == yes {
			v := f.transform(fr)
			fr.cost += f.price
			n++
			switch {
			case failure.failed():
			case v.failed():
				failure = v
			case keep:
				items = append(items, v)
			}
		}
		if !fr.tick() {
			return nil, 0, fr.interrupted()
		}
	}
	fr.cost++
	return items, n, failure
}
