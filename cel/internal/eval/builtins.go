package eval

import (
	"strconv"
	"strings"

	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file has the functions, by overload, that are implemented without cel-go's representation.

var builtins = map[string]val.Builtin{
	"contains_string":  onTexts(func(s, t string) val.Value { return val.BoolValue(strings.Contains(s, t)) }),
	"type":             func(a []val.Value) (val.Value, bool) { return val.TypeValue(a[0].TypeOf()), true },
	"to_dyn":           func(a []val.Value) (val.Value, bool) { return a[0], true },
	"string_to_string": same(val.KindString),
	"int64_to_int64":   same(val.KindInt),
	"int64_to_string":  intToString,
	"bool_to_string": func(a []val.Value) (val.Value, bool) {
		return val.TextValue(strconv.FormatBool(a[0].Bits != 0)), a[0].K == val.KindBool
	},
	"string_to_int64": stringToInt,
	"int64_to_double": func(a []val.Value) (val.Value, bool) {
		return val.DoubleValue(float64(a[0].Int())), a[0].K == val.KindInt
	},
	"negate_int64":           func(a []val.Value) (val.Value, bool) { return val.Negate(a[0]), true },
	"negate_double":          func(a []val.Value) (val.Value, bool) { return val.Negate(a[0]), true },
	"optional_of":            func(a []val.Value) (val.Value, bool) { return val.OptionalOf(a[0]), true },
	"optional_none":          func([]val.Value) (val.Value, bool) { return val.OptionalNone, true },
	"optional_value":         optionalValue,
	"string_split_string":    onTexts(func(s, sep string) val.Value { return stringList(strings.Split(s, sep)) }),
	"string_index_of_string": val.SearchText(false), "string_index_of_string_int": val.SearchText(false),
	"string_last_index_of_string": val.SearchText(true), "string_last_index_of_string_int": val.SearchText(true),
	"string_lower_ascii": onText(fast.ASCIILower),
	"string_upper_ascii": onText(fast.ASCIIUpper),
	"string_trim":        onText(strings.TrimSpace),
	"string_substring_int": func(a []val.Value) (val.Value, bool) {
		return substring(a[0], a[1], val.IntValue(int64(a[0].Bits)))
	},
	"string_substring_int_int": func(a []val.Value) (val.Value, bool) { return substring(a[0], a[1], a[2]) },
	"list_join":                func(a []val.Value) (val.Value, bool) { return joinTexts(a[0], "") },
	"list_join_string": func(a []val.Value) (val.Value, bool) {
		if a[1].K != val.KindString {
			return val.Value{}, false
		}
		return joinTexts(a[0], a[1].Text())
	},
	"@mapInsert_map_key_value": mapInsert,
	"@mapInsert_map_map":       mapInsertAll,
}

// same returns the conversion of a kind to itself. It returns false for other kinds, because the
// type of a dyn value is known only at run time.
func same(kind val.Kind) val.Builtin {
	return func(a []val.Value) (val.Value, bool) { return a[0], a[0].K == kind }
}

// onTexts returns the implementation of a function of two strings.
func onTexts(fn func(s, t string) val.Value) val.Builtin {
	return func(a []val.Value) (val.Value, bool) {
		if a[0].K != val.KindString || a[1].K != val.KindString {
			return val.Value{}, false
		}
		return fn(a[0].Text(), a[1].Text()), true
	}
}

// onText returns the implementation of a function from string to string that keeps ASCII strings
// ASCII.
func onText(fn func(string) string) val.Builtin {
	return func(a []val.Value) (val.Value, bool) {
		if a[0].K != val.KindString {
			return val.Value{}, false
		}
		v := val.TextValue(fn(a[0].Text()))
		v.Flag = a[0].Flag
		return v, true
	}
}

// intToString implements string(int).
func intToString(a []val.Value) (val.Value, bool) {
	if a[0].K != val.KindInt {
		return val.Value{}, false
	}
	v := val.TextValue(strconv.FormatInt(a[0].Int(), 10))
	v.Flag = val.FlagASCII
	return v, true
}

// stringToInt implements int(string). It returns false for a malformed string, whose error cel-go
// has.
func stringToInt(a []val.Value) (val.Value, bool) {
	if a[0].K != val.KindString {
		return val.Value{}, false
	}
	i, err := strconv.ParseInt(a[0].Text(), 10, 64)
	return val.IntValue(i), err == nil
}

// optionalValue implements value() of an optional.
func optionalValue(a []val.Value) (val.Value, bool) {
	switch {
	case a[0].K != val.KindOptional:
		return val.Value{}, false
	case a[0].Ptr == nil:
		return val.ErrorValue(val.CodeDereference), true
	}
	return *a[0].Optional(), true
}

// substring implements substring() for ASCII strings. It returns false for other strings, and for
// offsets out of range.
func substring(s, from, to val.Value) (val.Value, bool) {
	if s.K != val.KindString || s.Flag != val.FlagASCII || from.K != val.KindInt || to.K != val.KindInt {
		return val.Value{}, false
	}
	i, j := from.Int(), to.Int()
	if i < 0 || i > j || j > int64(s.Bits) {
		return val.Value{}, false
	}
	return constASCII(s.Text()[i:j]), true
}

// joinTexts implements join() for a list of strings. It returns false for other lists, whose error
// cel-go has.
func joinTexts(list val.Value, sep string) (val.Value, bool) {
	if list.K != val.KindList {
		return val.Value{}, false
	}
	var b strings.Builder
	for i, n := 0, list.Size(); i < n; i++ {
		item := list.Item(i)
		if item.K != val.KindString {
			return val.Value{}, false
		}
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(item.Text())
	}
	return val.TextValue(b.String()), true
}

// mapInsert adds an entry to the accumulator of transformMap().
func mapInsert(a []val.Value) (val.Value, bool) {
	m := a[0]
	if m.K != val.KindMap || m.Flag != val.FlagOwn {
		return val.Value{}, false
	}
	if bad := val.Unhashable(a[1]); bad.Failed() {
		return bad, true
	}
	box := m.HeapMap()
	if _, found := box.Find(a[1]); found {
		return val.Errorf("insert failed: key %v already exists", a[1].Ref()), true
	}
	box.Put(a[1], a[2])
	return m, true
}

// mapInsertAll adds the entries of a map to the accumulator of transformMapEntry().
func mapInsertAll(a []val.Value) (val.Value, bool) {
	sum, more := a[0], a[1]
	if sum.K != val.KindMap || sum.Flag != val.FlagOwn || more.K != val.KindMap {
		return val.Value{}, false
	}
	val.EachEntry(more, func(k, v val.Value) bool {
		sum, _ = mapInsert([]val.Value{sum, k, v})
		return !sum.Failed()
	})
	return sum, true
}

// stringList returns a list of strings.
func stringList(texts []string) val.Value {
	items := make([]val.Value, len(texts))
	for i, s := range texts {
		items[i] = val.TextValue(s)
	}
	return val.ListValue(items)
}

// constASCII returns a string that is known to be ASCII.
func constASCII(s string) val.Value {
	v := val.TextValue(s)
	v.Flag = val.FlagASCII
	return v
}
