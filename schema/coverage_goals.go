package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file makes the goals of the restrictions of values, and finds out what a value reaches.

// addValues adds the goals of the restrictions at n.
func (c *coverNode) addValues(cover *Coverage, n *node) {
	if n.formatOK != nil && n.format != "password" {
		valid, malformed := c.goal(GoalBound, "format", "has the format "+n.format), c.goal(GoalBound, "format", "does not have the format "+n.format)
		c.texts(func(s string, _ int64) { reach(n.formatOK(s), valid, malformed) })
	}
	if n.listType == "set" || n.listType == "map" {
		unique, twice := c.goal(GoalBound, "x-kubernetes-list-type", "has several items"), c.goal(GoalBound, "x-kubernetes-list-type", "has an item twice")
		c.checks = append(c.checks, func(d *jsondoc.Doc, x jsondoc.Node) {
			if x.Kind() == jsondoc.Array && x.Len() > 1 {
				reach(n.listOK(d, x), unique, twice)
			}
		})
	}
	if n.values != nil {
		c.addRestrictions(cover, n, n.values, "")
	}
}

// addRestrictions adds the goals of v, which are those of n or of a branch of allOf. prefix is the
// path of the branch from the schema of n.
func (c *coverNode) addRestrictions(cover *Coverage, n *node, v *values, prefix string) {
	c.addNumbers(n, v, prefix)
	c.addTexts(v, prefix)
	c.addSizes(v, prefix)
	if len(v.enum) > 0 {
		c.addEnum(v, prefix)
	}
	for _, r := range v.required {
		missing := c.goal(GoalBound, prefix+"required", r.name+" is missing")
		c.checks = append(c.checks, func(d *jsondoc.Doc, x jsondoc.Node) {
			if x.Kind() == jsondoc.Object && n.member(d, x, r.name, r.slot).Kind() == jsondoc.Absent {
				missing.Reached = true
			}
		})
	}
	c.addUnion(cover, prefix+"anyOf", v.anyOf)
	c.addUnion(cover, prefix+"oneOf", v.oneOf)
	if v.not != nil {
		satisfied := c.goal(GoalUnion, prefix+"not", "satisfies the schema that it must not")
		c.checks = append(c.checks, func(d *jsondoc.Doc, x jsondoc.Node) {
			satisfied.Reached = satisfied.Reached || v.not.ok(d, &cover.work, x) && !cover.work.mustEnd()
		})
	}
	for i, b := range v.allOf {
		if b.values != nil {
			c.addRestrictions(cover, b, b.values, fmt.Sprintf("%sallOf[%d].", prefix, i))
		}
	}
}

// reach marks the first goal if ok is set, otherwise the second.
func reach(ok bool, yes, no *Goal) {
	if ok {
		yes.Reached = true
	} else {
		no.Reached = true
	}
}

// texts adds a check of strings, with their lengths in characters.
func (c *coverNode) texts(check func(s string, size int64)) {
	c.checks = append(c.checks, func(d *jsondoc.Doc, x jsondoc.Node) {
		if x.Kind() == jsondoc.String {
			s := d.Str(x)
			check(s, int64(utf8.RuneCountInString(s)))
		}
	})
}

// addTexts adds the goals of strings.
func (c *coverNode) addTexts(v *values, prefix string) {
	c.addSize(prefix, "Length", v.minLength, v.maxLength, c.texts)
	if v.match != nil {
		yes, no := c.goal(GoalBound, prefix+"pattern", "matches "+v.match.text), c.goal(GoalBound, prefix+"pattern", "does not match "+v.match.text)
		c.texts(func(s string, _ int64) { reach(v.match.matches(s), yes, no) })
	}
}

// addSizes adds the goals of arrays and objects.
func (c *coverNode) addSizes(v *values, prefix string) {
	sizes := func(kind jsondoc.Kind) func(func(string, int64)) {
		return func(check func(string, int64)) {
			c.checks = append(c.checks, func(d *jsondoc.Doc, x jsondoc.Node) {
				if x.Kind() == kind {
					check("", int64(jsondoc.Value{Doc: d, Node: x}.Len()))
				}
			})
		}
	}
	c.addSize(prefix, "Items", v.minItems, v.maxItems, sizes(jsondoc.Array))
	c.addSize(prefix, "Properties", v.minProps, v.maxProps, sizes(jsondoc.Object))
}

