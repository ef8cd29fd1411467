package cel

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/cel-go/common/ast"

	"github.com/keelson-io/keelson/cel/internal/eval"
)

// This file finds the text of each part of an expression. cel-go's parser remembers one token for
// each node: an operator, an opening bracket, a dot, or the first token.
//
// The text of a part is the smallest range of tokens that contains its own token, the text of its
// parts, and the other bracket of each bracket in the range. Around the own token there may be more:
// the name before the bracket of a call, the name after a dot. Parentheses around a part therefore
// belong to the part above it: in (a || b) && c, the first part is a || b.

// span is a range of bytes of the text.
type span struct{ start, end int }

// sourceMap has the tokens of an expression.
type sourceMap struct {
	text    string
	offsets []int       // of each code point, and of the end, in bytes; nil if the text is ASCII
	tokens  []span      // in order, without white space and comments
	at      map[int]int // the number of the token that starts at an offset in bytes
	partner []int       // by token: the other bracket of a pair, -1 for other tokens
}

// newSourceMap splits the text into tokens.
func newSourceMap(text string) *sourceMap {
	m := &sourceMap{text: text, at: map[int]int{}}
	if !isASCII(text) {
		for i := range text {
			m.offsets = append(m.offsets, i)
		}
		m.offsets = append(m.offsets, len(text))
	}
	var open []int
	for i := 0; i < len(text); {
		end := tokenEnd(text, i)
		if blank(text[i:end]) {
			i = end
			continue
		}
		n := len(m.tokens)
		m.at[i] = n
		m.tokens, m.partner = append(m.tokens, span{i, end}), append(m.partner, -1)
		switch text[i] {
		case '(', '[', '{':
			open = append(open, n)
		case ')', ']', '}':
			if len(open) > 0 {
				last := open[len(open)-1]
				open = open[:len(open)-1]
				m.partner[last], m.partner[n] = n, last
			}
		}
		i = end
	}
	return m
}

// isASCII reports whether all bytes are ASCII.
func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// blank reports whether a token is white space or a comment.
func blank(token string) bool {
	return strings.HasPrefix(token, "//") || strings.TrimSpace(token) == ""
}

// tokenEnd returns the end of the token at i.
func tokenEnd(s string, i int) int {
	rest := s[i:]
	switch c := rest[0]; {
	case strings.HasPrefix(rest, "//"):
		if n := strings.IndexByte(rest, '\n'); n >= 0 {
			return i + n
		}
		return len(s)
	case c == '"' || c == '\'':
		return i + stringEnd(rest, false)
	case c == '`':
		if n := strings.IndexByte(rest[1:], '`'); n >= 0 {
			return i + n + 2
		}
	case c >= '0' && c <= '9':
		return i + numberEnd(rest)
	case c == '_' || c < utf8.RuneSelf && unicode.IsLetter(rune(c)):
		n := strings.IndexFunc(rest, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if n < 0 {
			return len(s)
		}
		if quote := rest[n]; n <= 2 && (quote == '"' || quote == '\'') && strings.Trim(rest[:n], "rRbB") == "" {
			return i + n + stringEnd(rest[n:], strings.ContainsAny(rest[:n], "rR"))
		}
		return i + n
	}
	for _, op := range []string{"&&", "||", "==", "!=", "<=", ">="} {
		if strings.HasPrefix(rest, op) {
			return i + 2
		}
	}
	_, size := utf8.DecodeRuneInString(rest)
	return i + size
}

// numberEnd returns the length of the number with which s begins: its digits, point, exponent with its
// sign, and the suffix u.
func numberEnd(s string) int {
	hex := strings.HasPrefix(s, "0x")
	for i := 1; i < len(s); i++ {
		c := s[i]
		sign := (c == '-' || c == '+') && !hex && (s[i-1] == 'e' || s[i-1] == 'E')
		if !sign && c != '.' && (c >= utf8.RuneSelf || !unicode.IsLetter(rune(c)) && !unicode.IsDigit(rune(c))) {
			return i
		}
	}
	return len(s)
}

// stringEnd returns the length of the string literal with which s begins. In a raw literal, a
// backslash is a character. Texts that do not compile get here only in tests: a literal without an end
// takes all of them.
func stringEnd(s string, raw bool) int {
	quote := s[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s, triple) {
		quote = triple
	}
	for i := len(quote); i < len(s); i++ {
		switch {
		case s[i] == '\\' && !raw:
			i++
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote)
		}
	}
	return len(s)
}

