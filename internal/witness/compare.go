package witness

import (
	"math"
	"time"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file solves comparisons and membership in lists and maps.

// comparison is an operator with its operands.
type comparison struct {
	op   string
	a, b ast.Expr
}

// negated has the opposite of each operator, swapped the operator for exchanged operands.
var (
	negated = map[string]string{
		operators.Equals: operators.NotEquals, operators.NotEquals: operators.Equals, operators.Less: operators.GreaterEquals,
		operators.GreaterEquals: operators.Less, operators.Greater: operators.LessEquals, operators.LessEquals: operators.Greater,
	}
	swapped = map[string]string{
		operators.Equals: operators.Equals, operators.NotEquals: operators.NotEquals, operators.Less: operators.Greater,
		operators.Greater: operators.Less, operators.LessEquals: operators.GreaterEquals, operators.GreaterEquals: operators.LessEquals,
	}
)

// wanted returns the comparison that must be true.
func (c comparison) wanted(want bool) comparison {
	if !want {
		c.op = negated[c.op]
	}
	return c
}

// compare enumerates states in which the comparison is true.
func (r *run) compare(st *state, c comparison, en *env, yield sink) bool {
	va, errA := r.eval(st, c.a, en)
	vb, errB := r.eval(st, c.b, en)
	if errA != nil || errB != nil {
		e := c.a
		if errA == nil {
			e = c.b
		}
		again := func(next *state) bool {
			if r.depth >= maxDepth {
				return true
			}
			r.depth++
			defer func() { r.depth-- }()
			if r.compares(next, c, en) {
				return yield(next)
			}
			return r.compare(next, c, en, yield)
		}
		if !capped(r.width, func(next sink) bool { return r.materialize(st, e, en, next) }, again) {
			return false
		}
		works := func(next *state) bool {
			_, err := r.eval(next, e, en)
			return err != nil || again(next)
		}
		return r.generic(st, e, en, works)
	}
	if (va.Kind() == cel.KindBool || vb.Kind() == cel.KindBool) && (c.op == operators.Equals || c.op == operators.NotEquals) {
		return r.compareBools(st, c, va.Kind() == cel.KindBool && va.Bool(), en, yield)
	}
	if !r.towards(st, c.a, targets(c.op, vb, r.pool), en, yield) {
		return false
	}
	if !r.towards(st, c.b, targets(swapped[c.op], va, r.pool), en, yield) {
		return false
	}
	if isNumber(va) && isNumber(vb) && !r.nudgeUntil(st, c, en, r.width*4, yield) {
		return false
	}
	if c.op == operators.NotEquals {
		differ := func(next *state) bool { return !r.compares(next, c, en) || yield(next) }
		if !r.perturb(st, c.a, en, differ) || !r.perturb(st, c.b, en, differ) {
			return false
		}
	}
	works := func(next *state) bool { return !r.compares(next, c, en) || yield(next) }
	if !r.generic(st, c.a, en, works) || !r.generic(st, c.b, en, works) {
		return false
	}
	// Both sides move to a constant.
	for _, v := range r.pool.like(va)[:min(len(r.pool.like(va)), r.width)] {
		for _, first := range []ast.Expr{c.a, c.b} {
			next := func(st *state) bool {
				if r.compares(st, c, en) {
					return yield(st)
				}
				va, err := r.eval(st, c.a, en)
				if err != nil {
					return true
				}
				return r.towards(st, c.b, targets(swapped[c.op], va, r.pool), en, yield)
			}
			if !capped(2, func(more sink) bool { return r.become(st, first, v, en, more) }, next) {
				return false
			}
		}
	}
	return true
}

// compares reports whether the comparison is true.
func (r *run) compares(st *state, c comparison, en *env) bool {
	v, err := r.apply(st, en, operatorTexts[c.op], c.a, c.b)
	return err == nil && v.Kind() == cel.KindBool && v.Bool()
}

// perturb changes the value of e in ways that its schema allows.
func (r *run) perturb(st *state, e ast.Expr, en *env, yield sink) bool {
	if e.Kind() == ast.IdentKind {
		if b, ok := en.lookup(e.AsIdent()); ok && b.kind == bindExpr {
			return r.perturb(st, b.expr, b.env, yield)
		}
	}
	if isCall(e, operators.Conditional) {
		return r.solveConditional(st, e.AsCall().Args(), en, yield, func(branch ast.Expr) goal {
			return func(st *state, yield sink) bool {
				if branch.Kind() == ast.LiteralKind {
					return yield(st)
				}
				return r.perturb(st, branch, en, yield)
			}
		})
	}
	at, optional, ok := r.resolve(st, e, en)
	if !ok {
		return r.grow(st, e, en, func(next *state, _ binding) bool { return yield(next) })
	}
	n := r.s.schemaAt(at.path)
	switch t, _ := st.get(at); t := t.(type) {
	case nil:
		return r.presenceAt(st, at, true, yield)
	case string, int64, float64:
		for _, v := range r.s.variants(n, nil, 2*r.width) {
			if next, ok := r.put(st, at, v); ok && !yield(next) {
				return false
			}
		}
	case []any:
		for i := range t[:min(len(t), r.width)] {
			if next, ok := r.remove(st, at.child(i)); ok && !yield(next) {
				return false
			}
		}
	case map[string]any:
		if !r.perturbMembers(st, at, yield) {
			return false
		}
	}
	return optional || r.growAt(st, at, func(next *state, _ binding) bool { return yield(next) })
}

// perturbMembers changes the members of an object, one at a time.
func (r *run) perturbMembers(st *state, at ref, yield sink) bool {
	n := r.s.schemaAt(at.path)
	if n == nil {
		return true
	}
	for _, name := range n.Names {
		child := at.child(name)
		if current, ok := st.get(child); ok {
			for _, v := range r.s.variants(n.Properties[name], current, 3) {
				if equalTrees(v, current) {
					continue
				}
				if next, ok := r.put(st, child, v); ok && !yield(next) {
					return false
				}
			}
			if next, ok := r.remove(st, child); ok && !yield(next) {
				return false
			}
		}
	}
	return true
}

// compareBools solves == and != between conditions. a is the value of the left one.
func (r *run) compareBools(st *state, c comparison, a bool, en *env, yield sink) bool {
	for _, left := range []bool{a, !a} {
		right := left == (c.op == operators.Equals)
		goals := []goal{r.goal(c.a, left, en), r.goal(c.b, right, en), r.goal(c.a, left, en), r.goal(c.b, right, en)}
		if !r.each(st, goals, func(next *state) bool { return !r.compares(next, c, en) || yield(next) }) {
			return false
		}
	}
	return true
}

// isNumber reports whether v is a number.
func isNumber(v cel.Value) bool {
	return v.Kind() == cel.KindInt || v.Kind() == cel.KindUint || v.Kind() == cel.KindDouble
}

// targets returns values for which "value op v" is true.
func targets(op string, v cel.Value, pool constants) []any {
	var down, up bool
	same := op == operators.Equals || op == operators.LessEquals || op == operators.GreaterEquals
	switch op {
	case operators.Less, operators.LessEquals:
		down = true
	case operators.Greater, operators.GreaterEquals:
		up = true
	case operators.NotEquals:
		down, up = true, true
	}
	var out []any
	add := func(when bool, v any) {
		if when && !contains(out, v) {
			out = append(out, v)
		}
	}
	x := v.Go()
	add(same, x)
	switch x := x.(type) {
	case int64:
		add(up, x+1)
		add(down, x-1)
		add(down && x > 0, int64(0))
		add(up && x < 0, int64(0))
		add(up, x+10)
		add(down, x-10)
	case uint64:
		add(up, x+1)
		add(down && x > 0, x-1)
	case float64:
		add(up, math.Floor(x)+1)
		add(down, math.Ceil(x)-1)
		add(up, x+0.001)
		add(down, x-0.001)
	case string:
		if op == operators.NotEquals {
			for _, text := range pool.texts {
				add(text != x, text)
			}
		}
		add(up, x+"a")
		add(down && x != "", "")
		add(up, "z")
		add(op == operators.NotEquals, "a")
	case time.Duration:
		for _, d := range []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour} {
			add(up, x+d)
			add(down, x-d)
		}
		add(down && x > 0 || up && x < 0, time.Duration(0))
	case time.Time:
		for _, d := range []time.Duration{time.Second, 24 * time.Hour} {
			add(up, x.Add(d))
			add(down, x.Add(-d))
		}
	}
	return out
}

