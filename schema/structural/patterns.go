package structural

import (
	"fmt"
	"regexp/syntax"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/dfa"
)

// This file checks patterns: that they are regular expressions, and that all of them together are
// not too large.

// maxPatterns bounds the size of all patterns of a schema, in instructions of their automata: see
// [dfa.Size].
const maxPatterns = 250_000

// patterns maps the patterns of a schema to their sizes. Equal patterns count once.
type patterns map[string]int

// checkPattern adds an error if the pattern is invalid. It only parses the pattern, because
// compiling it may take long.
func checkPattern(pattern string, path *field.Path, errs *field.ErrorList) {
	if _, err := syntax.Parse(pattern, syntax.Perl); err != nil {
		add(errs, field.Invalid(path.Child("pattern"), pattern, fmt.Sprintf("must be a valid regular expression, but isn't: %v", err)))
	}
}

// validatePatterns adds an error if the patterns of s are too large.
func validatePatterns(s *Schema, path *field.Path, errs *field.ErrorList) {
	all := patterns{}
	all.node(s)
	total := 0
	for _, size := range all {
		total += size
	}
	if total > maxPatterns {
		add(errs, field.Forbidden(path, fmt.Sprintf("the patterns of the schema are too large: %d instructions, at most %d are possible", total, maxPatterns)))
	}
}

// node adds the patterns of s and below.
func (p patterns) node(s *Schema) {
	if s == nil {
		return
	}
	p.values(s.Values)
	p.node(s.Items)
	p.node(s.Additional)
	for _, child := range s.Properties {
		p.node(child)
	}
}

// values adds the patterns of restrictions.
func (p patterns) values(v *Values) {
	if v == nil {
		return
	}
	if _, known := p[v.Pattern]; !known && v.Pattern != "" {
		p[v.Pattern] = 0
		if re, err := syntax.Parse(v.Pattern, syntax.Perl); err == nil {
			p[v.Pattern] = dfa.Size(re)
		}
	}
	p.nested(v.Not)
	for _, list := range [][]*Nested{v.AllOf, v.AnyOf, v.OneOf} {
		for _, n := range list {
			p.nested(n)
		}
	}
}

// nested adds the patterns of a schema below a junctor.
func (p patterns) nested(n *Nested) {
	if n == nil {
		return
	}
	p.values(&n.Values)
	p.nested(n.Items)
	p.nested(n.Additional)
	for _, child := range n.Properties {
		p.nested(child)
	}
}
