package witness

import (
	"context"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// This file looks for the smallest change to an object that satisfies a rule.

// Change is a difference between two objects.
type Change struct {
	Path          string // such as .spec.rules[0].name
	Before, After []byte // JSON; nil if the value is absent
}

// Fix is a change to an object that satisfies a rule.
type Fix struct {
	Object  []byte // the changed object, as JSON with defaults
	Changes []Change
	// Valid: the changed object has no other error. Otherwise it has those that the object had.
	Valid bool
}

// maxFixes is the greatest number of fixes from which Nearest chooses.
const maxFixes = 16

// Nearest looks for the smallest change to an object, given as JSON, such that a rule holds
// everywhere in it. old is the object that it replaces, nil on create; it stays as it is. Rules that
// hold for the object, and valid values, stay so. ok is false if the object cannot be decoded, if
// the rule holds already, or if the search finds no change.
func (s *Search) Nearest(ctx context.Context, rule Rule, object, old []byte) (fix Fix, ok bool) {
	s.ctx = ctx
	newTree, ok := parseTree(object)
	if !ok {
		return Fix{}, false
	}
	var oldTree tree
	if old != nil {
		if oldTree, ok = parseTree(old); !ok {
			return Fix{}, false
		}
	}
	start := newState(s, newTree, oldTree)
	if start == nil || s.tree(rule.ValidationRule.Rule) == nil {
		return Fix{}, false
	}
	t := target{rule: rule, want: Accept, keepOld: true, allowed: map[string]bool{}}
	before := (&run{s: s, ctx: ctx}).judge(start, &t)
	if len(before.missed) == 0 {
		return Fix{}, false
	}
	t.anyValues = before.invalid
	for i := range before.broken {
		t.allowed[ruleName(&before.broken[i])] = true
	}
	best := s.closest(ctx, start, &t)
	if best == nil {
		return Fix{}, false
	}
	return Fix{Object: appendTree(best.new), Changes: changes(start.new, best.new, ref{}),
		Valid: !before.invalid && len(before.broken) == 0}, true
}

// closest returns the witness that differs least from start, nil if none is found.
func (s *Search) closest(ctx context.Context, start *state, t *target) *state {
	var best *state
	least := 0
	for _, width := range widths[:3] {
		r := s.run(ctx, width)
		r.frozenOld = true
		found := 0
		a := attempt{run: r, t: t, visited: map[string]bool{}}
		a.receive = func(st *state) bool {
			st = r.revert(start, st, t)
			if d := distance(start, st); best == nil || d < least {
				best, least = st, d
			}
			found++
			return found < maxFixes
		}
		a.repair(start, maxRepairs)
		if best != nil || ctx.Err() != nil {
			break
		}
	}
	return best
}

// revert undoes those changes between start and st that the rule does not need.
func (r *run) revert(start, st *state, t *target) *state {
	for again := true; again && !r.stopped(); {
		again = false
		for _, c := range diff(start.new, st.new, ref{}) {
			var t2 tree
			switch {
			case !c.before:
				t2 = without(st.new, c.at.path)
			case !c.after:
				if _, isItem := lastStep(c.at).(int); isItem {
					continue // items after it have moved
				}
				t2 = with(st.new, c.at.path, c.from, func([]any) tree { return map[string]any{} })
			default:
				t2 = with(st.new, c.at.path, c.from, nil)
			}
			next, ok := r.make(t2, st.old)
			if ok && next.key != st.key && distance(start, next) < distance(start, st) && r.judge(next, t).witness {
				st, again = next, true
				break
			}
		}
	}
	return st
}

// distance measures the difference between the new objects of two states: first the number of
// changes, then the size of the changed values.
func distance(a, b *state) int {
	n := 0
	for _, c := range diff(a.new, b.new, ref{}) {
		n += 1000
		if c.before && c.after && isScalar(c.from) && isScalar(c.to) {
			n += scalarDistance(c.from, c.to)
			continue
		}
		if c.before {
			n += min(len(marshal(c.from)), 400)
		}
		if c.after {
			n += min(len(marshal(c.to)), 400)
		}
	}
	return n
}

// scalarDistance measures the difference between two scalars.
func scalarDistance(a, b tree) int {
	switch x := a.(type) {
	case int64:
		if y, ok := b.(int64); ok {
			return int(min(max(x-y, y-x), 400))
		}
	case string:
		y, ok := b.(string)
		if !ok {
			break
		}
		first := 0
		for first < min(len(x), len(y)) && x[first] == y[first] {
			first++
		}
		last := 0
		for last < min(len(x), len(y))-first && x[len(x)-1-last] == y[len(y)-1-last] {
			last++
		}
		return min(len(x)+len(y)-2*(first+last), 400)
	}
	return 400
}

// difference is a place at which two trees differ.
type difference struct {
	at            ref
	from, to      tree
	before, after bool // there is a value
}

// diff returns the places at which two trees differ.
func diff(a, b tree, at ref) []difference {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		var out []difference
		for _, name := range sortedNames(x) {
			if other, ok := y[name]; ok {
				out = append(out, diff(x[name], other, at.child(name))...)
			} else {
				out = append(out, difference{at: at.child(name), from: x[name], before: true})
			}
		}
		for _, name := range sortedNames(y) {
			if _, ok := x[name]; !ok {
				out = append(out, difference{at: at.child(name), to: y[name], after: true})
			}
		}
		return out
	case []any:
		if y, ok := b.([]any); ok {
			return diffLists(x, y, at)
		}
	}
	if equalTrees(a, b) {
		return nil
	}
	return []difference{{at: at, from: a, to: b, before: true, after: true}}
}

// diffLists is diff for lists. Items in the middle of the longer list count as added or removed.
func diffLists(x, y []any, at ref) []difference {
	var out []difference
	if len(x) == len(y) {
		for i := range x {
			out = append(out, diff(x[i], y[i], at.child(i))...)
		}
		return out
	}
	first := 0
	for first < min(len(x), len(y)) && equalTrees(x[first], y[first]) {
		first++
	}
	last := 0
	for last < min(len(x), len(y))-first && equalTrees(x[len(x)-1-last], y[len(y)-1-last]) {
		last++
	}
	same := min(len(x), len(y)) - last
	for i := first; i < same; i++ {
		out = append(out, diff(x[i], y[i], at.child(i))...)
	}
	for i := same; i < len(x)-last; i++ {
		out = append(out, difference{at: at.child(i), from: x[i], before: true})
	}
	for i := same; i < len(y)-last; i++ {
		out = append(out, difference{at: at.child(i), to: y[i], after: true})
	}
	return out
}

// changes returns the differences between two trees for callers.
func changes(a, b tree, at ref) []Change {
	var out []Change
	for _, d := range diff(a, b, at) {
		c := Change{Path: d.at.String()}
		if d.before {
			c.Before = marshal(d.from)
		}
		if d.after {
			c.After = marshal(d.to)
		}
		out = append(out, c)
	}
	return out
}

// ruleName identifies the rule of a verdict.
func ruleName(v *schema.Verdict) string { return Rule{Path: v.Schema, Index: v.Index}.id() }

// id identifies the rule within its schema.
func (r Rule) id() string { return r.Path + "\x00" + string(rune(r.Index)) }

// exists reports whether a value is present and not null.
func exists(v jsondoc.Value) bool { return v.Exists() && v.Kind() != jsondoc.Null }
