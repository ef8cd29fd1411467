package val

import (
	"strings"
	"unicode/utf8"
)

// This file searches texts in texts, counting code points. Its time is linear in both. Upstream's
// is not, and the costs of indexOf and lastIndexOf do not depend on the length of the text.

// SearchText returns indexOf, or lastIndexOf if last is set, with an optional offset. It leaves
// empty parts, and offsets outside of the text, to cel-go.
func SearchText(last bool) Builtin {
	return func(a []Value) (Value, bool) {
		if a[0].K != KindString || a[1].K != KindString || a[1].Bits == 0 || len(a) > 2 && a[2].K != KindInt {
			return Value{}, false
		}
		s, part := ValidText(a[0].Text()), ValidText(a[1].Text())
		if len(a) == 2 {
			if last && a[0].Bits < a[1].Bits {
				return IntValue(-1), true
			}
			if last {
				return IntValue(int64(LastIndex(s, part, len(s)))), true
			}
			return IntValue(int64(Index(s, part, 0))), true
		}
		from, ok := OffsetIn(s, a[2].Int())
		if !ok {
			return Value{}, false
		}
		if last {
			return IntValue(int64(LastIndex(s, part, from))), true
		}
		return IntValue(int64(Index(s, part, from))), true
	}
}

// ValidText returns a text with a replacement character for each invalid byte, as its conversion to
// code points does.
func ValidText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// OffsetIn returns the byte offset of the nth code point.
func OffsetIn(s string, n int64) (at int, ok bool) {
	if n < 0 || n >= int64(len(s)) {
		return 0, false
	}
	for at = range s {
		if n == 0 {
			return at, true
		}
		n--
	}
	return 0, false
}

// Index returns the number of code points before the first occurrence of part at byte offset from
// or later, -1 if there is none.
func Index(s, part string, from int) int {
	at := strings.Index(s[from:], part)
	if at < 0 {
		return -1
	}
	return utf8.RuneCountInString(s[:from+at])
}

// LastIndex returns the number of code points before the last occurrence of part at byte offset
// from or earlier, -1 if there is none.
func LastIndex(s, part string, from int) int {
	at := strings.LastIndex(s[:min(len(s), from+len(part))], part)
	if at < 0 {
		return -1
	}
	return utf8.RuneCountInString(s[:at])
}

// Builtin is a function that this package implements. Its arguments are not failures. If it returns
// false, the bound implementation is called, which has the exact error.
type Builtin func(args []Value) (Value, bool)
