package val

import (
	"bytes"
	"math"
	"strings"
	"time"
)

// This file implements arithmetic and ordering.

// TraitError returns the error of an operator or function that the type of a, its left operand,
// does not have. For types with members of their own, upstream's text is shorter.
func TraitError(fn string, a Value) Value {
	switch a.K {
	case KindString, KindTimestamp, KindDuration:
		return ErrorValue(CodeNoOverload)
	}
	return ErrorWith(CodeNoOverloadFn, fn)
}

// Add returns a + b.
func Add(a, b Value) Value {
	switch a.K {
	case KindInt:
		if b.K == KindInt {
			x, y := a.Int(), b.Int()
			z := x + y
			if (x > 0 && y > 0 && z < 0) || (x < 0 && y < 0 && z >= 0) {
				return ErrorValue(CodeIntOverflow)
			}
			return IntValue(z)
		}
	case KindUint:
		if b.K == KindUint {
			if z := a.Bits + b.Bits; z >= a.Bits {
				return UintValue(z)
			}
			return ErrorValue(CodeUintOverflow)
		}
	case KindDouble:
		if b.K == KindDouble {
			return DoubleValue(a.Float() + b.Float())
		}
	case KindString:
		if b.K == KindString {
			v := TextValue(a.Text() + b.Text())
			v.Flag = a.Flag & b.Flag
			return v
		}
	case KindBytes:
		if b.K == KindBytes {
			return BytesValue(append(append([]byte(nil), a.bytes()...), b.bytes()...))
		}
	case KindList:
		if b.K == KindList {
			return addLists(a, b)
		}
	case KindDuration:
		switch b.K {
		case KindDuration:
			sum := Add(IntValue(a.Int()), IntValue(b.Int()))
			if sum.Failed() {
				return sum
			}
			return DurationValue(sum.Int())
		case KindTimestamp:
			return addTime(b.Time(), a.Duration())
		}
	case KindTimestamp:
		if b.K == KindDuration {
			return addTime(a.Time(), b.Duration())
		}
	default:
		return TraitError("_+_", a)
	}
	return ErrorValue(CodeNoOverload)
}

// Timestamps must be in the years 1 to 9999.
const (
	MinUnix = -62135596800
	MaxUnix = 253402300799
)

// addTime returns t + d, or an error.
func addTime(t time.Time, d time.Duration) Value {
	sum := t.Add(d)
	if u := sum.Unix(); u < MinUnix || u > MaxUnix {
		return ErrorValue(CodeTimeOverflow)
	}
	return TimeValue(sum)
}

// addLists returns the concatenation, union or merge of two lists, depending on the type of the
// left one.
func addLists(a, b Value) Value {
	n, m := a.Size(), b.Size()
	if a.Flag == FlagOwn {
		box := (*ListBox)(a.Ptr)
		for i := 0; i < m; i++ {
			box.Items = append(box.Items, b.Item(i))
		}
		return a
	}
	if plain := !a.FromDoc() && a.Typ == nil; plain && n == 0 {
		return b // b may be a set
	} else if plain && m == 0 {
		return a
	}
	items := make([]Value, 0, n+m)
	for i := 0; i < n; i++ {
		items = append(items, a.Item(i))
	}
	if a.Typ != nil {
		var sum Value
		switch {
		case a.Typ.set():
			sum = addToSet(items, b)
		case a.Typ.mapList():
			sum = addToMapList(items, b, escapedKeys(a.Typ.ListType.Keys))
		}
		if sum.K != KindNone {
			sum.Typ = a.Typ // the sum is a set or a map list, too
			return sum
		}
	}
	for i := 0; i < m; i++ {
		items = append(items, b.Item(i))
	}
	sum := ListValue(items)
	if a.Flag != FlagFromDoc && (b.Flag == FlagFromDoc || a.Flag == flagConcat || b.Flag == flagConcat) {
		sum.Flag = flagConcat
	}
	return sum
}

// addToSet returns items with those of b that are not among them.
func addToSet(items []Value, b Value) Value {
	have := map[ScalarKey]bool{}
	for _, item := range items {
		k, err := setKey(item)
		if err.Failed() {
			return err
		}
		have[k] = true
	}
	for i, n := 0, b.Size(); i < n; i++ {
		item := b.Item(i)
		k, err := setKey(item)
		if err.Failed() {
			return err
		}
		if !have[k] {
			have[k] = true
			items = append(items, item)
		}
	}
	return ListValue(items)
}

