package witness

import (
	"iter"
	"maps"
)

// This file makes witnesses smaller.

// shrink returns the smallest state that it finds by leaving out members and items, and by
// simplifying scalars, such that it is still a witness.
func (r *run) shrink(st *state, t *target) *state {
	for changed := true; changed && !r.stopped(); {
		changed = false
		for _, old := range []bool{false, true} {
			if st.tree(old) == nil {
				continue
			}
			for _, at := range places(st.tree(old), ref{old: old}) {
				if next, ok := r.smaller(st, t, at); ok {
					st, changed = next, true
				}
			}
		}
	}
	return st
}

// places returns the places below at, deep ones after those above them, and last ones first.
func places(t tree, at ref) []ref {
	var out []ref
	switch t := t.(type) {
	case map[string]any:
		for _, name := range sortedNames(t) {
			if len(at.path) == 0 && (name == "apiVersion" || name == "kind" || name == "metadata") {
				continue
			}
			out = append(append(out, at.child(name)), places(t[name], at.child(name))...)
		}
	case []any:
		for i := len(t) - 1; i >= 0; i-- {
			out = append(append(out, at.child(i)), places(t[i], at.child(i))...)
		}
	}
	return out
}

// smaller returns a witness in which the value at a place is absent or simpler.
func (r *run) smaller(st *state, t *target, at ref) (*state, bool) {
	if _, ok := st.get(at); !ok {
		return nil, false
	}
	accept := func(next *state, ok bool) bool { return ok && r.size(next) < r.size(st) && r.judge(next, t).witness }
	if st.old != nil { // first from both objects
		other, ok := st.get(ref{old: !at.old, path: at.path})
		mine, _ := st.get(at)
		if ok && equalTrees(mine, other) {
			if next, ok := r.make(without(st.new, at.path), without(st.old, at.path)); accept(next, ok) {
				return next, true
			}
		}
	}
	if next, ok := r.remove(st, at); accept(next, ok) {
		return next, true
	}
	v, _ := st.get(at)
	n := r.s.schemaAt(at.path)
	if n == nil || !isScalar(v) {
		return nil, false
	}
	for _, simpler := range append([]tree{r.s.minimal(n, 0)}, simplerScalars(v)...) {
		if equalTrees(simpler, v) || !r.s.fits(n, simpler) {
			continue
		}
		if next, ok := r.put(st, at, simpler); accept(next, ok) {
			return next, true
		}
	}
	return nil, false
}

// simplerScalars returns scalars that are simpler than v.
func simplerScalars(v tree) []tree {
	switch v := v.(type) {
	case string:
		runes := []rune(v)
		out := []tree{"", "a"}
		if len(runes) > 2 {
			out = append(out, string(runes[:len(runes)/2]), string(runes[len(runes)/2:]), string(runes[1:]), string(runes[:len(runes)-1]))
		}
		return out
	case int64:
		return []tree{int64(0), int64(1), v / 10, v / 2, v - 1}
	case float64:
		return []tree{int64(0), int64(v)}
	case bool:
		return []tree{false}
	}
	return nil
}

// size measures the objects of a state as they would be written: members with their default value
// count nothing.
func (r *run) size(st *state) int {
	n := r.s.measure(st.new, ref{})
	if st.old != nil {
		n += r.s.measure(st.old, ref{old: true})
	}
	return n
}

// measure is size for a part of a tree.
func (s *Search) measure(t tree, at ref) int {
	switch t := t.(type) {
	case map[string]any:
		n := 2
		for name, child := range t {
			below := at.child(name)
			if node := s.schemaAt(below.path); node != nil && node.Default != nil {
				if d, ok := parseTree(node.Default); ok && equalTrees(d, child) {
					continue
				}
			}
			n += 4 + len(name) + s.measure(child, below)
		}
		return n
	case []any:
		n := 2
		for i, child := range t {
			n += 2 + s.measure(child, at.child(i))
		}
		return n
	case string:
		return 2 + len(t)
	}
	return len(marshal(t))
}

// mapKeys returns the keys of a map.
func mapKeys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }
