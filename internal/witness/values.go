package witness

import (
	"encoding/base64"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file works backwards from the value of an expression.

type nodeSchema = structural.Schema

// towards enumerates states in which e has one of the values.
func (r *run) towards(st *state, e ast.Expr, values []any, en *env, yield sink) bool {
	if e.Kind() == ast.LiteralKind {
		return true
	}
	for _, v := range values[:min(len(values), 3*r.width)] {
		if !capped(r.width, func(next sink) bool { return r.become(st, e, v, en, next) }, yield) {
			return false
		}
	}
	return true
}

// forms returns the JSON values by which a node can have the value v.
func forms(n *nodeSchema, v any) []tree {
	switch v := v.(type) {
	case time.Duration:
		var out []tree
		for _, text := range durationTexts(v) {
			out = append(out, text)
		}
		return out
	case time.Time:
		if n != nil && n.Format == "date" {
			return []tree{v.Format(time.DateOnly)}
		}
		return []tree{v.Format(time.RFC3339Nano)}
	case []byte:
		return []tree{base64.StdEncoding.EncodeToString(v)}
	case uint64:
		return []tree{int64(v)}
	case int:
		return []tree{int64(v)}
	case float64:
		if n != nil && n.Type == "integer" || v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return []tree{int64(v)}
		}
	case map[any]any:
		out := map[string]any{}
		for k, member := range v {
			if name, ok := k.(string); ok {
				for _, f := range forms(nil, member) {
					out[name] = f
				}
			}
		}
		return []tree{out}
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			if f := forms(nil, item); len(f) > 0 {
				out = append(out, f[0])
			}
		}
		return []tree{out}
	case nil:
		if n == nil || !n.Nullable {
			return nil
		}
	}
	return []tree{v}
}

// become enumerates states in which e has the value v.
func (r *run) become(st *state, e ast.Expr, v any, en *env, yield sink) bool {
	if r.stopped() {
		return false
	}
	if r.depth >= maxDepth {
		return true
	}
	r.depth++
	defer func() { r.depth-- }()
	if is, ok := v.(bool); ok {
		return r.solve(st, e, is, en, yield)
	}
	if now, err := r.eval(st, e, en); err == nil && equalValues(now.Go(), v) {
		return yield(st)
	}
	confirm := func(next *state) bool {
		now, err := r.eval(next, e, en)
		return err != nil || !equalValues(now.Go(), v) || yield(next)
	}
	if at, optional, ok := r.resolve(st, e, en); ok {
		if v == nil && optional {
			return r.presenceAt(st, at, false, yield)
		}
		return r.assign(st, at, v, confirm)
	}
	switch e.Kind() {
	case ast.IdentKind:
		b, _ := en.lookup(e.AsIdent())
		switch text, isText := v.(string); {
		case b.kind == bindExpr:
			return r.become(st, b.expr, v, b.env, yield)
		case b.kind == bindKey && isText:
			return r.rename(st, b.ref, text, yield)
		}
	case ast.CallKind:
		return r.becomeCall(st, e, v, en, confirm)
	}
	return true
}

// rename enumerates the state in which a key of a map has another name.
func (r *run) rename(st *state, at ref, name string, yield sink) bool {
	at = st.current(at)
	v, ok := st.get(at)
	if _, taken := st.get(at.parent().child(name)); !ok || taken {
		return true
	}
	t := with(without(st.tree(at.old), at.path), at.parent().child(name).path, v, func([]any) tree { return nil })
	next, ok := r.edit(st, at.old, t)
	if !ok {
		return true
	}
	next.renamed = maps.Clone(st.renamed)
	if next.renamed == nil {
		next.renamed = map[string]string{}
	}
	delete(next.renamed, at.parent().child(name).id())
	next.renamed[at.id()] = name
	return yield(next)
}

