package witness

import (
	"context"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file works backwards from the result that an expression should have to states in which it
// has that result. Each function calls a sink with such states, the most promising first, until the
// sink returns false. The functions return false if the sink did.

// sink receives states. It returns false to end the enumeration.
type sink = func(*state) bool

// goal enumerates the states that satisfy a condition.
type goal func(st *state, yield sink) bool

// run is one search.
type run struct {
	s     *Search
	ctx   context.Context
	steps int // states made
	bytes int // of these states
	max   int // the greatest number of steps
	evals int // evaluations of parts of expressions

	maxEvals int
	width    int       // alternatives that are tried at each choice
	depth    int       // of the recursion
	pool     constants // of the expression that is solved

}

// maxBytes is the greatest size of the objects of a run together.
const maxBytes = 4 << 20

const maxDepth = 60 // of the recursion over an expression

// stopped reports whether the run has no steps left.
func (r *run) stopped() bool {
	return r.steps >= r.max || r.bytes > maxBytes || r.evals >= r.maxEvals || r.steps&7 == 0 && r.ctx.Err() != nil
}

// capped calls run with a sink that ends after n states.
func capped(n int, run func(sink) bool, yield sink) bool {
	ended := false
	run(func(st *state) bool {
		if !yield(st) {
			ended = true
			return false
		}
		n--
		return n > 0
	})
	return !ended
}

// each satisfies the goals one after the other.
func (r *run) each(st *state, goals []goal, yield sink) bool {
	if len(goals) == 0 {
		return yield(st)
	}
	return capped(r.width, func(next sink) bool { return goals[0](st, next) }, func(st *state) bool {
		return r.each(st, goals[1:], yield)
	})
}

// holds reports whether e has the result want.
func (r *run) holds(st *state, e ast.Expr, want bool, en *env) bool {
	v, err := r.eval(st, e, en)
	return err == nil && v.Kind() == cel.KindBool && v.Bool() == want
}

// goal returns the goal that e has the result want.
func (r *run) goal(e ast.Expr, want bool, en *env) goal {
	return func(st *state, yield sink) bool { return r.solve(st, e, want, en, yield) }
}

// solve enumerates states in which e, an expression of type bool, has the result want.
func (r *run) solve(st *state, e ast.Expr, want bool, en *env, yield sink) bool {
	if r.stopped() {
		return false
	}
	if r.holds(st, e, want, en) {
		return yield(st)
	}
	if r.depth >= maxDepth {
		return true
	}
	r.depth++
	defer func() { r.depth-- }()
	confirm := func(next *state) bool { return !r.holds(next, e, want, en) || yield(next) }
	switch e.Kind() {
	case ast.IdentKind:
		b, _ := en.lookup(e.AsIdent())
		switch b.kind {
		case bindRef:
			return r.assign(st, b.ref, want, confirm)
		case bindExpr:
			return r.solve(st, b.expr, want, b.env, yield)
		}
		return true
	case ast.SelectKind:
		if at, optional, ok := r.resolve(st, e, en); ok && !optional {
			return r.assign(st, at, want, confirm)
		}
		return r.generic(st, e, en, confirm)
	case ast.CallKind:
		return r.solveCall(st, e, want, en, confirm)
	}
	return true
}

// solveCall is solve for calls. confirm drops states without the result.
func (r *run) solveCall(st *state, e ast.Expr, want bool, en *env, confirm sink) bool {
	c := e.AsCall()
	args := c.Args()
	if body, in, ok := asBind(e, en); ok {
		return r.solve(st, body, want, in, confirm)
	}
	if at, ok := r.missing(st, e, en); ok { // first make what it reads present
		return capped(r.width, func(next sink) bool { return r.presenceAt(st, at, true, next) }, func(next *state) bool {
			return capped(r.width, func(yield sink) bool { return r.solve(next, e, want, en, yield) }, confirm)
		})
	}
	if m, ok := asMacro(e); ok {
		return r.solveMacro(st, m, want, en, confirm)
	}
	switch c.FunctionName() {
	case operators.LogicalNot:
		return r.solve(st, args[0], !want, en, confirm)
	case operators.LogicalAnd, operators.LogicalOr:
		return r.solveLogic(st, e, want, en, confirm)
	case operators.Conditional:
		return r.solveConditional(st, args, en, confirm, func(branch ast.Expr) goal { return r.goal(branch, want, en) })
	case "has":
		if len(args) == 1 && !c.IsMemberFunction() {
			return r.presence(st, args[0], want, en, confirm)
		}
	case "hasValue":
		if at, optional, ok := r.resolveTarget(st, c, en); ok && optional {
			return r.presenceAt(st, at, want, confirm)
		}
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return r.compare(st, comparison{op: c.FunctionName(), a: args[0], b: args[1]}.wanted(want), en, confirm)
	case operators.In, operators.OldIn:
		return r.member(st, args[0], args[1], want, en, confirm)
	case "startsWith", "endsWith", "contains", "matches":
		if c.IsMemberFunction() && len(args) == 1 {
			return r.textTest(st, e, want, en, confirm)
		}
	case operators.Index:
		if at, optional, ok := r.resolve(st, e, en); ok && !optional {
			return r.assign(st, at, want, confirm)
		}
	case "orValue":
		return r.orValue(st, c, want, en, confirm)
	}
	return r.generic(st, e, en, confirm)
}

// missing returns a place that is absent, and that a call needs whatever its result is to be.
func (r *run) missing(st *state, e ast.Expr, en *env) (ref, bool) {
	switch e.AsCall().FunctionName() {
	case operators.LogicalNot, operators.LogicalAnd, operators.LogicalOr, operators.Conditional, "has", "hasValue", "orValue":
		return ref{}, false
	}
	if _, err := r.eval(st, e, en); err == nil {
		return ref{}, false
	}
	return r.firstAbsent(st, e, en)
}

// solveLogic is solve for && and ||.
func (r *run) solveLogic(st *state, e ast.Expr, want bool, en *env, confirm sink) bool {
	args := e.AsCall().Args()
	any := isCall(e, operators.LogicalOr) == want // one part decides
	if any {
		for _, a := range args {
			if !capped(r.width, func(next sink) bool { return r.solve(st, a, want, en, next) }, confirm) {
				return false
			}
		}
		return true
	}
	goals := make([]goal, 0, 2*len(args))
	for range 2 { // a later part may undo an earlier one
		for _, a := range args {
			goals = append(goals, r.goal(a, want, en))
		}
	}
	return r.each(st, goals, confirm)
}

// solveConditional satisfies the goal for one of the branches, with the condition that selects it.
// The branch that is selected now comes first.
func (r *run) solveConditional(st *state, args []ast.Expr, en *env, yield sink, of func(branch ast.Expr) goal) bool {
	first := true
	if v, err := r.eval(st, args[0], en); err == nil && v.Kind() == cel.KindBool {
		first = v.Bool()
	}
	for _, selected := range []bool{first, !first} {
		branch := args[1]
		if !selected {
			branch = args[2]
		}
		condition := r.goal(args[0], selected, en)
		if !r.each(st, []goal{condition, of(branch), condition, of(branch)}, yield) {
			return false
		}
	}
	return true
}

// presence enumerates states in which the member that e selects is present, or absent.
func (r *run) presence(st *state, e ast.Expr, want bool, en *env, yield sink) bool {
	at, _, ok := r.resolve(st, e, en)
	if !ok {
		return true
	}
	return r.presenceAt(st, at, want, yield)
}

// presenceAt is presence for a place.
func (r *run) presenceAt(st *state, at ref, want bool, yield sink) bool {
	if !want {
		for n := len(at.path); n > 0; n-- { // a place above may be removed instead
			if next, ok := r.remove(st, ref{at.old, at.path[:n]}); ok && !yield(next) {
				return false
			}
			if n > 1 {
				if _, isIndex := at.path[n-1].(int); isIndex {
					break
				}
			}
		}
		if at.old && st.old != nil || !at.old {
			return true
		}
		return true
	}
	n := r.s.schemaAt(at.path)
	for _, v := range r.s.samples(n, r.width) {
		if next, ok := r.put(st, at, v); ok && !yield(next) {
			return false
		}
	}
	return true
}

// samples returns up to max different values of a node, the smallest first.
func (s *Search) samples(n *nodeSchema, max int) []tree {
	first := s.minimal(n, 0)
	if n == nil || n.Type == "object" {
		return []tree{first}
	}
	if n.Type == "array" {
		out := []tree{first}
		if list, ok := first.([]any); ok && len(list) == 0 && n.Items != nil {
			out = append(out, []any{s.minimal(n.Items, 0)})
		}
		return out
	}
	out := []tree{first}
	for _, v := range s.variants(n, first, max) {
		if !contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// assign enumerates states in which the place has the value v, in the forms that its schema allows.
func (r *run) assign(st *state, at ref, v any, yield sink) bool {
	n := r.s.schemaAt(at.path)
	for _, form := range forms(n, v) {
		if isScalar(form) && !r.s.fits(n, form) {
			continue
		}
		if next, ok := r.put(st, at, form); ok && !yield(next) {
			return false
		}
	}
	return true
}

// isScalar reports whether a tree has no children.
func isScalar(t tree) bool {
	switch t.(type) {
	case []any, map[string]any, nil:
		return false
	}
	return true
}

// solveMacro is solve for all, exists and exists_one.
func (r *run) solveMacro(st *state, m macroCall, want bool, en *env, yield sink) bool {
	switch m.name {
	case "all":
		if want {
			return r.forAll(st, m, true, en, yield)
		}
		return r.forSome(st, m, false, en, yield)
	case "exists":
		if want {
			return r.forSome(st, m, true, en, yield)
		}
		return r.forAll(st, m, false, en, yield)
	case "exists_one":
		return r.forOne(st, m, want, en, yield)
	}
	return true
}

// forSome enumerates states in which the body has the result want for some element: one that
// exists, or a new one.
func (r *run) forSome(st *state, m macroCall, want bool, en *env, yield sink) bool {
	items, err := r.elements(st, m, en)
	if err != nil {
		return r.materialize(st, m.over, en, func(next *state) bool { return r.forSome(next, m, want, en, yield) })
	}
	for _, in := range items[:min(len(items), r.width)] {
		if !capped(r.width, func(next sink) bool { return r.solve(st, m.body, want, in, next) }, yield) {
			return false
		}
	}
	return r.grow(st, m.over, en, func(next *state, item binding) bool {
		in := r.bindElement(m, en, len(items), item)
		return capped(r.width, func(more sink) bool { return r.solve(next, m.body, want, in, more) }, yield)
	})
}

// forAll enumerates states in which the body has the result want for every element: by changing the
// elements, or by removing those for which it has not.
func (r *run) forAll(st *state, m macroCall, want bool, en *env, yield sink) bool {
	items, err := r.elements(st, m, en)
	if err != nil {
		return r.materialize(st, m.over, en, yield)
	}
	var goals []goal
	for _, in := range items {
		goals = append(goals, func(st *state, yield sink) bool {
			return r.solve(st, m.body, want, in, yield)
		})
	}
	if len(goals) <= 64 && !r.each(st, goals, yield) {
		return false
	}
	next := st
	for i := len(items) - 1; i >= 0; i-- {
		if r.holds(st, m.body, want, items[i]) {
			continue
		}
		b, _ := items[i].lookup(m.names[len(m.names)-1])
		if b.kind != bindRef && b.kind != bindKey {
			return true
		}
		dropped, ok := r.remove(next, b.ref)
		if !ok {
			return true
		}
		next = dropped
	}
	return yield(next)
}

// forOne is solve for exists_one.
func (r *run) forOne(st *state, m macroCall, want bool, en *env, yield sink) bool {
	items, err := r.elements(st, m, en)
	if err != nil {
		return r.materialize(st, m.over, en, yield)
	}
	var are, others []*env
	for _, in := range items {
		if r.holds(st, m.body, true, in) {
			are = append(are, in)
		} else {
			others = append(others, in)
		}
	}
	if want && len(are) > 1 {
		var goals []goal
		for _, in := range are[1:] {
			goals = append(goals, r.goal(m.body, false, in))
		}
		if !r.each(st, goals, yield) {
			return false
		}
		b, _ := are[len(are)-1].lookup(m.names[len(m.names)-1])
		if b.kind == bindRef || b.kind == bindKey {
			if next, ok := r.remove(st, b.ref); ok && !yield(next) {
				return false
			}
		}
		return true
	}
	if want || len(are) == 1 { // one more
		for _, in := range others[:min(len(others), r.width)] {
			if !capped(r.width, func(next sink) bool { return r.solve(st, m.body, true, in, next) }, yield) {
				return false
			}
		}
		more := func(next *state, item binding) bool {
			in := r.bindElement(m, en, len(items), item)
			return capped(r.width, func(more sink) bool { return r.solve(next, m.body, true, in, more) }, yield)
		}
		if !r.grow(st, m.over, en, more) {
			return false
		}
	}
	if !want && len(are) == 1 {
		return capped(r.width, func(next sink) bool { return r.solve(st, m.body, false, are[0], next) }, yield)
	}
	return true
}

// grow enumerates states in which a list or map has one more element, with the new element.
func (r *run) grow(st *state, e ast.Expr, en *env, yield func(*state, binding) bool) bool {
	if at, optional, ok := r.resolve(st, e, en); ok && !optional {
		return r.growAt(st, at, yield)
	}
	switch e.Kind() {
	case ast.IdentKind:
		if b, ok := en.lookup(e.AsIdent()); ok && b.kind == bindExpr {
			return r.grow(st, b.expr, b.env, yield)
		}
	case ast.CallKind:
		if m, ok := asMacro(e); ok {
			return r.growMacro(st, m, en, yield)
		}
		args := e.AsCall().Args()
		switch e.AsCall().FunctionName() {
		case operators.Add:
			return r.grow(st, args[0], en, yield) && r.grow(st, args[1], en, yield)
		case operators.Conditional:
			for _, selected := range []bool{true, false} {
				branch := args[1]
				if !selected {
					branch = args[2]
				}
				if !r.solve(st, args[0], selected, en, func(next *state) bool { return r.grow(next, branch, en, yield) }) {
					return false
				}
			}
		case "orValue":
			if at, optional, ok := r.resolve(st, e.AsCall().Target(), en); ok && optional {
				return r.growAt(st, at, yield)
			}
		}
	}
	return true
}

// growMacro is grow for filter and map.
func (r *run) growMacro(st *state, m macroCall, en *env, yield func(*state, binding) bool) bool {
	return r.grow(st, m.over, en, func(next *state, item binding) bool {
		in := r.bindElement(m, en, 0, item)
		test, out := m.filter, item
		switch m.name {
		case "filter":
			test = m.body
		case "map":
			out = binding{kind: bindExpr, expr: m.body, env: in}
		default:
			return true
		}
		if test == nil {
			return yield(next, out)
		}
		return capped(r.width, func(more sink) bool { return r.solve(next, test, true, in, more) }, func(st *state) bool { return yield(st, out) })
	})
}

// growAt is grow for the list or map at a place.
func (r *run) growAt(st *state, at ref, yield func(*state, binding) bool) bool {
	n := r.s.schemaAt(at.path)
	if n == nil {
		return true
	}
	current, _ := st.get(at)
	if n.Items != nil {
		list, _ := current.([]any)
		if most := valuesOf(n).MaxItems; most != nil && int64(len(list)) >= *most {
			return true
		}
		var tried []tree
		for _, v := range r.s.samples(n.Items, r.width) {
			for _, v := range r.s.distincts(n, list, v) {
				if contains(tried, v) {
					continue
				}
				tried = append(tried, v)
				if next, ok := r.put(st, at.child(len(list)), v); ok && !yield(next, binding{kind: bindRef, ref: at.child(len(list))}) {
					return false
				}
			}
		}
		return true
	}
	m, _ := current.(map[string]any)
	if n.Additional == nil {
		for _, name := range n.Names { // a declared member is a key, too
			if _, ok := m[name]; !ok {
				if next, ok := r.put(st, at.child(name), r.s.minimal(n.Properties[name], 0)); ok && !yield(next, binding{kind: bindKey, ref: at.child(name)}) {
					return false
				}
			}
		}
		return true
	}
	for i := range 64 {
		name := freshName(i)
		if _, taken := m[name]; taken {
			continue
		}
		for _, v := range r.s.samples(n.Additional, r.width) {
			if next, ok := r.put(st, at.child(name), v); ok && !yield(next, binding{kind: bindKey, ref: at.child(name)}) {
				return false
			}
		}
		return true
	}
	return true
}

// materialize enumerates states in which the members that e reads first, and that are absent, are
// present.
func (r *run) materialize(st *state, e ast.Expr, en *env, yield sink) bool {
	at, ok := r.firstAbsent(st, e, en)
	if !ok {
		return true
	}
	return r.presenceAt(st, at, true, yield)
}

// firstAbsent returns the first place that e reads and that is absent.
func (r *run) firstAbsent(st *state, e ast.Expr, en *env) (ref, bool) {
	if at, optional, ok := r.resolve(st, e, en); ok && !optional {
		if v := st.value(at); !v.Exists() || v.Kind() == jsondoc.Null {
			return at, !at.old || st.old != nil
		}
		return ref{}, false
	}
	switch e.Kind() {
	case ast.IdentKind:
		if b, ok := en.lookup(e.AsIdent()); ok && b.kind == bindExpr {
			return r.firstAbsent(st, b.expr, b.env)
		}
	case ast.SelectKind:
		return r.firstAbsent(st, e.AsSelect().Operand(), en)
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			if at, ok := r.firstAbsent(st, item, en); ok {
				return at, true
			}
		}
	case ast.CallKind:
		if m, ok := asMacro(e); ok {
			return r.firstAbsent(st, m.over, en)
		}
		c := e.AsCall()
		if c.FunctionName() == "has" {
			return ref{}, false
		}
		args := c.Args()
		if c.FunctionName() == operators.Conditional {
			branch, err := r.branch(st, args, en)
			if err != nil {
				return r.firstAbsent(st, args[0], en)
			}
			return r.firstAbsent(st, branch, en)
		}
		if c.IsMemberFunction() {
			if _, isNamespace := namespace(c.Target(), en); !isNamespace {
				args = append([]ast.Expr{c.Target()}, args...)
			}
		}
		for _, a := range args {
			if at, ok := r.firstAbsent(st, a, en); ok {
				return at, true
			}
		}
	}
	return ref{}, false
}
