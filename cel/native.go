package cel

import (
	"strings"

	"github.com/google/cel-go/common/ast"
)

// This file compiles the usual cases of library functions that rules call often
// to code that allocates nothing. Each knows only texts that it is certain of
// and leaves everything else, errors first of all, to the function's general
// implementation.

// quick computes a call of one argument, which is no failure; false if it does
// not know the result.
type quick func(v Value) (Value, bool)

// quickCalls are the functions of one argument with a usual case, by overload.
// Their price is that of going through the text.
var quickCalls = map[string]quick{
	"string_lower_ascii": unchangedText('A', 'Z'),
	"string_upper_ascii": unchangedText('a', 'z'),
}

// unchangedText is the text itself if no byte of it lies in a range.
func unchangedText(lo, hi byte) quick {
	return func(v Value) (Value, bool) {
		if v.kind != KindString {
			return Value{}, false
		}
		s := v.text()
		for i := 0; i < len(s); i++ {
			if s[i] >= lo && s[i] <= hi {
				return Value{}, false
			}
		}
		return v, true
	}
}

// textSource reads a text for a fused call: directly where it can be read so.
// What it charges is the caller's to take back if it goes on the general way.
type textSource struct {
	direct direct
	ok     bool
	eval   evalFn
}

func sourceOf(c *code) textSource {
	d, ok := directOf(c)
	return textSource{d, ok && d.want == KindString, c.eval}
}

func (t *textSource) read(fr *frame) (s string, runes uint64, ok bool) {
	if t.ok {
		s, runes, ok = t.direct.text(fr)
		fr.cost += t.direct.units
		return s, runes, ok
	}
	v := t.eval(fr)
	if v.kind != KindString {
		return "", 0, false
	}
	return v.text(), uint64(v.runes()), true
}

// partValue is a part of a text of that many code points.
func partValue(part, of string, runes uint64) Value {
	v := stringValue(part)
	if uint64(len(of)) == runes {
		v.flag = flagASCII
	}
	return v
}

// textTests are tests of texts with a usual case, by overload.
var textTests = map[string]struct {
	fn    func(string) (is, ok bool)
	price func(runes uint64) uint64
}{
	"is_ip":         {usualIP, tenth},
	"is_url_string": {isUsualURL, func(uint64) uint64 { return 1 }},
}

func isUsualURL(s string) (is, ok bool) {
	scheme, ok := usualURL(s)
	return scheme != "", ok
}

// textTest is a test of a text that takes the usual way where it can.
//
//go:noinline
func textTest(arg *code, fn func(string) (is, ok bool), price func(uint64) uint64, general evalFn) testFn {
	source := sourceOf(arg)
	return func(fr *frame) tri {
		cost := fr.cost
		if s, n, ok := source.read(fr); ok {
			if is, ok := fn(s); ok {
				if fr.cost += price(n); fr.cost <= fr.limit {
					return truth(is)
				}
			}
		}
		fr.cost = cost
		return fr.verdict(general(fr))
	}
}

// durationNumber is duration(text) in nanoseconds.
//
//go:noinline
func durationNumber(arg *code) numFn {
	source := sourceOf(arg)
	return func(fr *frame) (int64, bool) {
		cost := fr.cost
		if s, _, ok := source.read(fr); ok {
			if d, ok := usualDuration(s); ok {
				fr.cost++
				return d, true
			}
		}
		fr.cost = cost
		return 0, false
	}
}

// withQuick is a call of one argument that takes the quick way where it can.
//
//go:noinline
func (cc *callCode) withQuick(fn quick) evalFn {
	arg := cc.args[0]
	return func(fr *frame) Value {
		v := arg(fr)
		if !v.failed() {
			if out, ok := fn(v); ok {
				fr.cost += walkPrice(v)
				if fr.cost > fr.limit {
					return fr.exhausted()
				}
				return out
			}
		}
		base := len(fr.stack)
		fr.stack = append(fr.stack, v)
		failure := Value{}
		if v.failed() {
			failure = v
		}
		return cc.finish(fr, base, failure)
	}
}

// walkPrice is the price of parsing a text or going through it.
func walkPrice(v Value) uint64 { return tenth(plainSize(v)) }