// byteOffset converts an offset in code points.
func (m *sourceMap) byteOffset(n int) int {
	switch {
	case n < 0:
		return 0
	case m.offsets == nil:
		return min(n, len(m.text))
	}
	return m.offsets[min(n, len(m.offsets)-1)]
}

// position returns the line and the column, in code points, of an offset. Both start at 1.
func (m *sourceMap) position(offset int) (line, column int) {
	before := m.text[:offset]
	start := strings.LastIndexByte(before, '\n') + 1
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[start:])
}

// word returns the text of token n, "" if there is none.
func (m *sourceMap) word(n int) string {
	if n < 0 || n >= len(m.tokens) {
		return ""
	}
	return m.text[m.tokens[n].start:m.tokens[n].end]
}

// spans returns the text of each part.
func (m *sourceMap) spans(probe *eval.Probe, info *ast.SourceInfo) []span {
	out := make([]span, len(probe.Parts))
	ranges := make([]span, len(probe.Parts)) // of tokens
	// Parts have higher numbers than the part that they belong to: their ranges are known first.
	for n := len(probe.Parts) - 1; n >= 0; n-- {
		part := &probe.Parts[n]
		r := span{len(m.tokens), -1}
		if at, ok := info.GetOffsetRange(part.Expr.ID()); ok {
			if own, ok := m.at[m.byteOffset(int(at.Start))]; ok {
				r = m.around(own)
				if part.Expr.Kind() == ast.LiteralKind && m.word(own) == "-" {
					r.end++ // a negative number is one node
				}
			}
		}
		if part.Macro != nil { // the parts of the call that are not evaluated belong to the text, too
			if call := part.Macro.AsCall(); call.IsMemberFunction() {
				if at, ok := info.GetOffsetRange(call.Target().ID()); ok {
					if own, ok := m.at[m.byteOffset(int(at.Start))]; ok {
						r = union(r, m.around(own))
					}
				}
			}
		}
		for _, child := range part.Parts {
			r = union(r, ranges[child])
		}
		r = m.balance(r)
		ranges[n] = r
		if r.end >= r.start && r.start < len(m.tokens) {
			out[n] = span{m.tokens[r.start].start, m.tokens[r.end].end}
		}
	}
	return out
}

// union returns the smallest range that contains both.
func union(a, b span) span { return span{min(a.start, b.start), max(a.end, b.end)} }

// around returns the tokens that belong to a node with its own token.
func (m *sourceMap) around(own int) span {
	r := span{own, own}
	switch m.word(own) {
	case ".":
		r.end++
		if m.word(r.end) == "?" {
			r.end++
		}
	case "(", "{": // of a call or an object, behind its name
		// The name may have several parts, such as cel.bind, or be that of a member, whose target is
		// another part: names and dots before the bracket take turns.
		for name := own - 1; isName(m.word(name)); name -= 2 {
			r.start = name
			if m.word(name-1) != "." {
				break
			}
			r.start = name - 1
		}
		if m.word(r.start) == "." && r.start > 0 && r.start < own-1 && !isName(m.word(r.start-1)) && !slices.Contains([]string{")", "]", "}"}, m.word(r.start-1)) {
			return r // a leading dot
		}
		if m.word(r.start) == "." {
			r.start++
		}
	}
	r.end = min(r.end, len(m.tokens)-1)
	return r
}

// isName reports whether a token is a name.
func isName(word string) bool {
	return word != "" && word != "in" && (word[0] == '_' || word[0] == '`' || unicode.IsLetter(rune(word[0]))) && !strings.HasSuffix(word, "\"") && !strings.HasSuffix(word, "'")
}

// balance extends a range so that it contains both brackets of each pair.
func (m *sourceMap) balance(r span) span {
	for {
		grown := r
		for n := max(r.start, 0); n <= r.end && n < len(m.tokens); n++ {
			if p := m.partner[n]; p >= 0 {
				grown = union(grown, span{p, p})
			}
		}
		if grown == r {
			return r
		}
		r = grown
	}
}
