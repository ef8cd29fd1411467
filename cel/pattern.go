package cel

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

// pattern is a constant pattern.
type pattern struct {
	text      string
	size      int  // of its machine
	looksBack bool // what it matches depends on what is before

	tableOnce, prefixOnce, exprOnce sync.Once
	table                           *dfa.Matcher // nil: there is none
	prefix                          *dfa.Finder
	expr                            *regexp.Regexp
}

// newPattern returns the pattern of a text, or what is wrong with it.
func newPattern(text string) (*pattern, error) {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		_, err = regexp.Compile(text)
		return nil, err
	}
	p := &pattern{text: text, size: dfa.Size(re), looksBack: looksBack(re)}
	if p.size > maxPattern {
		return nil, fmt.Errorf("the pattern is too large: %d instructions, at most %d are possible", p.size, maxPattern)
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

func (p *pattern) re() *regexp.Regexp {
	p.exprOnce.Do(func() { p.expr = regexp.MustCompile(p.text) })
	return p.expr
}

// match reports whether s has a match, if that is known for the price.
func (p *pattern) match(s string, price uint64) (match, known bool) {
	p.tableOnce.Do(func() { p.table = dfa.Compile(p.text) })
	if p.table != nil {
		if match, known = p.table.Match(s); known {
			return match, true
		}
	}
	if !p.paid(s, price) {
		return false, false
	}
	return p.re().MatchString(s), true
}

// find is the leftmost match in s, "" if there is none, if that is known for the price.
func (p *pattern) find(s string, price uint64) (found string, known bool) {
	p.prefixOnce.Do(func() { p.prefix = dfa.CompileFind(p.text) })
	if p.prefix != nil {
		if end, known := p.prefix.Find(s); known {
			return s[:max(end, 0)], true
		}
	}
	if !p.paid(s, price) {
		return "", false
	}
	return p.re().FindString(s), true
}
