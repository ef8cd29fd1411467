package fast

import (
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file has functions of one text that depend on nothing else, and return their cost. They
// answer only if they are certain; everything else, including all errors, is left to the library's
// function. Functions that return such functions are not inlined, because the compiler does not
// inline into a function literal that it has moved.

type (
	// TextTest is a test of a text with that many code points. The answer is Bad if it does not
	// know.
	TextTest func(s string, runes uint64) (answer val.Tri, units uint64)
	// PairTest is a test of two texts. The answer is Bad if it does not know.
	PairTest func(s string, runes uint64, t string, size uint64) (answer val.Tri, units uint64)
	// TextPart returns a part of a text, without allocation.
	TextPart func(s string, runes uint64) (part string, size, units uint64, ok bool)
	// TextNumber returns an integer, or a duration in nanoseconds, that is computed from a text.
	TextNumber func(s string, runes uint64) (n int64, units uint64, ok bool)
)

// Around has constants before and after a text.
type Around struct{ Before, After string }

// Before returns a test of a text that applies test to the part p of it.
//
//go:noinline
func (p TextPart) Before(test TextTest) TextTest {
	if p == nil {
		return test
	}
	return func(s string, runes uint64) (val.Tri, uint64) {
		part, size, units, ok := p(s, runes)
		if !ok {
			return val.Bad, 0
		}
		answer, more := test(part, size)
		return answer, units + more
	}
}

// Then returns the part next of the part p.
//
//go:noinline
func (p TextPart) Then(next TextPart) TextPart {
	if p == nil {
		return next
	}
	return func(s string, runes uint64) (string, uint64, uint64, bool) {
		part, size, units, ok := p(s, runes)
		if !ok {
			return "", 0, 0, false
		}
		part, size, more, ok := next(part, size)
		return part, size, units + more, ok
	}
}

// BeforeBoth returns a test of two texts that applies test to their parts p and q. nil means the
// whole text.
//
//go:noinline
func BeforeBoth(p, q TextPart, test PairTest) PairTest {
	if p == nil && q == nil {
		return test
	}
	return func(s string, runes uint64, t string, size uint64) (val.Tri, uint64) {
		var more, most uint64
		ok, also := true, true
		if p != nil {
			s, runes, more, ok = p(s, runes)
		}
		if q != nil {
			t, size, most, also = q(t, size)
		}
		if !ok || !also {
			return val.Bad, 0
		}
		answer, units := test(s, runes, t, size)
		return answer, units + more + most
	}
}

// EqualTo returns the test == or != with a constant.
//
//go:noinline
func EqualTo(k *val.Value, negated bool) TextTest {
	want, size := k.Text(), uint64(k.Runes())
	return func(s string, runes uint64) (val.Tri, uint64) {
		return val.Truth((s == want) != negated), val.Tenth(min(runes, size))
	}
}

// EqualPair implements == for two texts.
func EqualPair(s string, runes uint64, t string, size uint64) (val.Tri, uint64) {
	return val.Truth(s == t), val.Tenth(min(runes, size))
}

// RelatedTo returns the comparison of a number that is computed from a text with a constant.
//
//go:noinline
func (number TextNumber) RelatedTo(k int64, rel Relation) TextTest {
	return func(s string, runes uint64) (val.Tri, uint64) {
		i, units, ok := number(s, runes)
		if !ok {
			return val.Bad, 0
		}
		return val.Truth(rel.Of(i, k)), units + 1
	}
}

// RelatedNumbers returns the comparison of two numbers that are computed from texts.
//
//go:noinline
func RelatedNumbers(a, b TextNumber, rel Relation) PairTest {
	return func(s string, runes uint64, t string, size uint64) (val.Tri, uint64) {
		i, units, ok := a(s, runes)
		j, more, also := b(t, size)
		if !ok || !also {
			return val.Bad, 0
		}
		return val.Truth(rel.Of(i, j)), units + more + 1
	}
}

// RunesOfText implements size().
func RunesOfText(_ string, runes uint64) (int64, uint64, bool) { return int64(runes), 1, true }

// WithPrefix implements startsWith(). price is the cost of the call.
//
//go:noinline
func WithPrefix(prefix string, price uint64) TextTest {
	return func(s string, _ uint64) (val.Tri, uint64) { return val.Truth(strings.HasPrefix(s, prefix)), price }
}

// WithSuffix implements endsWith(). price is the cost of the call.
//
//go:noinline
func WithSuffix(suffix string, price uint64) TextTest {
	return func(s string, _ uint64) (val.Tri, uint64) { return val.Truth(strings.HasSuffix(s, suffix)), price }
}

// WithInfix implements contains(). price is the cost for each 10 code points.
//
//go:noinline
func WithInfix(infix string, price uint64) TextTest {
	switch {
	case len(infix) == 1 && infix[0] < utf8.RuneSelf:
		return func(s string, runes uint64) (val.Tri, uint64) {
			return val.Truth(containsByte(s, infix)), val.Tenth(runes) * price
		}
	case len(infix) == 2:
		return func(s string, runes uint64) (val.Tri, uint64) {
			return val.Truth(containsPair(s, infix)), val.Tenth(runes) * price
		}
	}
	return func(s string, runes uint64) (val.Tri, uint64) {
		return val.Truth(strings.Contains(s, infix)), val.Tenth(runes) * price
	}
}

// Matching implements matches() with a constant pattern. price is the cost for each 10 code points.
//
//go:noinline
func Matching(p *val.Regexp, price uint64) TextTest {
	return func(s string, runes uint64) (val.Tri, uint64) {
		units := val.Tenth(runes+1) * price
		match, known := p.Match(s, units)
		if !known {
			return val.Bad, 0
		}
		return val.Truth(match), units
	}
}

// Found implements find() with a constant pattern.
//
//go:noinline
func Found(p *val.Regexp, price uint64) TextPart {
	return func(s string, runes uint64) (string, uint64, uint64, bool) {
		units := val.Tenth(runes+1) * price
		part, known := p.Find(s, units)
		return part, runesOf(part, s, runes), units, known
	}
}

// OneOf implements `in` with a constant list.
//
//go:noinline
func OneOf(set *ValueSet) TextTest {
	return func(s string, _ uint64) (val.Tri, uint64) { return val.Truth(set.hasText(s)), 0 }
}

// InCase implements lowerAscii() or upperAscii() for a text that they do not change: it has no
// letter in the range.
//
//go:noinline
func InCase(lo, hi byte) TextPart {
	return func(s string, runes uint64) (string, uint64, uint64, bool) {
		return s, runes, val.Tenth(runes), !hasByte(s, lo, hi)
	}
}

// EqualInCase returns the comparison of lowerAscii() or upperAscii() of a text with a constant.
//
//go:noinline
func EqualInCase(lo, hi byte, k *val.Value, negated bool) TextTest {
	want, size := k.Text(), uint64(k.Runes())
	return func(s string, runes uint64) (val.Tri, uint64) {
		return val.Truth(equalCase(s, want, lo, hi) != negated), val.Tenth(runes) + val.Tenth(min(runes, size))
	}
}

// SchemeOf implements url(text).getScheme().
func SchemeOf(s string, runes uint64) (string, uint64, uint64, bool) {
	name, ok := usualURL(s)
	if name != "https" {
		name = usualScheme(name)
	}
	return name, uint64(len(name)), val.Tenth(runes) + 1, ok && name != ""
}

// RestFrom implements substring() with a start, for ASCII texts.
//
//go:noinline
func RestFrom(from uint64) TextPart {
	return func(s string, runes uint64) (string, uint64, uint64, bool) {
		if runes != uint64(len(s)) || from > runes {
			return "", 0, 0, false
		}
		return s[from:], runes - from, val.Tenth(runes), true
	}
}

// ItemOfSplit returns item n of split(separator). units is the cost besides that of reading the
// text.
//
//go:noinline
func ItemOfSplit(separator string, n int, units uint64) TextPart {
	return func(s string, runes uint64) (string, uint64, uint64, bool) {
		part, ok := partOf(s, separator, n)
		return part, runesOf(part, s, runes), val.Tenth(runes*2) + units, ok
	}
}

// IsAddress implements isIP().
func IsAddress(s string, runes uint64) (val.Tri, uint64) {
	is, ok := isIP(s)
	if !ok {
		return val.Bad, 0
	}
	return val.Truth(is), val.Tenth(runes)
}

// IsAbsolute implements isURL().
func IsAbsolute(s string, _ uint64) (val.Tri, uint64) {
	scheme, ok := usualURL(s)
	if !ok {
		return val.Bad, 0
	}
	return val.Truth(scheme != ""), 1
}

// Fitting implements the validation of a named format. It answers yes for a text that certainly has
// the format, and otherwise does not know.
//
//go:noinline
func Fitting(fits func(string) bool, price uint64) TextTest {
	return func(s string, runes uint64) (val.Tri, uint64) {
		if !fits(s) {
			return val.Bad, 0
		}
		return val.Yes, 1 + val.Tenth(runes+1)*price
	}
}

// linearSet is the number of texts up to which they are compared one by one. This is fast, because
// texts of other lengths are not read.
const linearSet = 24

// ValueSet is a constant list for `in`.
type ValueSet struct {
	texts  []string // all texts, for comparing few of them one by one
	text   map[string]bool
	scalar map[val.ScalarKey]bool
}

// ConstSet returns the set of a constant list of scalars, nil if the list has other values. A
// number is in the set as each numeric type that can represent it.
func ConstSet(items []val.Value) *ValueSet {
	s := &ValueSet{text: map[string]bool{}, scalar: map[val.ScalarKey]bool{}}
	put := func(v val.Value) {
		if k, ok := val.KeyOf(v); ok {
			s.scalar[k] = true
		}
	}
	for _, v := range items {
		switch v.K {
		case val.KindString:
			s.text[v.Text()] = true
			s.texts = append(s.texts, v.Text())
			continue
		case val.KindBool:
		case val.KindInt:
			put(val.DoubleValue(float64(v.Int())))
			if v.Int() >= 0 {
				put(val.UintValue(v.Bits))
			}
		case val.KindUint:
			put(val.DoubleValue(float64(v.Bits)))
			if int64(v.Bits) >= 0 {
				put(val.IntValue(v.Int()))
			}
		case val.KindDouble:
			if i, ok := val.ExactInt(v.Float()); ok {
				put(val.IntValue(i))
			}
			if u, ok := val.ExactUint(v.Float()); ok {
				put(val.UintValue(u))
			}
		default:
			return nil
		}
		put(v)
	}
	return s
}

// Has reports whether a value is in the set.
func (s *ValueSet) Has(v val.Value) bool {
	if v.K == val.KindString {
		return s.hasText(v.Text())
	}
	k, ok := val.KeyOf(v)
	return ok && s.scalar[k]
}

// hasText is Has for a string.
func (s *ValueSet) hasText(text string) bool {
	if len(s.texts) > linearSet {
		return s.text[text]
	}
	for _, t := range s.texts {
		if t == text {
			return true
		}
	}
	return false
}

// PartValue returns a part of a text as a value. runes is the number of code points of the text.
func PartValue(part, of string, runes uint64) val.Value {
	v := val.TextValue(part)
	if uint64(len(of)) == runes {
		v.Flag = val.FlagASCII
	}
	return v
}

// runesOf returns the number of code points of a part of a text with that many code points.
func runesOf(part, of string, runes uint64) uint64 {
	if uint64(len(of)) == runes {
		return uint64(len(part))
	}
	return uint64(val.TextValue(part).Runes())
}

// partOf returns strings.Split(s, separator)[n], false if there are fewer parts.
func partOf(s, separator string, n int) (string, bool) {
	for ; ; n-- {
		at := strings.Index(s, separator)
		switch {
		case n == 0 && at >= 0:
			return s[:at], true
		case n == 0:
			return s, true
		case at < 0:
			return "", false
		}
		s = s[at+len(separator):]
	}
}

// put joins a text with its surroundings in memory of the frame. It returns false if the result is
// too long.
func (w *Around) put(fr *val.Frame, s string) (string, bool) {
	if len(w.Before)+len(s)+len(w.After) > MaxPassing {
		return "", false
	}
	fr.Text = append(append(append(fr.Text[:0], w.Before...), s...), w.After...)
	return unsafe.String(unsafe.SliceData(fr.Text), len(fr.Text)), true
}

// MaxPassing bounds the memory of a frame for texts, in bytes.
const MaxPassing = 1 << 12

// ASCIILower implements lowerAscii().
func ASCIILower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// ASCIIUpper implements upperAscii().
func ASCIIUpper(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, s)
}