// usualDuration parses a duration of whole numbers with units.
func usualDuration(s string) (int64, bool) {
	var sum int64
	for i := 0; i < len(s); {
		var n int64
		start := i
		for ; i < len(s) && s[i]-'0' <= 9; i++ {
			n = n*10 + int64(s[i]-'0')
		}
		if i == start || i-start > 6 || i == len(s) { // longer numbers could overflow
			return 0, false
		}
		unit, size := durationUnit(s[i:])
		if unit == 0 {
			return 0, false
		}
		i += size
		if sum += n * unit; sum > 1<<61 {
			return 0, false
		}
	}
	return sum, len(s) > 0
}

// durationUnit is the unit that a text begins with, 0 if it is not a usual one.
func durationUnit(s string) (nanoseconds int64, size int) {
	switch {
	case s[0] == 's':
		return 1e9, 1
	case s[0] == 'm' && len(s) > 1 && s[1] == 's':
		return 1e6, 2
	case s[0] == 'm':
		return 60e9, 1
	case s[0] == 'h':
		return 3600e9, 1
	}
	return 0, 0
}

// usualIP reports whether a text is an IPv4 address. It does not know (ok is
// false) what could be an IPv6 address.
func usualIP(s string) (is, ok bool) {
	fields, digits, n := 0, 0, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c-'0' <= 9:
			if digits == 1 && n == 0 {
				return false, plainName(s[i:])
			}
			n = n*10 + int(c-'0')
			if digits++; n > 255 {
				return false, plainName(s[i:])
			}
		case c == '.' && digits > 0 && fields < 3:
			fields, digits, n = fields+1, 0, 0
		default:
			return false, plainName(s[i:])
		}
	}
	return fields == 3 && digits > 0, true
}

// plainName reports whether a text holds nothing that could make it part of an
// IPv6 address.
func plainName(s string) bool {
	return strings.IndexByte(s, ':') < 0
}

// urlBytes are the bytes that mean nothing particular in the path of a URL, and
// may stand in its host if they are in hostBytes.
var urlBytes, hostBytes = func() (path, host [256]bool) {
	for c := range path {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		host[c] = letter || strings.IndexByte("-.", byte(c)) >= 0
		path[c] = letter || strings.IndexByte("-._~/:@!$&'()*+,;=", byte(c)) >= 0
	}
	return path, host
}()

// usualURL is the scheme of an absolute URL with a host, "" if the text is none
// because it has neither a scheme nor the form of a path. ok is false if it does
// not know.
func usualURL(s string) (scheme string, ok bool) {
	at := 0
	for at < len(s) && (s[at]|0x20 >= 'a' && s[at]|0x20 <= 'z') {
		if s[at] < 'a' { // schemes are lower case in the end
			return "", false
		}
		at++
	}
	switch {
	case at == len(s) || s == "*":
		return "", at > 0 // no colon
	case at == 0:
		return "", false
	case strings.IndexByte("-.+0123456789", s[at]) >= 0:
		return "", withoutScheme(s[at:])
	case s[at] == '/':
		return "", true
	case !strings.HasPrefix(s[at:], "://"):
		return "", false
	}
	i := at + 3
	for i < len(s) && hostBytes[s[i]] {
		i++
	}
	if i == at+3 {
		return "", false
	}
	if i < len(s) && s[i] == ':' {
		for i++; i < len(s) && s[i]-'0' <= 9; i++ {
		}
	}
	if i < len(s) && s[i] != '/' {
		return "", false
	}
	for ; i < len(s); i++ {
		if !urlBytes[s[i]] {
			return "", false
		}
	}
	return s[:at], true
}

// withoutScheme reports whether a text that began with letters certainly has no
// scheme: a slash comes before any colon.
func withoutScheme(s string) bool {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '/':
			return true
		case !hostBytes[s[i]] && s[i] != '+':
			return false
		}
	}
	return true
}

