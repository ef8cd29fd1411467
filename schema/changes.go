package schema

import "github.com/keelson-io/keelson/cel"

// This file has what mutation tests need to know of a schema.

// RuleChange is a small change of a rule.
type RuleChange struct {
	Path, Field string // of the rule: see [RuleCoverage]
	Rule        string
	cel.Change
	Reached bool // the rule was evaluated
}

// Changes returns small changes of all rules, in the order of the schema.
func (c *Coverage) Changes() []RuleChange {
	var out []RuleChange
	c.root.each(func(at *coverNode) {
		for _, r := range at.rules {
			if r.rule == nil || r.rule.program == nil {
				continue
			}
			e, err := c.explainer(r.rule.program)
			if err != nil {
				continue
			}
			for _, change := range e.Changes() {
				out = append(out, RuleChange{Path: r.Path, Field: r.Field, Rule: r.Text, Change: change, Reached: r.Accepted+r.Refused > 0})
			}
		}
	})
	return out
}

// Places returns the paths of all nodes of the schema, with the place in objects, and whether there was
// a value.
func (c *Coverage) Places() map[string]Place {
	out := map[string]Place{}
	c.root.each(func(at *coverNode) { out[at.path] = Place{at.field, at.seen} })
	return out
}

// Place is a node of a schema.
type Place struct {
	Field string // the place in objects, such as .spec.items[*]
	Seen  bool   // there was a value
}
