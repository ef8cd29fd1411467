package eval

import (
	"unsafe"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file runs all() and exists() over the result of map() or filter() without making the list.
// Each collected element is evaluated at once. The inner loop always continues to its end, because
// its cost counts, and because its failure is the result in any case.

// collected sets the variable to the element that the inner loop collects for the current item. It
// returns No if there is none. A failure replaces that of the inner loop: the last one of its
// predicate, the first one of the collected values.
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
	var failure, undecided val.Value // of the inner loop; of the predicate
	judged := uint64(0)              // the cost of the quantifier, which is added after the cost of the inner loop
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
			if over = source+judged > fr.Limit; over { // the inner loop may still fail before that
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