// addToMapList returns items, where items of b replace those with the same keys.
func addToMapList(items []Value, b Value, keys []string) Value {
	at := map[string]int{}
	for i, item := range items {
		at[listKey(item, keys)] = i
	}
	for i, n := 0, b.Size(); i < n; i++ {
		item := b.Item(i)
		k := listKey(item, keys)
		if j, ok := at[k]; ok {
			items[j] = item
			continue
		}
		items = append(items, item)
	}
	return ListValue(items)
}

// Subtract returns a - b.
func Subtract(a, b Value) Value {
	switch a.K {
	case KindInt:
		if b.K == KindInt {
			x, y := a.Int(), b.Int()
			z := x - y
			if (y < 0 && z < x) || (y > 0 && z > x) {
				return ErrorValue(CodeIntOverflow)
			}
			return IntValue(z)
		}
	case KindUint:
		if b.K == KindUint {
			if b.Bits > a.Bits {
				return ErrorValue(CodeUintOverflow)
			}
			return UintValue(a.Bits - b.Bits)
		}
	case KindDouble:
		if b.K == KindDouble {
			return DoubleValue(a.Float() - b.Float())
		}
	case KindDuration:
		if b.K == KindDuration {
			diff := Subtract(IntValue(a.Int()), IntValue(b.Int()))
			if diff.Failed() {
				return diff
			}
			return DurationValue(diff.Int())
		}
	case KindTimestamp:
		switch b.K {
		case KindDuration:
			if b.Int() == math.MinInt64 {
				return ErrorValue(CodeIntOverflow)
			}
			return addTime(a.Time(), -b.Duration())
		case KindTimestamp:
			return subtractTimes(a, b)
		}
	default:
		return TraitError("_-_", a)
	}
	return ErrorValue(CodeNoOverload)
}

// subtractTimes returns the duration between two timestamps.
func subtractTimes(a, b Value) Value {
	seconds := int64(a.Bits) - int64(b.Bits)
	nanos := a.Node.Int() - b.Node.Int()
	if seconds > math.MaxInt64/int64(time.Second) || seconds < math.MinInt64/int64(time.Second) {
		return ErrorValue(CodeIntOverflow)
	}
	d := Add(IntValue(seconds*int64(time.Second)), IntValue(nanos))
	if d.Failed() {
		return d
	}
	return DurationValue(d.Int())
}

// Multiply returns a * b.
func Multiply(a, b Value) Value {
	switch a.K {
	case KindInt:
		if b.K == KindInt {
			x, y := a.Int(), b.Int()
			z := x * y
			if x != 0 && (z/x != y || x == -1 && y == math.MinInt64) {
				return ErrorValue(CodeIntOverflow)
			}
			return IntValue(z)
		}
	case KindUint:
		if b.K == KindUint {
			if a.Bits != 0 && b.Bits > math.MaxUint64/a.Bits {
				return ErrorValue(CodeUintOverflow)
			}
			return UintValue(a.Bits * b.Bits)
		}
	case KindDouble:
		if b.K == KindDouble {
			return DoubleValue(a.Float() * b.Float())
		}
	default:
		return TraitError("_*_", a)
	}
	return ErrorValue(CodeNoOverload)
}

// Divide returns a / b.
func Divide(a, b Value) Value {
	switch a.K {
	case KindInt:
		if b.K == KindInt {
			switch {
			case b.Bits == 0:
				return ErrorValue(CodeDivZero)
			case a.Int() == math.MinInt64 && b.Int() == -1:
				return ErrorValue(CodeIntOverflow)
			}
			return IntValue(a.Int() / b.Int())
		}
	case KindUint:
		if b.K == KindUint {
			if b.Bits == 0 {
				return ErrorValue(CodeDivZero)
			}
			return UintValue(a.Bits / b.Bits)
		}
	case KindDouble:
		if b.K == KindDouble {
			return DoubleValue(a.Float() / b.Float())
		}
	default:
		return TraitError("_/_", a)
	}
	return ErrorValue(CodeNoOverload)
}