// becomeCall is become for calls.
func (r *run) becomeCall(st *state, e ast.Expr, v any, en *env, yield sink) bool {
	c := e.AsCall()
	args := c.Args()
	if body, in, ok := asBind(e, en); ok {
		return r.become(st, body, v, in, yield)
	}
	text, isText := v.(string)
	switch name := c.FunctionName(); name {
	case operators.Conditional:
		return r.solveConditional(st, args, en, yield, func(branch ast.Expr) goal {
			return func(st *state, yield sink) bool { return r.become(st, branch, v, en, yield) }
		})
	case "size":
		if n, ok := v.(int64); ok {
			return r.resize(st, subject(c), n, en, yield)
		}
	case operators.Add, operators.Subtract, operators.Multiply:
		return r.arithmetic(st, name, args, v, en, yield)
	case operators.Negate:
		if n, ok := v.(int64); ok {
			return r.become(st, args[0], -n, en, yield)
		}
	case "int", "double", "string", "duration", "timestamp", "quantity", "ip", "cidr", "url", "uint", "bytes", "dyn", "semver":
		return r.convert(st, name, args, v, en, yield)
	case "lowerAscii", "upperAscii", "trim", "find", "substring", "getScheme", "getHost", "getHostname", "getPort", "getEscapedPath":
		if isText && c.IsMemberFunction() {
			return r.becomeText(st, c, text, en, yield)
		}
	case "charAt", "indexOf", "lastIndexOf", "reverse", "join", "decode", "getFullYear":
		if !r.invert(st, c, v, en, yield) {
			return false
		}
	case operators.Index:
		if split, ok := args[0], isCall(args[0], "split"); ok && isText && split.AsCall().IsMemberFunction() && len(split.AsCall().Args()) >= 1 {
			return r.unsplit(st, split.AsCall(), args[1], text, en, yield)
		}
	case "split":
		if list, ok := v.([]any); ok && c.IsMemberFunction() {
			return r.unsplitAll(st, c, list, en, yield)
		}
	case "orValue":
		return r.orValue(st, c, v, en, yield)
	}
	return r.generic(st, e, en, yield)
}

// becomeText is become for functions of a text or a URL that return a part of it.
func (r *run) becomeText(st *state, c ast.CallExpr, text string, en *env, yield sink) bool {
	var whole []any
	switch name := c.FunctionName(); name {
	case "substring":
		return r.unsubstring(st, c, text, en, yield)
	case "lowerAscii", "upperAscii", "trim", "find":
		whole = []any{text, " " + text}
	default:
		for _, u := range urlsWith(name, text) {
			whole = append(whole, u)
		}
	}
	for _, v := range whole {
		if !r.become(st, c.Target(), v, en, yield) {
			return false
		}
	}
	return true
}

// subject returns the argument of a function that may be called as f(x) or x.f().
func subject(c ast.CallExpr) ast.Expr {
	if c.IsMemberFunction() {
		return c.Target()
	}
	return c.Args()[0]
}

// orValue enumerates states in which an optional value, or its replacement, is v.
func (r *run) orValue(st *state, c ast.CallExpr, v any, en *env, yield sink) bool {
	if !c.IsMemberFunction() || len(c.Args()) != 1 {
		return true
	}
	if at, optional, ok := r.resolve(st, c.Target(), en); ok && optional {
		if now, err := r.eval(st, c.Args()[0], en); err == nil && equalValues(now.Go(), v) && !r.presenceAt(st, at, false, yield) {
			return false
		}
		if !r.assign(st, at, v, yield) {
			return false
		}
	}
	absent := func(next *state) bool { return r.become(next, c.Args()[0], v, en, yield) }
	if at, optional, ok := r.resolve(st, c.Target(), en); ok && optional && c.Args()[0].Kind() != ast.LiteralKind {
		return r.presenceAt(st, at, false, absent)
	}
	return true
}

// arithmetic enumerates states in which a sum, difference or product is v.
func (r *run) arithmetic(st *state, op string, args []ast.Expr, v any, en *env, yield sink) bool {
	a, errA := r.eval(st, args[0], en)
	b, errB := r.eval(st, args[1], en)
	if errA != nil || errB != nil {
		return r.materialize(st, args[0], en, yield) && r.materialize(st, args[1], en, yield)
	}
	if _, isTime := a.Go().(time.Time); isTime {
		return r.timeArithmetic(st, op, args, a.Go(), b.Go(), v, en, yield)
	}
	try := func(e ast.Expr, v any) bool {
		return e.Kind() == ast.LiteralKind || capped(r.width, func(next sink) bool { return r.become(st, e, v, en, next) }, yield)
	}
	switch want := v.(type) {
	case int64:
		x, okA := a.Go().(int64)
		y, okB := b.Go().(int64)
		if !okA || !okB {
			return true
		}
		first, second := operandsFor(op, x, y, want)
		return (first == nil || try(args[0], *first)) && (second == nil || try(args[1], *second))
	case string:
		x, okA := a.Go().(string)
		y, okB := b.Go().(string)
		if op != operators.Add || !okA || !okB {
			return true
		}
		if rest, ok := strings.CutSuffix(want, y); ok && !try(args[0], rest) {
			return false
		}
		if rest, ok := strings.CutPrefix(want, x); ok {
			return try(args[1], rest)
		}
	case time.Duration:
		x, okA := a.Go().(time.Duration)
		y, okB := b.Go().(time.Duration)
		if okA && okB && op == operators.Add {
			return try(args[0], want-y) && try(args[1], want-x)
		}
	}
	return true
}

