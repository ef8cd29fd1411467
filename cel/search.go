package cel

import (
	"strings"
	"unicode/utf8"
)

// This file searches texts for texts, by code points. The time is linear in both,
// which upstream's is not: its prices of indexOf and lastIndexOf do not grow with
// what is searched.

// searchText is indexOf, or lastIndexOf if last is set, with an offset or without
// one. Empty parts, and offsets that are not within the text, are cel-go's business.
func searchText(last bool) builtin {
	return func(a []Value) (Value, bool) {
		if a[0].kind != KindString || a[1].kind != KindString || a[1].bits == 0 || len(a) > 2 && a[2].kind != KindInt {
			return Value{}, false
		}
		s, part := validText(a[0].text()), validText(a[1].text())
		if len(a) == 2 {
			if last && a[0].bits < a[1].bits {
				return intValue(-1), true
			}
			if last {
				return intValue(int64(lastIndex(s, part, len(s)))), true
			}
			return intValue(int64(index(s, part, 0))), true
		}
		from, ok := offsetIn(s, a[2].Int())
		if !ok {
			return Value{}, false
		}
		if last {
			return intValue(int64(lastIndex(s, part, from))), true
		}
		return intValue(int64(index(s, part, from))), true
	}
}

// validText is a text with a replacement character for each byte that is no part
// of one, which is what becomes of it as code points.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// offsetIn is where in a text its nth code point begins.
func offsetIn(s string, n int64) (at int, ok bool) {
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

// index is the number of code points before the first part of s that begins at an
// offset of bytes or later; -1 if there is none.
func index(s, part string, from int) int {
	at := strings.Index(s[from:], part)
	if at < 0 {
		return -1
	}
	return utf8.RuneCountInString(s[:from+at])
}

// lastIndex is the number of code points before the last part of s that begins at an
// offset of bytes or earlier; -1 if there is none.
func lastIndex(s, part string, from int) int {
	at := strings.LastIndex(s[:min(len(s), from+len(part))], part)
	if at < 0 {
		return -1
	}
	return utf8.RuneCountInString(s[:at])
}
