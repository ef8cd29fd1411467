package cel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/cel/internal/eval"
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file builds the residual expression of a partial evaluation. It visits the expression as it
// was written, including macros: a part with a value becomes a literal, other parts stay.

// residue is the state of building one residual expression.
type residue struct {
	ctx     context.Context
	x       *Expression
	vars    Vars
	unknown []Pattern
	limit   uint64
	cost    uint64
	account Account
	paths   map[string]bool // on which the residual expression depends
	fail    error           // the limit or the end of the context
	fac     ast.ExprFactory
	macros  map[int64]ast.Expr
	lastID  int64
	dyns    int // literals that were wrapped in dyn()
	written int // nesting depth of parts that are copied unchanged
}

// eval evaluates a part with the remaining limit.
func (r *residue) eval(part val.EvalFn) (Value, error) {
	if r.cost > r.limit || r.account.Overdrawn() {
		return Value{}, ErrCostLimit
	}
	fr := &val.Frame{Unknown: r.unknown}
	left := r.limit - r.cost
	if left == 0 {
		left = 1
	}
	v, cost, err := eval.RunIn(r.ctx, fr, part, r.x.parts.slots, left, r.x.parts.inputs, r.vars)
	r.cost += cost
	r.account.work += fr.Work
	return v, err
}

// addPaths adds the paths on which v depends.
func (r *residue) addPaths(v Value) {
	for _, path := range v.Unknown().Paths {
		r.paths[path] = true
	}
}

// text returns the text of the residual expression.
func (r *residue) text() (string, error) {
	r.fac = ast.NewExprFactory()
	r.macros = r.x.tree.SourceInfo().MacroCalls()
	r.lastID = 1 << 40
	e := r.expr(r.x.tree.Expr())
	if r.fail != nil {
		return "", r.fail
	}
	text, err := unparse(e, ast.NewSourceInfo(common.NewTextSource("")))
	if err != nil {
		return "", fmt.Errorf("residual expression: %w", err)
	}
	return text, nil
}

// id returns a new node number, above those of the parsed tree.
func (r *residue) id() int64 {
	r.lastID++
	return r.lastID
}

// value returns the value of a node, which may be an error. It returns false if the node cannot be
// evaluated by itself, or is unknown.
func (r *residue) value(e ast.Expr) (Value, bool) {
	part, ok := r.x.parts.nodes[e.ID()]
	if !ok || r.fail != nil || r.written > 0 {
		return Value{}, false
	}
	v, err := r.eval(part)
	switch {
	case errors.Is(err, ErrCostLimit) || errors.Is(err, ErrInterrupted):
		r.fail = err
		return Value{}, false
	case err != nil:
		return val.ErrorOf(err), true
	case v.K == KindUnknown:
		r.addPaths(v)
		return Value{}, false
	}
	return v, true
}

// expr returns the residual of e.
func (r *residue) expr(e ast.Expr) ast.Expr {
	if v, ok := r.value(e); ok {
		if lit := r.literal(v, r.x.tree.GetType(e.ID())); lit != nil {
			return lit
		}
		if v.K == KindError && mayRefuse(e) {
			r.written++
			defer func() { r.written-- }()
		}
	}
	if macro, ok := r.macros[e.ID()]; ok {
		return r.call(macro)
	}
	switch e.Kind() {
	case ast.SelectKind:
		return r.chain(e)
	case ast.CallKind:
		switch e.AsCall().FunctionName() {
		case operators.LogicalAnd:
			return r.logic(e, operators.LogicalAnd, true)
		case operators.LogicalOr:
			return r.logic(e, operators.LogicalOr, false)
		case operators.Conditional:
			return r.conditional(e)
		case operators.Index, operators.OptIndex, operators.OptSelect:
			return r.chain(e)
		}
		return r.call(e)
	case ast.ListKind:
		l := e.AsList()
		return r.fac.NewList(r.id(), r.together(l.Elements()), l.OptionalIndices())
	case ast.MapKind:
		var keys, values []ast.Expr
		for _, entry := range e.AsMap().Entries() {
			keys, values = append(keys, entry.AsMapEntry().Key()), append(values, entry.AsMapEntry().Value())
		}
		keys, values = r.together(keys), r.together(values)
		var entries []ast.EntryExpr
		for i, entry := range e.AsMap().Entries() {
			entries = append(entries, r.fac.NewMapEntry(r.id(), keys[i], values[i], entry.AsMapEntry().IsOptional()))
		}
		return r.fac.NewMap(r.id(), entries)
	case ast.StructKind:
		var fields []ast.EntryExpr
		for _, field := range e.AsStruct().Fields() {
			f := field.AsStructField()
			fields = append(fields, r.fac.NewStructField(r.id(), f.Name(), r.expr(f.Value()), f.IsOptional()))
		}
		return r.fac.NewStruct(r.id(), e.AsStruct().TypeName(), fields)
	}
	return e
}

