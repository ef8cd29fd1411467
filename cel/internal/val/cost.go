package val

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"

	"github.com/keelson-io/keelson/cel/internal/lib"
)

// This file prices calls at run time, unit for unit as upstream does.

// Prices of what is no call.
const (
	CostSelect = 1  // a variable, a selection or an index
	CostList   = 10 // making a list
	CostMap    = 30 // making a map
)

// CostFn is the price of a call by its arguments and its result.
type CostFn func(args []Value, result Value) uint64

// Tenths holds the price of walking that many elements.
var Tenths = func() (t [256]uint64) {
	for i := range t {
		t[i] = uint64(math.Ceil(float64(i) * 0.1))
	}
	return t
}()

// Tenth is the price of walking n elements.
func Tenth(n uint64) uint64 {
	if n < uint64(len(Tenths)) {
		return Tenths[n]
	}
	return manyTenths(n)
}

// manyTenths is apart, so that tenth is small enough to be inlined well.
//
//go:noinline
func manyTenths(n uint64) uint64 { return uint64(math.Ceil(float64(n) * 0.1)) }

// factor is n elements at a price each, rounded up.
func factor(n uint64, price float64) uint64 { return uint64(math.Ceil(float64(n) * price)) }

// SizeOf is the size of a value as prices count it: code points, bytes, items
// or entries; 1 for everything else.
func SizeOf(v Value) uint64 {
	switch v.K {
	case KindString:
		return uint64(v.Runes())
	case KindBytes:
		return v.Bits
	case KindList, KindMap:
		return uint64(v.Size())
	case KindOptional:
		if v.Ptr != nil {
			return SizeOf(*v.Optional())
		}
	case KindOpaque:
		if s, ok := v.Opaque().(traits.Sizer); ok {
			return uint64(s.Size().(types.Int))
		}
	}
	return 1
}

// PlainSize is SizeOf where Kubernetes prices a call: an optional is 1.
func PlainSize(v Value) uint64 {
	if v.K == KindOptional {
		return 1
	}
	return SizeOf(v)
}

func costOne([]Value, Value) uint64 { return 1 }

// CostCompare is the price of comparing two values. A long text is not counted
// where it is certainly the longer one: that takes more than the price pays for.
func CostCompare(a, b Value) uint64 {
	if a.K != KindString || b.K != KindString {
		return Tenth(min(SizeOf(a), SizeOf(b)))
	}
	if a.Bits > b.Bits {
		a, b = b, a
	}
	n := SizeOf(a)
	if n > b.Bits/utf8.UTFMax {
		n = min(n, SizeOf(b))
	}
	return Tenth(n)
}

// CostContains is the price of looking for b in a, which is nothing for an empty text.
func CostContains(a, b Value) uint64 {
	n := Tenth(SizeOf(b))
	if n == 0 {
		return 0
	}
	return Tenth(SizeOf(a)) * n
}

// CostEqual is the price of a == b.
func CostEqual(a, b Value) uint64 {
	if a.K == KindOpaque {
		if _, ok := a.Opaque().(preserved); !ok {
			return 1
		}
	}
	return CostCompare(a, b)
}

// costPattern is the price of matching n code points with a pattern of m.
func costPattern(n, m uint64) uint64 { return Tenth(n+1) * PatternPrice(m) }

// PatternPrice is the part of the pattern in the price.
func PatternPrice(m uint64) uint64 { return uint64(math.Ceil(float64(m) * 0.25)) }

// maxVisited is the most that is visited for a price: a unit for most of it.
const maxVisited = 1 << 22

// traversal is the price of visiting everything in a value. Lists and maps may
// hold one another many times over: what has more in it than can be visited is
// beyond every limit.
func traversal(v Value) uint64 {
	left := maxVisited
	sum := visit(v, &left)
	if left < 0 {
		return math.MaxInt64
	}
	return sum
}

