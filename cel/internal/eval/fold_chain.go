package eval

import (
	"unsafe"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file runs all() and exists() over what map() or filter() collects without
// making the list. What is collected is judged at once; the source goes on to its
// end all the same, since it costs what it costs, and a failure of it is the
// result whatever was found before.

// collected writes the element that the source of a chain makes of the current
// item into the variable: no if there is none. A failure becomes that of the
// source: the last one of its predicate, the first one of what it collects.
func (f *fold) collected(fr *val.Frame, failure *val.Value) val.Tri {
	src := f.source
	if src.predicate != nil {
		switch src.predicate(fr) {
		case val.No:
			return val.No
		case val.Bad:
			*failure = fr.Fail
			return val.Bad
		}
	}
	slot := &fr.Slots[f.iter]
	if src.number != nil {
		if i, ok := src.number(fr); ok {
			slot.K, slot.Flag, slot.Bits = val.KindInt, 0, uint64(i)
			fr.Cost += src.price
			return val.Yes
		}
	}
	if src.text != nil {
		cost := fr.Cost
		if s, runes, ok := src.text(fr); ok && fr.Cost <= fr.Limit {
			slot.K, slot.Flag, slot.Bits, slot.Ptr = val.KindString, 0, uint64(len(s)), unsafe.Pointer(unsafe.StringData(s))
			if runes == slot.Bits {
				slot.Flag = val.FlagASCII
			}
			fr.Cost += src.price
			return val.Yes
		}
		fr.Cost = cost
	}
	v := src.transform(fr)
	fr.Cost += src.price
	if v.Failed() {
		if !failure.Failed() {
			*failure = v
		}
		return val.Bad
	}
	*slot = v
	return val.Yes
}

// chain is quantify for a range that is collected.
func (f *fold) chain(fr *val.Frame, decisive val.Tri, condition uint64) val.Tri {
	var c cursor
	if stop := f.source.open(fr, &c); stop.Failed() {
		fr.Fail = stop
		return val.Bad
	}
	var failure, undecided val.Value // of the source, of the predicate
	judged := uint64(0)              // what the quantifier cost, which comes behind the cost of the source
	decided, more, over := false, false, false
	for f.source.next(fr, &c) {
		switch t := f.collected(fr, &failure); {
		case t != val.Yes || failure.Failed() || over:
		case decided:
			more = true
		default:
			source := fr.Cost
			fr.Cost += judged + condition + 1
			switch f.predicate(fr) {
			case decisive:
				decided = true
			case val.Bad:
				undecided = val.FirstFailure(undecided, fr.Fail)
			}
			judged, fr.Cost = fr.Cost-source, source
			if over = source+judged > fr.Limit; over { // perhaps the source fails before that
				fr.Stop, fr.Ticks = false, 1
			}
		}
		if !fr.Tick() {
			return fr.InterruptedTest()
		}
	}
	fr.Cost++
	switch {
	case failure.Failed():
		fr.Fail = failure
		return val.Bad
	case decided && more:
		fr.Cost += condition
	}
	fr.Cost += judged + 1
	switch {
	case over || fr.Cost > fr.Limit:
		fr.Fail = fr.Exhausted()
		return val.Bad
	case decided:
		return decisive
	case undecided.Failed():
		fr.Fail = undecided
		return val.Bad
	}
	return val.Yes - decisive
}
