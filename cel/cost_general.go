package cel

import "math"

// This file prices calls in languages that are no version of Kubernetes, where
// that differs: the newest library of texts, which Kubernetes does not have,
// has prices of its own.

// generalCosts are prices by overload, with one unit for each call.
var generalCosts = map[string]costFn{
	"string_char_at_int":     func(a []Value, _ Value) uint64 { return 2 + tenth(plainSize(a[0])) },
	"string_index_of_string": costSearch, "string_index_of_string_int": costSearch,
	"string_last_index_of_string": costSearch, "string_last_index_of_string_int": costSearch,
	"string_lower_ascii": costTransform, "string_upper_ascii": costTransform, "string_trim": costTransform, "string_reverse": costTransform,
	"string_substring_int": costTransform, "string_substring_int_int": costTransform,
	"string_replace_string_string": costReplace, "string_replace_string_string_int": costReplace,
	"string_split_string": costSplit, "string_split_string_int": costSplit,
	"list_join": costJoin, "list_join_string": costJoin,
}

func costSearch(a []Value, _ Value) uint64 {
	return 1 + uint64(math.Ceil(float64(plainSize(a[0])*plainSize(a[1]))*0.1))
}
func costTransform(a []Value, r Value) uint64 { return 1 + tenth(plainSize(a[0])) + plainSize(r) }
func costReplace(a []Value, r Value) uint64 {
	return 1 + tenth(max(1, plainSize(a[0]))*max(1, plainSize(a[1]))) + plainSize(r)
}
func costSplit(a []Value, r Value) uint64 {
	return 1 + tenth(plainSize(a[0])+1) + plainSize(r) + costList
}
func costJoin(a []Value, r Value) uint64 { return 1 + tenth(plainSize(a[0])+1) + plainSize(r) }

// callCost is the price of a call in the language of the expression.
func (c *compiler) callCost(function, overload string) costFn {
	if c.general() {
		if fn, ok := generalCosts[overload]; ok {
			return fn
		}
	}
	return callCost(function, overload)
}
