package eval

import (
	"math"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file prices calls in languages that are no version of Kubernetes, where
// that differs: the newest library of texts, which Kubernetes does not have,
// has prices of its own.

// generalCosts are prices by overload, with one unit for each call.
var generalCosts = map[string]val.CostFn{
	"string_char_at_int":     func(a []val.Value, _ val.Value) uint64 { return 2 + val.Tenth(val.PlainSize(a[0])) },
	"string_index_of_string": costSearch, "string_index_of_string_int": costSearch,
	"string_last_index_of_string": costSearch, "string_last_index_of_string_int": costSearch,
	"string_lower_ascii": costTransform, "string_upper_ascii": costTransform, "string_trim": costTransform, "string_reverse": costTransform,
	"string_substring_int": costTransform, "string_substring_int_int": costTransform,
	"string_replace_string_string": costReplace, "string_replace_string_string_int": costReplace,
	"string_split_string": costSplit, "string_split_string_int": costSplit,
	"list_join": costJoin, "list_join_string": costJoin,
}

func costSearch(a []val.Value, _ val.Value) uint64 {
	return 1 + uint64(math.Ceil(float64(val.PlainSize(a[0])*val.PlainSize(a[1]))*0.1))
}
func costTransform(a []val.Value, r val.Value) uint64 {
	return 1 + val.Tenth(val.PlainSize(a[0])) + val.PlainSize(r)
}
func costReplace(a []val.Value, r val.Value) uint64 {
	return 1 + val.Tenth(max(1, val.PlainSize(a[0]))*max(1, val.PlainSize(a[1]))) + val.PlainSize(r)
}
func costSplit(a []val.Value, r val.Value) uint64 {
	return 1 + val.Tenth(val.PlainSize(a[0])+1) + val.PlainSize(r) + val.CostList
}
func costJoin(a []val.Value, r val.Value) uint64 {
	return 1 + val.Tenth(val.PlainSize(a[0])+1) + val.PlainSize(r)
}

// CallCost is the price of a call in the language of the expression.
func (c *compiler) callCost(function, overload string) val.CostFn {
	if c.general() {
		if fn, ok := generalCosts[overload]; ok {
			return fn
		}
	}
	return val.CallCost(function, overload)
}