// Modulo returns a % b.
func Modulo(a, b Value) Value {
	switch a.K {
	case KindInt:
		if b.K == KindInt {
			switch {
			case b.Bits == 0:
				return ErrorValue(CodeModZero)
			case a.Int() == math.MinInt64 && b.Int() == -1:
				return ErrorValue(CodeIntOverflow)
			}
			return IntValue(a.Int() % b.Int())
		}
	case KindUint:
		if b.K == KindUint {
			if b.Bits == 0 {
				return ErrorValue(CodeModZero)
			}
			return UintValue(a.Bits % b.Bits)
		}
	default:
		return TraitError("_%_", a)
	}
	return ErrorValue(CodeNoOverload)
}

// Negate is -a.
func Negate(a Value) Value {
	switch a.K {
	case KindInt:
		if a.Int() == math.MinInt64 {
			return ErrorValue(CodeIntOverflow)
		}
		return IntValue(-a.Int())
	case KindDuration:
		if a.Int() == math.MinInt64 {
			return ErrorValue(CodeIntOverflow)
		}
		return DurationValue(-a.Int())
	case KindDouble:
		return DoubleValue(-a.Float())
	}
	return TraitError("-_", a)
}

// compareNumbers orders two numbers. It returns false if one of them is NaN.
func compareNumbers(a, b Value) (int, bool) {
	switch {
	case a.K == KindDouble && b.K == KindDouble:
		return compareFloats(a.Float(), b.Float())
	case a.K == KindDouble:
		c, ok := compareNumbers(b, a)
		return -c, ok
	case b.K == KindDouble:
		return compareToFloat(a, b.Float())
	case a.K == KindInt && b.K == KindInt:
		return order(a.Int() < b.Int(), a.Int() > b.Int()), true
	case a.K == KindUint && b.K == KindUint:
		return order(a.Bits < b.Bits, a.Bits > b.Bits), true
	case a.K == KindInt:
		if a.Int() < 0 {
			return -1, true
		}
		return order(a.Bits < b.Bits, a.Bits > b.Bits), true
	}
	c, ok := compareNumbers(b, a)
	return -c, ok
}

// order returns -1, 0 or 1.
func order(less, greater bool) int {
	switch {
	case less:
		return -1
	case greater:
		return 1
	}
	return 0
}

// compareFloats orders two doubles.
func compareFloats(x, y float64) (int, bool) {
	if math.IsNaN(x) || math.IsNaN(y) {
		return 0, false
	}
	return order(x < y, x > y), true
}

// compareToFloat orders an int or uint and a double.
func compareToFloat(a Value, f float64) (int, bool) {
	if a.K == KindInt {
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
	return compareFloats(float64(a.Bits), f)
}

// Compare orders a and b. It returns -1, 0 or 1 as an Int, or an error.
func Compare(a, b Value) Value {
	switch a.K {
	case KindInt, KindUint, KindDouble:
		if b.K == KindInt || b.K == KindUint || b.K == KindDouble {
			c, ok := compareNumbers(a, b)
			if !ok {
				return ErrorValue(codeNaN)
			}
			return IntValue(int64(c))
		}
		if a.K == KindDouble && math.IsNaN(a.Float()) {
			return ErrorValue(codeNaN)
		}
		return ErrorValue(CodeNoOverload)
	}
	if a.K != b.K {
		return ErrorValue(CodeNoOverload)
	}
	switch a.K {
	case KindString:
		return IntValue(int64(strings.Compare(a.Text(), b.Text())))
	case KindBytes:
		return IntValue(int64(bytes.Compare(a.bytes(), b.bytes())))
	case KindBool:
		return IntValue(int64(order(a.Bits < b.Bits, a.Bits > b.Bits)))
	case KindDuration:
		return IntValue(int64(order(a.Int() < b.Int(), a.Int() > b.Int())))
	case KindTimestamp:
		return IntValue(int64(a.Time().Compare(b.Time())))
	}
	return ErrorValue(CodeNoOverload)
}

// Comparable reports whether values of a kind can be ordered.
func Comparable(k Kind) bool {
	switch k {
	case KindBool, KindInt, KindUint, KindDouble, KindString, KindBytes, KindDuration, KindTimestamp:
		return true
	}
	return false
}
