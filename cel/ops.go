package cel

import (
	"bytes"
	"math"
	"strings"
	"time"
)

// This file does arithmetic and ordering.

// traitError is the error of an operator or function that a, its left operand,
// has not at all. Values that may have members of their own are asked for one,
// and say less.
func traitError(fn string, a Value) Value {
	switch a.kind {
	case KindString, KindTimestamp, KindDuration:
		return errorValue(errNoOverload)
	}
	return errorWith(errNoOverloadFn, fn)
}

// add is a + b.
func add(a, b Value) Value {
	switch a.kind {
	case KindInt:
		if b.kind == KindInt {
			x, y := a.Int(), b.Int()
			z := x + y
			if (x > 0 && y > 0 && z < 0) || (x < 0 && y < 0 && z >= 0) {
				return errorValue(errIntOverflow)
			}
			return intValue(z)
		}
	case KindUint:
		if b.kind == KindUint {
			if z := a.bits + b.bits; z >= a.bits {
				return uintValue(z)
			}
			return errorValue(errUintOverflow)
		}
	case KindDouble:
		if b.kind == KindDouble {
			return doubleValue(a.Float() + b.Float())
		}
	case KindString:
		if b.kind == KindString {
			v := stringValue(a.text() + b.text())
			v.flag = a.flag & b.flag
			return v
		}
	case KindBytes:
		if b.kind == KindBytes {
			return bytesValue(append(append([]byte(nil), a.bytes()...), b.bytes()...))
		}
	case KindList:
		if b.kind == KindList {
			return addLists(a, b)
		}
	case KindDuration:
		switch b.kind {
		case KindDuration:
			sum := add(intValue(a.Int()), intValue(b.Int()))
			if sum.failed() {
				return sum
			}
			return durationValue(sum.Int())
		case KindTimestamp:
			return addTime(b.Time(), a.Duration())
		}
	case KindTimestamp:
		if b.kind == KindDuration {
			return addTime(a.Time(), b.Duration())
		}
	default:
		return traitError("_+_", a)
	}
	return errorValue(errNoOverload)
}

// Timestamps lie between the years 1 and 9999.
const (
	minUnix = -62135596800
	maxUnix = 253402300799
)

func addTime(t time.Time, d time.Duration) Value {
	sum := t.Add(d)
	if u := sum.Unix(); u < minUnix || u > maxUnix {
		return errorValue(errTimeOverflow)
	}
	return timeValue(sum)
}

// addLists is the concatenation, union or merge of two lists, as the type of
// the left one says.
func addLists(a, b Value) Value {
	n, m := a.size(), b.size()
	if a.flag == flagOwn {
		box := (*listBox)(a.ptr)
		for i := 0; i < m; i++ {
			box.items = append(box.items, b.item(i))
		}
		return a
	}
	if plain := !a.fromDoc() && a.typ == nil; plain && n == 0 {
		return b // which may be a set
	} else if plain && m == 0 {
		return a
	}
	items := make([]Value, 0, n+m)
	for i := 0; i < n; i++ {
		items = append(items, a.item(i))
	}
	if a.typ != nil {
		var sum Value
		switch {
		case a.typ.set():
			sum = addToSet(items, b)
		case a.typ.mapList():
			sum = addToMapList(items, b, escapedKeys(a.typ.ListType.Keys))
		}
		if sum.kind != KindNone {
			sum.typ = a.typ // the sum stays a set or a map list
			return sum
		}
	}
	for i := 0; i < m; i++ {
		items = append(items, b.item(i))
	}
	sum := listValue(items)
	if a.flag != flagFromDoc && (b.flag == flagFromDoc || a.flag == flagConcat || b.flag == flagConcat) {
		sum.flag = flagConcat
	}
	return sum
}

func addToSet(items []Value, b Value) Value {
	have := map[scalarKey]bool{}
	for _, item := range items {
		k, err := setKey(item)
		if err.failed() {
			return err
		}
		have[k] = true
	}
	for i, n := 0, b.size(); i < n; i++ {
		item := b.item(i)
		k, err := setKey(item)
		if err.failed() {
			return err
		}
		if !have[k] {
			have[k] = true
			items = append(items, item)
		}
	}
	return listValue(items)
}

