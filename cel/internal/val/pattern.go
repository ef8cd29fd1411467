package val

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"sync"

	"github.com/keelson-io/keelson/internal/dfa"
)

// This file matches constant patterns: by table where there is one, and else by
// package regexp. Both are made when they are first needed.

// Regexp is a constant pattern.
type Regexp struct {
	text      string
	Size      int  // of its machine
	looksBack bool // what it matches depends on what is before

	tableOnce, prefixOnce, exprOnce sync.Once
	table                           *dfa.Matcher // nil: there is none
	prefix                          *dfa.Finder
	expr                            *regexp.Regexp
}

// NewRegexp returns the pattern of a text, or what is wrong with it.
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

// looksBack reports whether an expression asks what is before a place.
func looksBack(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpBeginText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	return slices.ContainsFunc(re.Sub, looksBack)
}

// Re is the pattern as the regexp package compiles it, when it is first needed.
func (p *Regexp) Re() *regexp.Regexp {
	p.exprOnce.Do(func() { p.expr = regexp.MustCompile(p.text) })
	return p.expr
}

// Match reports whether s has a match, if that is known for the price.
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

// Find is the leftmost match in s, "" if there is none, if that is known for the price.
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
