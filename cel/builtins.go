package cel

import (
	"strconv"
	"strings"
)

// This file holds functions that need no way through cel-go's representation,
// by overload.

var builtins = map[string]builtin{
	"contains_string":  onTexts(func(s, t string) Value { return boolValue(strings.Contains(s, t)) }),
	"type":             func(a []Value) (Value, bool) { return typeValue(a[0].typeOf()), true },
	"to_dyn":           func(a []Value) (Value, bool) { return a[0], true },
	"string_to_string": same(KindString),
	"int64_to_int64":   same(KindInt),
	"int64_to_string":  intToString,
	"bool_to_string": func(a []Value) (Value, bool) {
		return stringValue(strconv.FormatBool(a[0].bits != 0)), a[0].kind == KindBool
	},
	"string_to_int64":        stringToInt,
	"int64_to_double":        func(a []Value) (Value, bool) { return doubleValue(float64(a[0].Int())), a[0].kind == KindInt },
	"negate_int64":           func(a []Value) (Value, bool) { return negate(a[0]), true },
	"negate_double":          func(a []Value) (Value, bool) { return negate(a[0]), true },
	"optional_of":            func(a []Value) (Value, bool) { return optionalOf(a[0]), true },
	"optional_none":          func([]Value) (Value, bool) { return optionalNone, true },
	"optional_value":         optionalValue,
	"string_split_string":    onTexts(func(s, sep string) Value { return stringList(strings.Split(s, sep)) }),
	"string_index_of_string": searchText(false), "string_index_of_string_int": searchText(false),
	"string_last_index_of_string": searchText(true), "string_last_index_of_string_int": searchText(true),
	"string_lower_ascii": onText(asciiLower),
	"string_upper_ascii": onText(asciiUpper),
	"string_trim":        onText(strings.TrimSpace),
	"string_substring_int": func(a []Value) (Value, bool) {
		return substring(a[0], a[1], intValue(int64(a[0].bits)))
	},
	"string_substring_int_int": func(a []Value) (Value, bool) { return substring(a[0], a[1], a[2]) },
	"list_join":                func(a []Value) (Value, bool) { return joinTexts(a[0], "") },
	"list_join_string": func(a []Value) (Value, bool) {
		if a[1].kind != KindString {
			return Value{}, false
		}
		return joinTexts(a[0], a[1].text())
	},
	"@mapInsert_map_key_value": mapInsert,
	"@mapInsert_map_map":       mapInsertAll,
}

// same is the conversion of a kind to itself. The checker may have taken a value
// of any type for one of that kind.
func same(kind Kind) builtin {
	return func(a []Value) (Value, bool) { return a[0], a[0].kind == kind }
}

func onTexts(fn func(s, t string) Value) builtin {
	return func(a []Value) (Value, bool) {
		if a[0].kind != KindString || a[1].kind != KindString {
			return Value{}, false
		}
		return fn(a[0].text(), a[1].text()), true
	}
}

func onText(fn func(string) string) builtin {
	return func(a []Value) (Value, bool) {
		if a[0].kind != KindString {
			return Value{}, false
		}
		v := stringValue(fn(a[0].text()))
		v.flag = a[0].flag
		return v, true
	}
}

func intToString(a []Value) (Value, bool) {
	if a[0].kind != KindInt {
		return Value{}, false
	}
	v := stringValue(strconv.FormatInt(a[0].Int(), 10))
	v.flag = flagASCII
	return v, true
}

func stringToInt(a []Value) (Value, bool) {
	if a[0].kind != KindString {
		return Value{}, false
	}
	i, err := strconv.ParseInt(a[0].text(), 10, 64)
	return intValue(i), err == nil
}

func optionalValue(a []Value) (Value, bool) {
	switch {
	case a[0].kind != KindOptional:
		return Value{}, false
	case a[0].ptr == nil:
		return errorValue(errDereference), true
	}
	return *a[0].optional(), true
}

// substring is the bytes between two places of a text of ASCII.
func substring(s, from, to Value) (Value, bool) {
	if s.kind != KindString || s.flag != flagASCII || from.kind != KindInt || to.kind != KindInt {
		return Value{}, false
	}
	i, j := from.Int(), to.Int()
	if i < 0 || i > j || j > int64(s.bits) {
		return Value{}, false
	}
	return constASCII(s.text()[i:j]), true
}

func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

func asciiUpper(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, s)
}

// joinTexts joins a list of texts; a list with anything else is left to
// cel-go's implementation, which knows the error.
func joinTexts(list Value, sep string) (Value, bool) {
	if list.kind != KindList {
		return Value{}, false
	}
	var b strings.Builder
	for i, n := 0, list.size(); i < n; i++ {
		item := list.item(i)
		if item.kind != KindString {
			return Value{}, false
		}
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(item.text())
	}
	return stringValue(b.String()), true
}

// mapInsert adds an entry to a map that is being collected.
func mapInsert(a []Value) (Value, bool) {
	m := a[0]
	if m.kind != KindMap || m.flag != flagOwn {
		return Value{}, false
	}
	if bad := unhashable(a[1]); bad.failed() {
		return bad, true
	}
	box := m.heapMap()
	if _, found := box.find(a[1]); found {
		return errorf("insert failed: key %v already exists", a[1].ref()), true
	}
	box.put(a[1], a[2])
	return m, true
}

// mapInsertAll adds the entries of a map to one that is being collected.
func mapInsertAll(a []Value) (Value, bool) {
	sum, more := a[0], a[1]
	if sum.kind != KindMap || sum.flag != flagOwn || more.kind != KindMap {
		return Value{}, false
	}
	eachEntry(more, func(k, v Value) bool {
		sum, _ = mapInsert([]Value{sum, k, v})
		return !sum.failed()
	})
	return sum, true
}