func visit(v Value, left *int) uint64 {
	if *left--; *left < 0 {
		return 0
	}
	switch v.K {
	case KindString, KindBytes:
		return uint64(float64(v.Bits) * 0.1)
	case KindList:
		var sum uint64
		for i, n := 0, v.Size(); i < n && *left >= 0; i++ {
			sum += visit(v.Item(i), left)
		}
		return sum
	case KindMap:
		var sum uint64
		EachVisit(v, func(k, item Value) { sum += visit(k, left) + visit(item, left) })
		return sum
	case KindOpaque:
		if m, ok := v.made(); ok { // it costs a unit, whatever is in it
			for _, name := range m.names {
				visit(m.fields[name], left)
			}
		}
	}
	return 1
}

// overloadCosts are the prices that belong to one overload; they come before
// those of the function's name.
var overloadCosts = map[string]CostFn{
	"list_sets_contains_list":   func(a []Value, _ Value) uint64 { return 1 + PlainSize(a[0])*PlainSize(a[1]) },
	"list_sets_intersects_list": func(a []Value, _ Value) uint64 { return 1 + PlainSize(a[0])*PlainSize(a[1]) },
	"list_sets_equivalent_list": func(a []Value, _ Value) uint64 { return 1 + 2*PlainSize(a[0])*PlainSize(a[1]) },
	"list_slice":                func(_ []Value, r Value) uint64 { return 11 + PlainSize(r) },
	"lists_range":               func(_ []Value, r Value) uint64 { return 11 + PlainSize(r) },
	"list_reverse":              func(_ []Value, r Value) uint64 { return 11 + PlainSize(r) },
	"list_flatten":              func(a []Value, _ Value) uint64 { return 11 + PlainSize(a[0]) },
	"list_flatten_int":          costFlatten,
	"list_distinct":             func(a []Value, _ Value) uint64 { return costSort(a[0], a[0]) },
}

// PricedAhead are the overloads that compare each item with many, or run a pattern,
// at a price that their arguments tell: where it is too much they do not begin.
var PricedAhead = map[string]bool{
	"list_sets_contains_list": true, "list_sets_intersects_list": true, "list_sets_equivalent_list": true, "list_distinct": true,
	"matches": true, "matches_string": true, "string_find_string": true, "string_find_all_string": true, "string_find_all_string_int": true,
}

func costFlatten(a []Value, _ Value) uint64 {
	depth := 1.0
	if a[1].K == KindInt && a[1].Int() >= 0 {
		depth = float64(a[1].Int())
	}
	return 11 + uint64(depth*float64(PlainSize(a[0])))
}

// costSort is the price of comparing every item with every other, by keys.
func costSort(list, keys Value) uint64 {
	n := PlainSize(list)
	each := 2.0
	if keys.K == KindList && keys.Size() > 0 {
		if k := keys.Item(0).K; k == KindString || k == KindBytes {
			each = 2.1
		}
	}
	return 11 + uint64(each*float64(n*n))
}

// functionCosts are the prices of functions whatever the overload.
var functionCosts = map[string]CostFn{
	"isSorted": costTraversal, "sum": costTraversal, "max": costTraversal, "min": costTraversal,
	"indexOf": costTraversal, "lastIndexOf": costTraversal, "includes": costTraversal,
	"url": costParse, "lowerAscii": costParse, "upperAscii": costParse, "substring": costParse, "trim": costParse, "jsonpatch.escapeKey": costParse,
	"cidr": costParse, "isIP": costParse, "isCIDR": costParse, "quantity": costParse, "isQuantity": costParse,
	"semver": costParse, "isSemver": costParse, "ip": costParse,
	"replace": costTwice, "split": costTwice, "ip.isCanonical": costTwice,
	"join":          func(_ []Value, r Value) uint64 { return factor(PlainSize(r)*2, 0.1) },
	"find":          func(a []Value, _ Value) uint64 { return costPattern(PlainSize(a[0]), PlainSize(a[1])) },
	"findAll":       func(a []Value, _ Value) uint64 { return costPattern(PlainSize(a[0]), PlainSize(a[1])) },
	"validate":      costValidate,
	"containsIP":    func(a []Value, _ Value) uint64 { return factor(2*PlainSize(a[0]), 0.1) },
	"check":         func([]Value, Value) uint64 { return lib.CostCheck },
	"fieldSelector": costSelector, "labelSelector": costSelector,
	"containsCIDR": func(a []Value, _ Value) uint64 {
		return factor(2*PlainSize(a[0]), 0.1) + Tenth(PlainSize(a[0])) + 1
	},
}

