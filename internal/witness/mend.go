package witness

import (
	"math"
	"slices"

	"github.com/keelson-io/keelson/schema/structural"
)

// This file repairs values that the schema does not allow: missing members, sizes, texts and
// numbers out of their bounds, alternatives.

// mend enumerates states in which the first defect at a place, or below, is repaired.
func (r *run) mend(st *state, at ref, yield sink) bool {
	fix := r.defect(st, at)
	return fix == nil || fix(st, yield)
}

// defect returns the goal that repairs the first defect at a place or below, nil if none is found.
func (r *run) defect(st *state, at ref) goal {
	n := r.s.schemaAt(at.path)
	t, ok := st.get(at)
	if n == nil || !ok || t == nil {
		return nil
	}
	v := valuesOf(n)
	switch t := t.(type) {
	case map[string]any:
		if fix := r.objectDefect(st, at, v, t); fix != nil {
			return fix
		}
		for _, name := range sortedNames(t) {
			if fix := r.defect(st, at.child(name)); fix != nil {
				return fix
			}
		}
	case []any:
		if fix := r.listDefect(st, at, n, v, t); fix != nil {
			return fix
		}
		for i := range t {
			if fix := r.defect(st, at.child(i)); fix != nil {
				return fix
			}
		}
	default:
		if !r.s.fits(n, t) {
			return func(st *state, yield sink) bool {
				for _, other := range r.s.samples(n, 2*r.width) {
					if next, ok := r.put(st, at, other); ok && !yield(next) {
						return false
					}
				}
				return true
			}
		}
		return nil
	}
	return r.junctorDefect(at, v, t)
}

// objectDefect returns the goal that repairs the members of an object.
func (r *run) objectDefect(st *state, at ref, v *structural.Values, t map[string]any) goal {
	for _, name := range v.Required {
		if _, ok := t[name]; !ok {
			return func(st *state, yield sink) bool { return r.presenceAt(st, at.child(name), true, yield) }
		}
	}
	if v.MinProperties != nil && int64(len(t)) < *v.MinProperties {
		return func(st *state, yield sink) bool {
			return r.growAt(st, at, func(next *state, _ binding) bool { return yield(next) })
		}
	}
	if v.MaxProperties != nil && int64(len(t)) > *v.MaxProperties {
		return func(st *state, yield sink) bool {
			for _, name := range sortedNames(t) {
				if next, ok := r.remove(st, at.child(name)); ok && !slices.Contains(v.Required, name) && !yield(next) {
					return false
				}
			}
			return true
		}
	}
	return nil
}

// listDefect returns the goal that repairs the size of a list and its duplicates.
func (r *run) listDefect(st *state, at ref, n *structural.Schema, v *structural.Values, t []any) goal {
	switch {
	case v.MinItems != nil && int64(len(t)) < *v.MinItems:
		return func(st *state, yield sink) bool {
			return r.growAt(st, at, func(next *state, _ binding) bool { return yield(next) })
		}
	case v.MaxItems != nil && int64(len(t)) > *v.MaxItems:
		return func(st *state, yield sink) bool {
			next, ok := r.put(st, at, append([]any{}, t[:*v.MaxItems]...))
			return !ok || yield(next)
		}
	case n.ListType == "map" || n.ListType == "set":
		for i := range t {
			if changed := r.s.distincts(n, t[:i], t[i]); !equalTrees(changed[0], t[i]) {
				return func(st *state, yield sink) bool {
					for _, v := range changed {
						if next, ok := r.put(st, at.child(i), v); ok && !yield(next) {
							return false
						}
					}
					return true
				}
			}
		}
	}
	return nil
}

// junctorDefect returns the goal that satisfies allOf, anyOf, oneOf and not.
func (r *run) junctorDefect(at ref, v *structural.Values, t tree) goal {
	for _, n := range v.AllOf {
		if !r.s.meets(n, t) {
			return func(st *state, yield sink) bool { return r.meet(st, at, n, true, yield) }
		}
	}
	if len(v.AnyOf) > 0 && !slices.ContainsFunc(v.AnyOf, func(n *structural.Nested) bool { return r.s.meets(n, t) }) {
		return func(st *state, yield sink) bool {
			for _, n := range v.AnyOf {
				if !r.meet(st, at, n, true, yield) {
					return false
				}
			}
			return true
		}
	}
	if len(v.OneOf) > 0 {
		var are []*structural.Nested
		for _, n := range v.OneOf {
			if r.s.meets(n, t) {
				are = append(are, n)
			}
		}
		if len(are) != 1 {
			return func(st *state, yield sink) bool {
				if len(are) > 1 {
					for _, n := range are {
						if !r.meet(st, at, n, false, yield) {
							return false
						}
					}
					return true
				}
				for _, n := range v.OneOf {
					if !r.meet(st, at, n, true, yield) {
						return false
					}
				}
				return true
			}
		}
	}
	if v.Not != nil && r.s.meets(v.Not, t) {
		return func(st *state, yield sink) bool { return r.meet(st, at, v.Not, false, yield) }
	}
	return nil
}

// meets reports whether a tree satisfies a schema below a junctor.
func (s *Search) meets(n *structural.Nested, t tree) bool {
	v := &n.Values
	if len(v.Enum) > 0 && !slices.ContainsFunc(v.Enum, func(raw []byte) bool {
		other, ok := parseTree(raw)
		return ok && equalTrees(other, t)
	}) {
		return false
	}
	if !s.meetsOwn(n, t) {
		return false
	}
	are := 0
	for _, o := range v.OneOf {
		if s.meets(o, t) {
			are++
		}
	}
	return !slices.ContainsFunc(v.AllOf, func(o *structural.Nested) bool { return !s.meets(o, t) }) &&
		(len(v.AnyOf) == 0 || slices.ContainsFunc(v.AnyOf, func(o *structural.Nested) bool { return s.meets(o, t) })) &&
		(len(v.OneOf) == 0 || are == 1) && (v.Not == nil || !s.meets(v.Not, t))
}