// urlScheme compiles url(x).getScheme() as one; nil if the call is not that.
func (c *compiler) urlScheme(e ast.Expr) *code {
	call := e.AsCall()
	if c.lang != nil || c.overload(e) != "url_get_scheme" || !call.IsMemberFunction() || c.overload(call.Target()) != "string_to_url" {
		return nil
	}
	source := sourceOf(c.node(call.Target().AsCall().Args()[0]))
	plain := c.plainFunction(e, c.arguments(e))
	general := plain.eval
	plain.eval = func(fr *frame) Value {
		cost := fr.cost
		if s, n, ok := source.read(fr); ok {
			if scheme, ok := usualURL(s); ok && scheme != "" {
				if fr.cost += tenth(n) + 1; fr.cost <= fr.limit {
					return constASCII(scheme)
				}
			}
		}
		fr.cost = cost
		return general(fr)
	}
	return plain
}

// constASCII is a text that is known to be ASCII.
func constASCII(s string) Value {
	v := stringValue(s)
	v.flag = flagASCII
	return v
}

// splitItem compiles text.split(separator)[n] with constants as one, which
// makes no list; nil if the call is not that.
func (c *compiler) splitItem(list ast.Expr, key *code) *code {
	if c.lang != nil || list.Kind() != ast.CallKind || c.overload(list) != "string_split_string" || !list.AsCall().IsMemberFunction() {
		return nil
	}
	call := list.AsCall()
	sep := call.Args()[0]
	if key.konst == nil || key.konst.kind != KindInt || key.konst.Int() < 0 || sep.Kind() != ast.LiteralKind {
		return nil
	}
	separator, ok := sep.AsLiteral().Value().(string)
	if !ok || separator == "" {
		return nil
	}
	read, n := sourceOf(c.node(call.Target())), int(key.konst.Int())
	plain := c.extend(c.function(list), step{key: *key.konst}, false)
	out := &code{static: KindString}
	out.eval = itemOfSplit(read, separator, n, 2*costSelect, plain.path.eval)
	out.resolve = itemOfSplit(read, separator, n, costSelect, plain.path.resolve)
	return out
}

// itemOfSplit is part n of a text between separators. Where there is none the
// general way says so.
//
//go:noinline
func itemOfSplit(source textSource, separator string, n int, units uint64, general evalFn) evalFn {
	return func(fr *frame) Value {
		cost := fr.cost
		if s, runes, ok := source.read(fr); ok {
			if part, ok := partOf(s, separator, n); ok {
				if fr.cost += tenth(runes*2) + units; fr.cost <= fr.limit {
					return partValue(part, s, runes)
				}
			}
		}
		fr.cost = cost
		return general(fr)
	}
}

// partOf is strings.Split(s, separator)[n].
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

// caseEquality is == or != of lowerAscii() or upperAscii() of a text and a
// constant; nil if the operands are not that.
func (c *compiler) caseEquality(e ast.Expr, a, k *code, negated bool) testFn {
	if c.lang != nil || e.Kind() != ast.CallKind || k.konst == nil || k.konst.kind != KindString {
		return nil
	}
	lo, hi := byte('A'), byte('Z')
	switch c.overload(e) {
	case "string_lower_ascii":
	case "string_upper_ascii":
		lo, hi = 'a', 'z'
	default:
		return nil
	}
	source, whole := sourceOf(c.node(e.AsCall().Target())), a.eval
	want, size := k.konst.text(), uint64(k.konst.runes())
	general := func(fr *frame) tri {
		v := whole(fr)
		if negated {
			fr.cost += costCompare(v, *k.konst)
		} else {
			fr.cost += costEqual(v, *k.konst)
		}
		return fr.equalTest(v, *k.konst, negated)
	}
	return func(fr *frame) tri {
		cost := fr.cost
		if s, runes, ok := source.read(fr); ok {
			if fr.cost += tenth(runes) + tenth(min(runes, size)); fr.cost <= fr.limit {
				return truth(equalCase(s, want, lo, hi) != negated)
			}
		}
		fr.cost = cost
		return general(fr)
	}
}

// equalCase reports whether s is want once the letters of a range have changed
// their case.
func equalCase(s, want string, lo, hi byte) bool {
	if len(s) != len(want) {
		return false
	}
	for i := 0; i < len(s); i++ {
		b := s[i]
		if b >= lo && b <= hi {
			b ^= 0x20
		}
		if b != want[i] {
			return false
		}
	}
	return true
}
