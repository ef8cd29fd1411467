package coverage

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/schema"
)

// This file makes reports.

// Report is what suites reached.
type Report struct {
	// Percent is the share of the goals that were reached, 100 if there are none.
	Percent     float64      `json:"percent"`
	Reached     int          `json:"reached"`
	Goals       int          `json:"goals"`
	Definitions []Definition `json:"definitions"`
}

// Definition is what suites reached of a version of a definition.
type Definition struct {
	File    string `json:"file"`
	Line    int    `json:"line"` // of the definition
	Name    string `json:"name"`
	Version string `json:"version"`
	// Objects is the number of objects that were validated. If it is 0, no case uses this version, and
	// there is nothing else.
	Objects int     `json:"objects"`
	Percent float64 `json:"percent"`
	Kinds   []Count `json:"kinds,omitempty"`
	Goals   []Goal  `json:"goals,omitempty"`
	Rules   []Rule  `json:"rules,omitempty"`
	// Err says why nothing was recorded.
	Err string `json:"error,omitempty"`

	doc manifest.Document
}

// Count is how many goals of a kind there are.
type Count struct {
	Kind    schema.GoalKind `json:"kind"`
	Reached int             `json:"reached"`
	Goals   int             `json:"goals"`
}

// Goal is a goal with its position in the file.
type Goal struct {
	schema.Goal
	Line   int `json:"line"`
	Column int `json:"column"`
}

// Rule is a rule with its position in the file.
type Rule struct {
	schema.RuleCoverage
	Line   int `json:"line"`
	Column int `json:"column"`
}

// kinds are the kinds of goals in the order of reports.
var kinds = []schema.GoalKind{schema.GoalRule, schema.GoalCondition, schema.GoalBound, schema.GoalEnum, schema.GoalUnion, schema.GoalDefault, schema.GoalField}

// Report returns what was reached. Definitions are in the order of their files.
func (r *Recorder) Report() *Report {
	out := &Report{Definitions: []Definition{}}
	for _, d := range r.all {
		for _, v := range d.versions {
			one := v.report(d)
			for _, k := range one.Kinds {
				out.Reached, out.Goals = out.Reached+k.Reached, out.Goals+k.Goals
			}
			out.Definitions = append(out.Definitions, one)
		}
	}
	slices.SortStableFunc(out.Definitions, func(a, b Definition) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	out.Percent = percent(out.Reached, out.Goals)
	return out
}

// percent returns the share of goals that were reached.
func percent(reached, goals int) float64 {
	if goals == 0 {
		return 100
	}
	return 100 * float64(reached) / float64(goals)
}

// report returns what was reached of a version.
func (v *version) report(d *definition) Definition {
	out := Definition{File: d.doc.File, Line: d.doc.Line, Name: d.name, Version: v.name, Objects: v.objects, doc: d.doc}
	if v.err != nil {
		out.Err = v.err.Error()
	}
	if v.cover == nil {
		return out
	}
	counts := map[schema.GoalKind]*Count{}
	for _, k := range kinds {
		out.Kinds = append(out.Kinds, Count{Kind: k})
	}
	for i := range out.Kinds {
		counts[out.Kinds[i].Kind] = &out.Kinds[i]
	}
	reached, all := 0, 0
	for _, g := range v.cover.Goals() {
		goal := Goal{Goal: g}
		goal.Path = v.base
		if g.Path != "" {
			goal.Path += "." + g.Path
		}
		if g.Kind == schema.GoalCondition {
			goal.Line, goal.Column = d.doc.Within(goal.Path, g.Start)
		} else {
			goal.Line, goal.Column = d.doc.Position(goal.Path)
		}
		c := counts[g.Kind]
		c.Goals++
		all++
		if g.Reached {
			c.Reached++
			reached++
		}
		out.Goals = append(out.Goals, goal)
	}
	for _, r := range v.cover.Rules() {
		rule := Rule{RuleCoverage: r}
		rule.Path = v.base + "." + r.Path
		rule.Line, rule.Column = d.doc.Position(rule.Path)
		out.Rules = append(out.Rules, rule)
	}
	out.Percent = percent(reached, all)
	return out
}

// title names a version of a definition.
func (d *Definition) title() string { return fmt.Sprintf("%s %s (%s)", d.Name, d.Version, d.doc) }

// missing returns the goals that were not reached, in the order of the file.
func (d *Definition) missing() []Goal {
	var out []Goal
	for _, g := range d.Goals {
		if !g.Reached {
			out = append(out, g)
		}
	}
	slices.SortStableFunc(out, func(a, b Goal) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) })
	return out
}

// line is a line of a file that has goals.
type line struct {
	number, reached int
	goals           []Goal
}

// lines returns the lines that have goals, of all versions of the definitions in a file.
func lines(defs []Definition) []line {
	var out []line
	var goals []Goal
	for _, d := range defs {
		goals = append(goals, d.Goals...)
	}
	slices.SortStableFunc(goals, func(a, b Goal) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) })
	for _, g := range goals {
		if len(out) == 0 || out[len(out)-1].number != g.Line {
			out = append(out, line{number: g.Line})
		}
		l := &out[len(out)-1]
		l.goals = append(l.goals, g)
		if g.Reached {
			l.reached++
		}
	}
	return out
}

// files returns the definitions that were used, by file.
func (r *Report) files() [][]Definition {
	var out [][]Definition
	for _, d := range r.Definitions {
		if d.Objects == 0 {
			continue
		}
		if n := len(out); n > 0 && out[n-1][0].File == d.File {
			out[n-1] = append(out[n-1], d)
		} else {
			out = append(out, []Definition{d})
		}
	}
	return out
}