// operandsFor returns the first operand that yields a result beside the second, and the second that
// yields it beside the first. Nil means that there is none.
func operandsFor(op string, x, y, want int64) (first, second *int64) {
	switch op {
	case operators.Add:
		return new(want - y), new(want - x)
	case operators.Subtract:
		return new(want + y), new(x - want)
	case operators.Multiply:
		if y != 0 && want%y == 0 {
			first = new(want / y)
		}
		if x != 0 && want%x == 0 {
			second = new(want / x)
		}
	}
	return first, second
}

// timeArithmetic is arithmetic for a timestamp and a duration, or two timestamps.
func (r *run) timeArithmetic(st *state, op string, args []ast.Expr, a, b, v any, en *env, yield sink) bool {
	at, _ := a.(time.Time)
	other, isTime := b.(time.Time)
	span, isSpan := b.(time.Duration)
	switch want := v.(type) {
	case time.Duration:
		if op == operators.Subtract && isTime {
			return r.become(st, args[0], other.Add(want), en, yield) && r.become(st, args[1], at.Add(-want), en, yield)
		}
	case time.Time:
		if op == operators.Subtract {
			span = -span
		}
		if isSpan {
			return r.become(st, args[0], want.Add(-span), en, yield)
		}
	}
	return true
}

// convert enumerates states in which a conversion yields v.
func (r *run) convert(st *state, name string, args []ast.Expr, v any, en *env, yield sink) bool {
	if len(args) == 0 {
		return true
	}
	for _, f := range append(forms(nil, v), v) {
		for _, in := range []any{f, textOf(f)} {
			if name == "string" && in != textOf(f) {
				if n, err := strconv.ParseInt(textOf(f), 10, 64); err == nil {
					in = n
				}
			}
			if !r.become(st, args[0], in, en, yield) {
				return false
			}
		}
	}
	return true
}

// textOf returns a scalar as text.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// resize enumerates states in which a text, list or map has a size.
func (r *run) resize(st *state, e ast.Expr, size int64, en *env, yield sink) bool {
	if size < 0 || size > 1<<16 {
		return true
	}
	at, optional, ok := r.resolve(st, e, en)
	if !ok || optional {
		return r.resizeOther(st, e, size, en, yield)
	}
	n := r.s.schemaAt(at.path)
	if n == nil {
		return true
	}
	current, _ := st.get(at)
	switch {
	case n.Type == "string" || n.IntOrString:
		exactly := []textRule{{"^(?s:.){" + strconv.FormatInt(min(size, 1000), 10) + "}$", true}}
		if size > 1000 {
			return r.assign(st, at, strings.Repeat("a", int(size)), yield)
		}
		for _, text := range append(r.s.texts(n, exactly, r.width), strings.Repeat("a", int(size))) {
			if !r.assign(st, at, text, yield) {
				return false
			}
		}
	case n.Items != nil:
		list, _ := current.([]any)
		if int64(len(list)) > size {
			next, ok := r.put(st, at, append([]any{}, list[:size]...))
			return !ok || yield(next)
		}
		if size > maxItems {
			return true
		}
		list = append([]any{}, list...)
		for int64(len(list)) < size {
			list = append(list, r.s.distinct(n, list, r.s.minimal(n.Items, 0)))
		}
		next, ok := r.put(st, at, list)
		return !ok || yield(next)
	case n.Additional != nil:
		m, _ := current.(map[string]any)
		out := map[string]any{}
		for _, name := range sortedNames(m) {
			if int64(len(out)) < size {
				out[name] = m[name]
			}
		}
		for i := 0; int64(len(out)) < size && i < maxItems; i++ {
			if _, ok := out[freshName(i)]; !ok {
				out[freshName(i)] = r.s.minimal(n.Additional, 0)
			}
		}
		next, ok := r.put(st, at, out)
		return !ok || yield(next)
	}
	return true
}

// resizeOther is resize for values that are computed.
func (r *run) resizeOther(st *state, e ast.Expr, size int64, en *env, yield sink) bool {
	v, err := r.eval(st, e, en)
	if err != nil {
		return r.materialize(st, e, en, func(next *state) bool { return r.resizeOther(next, e, size, en, yield) })
	}
	if isCall(e, "split") && e.AsCall().IsMemberFunction() && size > 0 && size < 1<<10 {
		parts := make([]any, size)
		for i := range parts {
			parts[i] = "a"
		}
		return r.unsplitAll(st, e.AsCall(), parts, en, yield)
	}
	if v.Kind() == cel.KindString {
		return r.become(st, e, strings.Repeat("a", int(size)), en, yield)
	}
	return true // nudgeUntil adds and removes elements
}