func costTraversal(a []Value, _ Value) uint64 { return traversal(a[0]) }
func costParse(a []Value, _ Value) uint64     { return Tenth(PlainSize(a[0])) }
func costTwice(a []Value, _ Value) uint64     { return factor(PlainSize(a[0])*2, 0.1) }

// costSelector is the price of parsing a selector: its text, a list, and a
// requirement for each two characters.
func costSelector(a []Value, _ Value) uint64 {
	n := PlainSize(a[1])
	return CostList + Tenth(n) + factor(factor(n, 0.5), CostList+CostStruct)
}

func costValidate(a []Value, _ Value) uint64 {
	if a[0].K == KindOpaque {
		if f, ok := a[0].Opaque().(lib.NamedFormat); ok {
			return costPattern(PlainSize(a[1]), uint64(f.MaxRegexSize))
		}
	}
	return 1
}

// TableCosts are cel-go's own prices, by overload.
var TableCosts = map[string]CostFn{
	"starts_with_string": func(a []Value, _ Value) uint64 { return Tenth(SizeOf(a[1])) },
	"ends_with_string":   func(a []Value, _ Value) uint64 { return Tenth(SizeOf(a[1])) },
	"string_to_bytes":    costWalk, "bytes_to_string": costWalk, "strings_quote": costWalk, "string_format": costWalk,
	"in_list":         func(a []Value, _ Value) uint64 { return SizeOf(a[1]) },
	"add_string":      func(a []Value, _ Value) uint64 { return Tenth(SizeOf(a[0]) + SizeOf(a[1])) },
	"add_bytes":       func(a []Value, _ Value) uint64 { return Tenth(SizeOf(a[0]) + SizeOf(a[1])) },
	"matches":         func(a []Value, _ Value) uint64 { return costPattern(SizeOf(a[0]), SizeOf(a[1])) },
	"matches_string":  func(a []Value, _ Value) uint64 { return costPattern(SizeOf(a[0]), SizeOf(a[1])) },
	"contains_string": func(a []Value, _ Value) uint64 { return CostContains(a[0], a[1]) },
	"less_string":     costOrder, "less_equals_string": costOrder, "greater_string": costOrder, "greater_equals_string": costOrder,
	"less_bytes": costOrder, "less_equals_bytes": costOrder, "greater_bytes": costOrder, "greater_equals_bytes": costOrder,
}

func costWalk(a []Value, _ Value) uint64  { return Tenth(SizeOf(a[0])) }
func costOrder(a []Value, _ Value) uint64 { return CostCompare(a[0], a[1]) }

// CallCost is the price of a call. overload is empty where the arguments'
// types left several to choose from.
func CallCost(function, overload string) CostFn {
	if fn, ok := overloadCosts[overload]; ok {
		return fn
	}
	if sortsList(overload) {
		if function == "@sortByAssociatedKeys" {
			return func(a []Value, _ Value) uint64 { return costSort(a[0], a[1]) }
		}
		return func(a []Value, _ Value) uint64 { return costSort(a[0], a[0]) }
	}
	switch overload {
	case "cidr_ip":
		return costOne
	case "cidr_contains_ip_string":
		return func(a []Value, r Value) uint64 { return functionCosts["containsIP"](a, r) + Tenth(PlainSize(a[1])) }
	case "cidr_contains_cidr_string":
		return func(a []Value, r Value) uint64 { return functionCosts["containsCIDR"](a, r) + Tenth(PlainSize(a[1])) }
	}
	if fn, ok := functionCosts[function]; ok {
		return fn
	}
	if fn, ok := TableCosts[overload]; ok {
		return fn
	}
	return costOne
}

// sortsList reports whether an overload sorts a list: list_<type>_sort or
// list_<type>_sortByAssociatedKeys.
func sortsList(overload string) bool {
	return strings.HasPrefix(overload, "list_") && (strings.HasSuffix(overload, "_sort") || strings.HasSuffix(overload, "_sortByAssociatedKeys"))
}

// CostStruct is the price of making a message.
const CostStruct = 40
