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
	table func() *dfa.Matcher
	re    func() *regexp.Regexp
}

// newPattern returns the pattern of a text, or what is wrong with it.
func newPattern(text string) (*pattern, error) {
	if _, err := syntax.Parse(text, syntax.Perl); err != nil {
		_, err = regexp.Compile(text)
		return nil, err
	}
	return &pattern{
		table: sync.OnceValue(func() *dfa.Matcher { return dfa.Compile(text) }),
		re:    sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) }),
	}, nil
}

func (p *pattern) match(s string) bool {
	if m := p.table(); m != nil {
		if match, known := m.Match(s); known {
			return match
		}
	}
	return p.re().MatchString(s)
}
