package eval

import (
	"unsafe"

	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file runs comprehensions.

// cursor iterates over the elements of a range.
type cursor struct {
	i, n int
	d    *jsondoc.Doc // the document of a list or map that is read directly
	list jsondoc.Node
	// over is the value of any other range.
	over  val.Value
	pairs *pairs // of a map that is not a map of a document

	literal []val.Value // of a list literal
}

// pairs are the entries of a map, as upstream's iteration yields them.
type pairs struct{ keys, vals []val.Value }

// direct sets the cursor to a range that is read directly. It returns false if it is not.
func (f *fold) direct(fr *val.Frame, c *cursor) bool {
	if f.keyed {
		return f.directKeys(fr, c)
	}
	if !f.listed {
		return false
	}
	d, n := f.list.container(fr)
	if n.Kind() != jsondoc.Array {
		return false
	}
	fr.Cost += f.list.units
	c.d, c.list, c.n = d, n, n.Len()
	f.prepare(fr, d)
	return true
}

// directKeys sets the cursor to a map that is read directly.
func (f *fold) directKeys(fr *val.Frame, c *cursor) bool {
	d, n := f.list.container(fr)
	if n.Kind() != jsondoc.Object || n.ShapeIndex() != 0 {
		return false
	}
	fr.Cost += f.list.units
	c.d, c.list, c.n = d, n, n.Len()
	slot := &fr.Slots[f.iter]
	slot.K, slot.Typ = val.KindString, nil
	return true
}

// prepare writes the fields of the variable that all items have in common.
func (f *fold) prepare(fr *val.Frame, d *jsondoc.Doc) {
	slot := &fr.Slots[f.iter]
	switch f.items {
	case jsondoc.Object:
		*slot = val.Value{K: val.KindMap, Flag: val.FlagFromDoc, Ptr: unsafe.Pointer(d), Typ: f.elem}
	case jsondoc.Int:
		*slot = val.Value{K: val.KindInt}
	case jsondoc.String:
		*slot = val.Value{K: val.KindString}
	}
}

// spread evaluates the elements of a list literal.
func (f *fold) spread(fr *val.Frame, c *cursor) val.Value {
	base := len(fr.Stack)
	failure := val.Value{}
	for _, eval := range f.literal {
		if failure = eval(fr); failure.Failed() {
			break
		}
		fr.Stack = append(fr.Stack, failure)
		failure = val.Value{}
	}
	fr.Cost += val.CostList
	c.literal = fr.Stack[base:len(fr.Stack):len(fr.Stack)]
	c.n = len(c.literal)
	return failure
}

// open evaluates the range. It returns a failure, or no value.
func (f *fold) open(fr *val.Frame, c *cursor) val.Value {
	if f.direct(fr, c) {
		return val.Value{}
	}
	if f.literal != nil {
		return f.spread(fr, c)
	}
	c.over = f.over(fr)
	switch {
	case c.over.Failed():
		return c.over
	case c.over.K == val.KindList:
		c.n = c.over.Size()
	case c.over.K == val.KindMap && c.over.FromDoc() && c.over.Typ.Kind == val.Map && c.over.Node.ShapeIndex() == 0:
		c.n = c.over.Node.Len()
	case c.over.K == val.KindMap:
		c.pairs = new(pairs)
		val.EachVisit(c.over, func(k, v val.Value) {
			c.pairs.keys, c.pairs.vals = append(c.pairs.keys, k), append(c.pairs.vals, v)
		})
		c.n = len(c.pairs.keys)
	case f.iter2 >= 0:
		return val.Errorf("unsupported comprehension range type: %s", val.GoTypeName(c.over))
	default:
		return val.Errorf("got '%s', expected iterable type", val.GoTypeName(c.over))
	}
	return val.Value{}
}

// next sets the variables to the next element. It returns false if there is none.
func (f *fold) next(fr *val.Frame, c *cursor) bool {
	if c.i >= c.n {
		return false
	}
	i := c.i
	c.i++
	if c.d == nil {
		f.nextOf(fr, c, i)
		return true
	}
	slot := &fr.Slots[f.iter]
	if f.keyed {
		var key jsondoc.Node
		key, slot.Node = c.d.Pair(c.list, i) // the value is stored beside the key: see textOfMap
		slot.SetText(c.d, key)
		return true
	}
	n := c.d.Item(c.list, i)
	if n.Kind() == f.items {
		switch f.items {
		case jsondoc.Object:
			slot.Node = n
			return true
		case jsondoc.Int:
			slot.Bits = uint64(n.Int())
			return true
		case jsondoc.String:
			slot.SetText(c.d, n)
			return true
		}
	}
	*slot = val.Load(c.d, n, f.elem)
	if f.items != jsondoc.Absent {
		// The variable is not prepared any more: continue with the general implementation.
		c.over = val.Value{K: val.KindList, Flag: val.FlagFromDoc, Ptr: unsafe.Pointer(c.d), Typ: f.list.of, Node: c.list}
		c.d = nil
	}
	return true
}

// nextOf sets the variables to element i of a range that is not read directly.
func (f *fold) nextOf(fr *val.Frame, c *cursor, i int) {
	if c.literal != nil {
		fr.Slots[f.iter] = c.literal[i]
		return
	}
	if c.over.K == val.KindList {
		slot := &fr.Slots[f.iter]
		if f.iter2 >= 0 {
			*slot = val.IntValue(int64(i))
			slot = &fr.Slots[f.iter2]
		}
		if c.over.Flag != val.FlagFromDoc {
			*slot = c.over.Items()[i]
			return
		}
		d := c.over.Doc()
		*slot = val.Load(d, d.Item(c.over.Node, i), c.over.Typ.Elem)
		return
	}
	if c.pairs != nil {
		fr.Slots[f.iter] = c.pairs.keys[i]
		if f.iter2 >= 0 {
			fr.Slots[f.iter2] = c.pairs.vals[i]
		}
		return
	}
	d := c.over.Doc()
	k, v := d.Pair(c.over.Node, i)
	fr.Slots[f.iter] = val.DocString(d, k)
	if f.iter2 >= 0 {
		fr.Slots[f.iter2] = val.Load(d, v, c.over.Typ.Elem)
	}
}

// general runs any comprehension as it is written.
func (f *fold) general(fr *val.Frame) val.Value {
	fr.Slots[f.accu] = val.Value{}
	var c cursor
	if failure := f.open(fr, &c); failure.Failed() {
		return failure
	}
	for f.next(fr, &c) {
		if f.cond != nil && f.cond(fr) == val.No {
			break
		}
		fr.Slots[f.accu] = f.step(fr)
		if !fr.Tick() {
			return fr.Interrupted()
		}
	}
	v := f.result(fr)
	if (v.K == val.KindList || v.K == val.KindMap) && v.Flag == val.FlagOwn {
		v.Flag = 0
	}
	return v
}

// bind runs a comprehension over an empty list, which gives a name to a value. The value is
// computed when the name is first used.
func (f *fold) bind(fr *val.Frame) val.Value {
	fr.Slots[f.accu] = val.Value{}
	return f.result(fr)
}

// all costs 2 for the condition and 1 plus the predicate for each element, the condition once more
// if it ends early, and 1 for the result.
func (f *fold) all(fr *val.Frame) val.Tri { return f.quantify(fr, val.No, 2) }

// exists costs the same as all, but 3 for the condition.
func (f *fold) exists(fr *val.Frame) val.Tri { return f.quantify(fr, val.Yes, 3) }

// quantify searches for an element whose predicate has the decisive result.
func (f *fold) quantify(fr *val.Frame, decisive val.Tri, condition uint64) val.Tri {
	if f.source != nil {
		return f.chain(fr, decisive, condition)
	}
	if d, list, ok := f.objects(fr); ok {
		return f.quantifyObjects(fr, d, list, decisive, condition)
	}
	var c cursor
	if stop := f.open(fr, &c); stop.Failed() {
		fr.Fail = stop
		return val.Bad
	}
	return f.quantifyOn(fr, &c, decisive, condition)
}

// quantifyOn continues a quantifier that is not decided.
func (f *fold) quantifyOn(fr *val.Frame, c *cursor, decisive val.Tri, condition uint64) val.Tri {
	for f.next(fr, c) {
		fr.Cost += condition + 1
		switch f.predicate(fr) {
		case decisive:
			if !fr.Tick() {
				return fr.InterruptedTest()
			}
			return f.decided(fr, c, decisive, condition)
		case val.Bad:
			return f.quantifyFailed(fr, c, decisive, condition)
		}
		if !fr.Tick() {
			return fr.InterruptedTest()
		}
	}
	fr.Cost++
	return val.Yes - decisive
}

// decided ends a quantifier: the condition costs once more if there is another element.
func (f *fold) decided(fr *val.Frame, c *cursor, decisive val.Tri, condition uint64) val.Tri {
	if f.next(fr, c) {
		fr.Cost += condition
	}
	fr.Cost++
	return decisive
}

// quantifyFailed continues after the predicate failed for an element: a decisive element may still
// follow.
func (f *fold) quantifyFailed(fr *val.Frame, c *cursor, decisive val.Tri, condition uint64) val.Tri {
	failure := fr.Fail
	for {
		if !fr.Tick() {
			return fr.InterruptedTest()
		}
		if !f.next(fr, c) {
			break
		}
		fr.Cost += condition + 1
		switch f.predicate(fr) {
		case decisive:
			if !fr.Tick() {
				return fr.InterruptedTest()
			}
			return f.decided(fr, c, decisive, condition)
		case val.Bad:
			failure = val.FirstFailure(failure, fr.Fail)
		}
	}
	fr.Cost++
	fr.Fail = failure
	return val.Bad
}

// existsOne costs the predicate, 2 for each element for which it is true, and 2 for the result. It
// continues after a failure; the last failure is the result.
func (f *fold) existsOne(fr *val.Frame) val.Tri {
	if d, list, ok := f.objects(fr); ok {
		return f.oneObject(fr, d, list)
	}
	var c cursor
	if stop := f.open(fr, &c); stop.Failed() {
		fr.Fail = stop
		return val.Bad
	}
	return f.existsOneOn(fr, &c, 0)
}

// existsOneOn continues existsOne after count elements were found.
func (f *fold) existsOneOn(fr *val.Frame, c *cursor, count int) val.Tri {
	var failure val.Value
	for f.next(fr, c) {
		switch f.predicate(fr) {
		case val.Yes:
			fr.Cost += 2
			count++
		case val.Bad:
			failure = fr.Fail
		}
		if !fr.Tick() {
			return fr.InterruptedTest()
		}
	}
	fr.Cost += 2
	if failure.Failed() {
		fr.Fail = failure
		return val.Bad
	}
	return val.Truth(count == 1)
}

// mapped runs map() and filter().
func (f *fold) mapped(fr *val.Frame) val.Value {
	var c cursor
	if stop := f.open(fr, &c); stop.Failed() {
		return stop
	}
	items, _, failure := f.collect(fr, &c, 0, val.Value{}, true)
	if failure.Failed() {
		return failure
	}
	return val.ListValue(items)
}

// counted returns the size of the result of map() or filter(), without making the list.
func (f *fold) counted(fr *val.Frame) (n int64, ok bool) {
	if f.same && f.predicate != nil {
		if d, list, ok := f.objects(fr); ok {
			return f.countObjects(fr, d, list)
		}
	}
	var c cursor
	if stop := f.open(fr, &c); stop.Failed() {
		fr.Fail = stop
		return 0, false
	}
	return f.countOn(fr, &c, 0, val.Value{})
}

// countOn continues counted after n elements were collected. failure is set if one of them failed.
func (f *fold) countOn(fr *val.Frame, c *cursor, n int64, failure val.Value) (int64, bool) {
	_, n, failure = f.collect(fr, c, n, failure, false)
	if failure.Failed() {
		fr.Fail = failure
		return 0, false
	}
	return n, true
}

// collect costs the transformation and price for each element, and 1 for the result. It continues
// after a failure.
func (f *fold) collect(fr *val.Frame, c *cursor, n int64, failure val.Value, keep bool) (items []val.Value, _ int64, _ val.Value) {
	if keep && f.predicate == nil {
		items = make([]val.Value, 0, min(c.n, 1<<12)) // a cost limit may end it much earlier
	}
	for f.next(fr, c) {
		outcome := val.Yes
		if f.predicate != nil {
			if outcome = f.predicate(fr); outcome == val.Bad {
				failure = fr.Fail
			}
		}
		if outcome == val.Yes && !keep && f.same && !fr.Slots[f.iter].Failed() {
			fr.Cost += val.CostSelect + f.price
			n++
			outcome = val.No
		}
		if outcome == val.Yes && !keep && f.number != nil {
			if _, ok := f.number(fr); ok {
				fr.Cost += f.price
				n++
				outcome = val.No
			}
		}
		if outcome == val.Yes {
			v := f.transform(fr)
			fr.Cost += f.price
			n++
			switch {
			case failure.Failed():
			case v.Failed():
				failure = v
			case keep:
				items = append(items, v)
			}
		}
		if !fr.Tick() {
			return nil, 0, fr.Interrupted()
		}
	}
	fr.Cost++
	return items, n, failure
}
