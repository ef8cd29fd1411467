package cel

import (
	"strings"
	"unicode/utf8"
)

// This file defines functions of one text, which is what most rules about texts
// are made of. Each is written once: as a function that looks at nothing but the
// text and says what it costs. So it runs in a frame as well as in a diagram, and
// what one makes of a text is what the next one looks at. They know only what they
// are certain of: everything else, errors first of all, is left to the library's
// function. What makes such a function is not inlined, since the compiler inlines
// nothing into a function literal that it has moved.

type (
	// textTest is a test of a text of so many code points; bad if it does not know.
	textTest func(s string, runes uint64) (answer tri, units uint64)
	// pairTest is a test of two texts; bad if it does not know.
	pairTest func(s string, runes uint64, t string, size uint64) (answer tri, units uint64)
	// textPart is a text that is made of a text without memory.
	textPart func(s string, runes uint64) (part string, size, units uint64, ok bool)
	// textNumber is an integer, or a duration in nanoseconds, that is made of a text.
	textNumber func(s string, runes uint64) (n int64, units uint64, ok bool)
)

// origin says which text a node is computed of, and how: by part, by number, or by
// constants around it.
type origin struct {
	source *code
	part   textPart
	number textNumber
	around around
}

// around is what is put before and after a text.
type around struct{ before, after string }

// before is a test of what is made of a text, as a test of the text.
//
//go:noinline
func (p textPart) before(test textTest) textTest {
	if p == nil {
		return test
	}
	return func(s string, runes uint64) (tri, uint64) {
		part, size, units, ok := p(s, runes)
		if !ok {
			return bad, 0
		}
		answer, more := test(part, size)
		return answer, units + more
	}
}