// mayRefuse reports whether e might not compile with literal arguments for which it fails: the
// checker converts constants and compiles patterns.
func mayRefuse(e ast.Expr) bool {
	if e.Kind() != ast.CallKind {
		return false
	}
	fn := e.AsCall().FunctionName()
	_, operator := operators.FindReverse(fn)
	return !operator || fn == operators.Index || fn == operators.OptIndex
}

// exprs returns the residuals of a list.
func (r *residue) exprs(es []ast.Expr) []ast.Expr {
	out := make([]ast.Expr, len(es))
	for i, e := range es {
		out[i] = r.expr(e)
	}
	return out
}

// together returns the residuals of the items of a literal. Kubernetes requires items of one type.
// If an item would become dyn, all items are copied unchanged, because the types of items determine
// overloads.
func (r *residue) together(es []ast.Expr) []ast.Expr {
	before := r.dyns
	out := r.exprs(es)
	if !r.x.lang.words.Kubernetes || r.dyns == before || len(out) < 2 {
		return out
	}
	r.dyns = before
	return r.asWritten(es...)
}

// asWritten returns es without replacing known parts.
func (r *residue) asWritten(es ...ast.Expr) []ast.Expr {
	r.written++
	defer func() { r.written-- }()
	return r.exprs(es)
}

// numbers returns the residuals of the arguments of macros that refuse literals other than numbers.
func (r *residue) numbers(es []ast.Expr) []ast.Expr {
	var out []ast.Expr
	for _, e := range es {
		if v, ok := r.value(e); ok && v.K != KindInt && v.K != KindUint && (v.K != KindDouble || math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)) {
			out = append(out, r.asWritten(e)...)
			continue
		}
		out = append(out, r.expr(e))
	}
	return out
}

// key returns the residual of an index. A constant that is not a valid key would not compile.
func (r *residue) key(e ast.Expr) ast.Expr {
	if v, ok := r.value(e); ok && val.CheckKey(v).K == KindError {
		return r.asWritten(e)[0]
	}
	return r.expr(e)
}

// container returns the residual of the right side of in. If it were an empty literal, the left
// side, which may be an error, would not be evaluated.
func (r *residue) container(e ast.Expr) ast.Expr {
	if v, ok := r.value(e); ok && v.K == KindList && v.Size() == 0 {
		return r.asWritten(e)[0]
	}
	return r.expr(e)
}

// chain returns the residual of a path: its variable and members stay, its indexes are replaced.
func (r *residue) chain(e ast.Expr) ast.Expr {
	if _, ok := r.macros[e.ID()]; ok {
		return r.expr(e)
	}
	switch e.Kind() {
	case ast.IdentKind:
		return e
	case ast.SelectKind:
		return r.fac.NewSelect(r.id(), r.chain(e.AsSelect().Operand()), e.AsSelect().FieldName())
	case ast.CallKind:
		switch fn := e.AsCall().FunctionName(); fn {
		case operators.Index, operators.OptIndex, operators.OptSelect:
			args := e.AsCall().Args()
			key := args[1]
			if fn != operators.OptSelect {
				key = r.key(key)
			}
			return r.fac.NewCall(r.id(), fn, r.chain(args[0]), key)
		}
	}
	return r.expr(e)
}

// call returns a call or macro with residual arguments.
func (r *residue) call(e ast.Expr) ast.Expr {
	call := e.AsCall()
	if fn := call.FunctionName(); call.IsMemberFunction() && (fn == "greatest" || fn == "least") {
		return r.fac.NewMemberCall(r.id(), fn, call.Target(), r.numbers(call.Args())...)
	}
	if call.FunctionName() == operators.In {
		return r.fac.NewCall(r.id(), operators.In, r.expr(call.Args()[0]), r.container(call.Args()[1]))
	}
	if call.IsMemberFunction() {
		return r.fac.NewMemberCall(r.id(), call.FunctionName(), r.expr(call.Target()), r.exprs(call.Args())...)
	}
	return r.fac.NewCall(r.id(), call.FunctionName(), r.exprs(call.Args())...)
}

