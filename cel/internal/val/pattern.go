package val

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"sync"

	"github.com/keelson-io/keelson/internal/dfa"
)

// This file matches constant patterns: with a table if there is one, otherwise with package regexp.
// Both are compiled at their first use.

// Regexp is a constant pattern.
type Regexp struct {
	text      string
	Size      int  // of its automaton, in instructions
	looksBack bool // whether it matches may depend on the text before

	tableOnce, prefixOnce, exprOnce sync.Once
	table                           *dfa.Matcher // nil if there is none
	prefix                          *dfa.Finder
	expr                            *regexp.Regexp
}

// NewRegexp returns a pattern, or the error of an invalid one.
func NewRegexp(text string) (*Regexp, error) {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		_, err = regexp.Compile(text)
		return nil, err
	}
	p := &Regexp{text: text, Size: dfa.Size(re), looksBack: looksBack(re)}
	if p.Size > maxPattern {
		return nil, fmt.Errorf("the pattern is too large: %d instructions, at most %d are possible", p.Size, maxPattern)
	}
	return p, nil
}

// looksBack reports whether an expression depends on the text before a position.
func looksBack(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpBeginText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	return slices.ContainsFunc(re.Sub, looksBack)
}

// Re returns the pattern compiled by package regexp.
func (p *Regexp) Re() *regexp.Regexp {
	p.exprOnce.Do(func() { p.expr = regexp.MustCompile(p.text) })
	return p.expr
}

// Match reports whether s has a match. known is false if finding that out takes more steps than
// price covers.
func (p *Regexp) Match(s string, price uint64) (match, known bool) {
	p.tableOnce.Do(func() { p.table = dfa.Compile(p.text) })
	if p.table != nil {
		if match, known = p.table.Match(s); known {
			return match, true
		}
	}
	if !p.paid(s, price) {
		return false, false
	}
	return p.Re().MatchString(s), true
}

// Find returns the leftmost match in s, "" if there is none. known is false if finding that out
// takes more steps than price covers.
func (p *Regexp) Find(s string, price uint64) (found string, known bool) {
	p.prefixOnce.Do(func() { p.prefix = dfa.CompileFind(p.text) })
	if p.prefix != nil {
		if end, known := p.prefix.Find(s); known {
			return s[:max(end, 0)], true
		}
	}
	if !p.paid(s, price) {
		return "", false
	}
	return p.Re().FindString(s), true
}