func addToMapList(items []Value, b Value, keys []string) Value {
	at := map[string]int{}
	for i, item := range items {
		at[listKey(item, keys)] = i
	}
	for i, n := 0, b.size(); i < n; i++ {
		item := b.item(i)
		k := listKey(item, keys)
		if j, ok := at[k]; ok {
			items[j] = item
			continue
		}
		items = append(items, item)
	}
	return listValue(items)
}

// subtract is a - b.
func subtract(a, b Value) Value {
	switch a.kind {
	case KindInt:
		if b.kind == KindInt {
			x, y := a.Int(), b.Int()
			z := x - y
			if (y < 0 && z < x) || (y > 0 && z > x) {
				return errorValue(errIntOverflow)
			}
			return intValue(z)
		}
	case KindUint:
		if b.kind == KindUint {
			if b.bits > a.bits {
				return errorValue(errUintOverflow)
			}
			return uintValue(a.bits - b.bits)
		}
	case KindDouble:
		if b.kind == KindDouble {
			return doubleValue(a.Float() - b.Float())
		}
	case KindDuration:
		if b.kind == KindDuration {
			diff := subtract(intValue(a.Int()), intValue(b.Int()))
			if diff.failed() {
				return diff
			}
			return durationValue(diff.Int())
		}
	case KindTimestamp:
		switch b.kind {
		case KindDuration:
			if b.Int() == math.MinInt64 {
				return errorValue(errIntOverflow)
			}
			return addTime(a.Time(), -b.Duration())
		case KindTimestamp:
			return subtractTimes(a, b)
		}
	default:
		return traitError("_-_", a)
	}
	return errorValue(errNoOverload)
}

func subtractTimes(a, b Value) Value {
	seconds := int64(a.bits) - int64(b.bits)
	nanos := a.node.Int() - b.node.Int()
	if seconds > math.MaxInt64/int64(time.Second) || seconds < math.MinInt64/int64(time.Second) {
		return errorValue(errIntOverflow)
	}
	d := add(intValue(seconds*int64(time.Second)), intValue(nanos))
	if d.failed() {
		return d
	}
	return durationValue(d.Int())
}

// multiply is a * b.
func multiply(a, b Value) Value {
	switch a.kind {
	case KindInt:
		if b.kind == KindInt {
			x, y := a.Int(), b.Int()
			z := x * y
			if x != 0 && (z/x != y || x == -1 && y == math.MinInt64) {
				return errorValue(errIntOverflow)
			}
			return intValue(z)
		}
	case KindUint:
		if b.kind == KindUint {
			if a.bits != 0 && b.bits > math.MaxUint64/a.bits {
				return errorValue(errUintOverflow)
			}
			return uintValue(a.bits * b.bits)
		}
	case KindDouble:
		if b.kind == KindDouble {
			return doubleValue(a.Float() * b.Float())
		}
	default:
		return traitError("_*_", a)
	}
	return errorValue(errNoOverload)
}

// divide is a / b.
func divide(a, b Value) Value {
	switch a.kind {
	case KindInt:
		if b.kind == KindInt {
			switch {
			case b.bits == 0:
				return errorValue(errDivZero)
			case a.Int() == math.MinInt64 && b.Int() == -1:
				return errorValue(errIntOverflow)
			}
			return intValue(a.Int() / b.Int())
		}
	case KindUint:
		if b.kind == KindUint {
			if b.bits == 0 {
				return errorValue(errDivZero)
			}
			return uintValue(a.bits / b.bits)
		}
	case KindDouble:
		if b.kind == KindDouble {
			return doubleValue(a.Float() / b.Float())
		}
	default:
		return traitError("_/_", a)
	}
	return errorValue(errNoOverload)
}

