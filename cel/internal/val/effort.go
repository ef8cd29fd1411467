package val

import (
	"math"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/keelson-io/keelson/cel/internal/lib"
	"github.com/keelson-io/keelson/internal/dfa"
	"github.com/keelson-io/keelson/internal/quantity"
)

// This file bounds the work that cost units do not cover. Some functions cost one unit for a text
// of any length. The cost of a regular expression depends on the length of the pattern, not on the
// size of its automaton.

const (
	// paidSteps is the number of steps, each of a few nanoseconds, that one cost unit covers.
	paidSteps = 512
	// stepsPerItem is the number of steps that count as one copied item in Frame.Work.
	stepsPerItem = 16
	// stepsPerMatch is the number of steps for each of many matches.
	stepsPerMatch = 1024
	// stepsPerJoined is the number of steps for each byte of a text that is stored.
	stepsPerJoined = 4
	// stepsPerPrinted is the number of steps for printing a value of any length.
	stepsPerPrinted = 32
	// stepsPerQuoted is the number of steps for printing a byte of a string within a list or map,
	// where it is quoted.
	stepsPerQuoted = 4
	// maxDynamicPattern is the greatest length in bytes of a pattern that is compiled at run time.
	maxDynamicPattern = 1 << 14
	// MaxUsual is the greatest length in bytes of a text whose reading one unit covers.
	MaxUsual = 1 << 12
	// maxPattern is the greatest size of the automaton of one pattern, in instructions.
	maxPattern = 250_000
)

// MayTake counts the steps of a call that costs price units. It returns false if the evaluation has
// taken too many.
func (fr *Frame) MayTake(steps, price uint64) bool {
	if paid := price * paidSteps; steps > paid && price < math.MaxUint64/paidSteps {
		fr.Work += int(min((steps-paid)/stepsPerItem, MaxWork+1))
	}
	return fr.Work <= MaxWork
}

// MayJoin counts the work of adding two strings whose types the checker did not know, which costs
// one unit for any length. It returns false if that is too much.
func (fr *Frame) MayJoin(a, b Value) bool {
	if a.K != b.K || a.K != KindString && a.K != KindBytes {
		return true
	}
	n := a.Bits + b.Bits
	return n <= MaxText && fr.MayTake(stepsPerJoined*n, 1)
}

// Runes returns the number of code points of a text that may have characters beyond ASCII.
func (fr *Frame) Runes(s string) uint64 {
	if len(s) > MaxUsual && !fr.MayTake(uint64(len(s)), 0) {
		fr.Exhausted()
	}
	return uint64(TextValue(s).Runes())
}

// Efforts has, by function, the number of steps of a call.
var Efforts = map[string]func(args []Value) uint64{
	"charAt": readsText, "indexOf": readsTexts, "lastIndexOf": readsTexts, "isURL": readsText,
	"duration": readsText, "timestamp": readsText, "int": readsText, "uint": readsText, "double": readsText, "bool": readsText,
	"getQuery": readsURL, "getEscapedPath": readsURL, "getHost": readsURL, "getHostname": readsURL, "getPort": readsURL,
	"compareTo": readsVersion, "isGreaterThan": readsVersion, "isLessThan": readsVersion,
	"format.named": readsText, "replace": writesText, "getDate": readsZone, "getDayOfMonth": readsZone, "getDayOfWeek": readsZone, "getDayOfYear": readsZone, "getFullYear": readsZone,
	"getHours": readsZone, "getMilliseconds": readsZone, "getMinutes": readsZone, "getMonth": readsZone, "getSeconds": readsZone,
	"matches": runsPattern, "find": runsPattern, "findAll": runsPatternOften, "format": printsValues, "bytes": copiesText,
}

