package cel

// This file runs comprehensions.

// flagOwn marks a list or map that belongs to one accumulator: adding to it
// changes it in place.
const flagOwn uint8 = 2

// each calls fn for the elements of the range with the variables set, until it
// returns false. The result is a failure of the range itself, or an
// interruption, else none.
func (f *fold) each(fr *frame, fn func(fr *frame) bool) Value {
	over := f.over(fr)
	if over.failed() {
		return over
	}
	switch {
	case over.kind == KindList:
		for i, n := 0, over.size(); i < n; i++ {
			if f.iter2 >= 0 {
				fr.slots[f.iter] = intValue(int64(i))
				fr.slots[f.iter2] = over.item(i)
			} else {
				fr.slots[f.iter] = over.item(i)
			}
			if !fn(fr) {
				break
			}
			if !fr.tick() {
				return fr.interrupted()
			}
		}
	case over.kind == KindMap:
		failure := Value{}
		eachEntry(over, func(k, v Value) bool {
			fr.slots[f.iter] = k
			if f.iter2 >= 0 {
				fr.slots[f.iter2] = v
			}
			if !fn(fr) {
				return false
			}
			if !fr.tick() {
				failure = fr.interrupted()
				return false
			}
			return true
		})
		return failure
	case f.iter2 >= 0:
		return errorf("unsupported comprehension range type: %s", goTypeName(over))
	default:
		return errorf("got '%s', expected iterable type", goTypeName(over))
	}
	return Value{}
}

// general runs any comprehension as it is written.
func (f *fold) general(fr *frame) Value {
	fr.slots[f.accu] = Value{}
	bad := f.each(fr, func(fr *frame) bool {
		if f.cond != nil && f.cond(fr) == no {
			return false
		}
		fr.slots[f.accu] = f.step(fr)
		return true
	})
	if bad.failed() {
		return bad
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
func (f *fold) all(fr *frame) tri {
	state := yes
	var failure Value
	stop := f.each(fr, func(fr *frame) bool {
		fr.cost += 2
		if state == no {
			return false
		}
		fr.cost++
		switch f.predicate(fr) {
		case no:
			state = no
		case bad:
			if state == bad {
				failure = firstFailure(failure, fr.fail)
			} else {
				state, failure = bad, fr.fail
			}
		}
		return true
	})
	return fr.concluded(stop, state, failure)
}

// exists charges like all, but 3 for the condition.
func (f *fold) exists(fr *frame) tri {
	state := no
	var failure Value
	stop := f.each(fr, func(fr *frame) bool {
		fr.cost += 3
		if state == yes {
			return false
		}
		fr.cost++
		switch f.predicate(fr) {
		case yes:
			state = yes
		case bad:
			if state == bad {
				failure = firstFailure(failure, fr.fail)
			} else {
				state, failure = bad, fr.fail
			}
		}
		return true
	})
	return fr.concluded(stop, state, failure)
}

// concluded is the outcome of all and exists.
func (fr *frame) concluded(stop Value, state tri, failure Value) tri {
	if stop.failed() {
		fr.fail = stop
		return bad
	}
	fr.cost++
	if state == bad {
		fr.fail = failure
	}
	return state
}

// existsOne charges the predicate, 2 for each element it is true of, and 2 for
// the result. A failure does not end it; the last one of the predicate counts.
func (f *fold) existsOne(fr *frame) tri {
	count := 0
	var failure Value
	stop := f.each(fr, func(fr *frame) bool {
		switch f.predicate(fr) {
		case yes:
			fr.cost += 2
			count++
		case bad:
			failure = fr.fail
		}
		return true
	})
	if stop.failed() {
		fr.fail = stop
		return bad
	}
	fr.cost += 2
	if failure.failed() {
		fr.fail = failure
		return bad
	}
	return truth(count == 1)
}

// mapped runs map() and filter(): per element that is collected 12 and the
// transformation, and 1 for the result. A failure does not end it.
func (f *fold) mapped(fr *frame) Value {
	var items []Value
	var failure Value
	stop := f.each(fr, func(fr *frame) bool {
		if f.predicate != nil {
			switch f.predicate(fr) {
			case no:
				return true
			case bad:
				failure = fr.fail
				return true
			}
		}
		v := f.transform(fr)
		fr.cost += 12
		switch {
		case failure.failed():
		case v.failed():
			failure = v
		default:
			items = append(items, v)
		}
		return true
	})
	if stop.failed() {
		return stop
	}
	fr.cost++
	if failure.failed() {
		return failure
	}
	return listValue(items)
}