// logic returns a chain of && or || without the operands that are known to be neutral.
func (r *residue) logic(e ast.Expr, op string, neutral bool) ast.Expr {
	var left []ast.Expr
	var types []*types.Type
	decided := false
	var walk func(e ast.Expr)
	walk = func(e ast.Expr) {
		if _, macro := r.macros[e.ID()]; !macro && e.Kind() == ast.CallKind && e.AsCall().FunctionName() == op {
			for _, arg := range e.AsCall().Args() {
				walk(arg)
			}
			return
		}
		v, ok := r.value(e)
		switch {
		case !ok || v.K != KindBool:
			left = append(left, r.expr(e))
			types = append(types, r.x.tree.GetType(e.ID()))
		case v.Bool() != neutral:
			decided = true
		}
	}
	walk(e)
	switch {
	case decided:
		return r.bool(!neutral)
	case len(left) == 0:
		return r.bool(neutral)
	case len(left) == 1 && isBool(types[0]):
		return left[0]
	case len(left) == 1:
		return r.fac.NewCall(r.id(), op, r.bool(neutral), left[0])
	}
	out := left[0]
	for _, next := range left[1:] {
		out = r.fac.NewCall(r.id(), op, out, next)
	}
	return out
}

// isBool reports whether t is bool.
func isBool(t *types.Type) bool { return t.IsExactType(types.BoolType) }

// bool returns a literal.
func (r *residue) bool(b bool) ast.Expr { return r.fac.NewLiteral(r.id(), types.Bool(b)) }

// conditional returns the residual of ?:, which is a single branch if the condition is known.
func (r *residue) conditional(e ast.Expr) ast.Expr {
	args := e.AsCall().Args()
	if cond, ok := r.value(args[0]); ok && cond.K == KindBool {
		branch := args[2]
		if cond.Bool() {
			branch = args[1]
		}
		return r.branch(e, branch)
	}
	return r.call(e)
}

// branch returns the residual of the branch that e takes. It keeps the type of e, because types
// determine overloads.
func (r *residue) branch(e, taken ast.Expr) ast.Expr {
	t, own := r.x.tree.GetType(e.ID()), r.x.tree.GetType(taken.ID())
	switch {
	case t.IsExactType(types.DynType) && !own.IsExactType(t):
		return r.fac.NewCall(r.id(), "dyn", r.expr(taken))
	case t.IsExactType(types.DynType), own.IsExactType(t) && r.hasFixedType(taken):
		return r.expr(taken)
	}
	return r.asWritten(e)[0]
}

// hasFixedType reports whether the type of e does not depend on its surroundings. The type of a
// part that is dyn or empty may come from the other branch.
func (r *residue) hasFixedType(e ast.Expr) bool {
	fixed := true
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(part ast.Expr) {
		switch {
		case !concrete(r.x.tree.GetType(part.ID())),
			part.Kind() == ast.ListKind && part.AsList().Size() == 0,
			part.Kind() == ast.MapKind && part.AsMap().Size() == 0,
			part.Kind() == ast.CallKind && part.AsCall().FunctionName() == "optional.none":
			fixed = false
		}
	}))
	return fixed
}

// concrete reports whether a type has no dyn and no type parameters.
func concrete(t *types.Type) bool {
	switch t.Kind() {
	case types.DynKind, types.AnyKind, types.TypeParamKind, types.ErrorKind:
		return false
	}
	return !slices.ContainsFunc(t.Parameters(), func(p *types.Type) bool { return !concrete(p) })
}

// Larger literals stay as they were written.
const (
	maxLiteralItems = 64
	maxLiteralText  = 1000
)

// literal returns an expression for v whose type is t. It returns nil if there is none, or if it is
// too long: types determine overloads.
func (r *residue) literal(v Value, t *types.Type) ast.Expr {
	budget := maxLiteralItems
	e, found := r.plainLiteral(v, &budget)
	if e == nil || isEmpty(e) && !t.IsExactType(types.DynType) {
		return nil // the checker infers the type of [] from its surroundings, and with it other overloads
	}
	if !t.IsExactType(found) {
		if !t.IsExactType(types.DynType) {
			return nil
		}
		r.dyns++
		return r.fac.NewCall(r.id(), "dyn", e)
	}
	return e
}

