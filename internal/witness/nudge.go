package witness

import (
	"maps"
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file moves numbers that are computed from many parts, such as sizes of filtered lists and
// sums of conditions, step by step. It also has the last resort: to try constants at each place that
// an expression reads.

// nudgeUntil changes the sides of a comparison of numbers until it is true.
func (r *run) nudgeUntil(st *state, c comparison, en *env, left int, yield sink) bool {
	if r.compares(st, c, en) {
		return yield(st)
	}
	if left == 0 || r.stopped() {
		return !r.stopped()
	}
	up, down := true, true // of the left side
	switch less, err := r.apply(st, en, "a0 < a1", c.a, c.b); {
	case err != nil || less.Kind() != cel.KindBool:
		return true
	case c.op == operators.Equals:
		up, down = less.Bool(), !less.Bool()
	case c.op == operators.Less, c.op == operators.LessEquals:
		up = false
	case c.op == operators.Greater, c.op == operators.GreaterEquals:
		down = false
	}
	again := func(next *state) bool { return r.nudgeUntil(next, c, en, left-1, yield) }
	for _, dir := range []int{1, -1} {
		if dir > 0 && !up || dir < 0 && !down {
			continue
		}
		if !capped(r.width, func(next sink) bool { return r.nudge(st, c.a, dir, en, next) }, again) {
			return false
		}
		if !capped(r.width, func(next sink) bool { return r.nudge(st, c.b, -dir, en, next) }, again) {
			return false
		}
	}
	return true
}

// nudge enumerates states in which the number e is larger (dir 1) or smaller (dir -1).
func (r *run) nudge(st *state, e ast.Expr, dir int, en *env, yield sink) bool {
	if r.stopped() {
		return false
	}
	if at, optional, ok := r.resolve(st, e, en); ok && !optional {
		now, _ := st.get(at)
		switch n := now.(type) {
		case int64:
			return r.assign(st, at, n+int64(dir), yield)
		case float64:
			return r.assign(st, at, n+float64(dir), yield)
		case nil:
			return r.presenceAt(st, at, true, yield)
		}
		return true
	}
	switch e.Kind() {
	case ast.IdentKind:
		if b, ok := en.lookup(e.AsIdent()); ok && b.kind == bindExpr {
			return r.nudge(st, b.expr, dir, b.env, yield)
		}
	case ast.CallKind:
		return r.nudgeCall(st, e, dir, en, yield)
	}
	return true
}

// nudgeCall is nudge for calls.
func (r *run) nudgeCall(st *state, e ast.Expr, dir int, en *env, yield sink) bool {
	c := e.AsCall()
	args := c.Args()
	if body, in, ok := asBind(e, en); ok {
		return r.nudge(st, body, dir, in, yield)
	}
	switch c.FunctionName() {
	case operators.Add, operators.Multiply:
		return r.nudge(st, args[0], dir, en, yield) && r.nudge(st, args[1], dir, en, yield)
	case operators.Subtract:
		return r.nudge(st, args[0], dir, en, yield) && r.nudge(st, args[1], -dir, en, yield)
	case operators.Conditional:
		return r.nudgeConditional(st, e, dir, en, yield)
	case "size":
		return r.nudgeSize(st, subject(c), dir, en, yield)
	case "sum", "max", "min":
		if c.IsMemberFunction() {
			items, err := r.items(st, c.Target(), en)
			if err != nil {
				return r.materialize(st, c.Target(), en, yield)
			}
			for _, item := range items {
				in := (*env)(nil).bind("x", item)
				if item.kind == bindExpr && !r.nudge(st, item.expr, dir, item.env, yield) {
					return false
				}
				if v, ok := in.lookup("x"); ok && v.kind == bindRef {
					if n, ok := st.get(v.ref); ok {
						if i, ok := n.(int64); ok && !r.assign(st, v.ref, i+int64(dir), yield) {
							return false
						}
					}
				}
			}
			return dir < 0 || r.grow(st, c.Target(), en, func(next *state, _ binding) bool { return yield(next) })
		}
	case "int", "double":
		if v, err := r.eval(st, e, en); err == nil {
			if n, ok := v.Go().(int64); ok {
				return r.become(st, e, n+int64(dir), en, yield)
			}
		}
	}
	return r.generic(st, e, en, yield)
}

// nudgeConditional is nudge for conditionals: the value of a branch changes, or the branch.
func (r *run) nudgeConditional(st *state, e ast.Expr, dir int, en *env, yield sink) bool {
	args := e.AsCall().Args()
	now, err := r.eval(st, e, en)
	if err != nil {
		return r.materialize(st, e, en, yield)
	}
	branch, _ := r.branch(st, args, en)
	for _, selected := range []bool{true, false} {
		other := args[1]
		if !selected {
			other = args[2]
		}
		if other == branch {
			continue
		}
		moved := func(next *state) bool {
			v, err := r.eval(next, e, en)
			if err != nil {
				return true
			}
			text := "a0 > a1"
			if dir < 0 {
				text = "a0 < a1"
			}
			is, err := r.s.o.Operations.call(r.ctx, text, []cel.Value{v, now})
			return err != nil || is.Kind() != cel.KindBool || !is.Bool() || yield(next)
		}
		if !capped(r.width, func(next sink) bool { return r.solve(st, args[0], selected, en, next) }, moved) {
			return false
		}
	}
	return branch == nil || branch.Kind() == ast.LiteralKind || r.nudge(st, branch, dir, en, yield)
}

// nudgeSize enumerates states in which a list, map or text is one longer or shorter.
func (r *run) nudgeSize(st *state, e ast.Expr, dir int, en *env, yield sink) bool {
	if at, optional, ok := r.resolve(st, e, en); ok && !optional {
		v := st.value(at)
		switch v.Kind() {
		case jsondoc.Absent, jsondoc.Null:
			return r.presenceAt(st, at, true, yield)
		case jsondoc.String:
			return r.resize(st, e, int64(length(v.Text())+dir), en, yield)
		}
		if dir > 0 {
			return r.growAt(st, at, func(next *state, _ binding) bool { return yield(next) })
		}
		return r.resize(st, e, int64(v.Len()-1), en, yield)
	}
	m, ok := asMacro(e)
	if !ok {
		if dir > 0 {
			return r.grow(st, e, en, func(next *state, _ binding) bool { return yield(next) })
		}
		return r.generic(st, e, en, yield)
	}
	items, err := r.items(st, m.over, en)
	if err != nil {
		return r.materialize(st, m.over, en, yield)
	}
	test := m.filter
	if m.name == "filter" {
		test = m.body
	}
	if test != nil {
		for i, item := range items {
			in := r.bindElement(m, en, i, item)
			if r.holds(st, test, dir > 0, in) {
				continue
			}
			if !capped(r.width, func(next sink) bool { return r.solve(st, test, dir > 0, in, next) }, yield) {
				return false
			}
		}
	}
	if dir > 0 {
		return r.growMacro(st, m, en, func(next *state, _ binding) bool { return yield(next) })
	}
	return r.nudgeSize(st, m.over, dir, en, yield)
}

// constants are the literals of an expression, which are good values to try.
type constants struct {
	texts   []string
	ints    []int64
	doubles []float64
}

// like returns the constants of the type of v.
func (c *constants) like(v cel.Value) []any {
	var out []any
	switch v.Kind() {
	case cel.KindString:
		for _, t := range append(c.texts[:len(c.texts):len(c.texts)], "a") {
			out = append(out, t)
		}
	case cel.KindInt, cel.KindDouble:
		for _, n := range append(c.ints[:len(c.ints):len(c.ints)], 0, 1, 2) {
			out = append(out, n)
		}
	}
	return out
}

// collect adds the literals of an expression.
func (c *constants) collect(e ast.Expr) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.LiteralKind {
			return
		}
		switch v := e.AsLiteral().Value().(type) {
		case string:
			if !slices.Contains(c.texts, v) && len(c.texts) < 256 {
				c.texts = append(c.texts, v)
			}
		case int64:
			if !slices.Contains(c.ints, v) {
				c.ints = append(c.ints, v)
			}
		case float64:
			c.doubles = append(c.doubles, v)
		}
	}))
}

