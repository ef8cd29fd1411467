package eval

import (
	"math"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file has the costs of calls in languages other than Kubernetes', where they differ: the
// newest version of the strings library, which Kubernetes does not have, has its own costs.

// generalCosts has costs by overload, including one unit for the call.
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

// costSearch is the cost of indexOf() and lastIndexOf().
func costSearch(a []val.Value, _ val.Value) uint64 {
	return 1 + uint64(math.Ceil(float64(val.PlainSize(a[0])*val.PlainSize(a[1]))*0.1))
}

// costTransform is the cost of functions that return a changed string.
func costTransform(a []val.Value, r val.Value) uint64 {
	return 1 + val.Tenth(val.PlainSize(a[0])) + val.PlainSize(r)
}

// costReplace is the cost of replace().
func costReplace(a []val.Value, r val.Value) uint64 {
	return 1 + val.Tenth(max(1, val.PlainSize(a[0]))*max(1, val.PlainSize(a[1]))) + val.PlainSize(r)
}

// costSplit is the cost of split().
func costSplit(a []val.Value, r val.Value) uint64 {
	return 1 + val.Tenth(val.PlainSize(a[0])+1) + val.PlainSize(r) + val.CostList
}

// costJoin is the cost of join().
func costJoin(a []val.Value, r val.Value) uint64 {
	return 1 + val.Tenth(val.PlainSize(a[0])+1) + val.PlainSize(r)
}

// callCost returns the cost function of a call in the language of the expression.
func (c *compiler) callCost(function, overload string) val.CostFn {
	if c.general() {
		if fn, ok := generalCosts[overload]; ok {
			return fn
		}
	}
	return val.CallCost(function, overload)
}
