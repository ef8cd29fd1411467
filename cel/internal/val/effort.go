package val

import (
	"math"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/keelson-io/keelson/cel/internal/lib"
	"github.com/keelson-io/keelson/internal/dfa"
)

// This file bounds the work that no price pays for. Some functions cost a unit
// however long the text is that they read, and regular expressions cost what their
// text is long, not what their machine is large.

const (
	// paidSteps is how many steps, each of a few nanoseconds, a unit of cost pays for.
	paidSteps = 512
	// stepsPerItem is how many steps the account of an evaluation takes for one item copied.
	stepsPerItem = 16
	// stepsPerMatch is how many steps it takes for one match of many.
	stepsPerMatch = 1024
	// stepsPerJoined is how many steps it takes for one byte of a text that is kept.
	stepsPerJoined = 4
	// stepsPerPrinted is how many steps it takes to print one value, however short.
	stepsPerPrinted = 32
	// stepsPerQuoted is how many steps it takes to print one byte of a text in a list or map, where it stands in quotes.
	stepsPerQuoted = 4
	// maxDynamicPattern is the longest pattern, in bytes, that is made at run time.
	maxDynamicPattern = 1 << 14
	// MaxUsual is the longest text, in bytes, that is read for a unit without an account.
	MaxUsual = 1 << 12
	// maxPattern is the largest machine of one pattern, in instructions.
	maxPattern = 250_000
)

// MayTake accounts for steps of a call of that price; false means that they are
// too many.
func (fr *Frame) MayTake(steps, price uint64) bool {
	if paid := price * paidSteps; steps > paid && price < math.MaxUint64/paidSteps {
		fr.Work += int(min((steps-paid)/stepsPerItem, MaxWork+1))
	}
	return fr.Work <= MaxWork
}

// MayJoin accounts for adding two texts whose types the checker did not know: that costs a unit however long they are. false
// means that it is too much.
func (fr *Frame) MayJoin(a, b Value) bool {
	if a.K != b.K || a.K != KindString && a.K != KindBytes {
		return true
	}
	n := a.Bits + b.Bits
	return n <= MaxText && fr.MayTake(stepsPerJoined*n, 1)
}

// Runes counts the code points of a text that may have others than those of ASCII.
func (fr *Frame) Runes(s string) uint64 {
	if len(s) > MaxUsual && !fr.MayTake(uint64(len(s)), 0) {
		fr.Exhausted()
	}
	return uint64(TextValue(s).Runes())
}

// Efforts tell, by function, how many steps a call takes.
var Efforts = map[string]func(args []Value) uint64{
	"charAt": readsText, "indexOf": readsText, "lastIndexOf": readsText, "isURL": readsText,
	"duration": readsText, "timestamp": readsText, "int": readsText, "uint": readsText, "double": readsText, "bool": readsText,
	"getQuery": readsURL, "getEscapedPath": readsURL, "getHost": readsURL, "getHostname": readsURL, "getPort": readsURL,
	"compareTo": readsVersion, "isGreaterThan": readsVersion, "isLessThan": readsVersion,
	"matches": runsPattern, "find": runsPattern, "findAll": runsPatternOften, "format": printsValues, "bytes": copiesText,
}

// printsValues prints values, of which a map prints what is in it for itself, and
// copies the text.
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

// printSteps is how many steps it takes to print a value whose text is copied so
// often. The walk ends when more than left bytes would be printed.
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

// readsText goes through a text once.
func readsText(a []Value) uint64 {
	if len(a) == 0 || a[0].K != KindString {
		return 0
	}
	return 4 * a[0].Bits
}

// copiesText makes bytes of a text.
func copiesText(a []Value) uint64 {
	if len(a) == 0 || a[0].K != KindString || a[0].Bits <= MaxUsual {
		return 0
	}
	return a[0].Bits
}

