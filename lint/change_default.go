package lint

import (
	"bytes"
	"fmt"
	"iter"
	"regexp"
	"slices"

	"github.com/keelson-io/keelson/schema/structural"
)

// This file compares defaults, and searches what may refuse a value that a default adds or a rule
// reads in another type.

// defaults compares the defaults of both nodes.
func (p *pair) defaults() {
	switch {
	case p.name == anyKey:
		p.itemDefault()
	case p.was.Default != nil && p.new.Default == nil:
		p.breaks(p.path, fmt.Sprintf("the default %s is removed: readers find nothing where they found it", p.was.Default), "")
	case p.was.Default == nil && p.new.Default != nil:
		if !p.defaulted() {
			p.notes(p.path+".default", fmt.Sprintf("the default %s is new: stored objects show it from now on", p.new.Default), "")
		}
	case !bytes.Equal(p.was.Default, p.new.Default):
		p.notes(p.path+".default", fmt.Sprintf("the default changes from %s to %s: stored objects without a value change when they are read", p.was.Default, p.new.Default), "")
	}
}

// itemDefault compares the defaults of items and additional properties. They replace nulls, of which
// only lists keep those that the schema does not allow.
func (p *pair) itemDefault() {
	hasNulls := p.was.Nullable || p.was.Type == "" && !p.was.IntOrString
	if p.item && hasNulls && p.was.Default == nil && p.new.Default != nil && !p.new.Nullable {
		p.breaks(p.path+".default", fmt.Sprintf("the default %s is new: it replaces null", p.new.Default), "")
	}
}

// defaulted reports a new default that is not valid, or that a restriction of a value above may
// refuse, and whether there is one. Servers do not search defaults for items that are there twice,
// and do not check defaults below additionalProperties.
func (p *pair) defaulted() bool {
	if text := (node{schema: p.new}).badDefault(); text != "" {
		p.breaks(p.path+".default", fmt.Sprintf("the default %s is new and not valid: %s", p.new.Default, text), "")
		return true
	}
	for q, steps := range p.ancestors() {
		if what := q.refusesDefault(steps); what != "" {
			p.breaks(p.path+".default", fmt.Sprintf("the default %s is new, and stored objects that get it may be refused by %s", p.new.Default, what), "")
			return true
		}
	}
	return false
}

// ancestors yields the pairs above p, with the names that lead from them to p.
func (p *pair) ancestors() iter.Seq2[*pair, []string] {
	return func(yield func(*pair, []string) bool) {
		var steps []string
		for q := p; q.parent != nil; q = q.parent {
			steps = append([]string{q.name}, steps...)
			if !yield(q.parent, steps) {
				return
			}
		}
	}
}

// refusesDefault returns the restriction of p that may refuse the default of a new value, which the
// steps lead to. It is "" if there is none.
func (p *pair) refusesDefault(steps []string) string {
	n, _ := p.values()
	where := inObjects(p.path)
	switch {
	case p.new.ListType == "set":
		return "the set " + where
	case n.Enum != nil:
		return "the enum of " + where
	case n.MaxProperties != nil && len(steps) == 1:
		return "maxProperties of " + where
	case concerns(slices.Concat(n.AllOf, n.AnyOf, n.OneOf, []*structural.Nested{n.Not}), steps):
		return "allOf, anyOf, oneOf or not of " + where
	}
	if rule := p.ruleAbout(steps); rule != "" {
		return "the rule of " + where + ": " + rule
	}
	return ""
}

// concerns reports whether one of the schemas below junctors depends on the value that the steps
// lead to. Nil schemas do not.
func concerns(list []*structural.Nested, steps []string) bool {
	return slices.ContainsFunc(list, func(n *structural.Nested) bool { return n != nil && nestedConcerns(n, steps) })
}

// nestedConcerns is concerns for one schema.
func nestedConcerns(n *structural.Nested, steps []string) bool {
	if len(steps) == 0 || n.Enum != nil {
		return true
	}
	last := len(steps) == 1
	if last && (n.MinProperties != nil || n.MaxProperties != nil || slices.Contains(n.Required, steps[0])) {
		return true
	}
	below := []*structural.Nested{n.Properties[steps[0]], n.Additional}
	if steps[0] == anyKey {
		below = append(below, n.Items)
	}
	return concerns(below, steps[1:]) || concerns(slices.Concat(n.AllOf, n.AnyOf, n.OneOf, []*structural.Nested{n.Not}), steps)
}

// reader returns a rule of p or above that may read the value of p, "" if there is none.
func (p *pair) reader() string {
	if rule := p.ruleAbout(nil); rule != "" {
		return rule
	}
	for q, steps := range p.ancestors() {
		if rule := q.ruleAbout(steps); rule != "" {
			return rule
		}
	}
	return ""
}

// ruleAbout returns a rule of p that may read the value that the steps lead to: one that has the
// last name among them. It is "" if there is none.
func (p *pair) ruleAbout(steps []string) string {
	var named *regexp.Regexp
	for _, name := range slices.Backward(steps) {
		if name != anyKey {
			named = regexp.MustCompile(`(\b|__)` + regexp.QuoteMeta(name) + `(\b|__)`) // CEL escapes reserved names
			break
		}
	}
	for _, r := range p.new.Rules {
		if named == nil || named.MatchString(r.Rule) {
			return oneLine(r.Rule, 100)
		}
	}
	return ""
}