// addSize adds the goals of a least and a greatest size, which may be none. observe adds a check of
// sizes.
func (c *coverNode) addSize(prefix, what string, least, most int64, observe func(func(string, int64))) {
	if least != none && least > 0 {
		edge := c.goal(GoalBound, prefix+"min"+what, fmt.Sprintf("is at its edge, %d", least))
		beyond := c.goal(GoalBound, prefix+"min"+what, fmt.Sprintf("is less than %d", least))
		observe(func(_ string, size int64) {
			edge.Reached = edge.Reached || size == least
			beyond.Reached = beyond.Reached || size < least
		})
	}
	if most != none {
		edge := c.goal(GoalBound, prefix+"max"+what, fmt.Sprintf("is at its edge, %d", most))
		beyond := c.goal(GoalBound, prefix+"max"+what, fmt.Sprintf("is more than %d", most))
		observe(func(_ string, size int64) {
			edge.Reached = edge.Reached || size == most
			beyond.Reached = beyond.Reached || size > most
		})
	}
}

// addNumbers adds the goals of numbers. The edge of an exclusive bound of integers is the next integer;
// a number has none.
func (c *coverNode) addNumbers(n *node, v *values, prefix string) {
	numbers := func(check func(f float64)) {
		c.checks = append(c.checks, func(_ *jsondoc.Doc, x jsondoc.Node) {
			switch x.Kind() {
			case jsondoc.Int:
				check(float64(x.Int()))
			case jsondoc.Float:
				check(x.Float())
			}
		})
	}
	side := func(keyword string, bound *float64, exclusive bool, sign float64, words string) {
		if bound == nil {
			return
		}
		b := *bound
		edge, is := b, "is at its edge, "
		switch {
		case exclusive && n.numType == "integer":
			edge = b - sign
		case exclusive:
			is = "is near its edge, "
		}
		inside := c.goal(GoalBound, prefix+keyword, is+number(edge))
		beyond := c.goal(GoalBound, prefix+keyword, "is "+words+number(b))
		if exclusive {
			beyond.Text = "is " + number(b) + ", or " + words + "that"
		}
		numbers(func(f float64) {
			over := sign*(f-b) > 0 || exclusive && f == b
			inside.Reached = inside.Reached || f == edge && !over || exclusive && n.numType != "integer" && !over
			beyond.Reached = beyond.Reached || over
		})
	}
	side("minimum", v.min, v.exclMin, -1, "less than ")
	side("maximum", v.max, v.exclMax, 1, "more than ")
	if v.multiple != nil {
		m := *v.multiple
		yes, no := c.goal(GoalBound, prefix+"multipleOf", "is a multiple of "+number(m)), c.goal(GoalBound, prefix+"multipleOf", "is not a multiple of "+number(m))
		numbers(func(f float64) { reach(multipleOfFloat(f, m), yes, no) })
	}
}

// number returns the text of a bound.
func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// addEnum adds the goals of an enum.
func (c *coverNode) addEnum(v *values, prefix string) {
	goals := make([]*Goal, len(v.enum))
	for i, e := range v.enum {
		goals[i] = c.goal(GoalEnum, fmt.Sprintf("%senum[%d]", prefix, i), "is "+enumText(e))
	}
	other := c.goal(GoalEnum, prefix+"enum", "is another value")
	c.checks = append(c.checks, func(d *jsondoc.Doc, x jsondoc.Node) {
		found := false
		for i, e := range v.enum {
			if equalsEnum(d, x, x.Kind(), e) {
				goals[i].Reached, found = true, true
				break
			}
		}
		other.Reached = other.Reached || !found
	})
}

// enumText returns a value of an enum as JSON.
func enumText(e any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return fmt.Sprint(e)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// addUnion adds the goals of anyOf or oneOf.
func (c *coverNode) addUnion(cover *Coverage, keyword string, branches []*node) {
	if len(branches) == 0 {
		return
	}
	goals := make([]*Goal, len(branches))
	for i := range branches {
		goals[i] = c.goal(GoalUnion, fmt.Sprintf("%s[%d]", keyword, i), "satisfies this branch")
	}
	no := c.goal(GoalUnion, keyword, "satisfies no branch")
	c.checks = append(c.checks, func(d *jsondoc.Doc, x jsondoc.Node) {
		found := false
		for i, b := range branches {
			if b.ok(d, &cover.work, x) {
				goals[i].Reached, found = true, true
			}
			if cover.work.mustEnd() {
				return
			}
		}
		no.Reached = no.Reached || !found
	})
}
