package cel

import "unsafe"

// This file runs all() and exists() over what map() or filter() collects without
// making the list. What is collected is judged at once; the source goes on to its
// end all the same, since it costs what it costs, and a failure of it is the
// result whatever was found before.

// collected writes the element that the source of a chain makes of the current
// item into the variable: no if there is none. A failure becomes that of the
// source: the last one of its predicate, the first one of what it collects.
func (f *fold) collected(fr *frame, failure *Value) tri {
	src := f.source
	if src.predicate != nil {
		switch src.predicate(fr) {
		case no:
			return no
		case bad:
			*failure = fr.fail
			return bad
		}
	}
	slot := &fr.slots[f.iter]
	if src.number != nil {
		if i, ok := src.number(fr); ok {
			slot.kind, slot.flag, slot.bits = KindInt, 0, uint64(i)
			fr.cost += src.price
			return yes
		}
	}
	if src.text != nil {
		cost := fr.cost
		if s, runes, ok := src.text(fr); ok && fr.cost <= fr.limit {
			slot.kind, slot.flag, slot.bits, slot.ptr = KindString, 0, uint64(len(s)), unsafe.Pointer(unsafe.StringData(s))
			if runes == slot.bits {
				slot.flag = flagASCII
			}
			fr.cost += src.price
			return yes
		}
		fr.cost = cost
	}
	v := src.transform(fr)
	fr.cost += src.price
	if v.failed() {
		if !failure.failed() {
			*failure = v
		}
		return bad
	}
	*slot = v
	return yes
}

// chain is quantify for a range that is collected.
func (f *fold) chain(fr *frame, decisive tri, condition uint64) tri {
	var c cursor
	if stop := f.source.open(fr, &c); stop.failed() {
		fr.fail = stop
		return bad
	}
	var failure, undecided Value // of the source, of the predicate
	judged := uint64(0)          // what the quantifier cost, which comes behind the cost of the source
	decided, more, over := false, false, false
	for f.source.next(fr, &c) {
		switch t := f.collected(fr, &failure); {
		case t != yes || failure.failed() || over:
		case decided:
			more = true
		default:
			source := fr.cost
			fr.cost += judged + condition + 1
			switch f.predicate(fr) {
			case decisive:
				decided = true
			case bad:
				undecided = firstFailure(undecided, fr.fail)
			}
			judged, fr.cost = fr.cost-source, source
			if over = source+judged > fr.limit; over { // perhaps the source fails before that
				fr.stop, fr.ticks = false, 1
			}
		}
		if !fr.tick() {
			return fr.interruptedTest()
		}
	}
	fr.cost++
	switch {
	case failure.failed():
		fr.fail = failure
		return bad
	case decided && more:
		fr.cost += condition
	}
	fr.cost += judged + 1
	switch {
	case over || fr.cost > fr.limit:
		fr.fail = fr.exhausted()
		return bad
	case decided:
		return decisive
	case undecided.failed():
		fr.fail = undecided
		return bad
	}
	return yes - decisive
}
