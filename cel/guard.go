package cel

import (
	"math"
	"strings"
)

// This file refuses calls whose result would be larger than any evaluation may
// hold. Most prices grow with what a call makes; those of some functions do not,
// or are charged when it is made already.

// maxText is the most bytes of text that one call makes, more than any request
// may hold.
const maxText = 1 << 24

// guards tell, by function, that the result of a call is too large.
var guards = map[string]func(args []Value) bool{
	"quantity": guardQuantity, "isQuantity": guardQuantity, "replace": guardReplace, "join": guardJoin, "flatten": guardFlatten,
	"format":      func(a []Value) bool { return !textFits(a) },
	"json.encode": func(a []Value) bool { return !textFits(a) },
}

// guardReplace knows how often a text is found.
func guardReplace(a []Value) bool {
	if len(a) < 3 || a[0].kind != KindString || a[1].kind != KindString || a[2].kind != KindString {
		return false
	}
	text, from, to := a[0].text(), a[1].text(), a[2].text()
	if len(to) <= len(from) || len(text)*len(to) <= maxText && from != "" {
		return false
	}
	n := strings.Count(text, from)
	if len(a) > 3 && a[3].kind == KindInt && a[3].Int() >= 0 && a[3].Int() < int64(n) {
		n = int(a[3].Int())
	}
	return float64(len(text))+float64(n)*float64(len(to)-len(from)) > maxText
}

func guardJoin(a []Value) bool {
	if a[0].kind != KindList {
		return false
	}
	n := a[0].size()
	if len(a) > 1 && a[1].kind == KindString && float64(n)*float64(a[1].bits) > maxText {
		return true
	}
	return !textFits(a[:1])
}

// guardFlatten counts what is in the lists that are opened.
func guardFlatten(a []Value) bool {
	depth := int64(1)
	if len(a) > 1 && a[1].kind == KindInt {
		depth = a[1].Int()
	}
	left := maxList
	return a[0].kind == KindList && !flatFits(a[0], depth, &left)
}

func flatFits(v Value, depth int64, left *int) bool {
	n := v.size()
	if depth <= 0 {
		*left -= n
		return *left >= 0
	}
	for i := 0; i < n; i++ {
		*left--
		item := v.item(i)
		if *left < 0 || item.kind == KindList && !flatFits(item, depth-1, left) {
			return false
		}
	}
	return true
}

// textFits reports whether the text of values, each printed once, is short
// enough. Lists and maps may hold one another many times over: the walk ends
// when the text would be too long.
func textFits(values []Value) bool {
	left := maxText
	for _, v := range values {
		if !printed(v, &left) {
			return false
		}
	}
	return true
}

func printed(v Value, left *int) bool {
	*left -= 2
	fits := *left >= 0
	switch v.kind {
	case KindString, KindBytes:
		*left -= int(min(v.bits, math.MaxInt32))
		fits = *left >= 0
	case KindList:
		for i, n := 0, v.size(); fits && i < n; i++ {
			fits = printed(v.item(i), left)
		}
	case KindMap:
		eachEntry(v, func(k, item Value) bool {
			fits = fits && printed(k, left) && printed(item, left)
			return fits
		})
	case KindOptional:
		if v.ptr != nil {
			fits = printed(*v.optional(), left)
		}
	}
	return fits
}