// meetsOwn reports whether a tree satisfies the rules that depend on its type.
func (s *Search) meetsOwn(n *structural.Nested, t tree) bool {
	v := &n.Values
	switch t := t.(type) {
	case map[string]any:
		return s.meetsObject(n, t)
	case []any:
		return holds(int64(len(t)), v.MinItems, v.MaxItems) &&
			(n.Items == nil || !slices.ContainsFunc(t, func(x any) bool { return !s.meets(n.Items, x) }))
	case string:
		return n.Type != "integer" && (n.Format == "" || s.fits(s.plainOf(n), t)) && holds(int64(length(t)), v.MinLength, v.MaxLength) &&
			(v.Pattern == "" || s.satisfies(t, []textRule{{v.Pattern, true}}))
	case int64:
		return n.Type != "string" && within(v, float64(t))
	case float64:
		return within(v, t)
	}
	return true
}

// meetsObject reports whether an object satisfies the rules for objects.
func (s *Search) meetsObject(n *structural.Nested, t map[string]any) bool {
	for _, name := range n.Required {
		if _, ok := t[name]; !ok {
			return false
		}
	}
	for name, child := range n.Properties {
		if x, ok := t[name]; ok && !s.meets(child, x) {
			return false
		}
	}
	return holds(int64(len(t)), n.MinProperties, n.MaxProperties)
}

// holds reports whether a length is between two bounds, of which each may be missing.
func holds(n int64, least, most *int64) bool {
	return (least == nil || n >= *least) && (most == nil || n <= *most)
}

// within reports whether a number is within the bounds.
func within(v *structural.Values, f float64) bool {
	return (v.Minimum == nil || f > *v.Minimum || f == *v.Minimum && !v.ExclusiveMinimum) &&
		(v.Maximum == nil || f < *v.Maximum || f == *v.Maximum && !v.ExclusiveMaximum) &&
		(v.MultipleOf == nil || *v.MultipleOf == 0 || math.Mod(f, *v.MultipleOf) == 0)
}

// meet enumerates states that are closer to satisfying, or to not satisfying, a schema below a
// junctor.
func (r *run) meet(st *state, at ref, n *structural.Nested, want bool, yield sink) bool {
	t, ok := st.get(at)
	if !ok {
		return true
	}
	v := &n.Values
	confirm := func(next *state) bool {
		t, ok := next.get(at)
		return ok && r.s.meets(n, t) != want || yield(next)
	}
	m, isMap := t.(map[string]any)
	if isMap && !(r.meetRequired(st, at, m, v.Required, want, confirm, yield) && r.meetProperties(st, at, m, n.Properties, want, confirm)) {
		return false
	}
	for _, list := range [][]*structural.Nested{v.AllOf, v.AnyOf, v.OneOf} {
		for _, o := range list {
			if r.s.meets(o, t) != want && !r.meet(st, at, o, want, confirm) {
				return false
			}
		}
	}
	if v.Not != nil && r.s.meets(v.Not, t) == want && !r.meet(st, at, v.Not, !want, confirm) {
		return false
	}
	if isMap {
		return true
	}
	return r.meetScalar(st, at, n, confirm)
}

// meetRequired enumerates states in which an object has all required members, or lacks one.
func (r *run) meetRequired(st *state, at ref, m map[string]any, required []string, want bool, confirm, yield sink) bool {
	next, changed := st, false
	for _, name := range required {
		if _, ok := m[name]; !ok && want {
			if with, ok := r.put(next, at.child(name), r.s.minimal(r.s.schemaAt(at.child(name).path), 0)); ok {
				next, changed = with, true
			}
		} else if ok && !want {
			if less, ok := r.remove(st, at.child(name)); ok && !confirm(less) {
				return false
			}
		}
	}
	return !changed || yield(next)
}

// meetProperties enumerates states in which members satisfy their schemas, or one does not.
func (r *run) meetProperties(st *state, at ref, m map[string]any, properties map[string]*structural.Nested, want bool, confirm sink) bool {
	for _, name := range slices.Sorted(mapKeys(properties)) {
		child := properties[name]
		x, ok := m[name]
		if !ok {
			continue
		}
		if r.s.meets(child, x) != want && !r.meet(st, at.child(name), child, want, confirm) {
			return false
		}
		if want {
			if less, ok := r.remove(st, at.child(name)); ok && !confirm(less) {
				return false
			}
		}
	}
	return true
}

// meetScalar tries values of an enum, and others.
func (r *run) meetScalar(st *state, at ref, n *structural.Nested, yield sink) bool {
	var values []tree
	for _, raw := range n.Enum {
		if v, ok := parseTree(raw); ok {
			values = append(values, v)
		}
	}
	values = append(values, r.s.samples(r.s.plainOf(n), r.width)...)
	values = append(values, r.s.samples(r.s.schemaAt(at.path), r.width)...)
	for _, v := range values {
		if next, ok := r.put(st, at, v); ok && !yield(next) {
			return false
		}
	}
	return true
}

// plainOf returns the conditions of a schema below a junctor on texts and numbers, as a schema.
func (s *Search) plainOf(n *structural.Nested) *structural.Schema {
	out := s.nested[n]
	if out == nil {
		out = &structural.Schema{Type: "string", Format: n.Format, Values: &n.Values}
		if n.Minimum != nil || n.Maximum != nil || n.MultipleOf != nil || n.Type == "integer" {
			out.Type = "number"
		}
		s.nested[n] = out
	}
	return out
}