// printsValues returns the steps for printing values. A map prints its entries separately and
// copies their text.
func printsValues(a []Value) uint64 {
	if len(a) < 2 {
		return 0
	}
	left := MaxText
	if a[1].K != KindList {
		return printSteps(a[1], 1, &left)
	}
	steps := uint64(0)
	for i, n := 0, a[1].Size(); i < n && left >= 0; i++ {
		item := a[1].Item(i)
		more := stepsPerPrinted + item.Bits
		if item.K == KindString || item.K == KindBytes {
			left -= int(min(item.Bits, MaxText))
		} else {
			more = printSteps(item, 1, &left)
		}
		steps += min(more, math.MaxUint64-steps)
	}
	if left < 0 {
		return math.MaxUint64
	}
	return steps
}

// printSteps returns the steps for printing a value whose text is copied that often. It ends when
// more than left bytes would be printed.
func printSteps(v Value, copies uint64, left *int) uint64 {
	if *left--; *left < 0 {
		return math.MaxUint64
	}
	steps := stepsPerPrinted + copies*4
	add := func(more uint64) { steps += min(more, math.MaxUint64-steps) }
	switch v.K {
	case KindString, KindBytes:
		*left -= int(min(v.Bits, MaxText))
		add(product(copies*stepsPerQuoted, v.Bits))
	case KindList:
		for i, n := 0, v.Size(); i < n && *left >= 0; i++ {
			add(printSteps(v.Item(i), copies, left))
		}
	case KindMap:
		EachEntry(v, func(k, item Value) bool {
			add(printSteps(k, copies+1, left))
			add(printSteps(item, copies+1, left))
			return *left >= 0
		})
	case KindOptional:
		if v.Ptr != nil {
			add(printSteps(*v.Optional(), copies, left))
		}
	}
	return steps
}

// readsText returns the steps for reading a text once.
func readsText(a []Value) uint64 {
	if len(a) == 0 || a[0].K != KindString {
		return 0
	}
	return 4 * a[0].Bits
}

// readsTexts returns the steps for reading a text and the one that is looked for in it.
func readsTexts(a []Value) uint64 {
	steps := readsText(a)
	if len(a) > 1 && a[1].K == KindString {
		steps += 4 * a[1].Bits
	}
	return steps
}

// writesText returns the steps for replacing parts of a text. The cost does not cover a long text that
// is put into a short one.
func writesText(a []Value) uint64 {
	if len(a) < 3 || a[0].K != KindString || a[1].K != KindString || a[2].K != KindString || a[2].Bits <= MaxUsual {
		return 0
	}
	return product(uint64(occurrences(a)), a[2].Bits)
}

// readsZone returns the steps for finding a time zone: it is read from a file.
func readsZone(a []Value) uint64 {
	if len(a) < 2 || a[1].K != KindString {
		return 0
	}
	return 8192 + 8*a[1].Bits
}

// copiesText returns the steps for converting a text to bytes.
func copiesText(a []Value) uint64 {
	if len(a) == 0 || a[0].K != KindString || a[0].Bits <= MaxUsual {
		return 0
	}
	return a[0].Bits
}

// readsURL returns the steps for reading a URL, including maps for its query.
func readsURL(a []Value) uint64 {
	if len(a) > 0 && a[0].K == KindOpaque {
		if u, ok := a[0].Opaque().(lib.URLValue); ok {
			return uint64(4*(len(u.U.Host)+len(u.U.Path)) + 16*len(u.U.RawQuery))
		}
	}
	return 0
}

// readsVersion returns the steps for reading the parts of a version.
func readsVersion(a []Value) uint64 {
	if len(a) > 0 && a[0].K == KindOpaque {
		if v, ok := a[0].Opaque().(lib.Version); ok {
			return uint64(4 * len(v.V.Pre))
		}
	}
	return 0
}

// runsPattern returns the steps for compiling a pattern and matching a text.
func runsPattern(a []Value) uint64 {
	if len(a) < 2 || a[0].K != KindString || a[1].K != KindString {
		return 0
	}
	return matchSteps(a[1].Text(), a[0].Bits)
}