// isEmpty reports whether a literal is [] or {}.
func isEmpty(e ast.Expr) bool {
	return e.Kind() == ast.ListKind && e.AsList().Size() == 0 || e.Kind() == ast.MapKind && e.AsMap().Size() == 0
}

// plainLiteral returns an expression for v and its type. budget is the number of values that may
// still follow.
func (r *residue) plainLiteral(v Value, budget *int) (ast.Expr, *types.Type) {
	*budget--
	if *budget < 0 {
		return nil, nil
	}
	switch v.K {
	case KindNull, KindBool, KindInt, KindUint:
		return r.fac.NewLiteral(r.id(), v.Ref()), v.TypeOf()
	case KindString:
		if s := v.Text(); len(s) <= maxLiteralText && utf8.ValidString(s) {
			return r.fac.NewLiteral(r.id(), types.String(s)), types.StringType
		}
	case KindBytes:
		if v.Bits <= maxLiteralText {
			return r.fac.NewLiteral(r.id(), v.Ref()), types.BytesType
		}
	case KindDouble:
		f := v.Float()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return r.conversion("double", fmt.Sprint(f)), types.DoubleType
		}
		return r.fac.NewLiteral(r.id(), types.Double(f)), types.DoubleType
	case KindDuration:
		return r.conversion("duration", v.Duration().String()), types.DurationType
	case KindTimestamp:
		if _, offset := v.Time().Zone(); offset%60 == 0 {
			return r.conversion("timestamp", v.Time().Format(time.RFC3339Nano)), types.TimestampType
		}
	case KindList:
		return r.listLiteral(v, budget)
	case KindMap:
		return r.mapLiteral(v, budget)
	}
	return nil, nil
}

// conversion returns a call such as duration("1s").
func (r *residue) conversion(function, text string) ast.Expr {
	return r.fac.NewCall(r.id(), function, r.fac.NewLiteral(r.id(), types.String(text)))
}

// listLiteral returns nil for sets and map lists: their comparison and addition differ from those
// of literals.
func (r *residue) listLiteral(v Value, budget *int) (ast.Expr, *types.Type) {
	if v.Typ != nil && v.Typ.ListType != nil {
		return nil, nil
	}
	var items []ast.Expr
	var of []*types.Type
	for i, n := 0, v.Size(); i < n; i++ {
		item, t := r.plainLiteral(v.Item(i), budget)
		if item == nil {
			return nil, nil
		}
		items, of = append(items, item), append(of, t)
	}
	elem := r.alike(items, of)
	return r.fac.NewList(r.id(), items, nil), types.NewListType(elem)
}

// mapLiteral returns nil for an object with members that expressions cannot see, undeclared ones
// and nulls: they count for its size and for comparisons.
func (r *residue) mapLiteral(v Value, budget *int) (ast.Expr, *types.Type) {
	if v.FromDoc() && v.Typ.Kind == Object {
		for name, datum := range v.DocValue().Members() {
			if f := v.Typ.Field(name); f == nil || f.Type == nil || datum.Kind() == jsondoc.Null {
				return nil, nil
			}
		}
	}
	var keys, vals []ast.Expr
	var keyTypes, valTypes []*types.Type
	ok := true
	val.EachEntry(v, func(k, item Value) bool {
		key, kt := r.plainLiteral(k, budget)
		val, vt := r.plainLiteral(item, budget)
		if ok = key != nil && val != nil && k.K != KindDouble; ok {
			keys, keyTypes = append(keys, key), append(keyTypes, kt)
			vals, valTypes = append(vals, val), append(valTypes, vt)
		}
		return ok
	})
	if !ok {
		return nil, nil
	}
	keyType, valType := r.alike(keys, keyTypes), r.alike(vals, valTypes)
	var entries []ast.EntryExpr
	for i, key := range keys {
		entries = append(entries, r.fac.NewMapEntry(r.id(), key, vals[i], false))
	}
	return r.fac.NewMap(r.id(), entries), types.NewMapType(keyType, valType)
}

// alike wraps literals of several types in dyn(), and returns the common type: some environments
// require it.
func (r *residue) alike(items []ast.Expr, of []*types.Type) *types.Type {
	if len(items) == 0 {
		return types.DynType
	}
	for _, t := range of[1:] {
		if !t.IsExactType(of[0]) {
			for i := range items {
				items[i] = r.fac.NewCall(r.id(), "dyn", items[i])
			}
			return types.DynType
		}
	}
	return of[0]
}