// then is a part of a part.
//
//go:noinline
func (p textPart) then(next textPart) textPart {
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

// beforeBoth is a test of what is made of two texts, as a test of the texts.
//
//go:noinline
func beforeBoth(p, q textPart, test pairTest) pairTest {
	if p == nil && q == nil {
		return test
	}
	return func(s string, runes uint64, t string, size uint64) (tri, uint64) {
		var more, most uint64
		ok, also := true, true
		if p != nil {
			s, runes, more, ok = p(s, runes)
		}
		if q != nil {
			t, size, most, also = q(t, size)
		}
		if !ok || !also {
			return bad, 0
		}
		answer, units := test(s, runes, t, size)
		return answer, units + more + most
	}
}

// textTestOf is the node of a test of the text that arg is, which takes the general
// way where the test does not know.
func (c *compiler) textTestOf(arg *code, test textTest, general testFn) *code {
	return testCode(ofText(arg, textOf(arg), test, general)).asking(c.askOf(arg, test))
}

// ofText is a test of the text that arg is, in a frame.
//
//go:noinline
func ofText(arg *code, source textFn, test textTest, general testFn) testFn {
	if d, ok := directOf(arg); ok && arg.str == nil && d.want == KindString {
		return func(fr *frame) tri {
			if s, runes, ok := d.text(fr); ok {
				answer, units := test(s, runes)
				if cost := fr.cost + d.units + units; answer != bad && cost <= fr.limit {
					fr.cost = cost
					return answer
				}
			}
			return general(fr)
		}
	}
	if source == nil {
		return general
	}
	return func(fr *frame) tri {
		cost := fr.cost
		if s, runes, ok := source(fr); ok {
			answer, units := test(s, runes)
			if fr.cost += units; answer != bad && fr.cost <= fr.limit {
				return answer
			}
		}
		fr.cost = cost
		return general(fr)
	}
}

// textPartOf is the node of a text that is made of the text that arg is; nil if
// that is not read without a Value.
func textPartOf(arg *code, part textPart, general evalFn) *code {
	source := textOf(arg)
	if source == nil {
		return nil
	}
	out := withText(partOfText(source, part), general)
	out.made = &origin{source: arg, part: part}
	return out
}

// partOfText is a text that is made of a text, in a frame.
//
//go:noinline
func partOfText(source textFn, part textPart) textFn {
	return func(fr *frame) (string, uint64, bool) {
		s, runes, ok := source(fr)
		if !ok {
			return "", 0, false
		}
		s, runes, units, ok := part(s, runes)
		fr.cost += units
		return s, runes, ok
	}
}

// textNumberOf is the node of an integer or a duration that is made of the text that
// arg is; nil if that is not read without a Value.
func textNumberOf(kind Kind, arg *code, number textNumber, general evalFn) *code {
	source := textOf(arg)
	if source == nil {
		return nil
	}
	out := withNum(kind, numberOfText(source, number), general)
	out.made = &origin{source: arg, number: number}
	return out
}

// numberOfText is a number that is made of a text, in a frame.
//
//go:noinline
func numberOfText(source textFn, number textNumber) numFn {
	return func(fr *frame) (int64, bool) {
		cost := fr.cost
		if s, runes, ok := source(fr); ok {
			if i, units, ok := number(s, runes); ok {
				fr.cost += units
				return i, true
			}
		}
		fr.cost = cost
		return 0, false
	}
}

// equalTo is == or != of a text and a constant.
//
//go:noinline
func equalTo(k *Value, negated bool) textTest {
	want, size := k.text(), uint64(k.runes())
	return func(s string, runes uint64) (tri, uint64) {
		return truth((s == want) != negated), tenth(min(runes, size))
	}
}

// equalPair is == of two texts.
func equalPair(s string, runes uint64, t string, size uint64) (tri, uint64) {
	return truth(s == t), tenth(min(runes, size))
}

// relatedTo is a comparison of a number that is made of a text with a constant.
//
//go:noinline
func (number textNumber) relatedTo(k int64, rel relation) textTest {
	return func(s string, runes uint64) (tri, uint64) {
		i, units, ok := number(s, runes)
		if !ok {
			return bad, 0
		}
		return truth(rel.of(i, k)), units + 1
	}
}

// relatedNumbers is a comparison of two numbers that are made of texts.
//
//go:noinline
func relatedNumbers(a, b textNumber, rel relation) pairTest {
	return func(s string, runes uint64, t string, size uint64) (tri, uint64) {
		i, units, ok := a(s, runes)
		j, more, also := b(t, size)
		if !ok || !also {
			return bad, 0
		}
		return truth(rel.of(i, j)), units + more + 1
	}
}

// runesOfText is size().
func runesOfText(_ string, runes uint64) (int64, uint64, bool) { return int64(runes), 1, true }

// withPrefix is startsWith().
//
//go:noinline
func withPrefix(prefix string, price uint64) textTest {
	return func(s string, _ uint64) (tri, uint64) { return truth(strings.HasPrefix(s, prefix)), price }
}

// withSuffix is endsWith().
//
//go:noinline
func withSuffix(suffix string, price uint64) textTest {
	return func(s string, _ uint64) (tri, uint64) { return truth(strings.HasSuffix(s, suffix)), price }
}

// withInfix is contains().
//
//go:noinline
func withInfix(infix string, price uint64) textTest {
	switch {
	case len(infix) == 1 && infix[0] < utf8.RuneSelf:
		return func(s string, runes uint64) (tri, uint64) { return truth(containsByte(s, infix)), tenth(runes) * price }
	case len(infix) == 2:
		return func(s string, runes uint64) (tri, uint64) { return truth(containsPair(s, infix)), tenth(runes) * price }
	}
	return func(s string, runes uint64) (tri, uint64) {
		return truth(strings.Contains(s, infix)), tenth(runes) * price
	}
}

// matching is matches() of a constant pattern.
//
//go:noinline
func matching(p *pattern, price uint64) textTest {
	return func(s string, runes uint64) (tri, uint64) {
		units := tenth(runes+1) * price
		match, known := p.match(s, units)
		if !known {
			return bad, 0
		}
		return truth(match), units
	}
}

// found is find() of a constant pattern.
//
//go:noinline
func found(p *pattern, price uint64) textPart {
	return func(s string, runes uint64) (string, uint64, uint64, bool) {
		units := tenth(runes+1) * price
		part, known := p.find(s, units)
		return part, runesOf(part, s, runes), units, known
	}
}

// oneOf is `in` of a constant list.
//
//go:noinline
func oneOf(set *valueSet) textTest {
	return func(s string, _ uint64) (tri, uint64) { return truth(set.hasText(s)), 0 }
}

// inCase is lowerAscii() or upperAscii() of a text that has no letter to change:
// none of a range of bytes.
//
//go:noinline
func inCase(lo, hi byte) textPart {
	return func(s string, runes uint64) (string, uint64, uint64, bool) {
		return s, runes, tenth(runes), !hasByte(s, lo, hi)
	}
}

// equalInCase is == or != of lowerAscii() or upperAscii() of a text and a constant.
//
//go:noinline
func equalInCase(lo, hi byte, k *Value, negated bool) textTest {
	want, size := k.text(), uint64(k.runes())
	return func(s string, runes uint64) (tri, uint64) {
		return truth(equalCase(s, want, lo, hi) != negated), tenth(runes) + tenth(min(runes, size))
	}
}

// schemeOf is url(text).getScheme().
func schemeOf(s string, runes uint64) (string, uint64, uint64, bool) {
	name, ok := usualURL(s)
	if name != "https" {
		name = usualScheme(name)
	}
	return name, uint64(len(name)), tenth(runes) + 1, ok && name != ""
}

// restFrom is substring() from a position in a text that is ASCII.
//
//go:noinline
func restFrom(from uint64) textPart {
	return func(s string, runes uint64) (string, uint64, uint64, bool) {
		if runes != uint64(len(s)) || from > runes {
			return "", 0, 0, false
		}
		return s[from:], runes - from, tenth(runes), true
	}
}

// itemOfSplit is part n of a text between separators, without the price of the index.
//
//go:noinline
func itemOfSplit(separator string, n int, units uint64) textPart {
	return func(s string, runes uint64) (string, uint64, uint64, bool) {
		part, ok := partOf(s, separator, n)
		return part, runesOf(part, s, runes), tenth(runes*2) + units, ok
	}
}

// isAddress is isIP().
func isAddress(s string, runes uint64) (tri, uint64) {
	is, ok := isIP(s)
	if !ok {
		return bad, 0
	}
	return truth(is), tenth(runes)
}

// isAbsolute is isURL().
func isAbsolute(s string, _ uint64) (tri, uint64) {
	scheme, ok := usualURL(s)
	if !ok {
		return bad, 0
	}
	return truth(scheme != ""), 1
}

// fitting says yes of a text that certainly has a format, for which nothing is
// complained about.
//
//go:noinline
func fitting(fits func(string) bool, price uint64) textTest {
	return func(s string, runes uint64) (tri, uint64) {
		if !fits(s) {
			return bad, 0
		}
		return yes, 1 + tenth(runes+1)*price
	}
}