// modulo is a % b.
func modulo(a, b Value) Value {
	switch a.kind {
	case KindInt:
		if b.kind == KindInt {
			switch {
			case b.bits == 0:
				return errorValue(errModZero)
			case a.Int() == math.MinInt64 && b.Int() == -1:
				return errorValue(errIntOverflow)
			}
			return intValue(a.Int() % b.Int())
		}
	case KindUint:
		if b.kind == KindUint {
			if b.bits == 0 {
				return errorValue(errModZero)
			}
			return uintValue(a.bits % b.bits)
		}
	default:
		return traitError("_%_", a)
	}
	return errorValue(errNoOverload)
}

// negate is -a.
func negate(a Value) Value {
	switch a.kind {
	case KindInt:
		if a.Int() == math.MinInt64 {
			return errorValue(errIntOverflow)
		}
		return intValue(-a.Int())
	case KindDuration:
		if a.Int() == math.MinInt64 {
			return errorValue(errIntOverflow)
		}
		return durationValue(-a.Int())
	case KindDouble:
		return doubleValue(-a.Float())
	}
	return traitError("-_", a)
}

// compareNumbers orders two numbers; false if one of them is NaN.
func compareNumbers(a, b Value) (int, bool) {
	switch {
	case a.kind == KindDouble && b.kind == KindDouble:
		return compareFloats(a.Float(), b.Float())
	case a.kind == KindDouble:
		c, ok := compareNumbers(b, a)
		return -c, ok
	case b.kind == KindDouble:
		return compareToFloat(a, b.Float())
	case a.kind == KindInt && b.kind == KindInt:
		return order(a.Int() < b.Int(), a.Int() > b.Int()), true
	case a.kind == KindUint && b.kind == KindUint:
		return order(a.bits < b.bits, a.bits > b.bits), true
	case a.kind == KindInt:
		if a.Int() < 0 {
			return -1, true
		}
		return order(a.bits < b.bits, a.bits > b.bits), true
	}
	c, ok := compareNumbers(b, a)
	return -c, ok
}

func order(less, greater bool) int {
	switch {
	case less:
		return -1
	case greater:
		return 1
	}
	return 0
}

func compareFloats(x, y float64) (int, bool) {
	if math.IsNaN(x) || math.IsNaN(y) {
		return 0, false
	}
	return order(x < y, x > y), true
}

// compareToFloat orders an int or uint and a double.
func compareToFloat(a Value, f float64) (int, bool) {
	if a.kind == KindInt {
		switch {
		case f < math.MinInt64:
			return 1, !math.IsNaN(f)
		case f > math.MaxInt64:
			return -1, !math.IsNaN(f)
		}
		return compareFloats(float64(a.Int()), f)
	}
	switch {
	case f < 0:
		return 1, true
	case f > math.MaxUint64:
		return -1, true
	}
	return compareFloats(float64(a.bits), f)
}

// compare orders a and b: an Int, or an error.
func compare(a, b Value) Value {
	switch a.kind {
	case KindInt, KindUint, KindDouble:
		if b.kind == KindInt || b.kind == KindUint || b.kind == KindDouble {
			c, ok := compareNumbers(a, b)
			if !ok {
				return errorValue(errNaN)
			}
			return intValue(int64(c))
		}
		if a.kind == KindDouble && math.IsNaN(a.Float()) {
			return errorValue(errNaN)
		}
		return errorValue(errNoOverload)
	}
	if a.kind != b.kind {
		return errorValue(errNoOverload)
	}
	switch a.kind {
	case KindString:
		return intValue(int64(strings.Compare(a.text(), b.text())))
	case KindBytes:
		return intValue(int64(bytes.Compare(a.bytes(), b.bytes())))
	case KindBool:
		return intValue(int64(order(a.bits < b.bits, a.bits > b.bits)))
	case KindDuration:
		return intValue(int64(order(a.Int() < b.Int(), a.Int() > b.Int())))
	case KindTimestamp:
		return intValue(int64(a.Time().Compare(b.Time())))
	}
	return errorValue(errNoOverload)
}

// comparable reports whether values of a kind have an order.
func comparable(k Kind) bool {
	switch k {
	case KindBool, KindInt, KindUint, KindDouble, KindString, KindBytes, KindDuration, KindTimestamp:
		return true
	}
	return false
}
