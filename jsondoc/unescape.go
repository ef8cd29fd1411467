package jsondoc

import (
	"slices"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// This file reads strings that are not in the text as they mean: those with
// escapes or with bytes that are no UTF-8.

// wellFormed is the length of the UTF-8 sequence, beyond ASCII, that b starts
// with, 0 if it is malformed, and whether it prints as it is.
func wellFormed(b []byte) (n int, plain bool) {
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError && n <= 1 {
		return 0, false
	}
	return n, r != '\u2028' && r != '\u2029'
}

// escaped reads the string that began at start and appends what it means to
// the text. Everything before i stands for itself. Malformed UTF-8 and lone
// surrogates become U+FFFD.
func (s *Scanner) escaped(start, i int) (Node, error) {
	src, at := s.src, len(s.d.text)
	if len(src) > largeText && cap(s.d.text)-at < len(src)-start { // once, rather than little by little
		s.d.text = slices.Grow(s.d.text, len(src)-start)
	}
	out := append(s.d.text, src[start:i]...)
	for i < len(src) {
		switch c := src[i]; {
		case c == '"':
			s.d.text = out
			s.pos = i + 1
			text := out[at:]
			return stringNode(uint64(at), uint32(len(text)), scanString(text)), nil
		case c == '\\':
			r, n := unescape(src[i:])
			if n == 0 {
				return Node{}, s.fail()
			}
			out = utf8.AppendRune(out, r)
			i += n
		case c < ' ':
			return Node{}, s.fail()
		case c < utf8.RuneSelf:
			to := toSpecial(src, i+1)
			out = append(out, src[i:to]...)
			i = to
		default:
			r, n := utf8.DecodeRune(src[i:])
			out = utf8.AppendRune(out, r)
			i += n
		}
	}
	return Node{}, s.fail()
}

// skipString consumes a string without decoding it.
func (s *Scanner) skipString() error {
	src := s.src
	for i := toSpecial(src, s.pos+1); i < len(src); {
		switch c := src[i]; {
		case c == '"':
			s.pos = i + 1
			return nil
		case c == '\\':
			_, n := unescape(src[i:])
			if n == 0 {
				return s.fail()
			}
			i += n
		case c < ' ':
			return s.fail()
		default:
			i = toSpecial(src, i+1)
		}
	}
	return s.fail()
}

// unescape reads the escape sequence that b starts with, a pair of surrogates
// as one; n is 0 if it is none.
func unescape(b []byte) (r rune, n int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch b[1] {
	case '"', '\\', '/':
		return rune(b[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r := hex4(b)
		if r < 0 {
			return 0, 0
		}
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if pair := utf16.DecodeRune(r, hex4(b[6:])); pair != unicode.ReplacementChar {
			return pair, 12
		}
		return unicode.ReplacementChar, 6
	}
	return 0, 0
}

// hex4 is the code unit of the \u and four digits that b starts with, -1 if it
// starts otherwise.
func hex4(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
