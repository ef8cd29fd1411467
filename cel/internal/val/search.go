package val

import (
	"strings"
	"unicode/utf8"
)

// This file searches texts for texts, by code points. The time is linear in both,
// which upstream's is not: its prices of indexOf and lastIndexOf do not grow with
// what is searched.

// SearchText is indexOf, or lastIndexOf if last is set, with an offset or without
// one. Empty parts, and offsets that are not within the text, are cel-go's business.
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

// ValidText is a text with a replacement character for each byte that is no part
// of one, which is what becomes of it as code points.
func ValidText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// OffsetIn is where in a text its nth code point begins.
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

// Index is the number of code points before the first part of s that begins at an
// offset of bytes or later; -1 if there is none.
func Index(s, part string, from int) int {
	at := strings.Index(s[from:], part)
	if at < 0 {
		return -1
	}
	return utf8.RuneCountInString(s[:from+at])
}

// LastIndex is the number of code points before the last part of s that begins at an
// offset of bytes or earlier; -1 if there is none.
func LastIndex(s, part string, from int) int {
	at := strings.LastIndex(s[:min(len(s), from+len(part))], part)
	if at < 0 {
		return -1
	}
	return utf8.RuneCountInString(s[:at])
}

// Builtin is a function of this package's own: arguments have no failures
// among them. Where it answers false, the bound implementation runs instead,
// which knows the exact error.
type Builtin func(args []Value) (Value, bool)
