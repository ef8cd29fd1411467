package cel

import (
	"regexp"
	"regexp/syntax"
	"sync"

	"github.com/keelson-io/keelson/internal/dfa"
)

// This file matches constant patterns: by table where there is one, and else by
// package regexp. Both are made when they are first needed.

// pattern is a constant pattern.
type pattern struct {
	text string

	tableOnce, prefixOnce, exprOnce sync.Once
	table                           *dfa.Matcher // nil: there is none
	prefix                          *dfa.Finder
	expr                            *regexp.Regexp
}

// newPattern returns the pattern of a text, or what is wrong with it.
func newPattern(text string) (*pattern, error) {
	if _, err := syntax.Parse(text, syntax.Perl); err != nil {
		_, err = regexp.Compile(text)
		return nil, err
	}
	return &pattern{text: text}, nil
}

func (p *pattern) re() *regexp.Regexp {
	p.exprOnce.Do(func() { p.expr = regexp.MustCompile(p.text) })
	return p.expr
}

func (p *pattern) match(s string) bool {
	p.tableOnce.Do(func() { p.table = dfa.Compile(p.text) })
	if p.table != nil {
		if match, known := p.table.Match(s); known {
			return match
		}
	}
	return p.re().MatchString(s)
}

// find is the leftmost match in s, "" if there is none.
func (p *pattern) find(s string) string {
	p.prefixOnce.Do(func() { p.prefix = dfa.CompileFind(p.text) })
	if p.prefix != nil {
		if end, known := p.prefix.Find(s); known {
			return s[:max(end, 0)]
		}
	}
	return p.re().FindString(s)
}
