package val

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"

	"github.com/keelson-io/keelson/cel/internal/lib"
)

// This file computes the runtime costs of calls. They equal upstream's to the unit.

// Costs of operations that are not calls.
const (
	CostSelect = 1  // a variable, a selection or an index
	CostList   = 10 // making a list
	CostMap    = 30 // making a map
)

// CostFn returns the cost of a call from its arguments and its result.
type CostFn func(args []Value, result Value) uint64

// Tenths has the costs of visiting few elements: a tenth of their number, rounded up.
var Tenths = func() (t [256]uint64) {
	for i := range t {
		t[i] = uint64(math.Ceil(float64(i) * 0.1))
	}
	return t
}()

// Tenth returns the cost of visiting n elements.
func Tenth(n uint64) uint64 {
	if n < uint64(len(Tenths)) {
		return Tenths[n]
	}
	return manyTenths(n)
}

// manyTenths is separate, so that Tenth is small enough to be inlined.
//
//go:noinline
func manyTenths(n uint64) uint64 { return uint64(math.Ceil(float64(n) * 0.1)) }

// factor returns the cost of n elements at a cost of price for each, rounded up.
func factor(n uint64, price float64) uint64 { return uint64(math.Ceil(float64(n) * price)) }

// SizeOf returns the size of a value for costs: code points, bytes, items or entries; 1 for other
// values.
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

// PlainSize is SizeOf for the calls whose cost Kubernetes defines: an optional has the size 1.
func PlainSize(v Value) uint64 {
	if v.K == KindOptional {
		return 1
	}
	return SizeOf(v)
}

// costOne is the cost of a simple call.
func costOne([]Value, Value) uint64 { return 1 }

// CostCompare returns the cost of comparing two values. The code points of a text are not counted if
// the number of bytes shows that the other value is smaller, because counting takes more time than
// the cost covers.
func CostCompare(a, b Value) uint64 {
	if leastSize(a) > leastSize(b) {
		a, b = b, a
	}
	n := SizeOf(a)
	if n > leastSize(b) {
		n = min(n, SizeOf(b))
	}
	return Tenth(n)
}

// leastSize returns a number that SizeOf is not below, at most by the factor of 4. It reads no text.
func leastSize(v Value) uint64 {
	for v.K == KindOptional && v.Ptr != nil {
		v = *v.Optional()
	}
	if v.K == KindString && v.Flag != FlagASCII {
		return v.Bits / utf8.UTFMax
	}
	return SizeOf(v)
}

// CostContains returns the cost of searching b in a. It is 0 if b is empty.
func CostContains(a, b Value) uint64 {
	n := Tenth(SizeOf(b))
	if n == 0 {
		return 0
	}
	return Tenth(SizeOf(a)) * n
}

// CostEqual returns the cost of a == b.
func CostEqual(a, b Value) uint64 {
	if a.K == KindOpaque {
		if _, ok := a.Opaque().(preserved); !ok {
			return 1
		}
	}
	return CostCompare(a, b)
}

// costPattern returns the cost of matching n code points with a pattern of m code points.
func costPattern(n, m uint64) uint64 { return Tenth(n+1) * PatternPrice(m) }

// PatternPrice returns the factor for the pattern in that cost.
func PatternPrice(m uint64) uint64 { return uint64(math.Ceil(float64(m) * 0.25)) }

// maxVisited bounds the number of values that are visited to compute a cost. Most of them cost a
// unit.
const maxVisited = 1 << 22

// traversal returns the cost of visiting all values within a value. Lists and maps may contain each
// other many times. If there are more values than maxVisited, the cost exceeds every limit.
func traversal(v Value) uint64 {
	left := maxVisited
	sum := visit(v, &left)
	if left < 0 {
		return math.MaxInt64
	}
	return sum
}

// visit returns the cost of visiting v. left is the number of values that may still be visited.
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
		if m, ok := v.made(); ok { // it costs one unit, whatever it contains
			for _, name := range m.names {
				visit(m.fields[name], left)
			}
		}
	}
	return 1
}

// overloadCosts has the costs of single overloads. They take precedence over those of functions.
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

// PricedAhead has the overloads that compare each item with many others, or match a pattern, and
// whose cost follows from their arguments. They are not called if the cost exceeds the limit.
var PricedAhead = map[string]bool{
	"list_sets_contains_list": true, "list_sets_intersects_list": true, "list_sets_equivalent_list": true, "list_distinct": true,
	"matches": true, "matches_string": true, "string_find_string": true, "string_find_all_string": true, "string_find_all_string_int": true,
}

// costFlatten returns the cost of flatten() with a depth.
func costFlatten(a []Value, _ Value) uint64 {
	depth := 1.0
	if a[1].K == KindInt && a[1].Int() >= 0 {
		depth = float64(a[1].Int())
	}
	return 11 + uint64(depth*float64(PlainSize(a[0])))
}

// costSort returns the cost of comparing all items with each other, by keys.
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

// functionCosts has the costs of functions for all their overloads.
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

// costTraversal, costParse and costTwice are the costs of visiting all items, of reading a text
// once, and of reading it twice.
func costTraversal(a []Value, _ Value) uint64 { return traversal(a[0]) }
func costParse(a []Value, _ Value) uint64     { return Tenth(PlainSize(a[0])) }
func costTwice(a []Value, _ Value) uint64     { return factor(PlainSize(a[0])*2, 0.1) }

// costSelector returns the cost of parsing a selector: its text, a list, and a requirement for each
// two characters.
func costSelector(a []Value, _ Value) uint64 {
	n := PlainSize(a[1])
	return CostList + Tenth(n) + factor(factor(n, 0.5), CostList+CostStruct)
}

// costValidate returns the cost of checking a named format.
func costValidate(a []Value, _ Value) uint64 {
	if a[0].K == KindOpaque {
		if f, ok := a[0].Opaque().(lib.NamedFormat); ok {
			return costPattern(PlainSize(a[1]), uint64(f.MaxRegexSize))
		}
	}
	return 1
}

// TableCosts has cel-go's own costs, by overload.
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

// costWalk and costOrder are the costs of reading a text once and of comparing two texts.
func costWalk(a []Value, _ Value) uint64  { return Tenth(SizeOf(a[0])) }
func costOrder(a []Value, _ Value) uint64 { return CostCompare(a[0], a[1]) }

// CallCost returns the cost function of a call. overload is "" if the types of the arguments left
// several overloads.
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

// CostStruct is the cost of constructing a message.
const CostStruct = 40