// runsPatternOften returns the steps for finding all matches: each may read the rest of the text.
func runsPatternOften(a []Value) uint64 {
	matches := uint64(math.MaxUint64)
	if len(a) > 2 && a[2].K == KindInt && a[2].Int() >= 0 {
		matches = uint64(a[2].Int())
	}
	return product(runsPattern(a), min(matches, a[0].Bits)+1)
}

// matchSteps returns the steps for compiling a pattern and matching n bytes.
func matchSteps(text string, n uint64) uint64 {
	if len(text) > maxDynamicPattern {
		return math.MaxUint64
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0
	}
	size := dfa.Size(re)
	if size > maxPattern {
		return math.MaxUint64
	}
	return product(uint64(size), n+16)
}

// product returns a*b, or the greatest number if that overflows.
func product(a, b uint64) uint64 {
	if a != 0 && b > math.MaxUint64/a {
		return math.MaxUint64
	}
	return a * b
}

// guardQuantity reports whether a quantity has so many digits, or such an exponent, that
// calculations with it take long.
func guardQuantity(a []Value) bool {
	if len(a) == 0 || a[0].K != KindString {
		return false
	}
	return quantity.TooLong(a[0].Text())
}

const (
	// surelyQuick is the number of steps that may be taken before they are counted.
	surelyQuick = 1 << 20
	// quickSteps is the greatest number of steps for all matches of a short text, up to which they
	// are not counted one by one.
	quickSteps = 1 << 14
)

// Steps returns the number of steps of matching s without a table.
func (p *Regexp) Steps(s string) uint64 { return product(uint64(p.Size), uint64(len(s))+1) }

// paid reports whether the cost of matching s covers all steps that it may take.
func (p *Regexp) paid(s string, price uint64) bool { return p.Steps(s) <= product(price, paidSteps) }

// FindAll returns the first n matches in s, all of them if n is negative. It returns false if they
// take too many steps. The pattern is matched again after each match, and may read to the end of
// the text each time.
func (p *Regexp) FindAll(fr *Frame, s string, n int, price uint64) ([]string, bool) {
	often := uint64(len(s)) + 1
	if n >= 0 {
		often = min(often, uint64(n)+1)
	}
	most := product(p.Steps(s), often)
	switch {
	case most > quickSteps && !p.looksBack:
		return p.findEach(fr, s, n, price)
	case most > surelyQuick && !fr.MayTake(most, price):
		return nil, false
	}
	found := p.Re().FindAllString(s, n)
	if most > surelyQuick {
		return found, true
	}
	matches := uint64(len(found))
	return found, fr.MayTake(min(most, product(p.Steps(s), matches+1))+stepsPerMatch*matches, price)
}

// findEach is FindAll for patterns that do not look back: it counts the bytes that are really read.
func (p *Regexp) findEach(fr *Frame, s string, n int, price uint64) (found []string, ok bool) {
	// paid is the number of steps that the cost still covers, owed the steps that are not counted
	// yet.
	paid, owed, before := product(price, paidSteps), uint64(0), -1
	countOwed := func() bool {
		more := owed - min(owed, paid)
		paid, owed = paid-min(owed, paid), 0
		return fr.MayTake(more, 0)
	}
	for at := 0; at <= len(s) && (n < 0 || len(found) < n); {
		rest := strings.NewReader(s[at:])
		loc := p.Re().FindReaderIndex(rest)
		owed += 4*product(uint64(p.Size), uint64(len(s)-at-rest.Len())) + stepsPerMatch // a reader is slow, hence the factor
		if owed > surelyQuick && !countOwed() {
			return nil, false
		}
		if loc == nil {
			break
		}
		start, end := at+loc[0], at+loc[1]
		if end > at || start != before {
			found = append(found, s[start:end])
		}
		if before = end; end > at {
			at = end
			continue
		}
		_, width := utf8.DecodeRuneInString(s[at:])
		at += max(width, 1)
	}
	return found, countOwed()
}