// readsURL goes through a URL, and may make maps of its query.
func readsURL(a []Value) uint64 {
	if len(a) > 0 && a[0].K == KindOpaque {
		if u, ok := a[0].Opaque().(lib.URLValue); ok {
			return uint64(4*(len(u.U.Host)+len(u.U.Path)) + 16*len(u.U.RawQuery))
		}
	}
	return 0
}

// readsVersion goes through the parts of a version.
func readsVersion(a []Value) uint64 {
	if len(a) > 0 && a[0].K == KindOpaque {
		if v, ok := a[0].Opaque().(lib.Version); ok {
			return uint64(4 * len(v.V.Pre))
		}
	}
	return 0
}

// runsPattern makes a pattern and goes through a text with it.
func runsPattern(a []Value) uint64 {
	if len(a) < 2 || a[0].K != KindString || a[1].K != KindString {
		return 0
	}
	return matchSteps(a[1].Text(), a[0].Bits)
}

// runsPatternOften goes through the rest of a text for each match.
func runsPatternOften(a []Value) uint64 {
	matches := uint64(math.MaxUint64)
	if len(a) > 2 && a[2].K == KindInt && a[2].Int() >= 0 {
		matches = uint64(a[2].Int())
	}
	return product(runsPattern(a), min(matches, a[0].Bits)+1)
}

// matchSteps is how many steps it takes to make a pattern and match so many bytes.
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

// product is a * b, or the greatest number.
func product(a, b uint64) uint64 {
	if a != 0 && b > math.MaxUint64/a {
		return math.MaxUint64
	}
	return a * b
}

// guardQuantity tells that a quantity has so many digits, or such an exponent, that
// calculating with it takes long.
func guardQuantity(a []Value) bool {
	if len(a) == 0 || a[0].K != KindString {
		return false
	}
	const most = 1000
	text := a[0].Text()
	suffix := strings.TrimLeft(strings.TrimLeft(text, "+-"), "0123456789.")
	tooMany := len(text)-len(suffix) > most
	if len(suffix) <= 2 {
		return tooMany
	}
	exponent, ok := exponentOf(suffix)
	return ok && (tooMany || exponent > most || exponent < -most)
}

// exponentOf is the exponent in the suffix of a quantity, with as many bits as
// quantities have.
func exponentOf(suffix string) (int32, bool) {
	if suffix[0] != 'e' && suffix[0] != 'E' {
		return 0, false
	}
	n, err := strconv.ParseInt(suffix[1:], 10, 64)
	return int32(n), err == nil
}

const (
	// surelyQuick is how many steps may be taken before they are accounted for.
	surelyQuick = 1 << 20
	// quickSteps is how many steps all matches of a short text take at most, so that they need not be counted one by one.
	quickSteps = 1 << 14
)

// Steps is how many steps a match of s takes where there is no table.
func (p *Regexp) Steps(s string) uint64 { return product(uint64(p.Size), uint64(len(s))+1) }

// paid reports whether the price of a match of s pays for all that it can take.
func (p *Regexp) paid(s string, price uint64) bool { return p.Steps(s) <= product(price, paidSteps) }

// FindAll is the first n matches in s, all if n is negative; false means that they
// take too long for the price. The pattern runs again behind each match, and may
// each time read to the end of the text.
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

// findEach is FindAll with an account of what is read.
func (p *Regexp) findEach(fr *Frame, s string, n int, price uint64) (found []string, ok bool) {
	paid, owed, before := product(price, paidSteps), uint64(0), -1
	settle := func() bool {
		more := owed - min(owed, paid)
		paid, owed = paid-min(owed, paid), 0
		return fr.MayTake(more, 0)
	}
	for at := 0; at <= len(s) && (n < 0 || len(found) < n); {
		rest := strings.NewReader(s[at:])
		loc := p.Re().FindReaderIndex(rest)
		owed += 4*product(uint64(p.Size), uint64(len(s)-at-rest.Len())) + stepsPerMatch // a reader is slow
		if owed > surelyQuick && !settle() {
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
	return found, settle()
}