// equalValues reports whether two plain values are equal.
func equalValues(a, b any) bool {
	switch x := a.(type) {
	case time.Time:
		y, ok := b.(time.Time)
		return ok && x.Equal(y)
	case int64:
		switch y := b.(type) {
		case int64:
			return x == y
		case float64:
			return float64(x) == y
		case uint64:
			return x >= 0 && uint64(x) == y
		case int:
			return x == int64(y)
		}
		return false
	case float64:
		if y, ok := b.(int64); ok {
			return x == float64(y)
		}
	case map[any]any:
		y, ok := b.(map[any]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			if w, ok := y[k]; !ok || !equalValues(v, w) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !equalValues(x[i], y[i]) {
				return false
			}
		}
		return true
	case []byte:
		y, ok := b.([]byte)
		return ok && string(x) == string(y)
	}
	switch b.(type) {
	case map[any]any, []any, []byte:
		return false
	}
	return a == b
}

// member enumerates states in which a is, or is not, in b.
func (r *run) member(st *state, a, b ast.Expr, want bool, en *env, yield sink) bool {
	if at, optional, ok := r.resolve(st, b, en); ok && !optional && st.value(at).Kind() == jsondoc.Object {
		return r.memberOfMap(st, a, at, want, en, yield)
	}
	items, errB := r.items(st, b, en)
	value, errA := r.eval(st, a, en)
	if errA != nil || errB != nil { // absent members are present by now
		return r.generic(st, a, en, yield) && r.generic(st, b, en, yield)
	}
	var known []any
	for _, item := range items {
		v, err := r.evalIdent(st, "x", (*env)(nil).bind("x", item))
		if err == nil {
			known = append(known, v.Go())
		}
	}
	if want {
		if !r.towards(st, a, known, en, yield) {
			return false
		}
		return r.grow(st, b, en, func(next *state, item binding) bool {
			return capped(r.width, func(more sink) bool { return r.becomeBinding(next, item, value.Go(), more) }, yield)
		})
	}
	if at, optional, ok := r.resolve(st, a, en); ok && !optional {
		for _, v := range r.s.variants(r.s.schemaAt(at.path), nil, len(known)+r.width+2) {
			if next, ok := r.put(st, at, v); ok && !yield(next) {
				return false
			}
		}
	}
	if !r.perturb(st, a, en, yield) || !r.towards(st, a, outside(known, r.pool), en, yield) {
		return false
	}
	for i := len(items) - 1; i >= 0; i-- {
		if items[i].kind == bindRef && equalValues(known[min(i, len(known)-1)], value.Go()) {
			if next, ok := r.remove(st, items[i].ref); ok && !yield(next) {
				return false
			}
		}
	}
	return true
}