// reads returns the places that an expression reads in a state, including absent ones.
func (r *run) reads(st *state, e ast.Expr, en *env, out *[]ref) {
	if len(*out) > 64 {
		return
	}
	add := func(at ref) {
		for _, other := range *out {
			if other.old == at.old && slices.Equal(other.path, at.path) {
				return
			}
		}
		*out = append(*out, at)
	}
	if at, _, ok := r.resolve(st, e, en); ok {
		add(at)
	}
	switch e.Kind() {
	case ast.IdentKind:
		if b, ok := en.lookup(e.AsIdent()); ok && b.kind == bindExpr {
			r.reads(st, b.expr, b.env, out)
		} else if ok && b.kind == bindKey {
			add(b.ref.parent().child(keyStep(b.ref.path[len(b.ref.path)-1].(string))))
		}
	case ast.SelectKind:
		if _, _, ok := r.resolve(st, e, en); !ok {
			r.reads(st, e.AsSelect().Operand(), en, out)
		}
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			r.reads(st, item, en, out)
		}
	case ast.CallKind:
		if m, ok := asMacro(e); ok {
			r.reads(st, m.over, en, out)
			if items, err := r.items(st, m.over, en); err == nil {
				for i, item := range items[:min(len(items), 4)] {
					r.reads(st, m.body, r.bindElement(m, en, i, item), out)
				}
			}
			return
		}
		c := e.AsCall()
		if c.IsMemberFunction() {
			r.reads(st, c.Target(), en, out)
		}
		for _, a := range c.Args() {
			r.reads(st, a, en, out)
		}
	}
}

