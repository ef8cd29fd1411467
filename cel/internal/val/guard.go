package val

import (
	"math"
	"strings"
)

// This file refuses calls whose result would be larger than an evaluation may hold. Most costs
// depend on the size of the result. The costs of some functions do not, or are known only when the
// result exists.

// MaxText is the greatest length in bytes of a text that one call returns. It is more than a
// request may have.
const MaxText = 1 << 24

// Guards has, by function, a check whether the result of a call is too large.
var Guards = map[string]func(args []Value) bool{
	"quantity": guardQuantity, "isQuantity": guardQuantity, "replace": guardReplace, "join": guardJoin, "flatten": guardFlatten,
	"format":      func(a []Value) bool { return !textFits(a) },
	"json.encode": func(a []Value) bool { return !textFits(a) },
}

// guardReplace checks replace(), by counting the occurrences.
func guardReplace(a []Value) bool {
	if len(a) < 3 || a[0].K != KindString || a[1].K != KindString || a[2].K != KindString {
		return false
	}
	text, from, to := a[0].Text(), a[1].Text(), a[2].Text()
	if len(to) <= len(from) || len(text)*len(to) <= MaxText && from != "" {
		return false
	}
	return float64(len(text))+float64(occurrences(a))*float64(len(to)-len(from)) > MaxText
}

// occurrences returns how often replace() puts a text into another one.
func occurrences(a []Value) int {
	n := strings.Count(a[0].Text(), a[1].Text())
	if len(a) > 3 && a[3].K == KindInt && a[3].Int() >= 0 && a[3].Int() < int64(n) {
		n = int(a[3].Int())
	}
	return n
}

// guardJoin checks join().
func guardJoin(a []Value) bool {
	if a[0].K != KindList {
		return false
	}
	n := a[0].Size()
	if len(a) > 1 && a[1].K == KindString && float64(n)*float64(a[1].Bits) > MaxText {
		return true
	}
	return !textFits(a[:1])
}

// guardFlatten checks flatten(), by counting the items of nested lists.
func guardFlatten(a []Value) bool {
	depth := int64(1)
	if len(a) > 1 && a[1].K == KindInt {
		depth = a[1].Int()
	}
	left := maxList
	return a[0].K == KindList && !flatFits(a[0], depth, &left)
}

// flatFits counts the items of v. left is the number of items that are still permitted.
func flatFits(v Value, depth int64, left *int) bool {
	n := v.Size()
	if depth <= 0 {
		*left -= n
		return *left >= 0
	}
	for i := 0; i < n; i++ {
		*left--
		item := v.Item(i)
		if *left < 0 || item.K == KindList && !flatFits(item, depth-1, left) {
			return false
		}
	}
	return true
}

// textFits reports whether the text of values, each printed once, is short enough. Lists and maps
// may contain each other many times: the walk ends when the text would be too long.
func textFits(values []Value) bool {
	left := MaxText
	for _, v := range values {
		if !printed(v, &left) {
			return false
		}
	}
	return true
}

// printed subtracts the length of v's text from left, and reports whether it fits.
func printed(v Value, left *int) bool {
	*left -= 2
	fits := *left >= 0
	switch v.K {
	case KindString, KindBytes:
		*left -= int(min(v.Bits, math.MaxInt32))
		fits = *left >= 0
	case KindList:
		for i, n := 0, v.Size(); fits && i < n; i++ {
			fits = printed(v.Item(i), left)
		}
	case KindMap:
		EachEntry(v, func(k, item Value) bool {
			fits = fits && printed(k, left) && printed(item, left)
			return fits
		})
	case KindOptional:
		if v.Ptr != nil {
			fits = printed(*v.Optional(), left)
		}
	}
	return fits
}