// outside returns values that are not in list.
func outside(list []any, pool constants) []any {
	var out []any
	for _, text := range append(append([]string{}, pool.texts...), textSeeds...) {
		if len(list) == 0 || !contains(list, any(text)) {
			out = append(out, text)
		}
	}
	for i := range int64(len(list)) + 2 {
		if !contains(list, any(i)) {
			out = append(out, i)
		}
	}
	return out
}

// memberOfMap is member for keys of a map at a place.
func (r *run) memberOfMap(st *state, a ast.Expr, at ref, want bool, en *env, yield sink) bool {
	v, err := r.eval(st, a, en)
	name, ok := v.Go().(string)
	if err != nil || !ok {
		return r.materialize(st, a, en, yield)
	}
	if !r.presenceAt(st, at.child(name), want, yield) {
		return false
	}
	var values []any
	m, _ := st.get(at)
	keys, _ := m.(map[string]any)
	if want {
		for _, key := range sortedNames(keys) {
			values = append(values, key)
		}
	} else {
		for _, text := range append(append([]string{}, r.pool.texts...), "a", "b", "c") {
			if _, taken := keys[text]; !taken {
				values = append(values, text)
			}
		}
	}
	return r.towards(st, a, values, en, yield)
}

// becomeBinding is become for an element of a list.
func (r *run) becomeBinding(st *state, b binding, v any, yield sink) bool {
	text, isText := v.(string)
	switch b.kind {
	case bindRef:
		return r.assign(st, b.ref, v, yield)
	case bindKey:
		return !isText || r.rename(st, b.ref, text, yield)
	case bindExpr:
		return r.become(st, b.expr, v, b.env, yield)
	}
	return true
}