// generic enumerates states in which one of the places that e reads has another value. The sink
// drops those without the wanted result.
func (r *run) generic(st *state, e ast.Expr, en *env, yield sink) bool {
	var places []ref
	r.reads(st, e, en, &places)
	var pool constants
	pool.collect(e)
	for _, at := range places {
		if at.old && st.old == nil {
			continue
		}
		if key, ok := lastStep(at).(keyStep); ok {
			if !r.renames(st, at.parent().child(string(key)), pool, yield) {
				return false
			}
			continue
		}
		n := r.s.schemaAt(at.path)
		if n == nil {
			continue
		}
		current, present := st.get(at)
		for _, v := range r.s.guesses(n, current, pool, r.width) {
			if present && equalTrees(v, current) {
				continue
			}
			if next, ok := r.put(st, at, v); ok && !yield(next) {
				return false
			}
			if r.stopped() {
				return false
			}
		}
		if present && !r.presenceAt(st, at, false, yield) {
			return false
		}
	}
	return true
}

// keyStep is the last step of a place whose name is read, not its value.
type keyStep string

// lastStep returns the last step of a path, nil for the root.
func lastStep(at ref) any {
	if len(at.path) == 0 {
		return nil
	}
	return at.path[len(at.path)-1]
}

// renames enumerates states in which a key of a map has another name.
func (r *run) renames(st *state, at ref, pool constants, yield sink) bool {
	for _, name := range r.s.guesses(stringSchema, lastStep(at), pool, r.width) {
		if text, ok := name.(string); ok && text != lastStep(at) && !r.rename(st, at, text, yield) {
			return false
		}
	}
	return true
}

// guesses returns values to try at a place of which nothing better is known.
func (s *Search) guesses(n *nodeSchema, current tree, pool constants, width int) []tree {
	var out []tree
	add := func(t tree) {
		if !contains(out, t) && (!isScalar(t) || s.fits(n, t)) {
			out = append(out, t)
		}
	}
	if n.Type == "string" || n.IntOrString {
		for _, t := range pool.texts {
			add(t)
		}
		for _, t := range pool.texts {
			if t != "" && t[0] >= '0' && t[0] <= '9' { // quantities, versions, durations
				add("9" + t)
				add("0" + t)
				add("-" + t)
			}
		}
		for _, t := range textSeeds {
			add(t)
		}
		if text, ok := current.(string); ok {
			for _, t := range pool.texts {
				add(text + t)
				add(t + text)
			}
			for _, t := range mutations(text, "\x00")[:10] {
				add(t)
			}
		}
	}
	if n.Type == "integer" || n.Type == "number" || n.IntOrString {
		for _, i := range pool.ints {
			add(i)
			add(i + 1)
			add(i - 1)
		}
		for _, i := range []int64{0, 1, -1, 100, 1 << 31, 1<<53 - 1} {
			add(i)
		}
	}
	if n.Items != nil && n.Items.Type == "string" {
		var items []tree
		for _, t := range pool.texts[:min(len(pool.texts), 4)] {
			items = append(items, t)
		}
		items = append(items, s.variants(n.Items, nil, 3)...)
		for _, a := range items {
			add([]any{a})
			for _, b := range items {
				add([]any{a, b})
			}
		}
		add(items)
	}
	for _, t := range s.samples(n, 2*width) {
		add(t)
	}
	return out
}

// sortedNames returns the sorted names of a map's members.
func sortedNames(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
