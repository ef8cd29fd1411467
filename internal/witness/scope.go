package witness

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file says what the variables and paths of an expression stand for: places of the objects,
// elements of lists, keys of maps, other expressions.

// bindKind says what a variable of an expression stands for.
type bindKind uint8

const (
	bindRef  bindKind = iota // the value at a place
	bindOpt                  // an optional value: that at a place, or none
	bindKey                  // the last name of a place: a key of a map
	bindExpr                 // the value of an expression
	bindVal                  // a value
)

// binding is the meaning of a variable.
type binding struct {
	kind bindKind
	ref  ref
	expr ast.Expr
	env  *env // of expr
	val  cel.Value
}

// env is a chain of variables.
type env struct {
	name string
	binding
	up *env
}

// lookup returns the meaning of a variable.
func (e *env) lookup(name string) (binding, bool) {
	for ; e != nil; e = e.up {
		if e.name == name {
			return e.binding, true
		}
	}
	return binding{}, false
}

// bind returns e with one more variable.
func (e *env) bind(name string, b binding) *env { return &env{name: name, binding: b, up: e} }

// macros are the calls whose last argument is evaluated for each element.
var macros = map[string]bool{"all": true, "exists": true, "exists_one": true, "existsOne": true, "map": true, "filter": true}

// asMacro returns the parts of a macro over a list or map: its range, variable and body. For map
// with three arguments, filter is the second.
type macroCall struct {
	name         string
	over         ast.Expr
	names        []string // one or two variables
	filter, body ast.Expr
}

// asMacro returns e as a macro.
func asMacro(e ast.Expr) (m macroCall, ok bool) {
	if e.Kind() != ast.CallKind {
		return m, false
	}
	c := e.AsCall()
	args := c.Args()
	if !c.IsMemberFunction() || !macros[c.FunctionName()] || len(args) < 2 || args[0].Kind() != ast.IdentKind {
		return m, false
	}
	m = macroCall{name: c.FunctionName(), over: c.Target(), names: []string{args[0].AsIdent()}, body: args[len(args)-1]}
	if m.name == "existsOne" {
		m.name = "exists_one"
	}
	if len(args) == 3 {
		if m.name == "map" {
			m.filter = args[1]
			return m, true
		}
		if args[1].Kind() != ast.IdentKind {
			return m, false
		}
		m.names = append(m.names, args[1].AsIdent())
	}
	return m, len(args) <= 3
}

// asBind returns the parts of cel.bind(name, value, body).
func asBind(e ast.Expr, en *env) (body ast.Expr, in *env, ok bool) {
	if e.Kind() != ast.CallKind {
		return nil, nil, false
	}
	c := e.AsCall()
	if !c.IsMemberFunction() || c.FunctionName() != "bind" || !isIdent(c.Target(), "cel") || len(c.Args()) != 3 || c.Args()[0].Kind() != ast.IdentKind {
		return nil, nil, false
	}
	return c.Args()[2], en.bind(c.Args()[0].AsIdent(), binding{kind: bindExpr, expr: c.Args()[1], env: en}), true
}

// isIdent reports whether e is a variable of that name.
func isIdent(e ast.Expr, name string) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == name }

// isCall reports whether e calls a function or operator.
func isCall(e ast.Expr, name string) bool {
	return e.Kind() == ast.CallKind && e.AsCall().FunctionName() == name
}

// resolve returns the place to which an expression refers. optional says that the expression's
// value is an optional one.
func (r *run) resolve(st *state, e ast.Expr, en *env) (at ref, optional, ok bool) {
	switch e.Kind() {
	case ast.IdentKind:
		b, ok := en.lookup(e.AsIdent())
		switch {
		case !ok:
		case b.kind == bindRef, b.kind == bindOpt:
			return b.ref, b.kind == bindOpt, true
		case b.kind == bindExpr:
			return r.resolve(st, b.expr, b.env)
		}
	case ast.SelectKind:
		at, optional, ok := r.resolve(st, e.AsSelect().Operand(), en)
		return at.child(unescape(e.AsSelect().FieldName())), optional, ok
	case ast.CallKind:
		return r.resolveCall(st, e.AsCall(), en)
	}
	return ref{}, false, false
}

// resolveCall is resolve for calls.
func (r *run) resolveCall(st *state, c ast.CallExpr, en *env) (at ref, optional, ok bool) {
	args := c.Args()
	switch c.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		at, optional, ok := r.resolve(st, args[0], en)
		if !ok {
			return ref{}, false, false
		}
		v, err := r.eval(st, args[1], en)
		if err != nil {
			return ref{}, false, false
		}
		optional = optional || c.FunctionName() != operators.Index
		switch i := v.Go().(type) {
		case int64:
			if n := r.s.schemaAt(at.path); n != nil && n.Items != nil && i >= 0 && i < 1<<16 {
				return at.child(int(i)), optional, true
			}
		case string:
			if c.FunctionName() == operators.OptSelect {
				i = unescape(i)
			}
			return at.child(i), optional, true
		}
	case "value":
		if c.IsMemberFunction() && len(args) == 0 {
			at, optional, ok := r.resolve(st, c.Target(), en)
			return at, false, ok && optional
		}
	case "first", "last":
		// Both are optional values of a list's item.
		if at, optional, ok := r.resolveTarget(st, c, en); ok && !optional {
			n := st.value(at).Len()
			if c.FunctionName() == "first" || n == 0 {
				n = 1
			}
			return at.child(n - 1), true, true
		}
	}
	return ref{}, false, false
}

// resolveTarget resolves the target of a member function without arguments.
func (r *run) resolveTarget(st *state, c ast.CallExpr, en *env) (at ref, optional, ok bool) {
	if !c.IsMemberFunction() || len(c.Args()) > 0 {
		return ref{}, false, false
	}
	return r.resolve(st, c.Target(), en)
}

// unescape returns the member that a name in a rule means.
func unescape(name string) string {
	if plain, ok := cel.Unescape(name); ok {
		return plain
	}
	return name
}

// load returns the value at a place as a rule sees it.
func (r *run) load(st *state, at ref) (cel.Value, error) {
	v := st.value(at)
	if !v.Exists() {
		return cel.Value{}, errNoSuchKey
	}
	t := r.s.typeAt(at.path)
	if t == nil {
		return cel.UnescapedNames(cel.FromDoc(v, nil)), nil
	}
	if v.Kind() == jsondoc.Null && !t.Nullable {
		return cel.Value{}, errNoSuchKey
	}
	return cel.FromDoc(v, t), nil
}

// elements returns the scopes in which the body of a macro is evaluated, one for each element.
func (r *run) elements(st *state, m macroCall, en *env) ([]*env, error) {
	items, err := r.items(st, m.over, en)
	if err != nil {
		return nil, err
	}
	var out []*env
	for i, item := range items {
		in := r.bindElement(m, en, i, item)
		if m.filter != nil {
			v, err := r.eval(st, m.filter, in)
			if err != nil {
				return nil, err
			}
			if v.Kind() != cel.KindBool || !v.Bool() {
				continue
			}
		}
		out = append(out, in)
	}
	return out, nil
}

// bindElement returns the scope for element i of a macro's range.
func (r *run) bindElement(m macroCall, en *env, i int, item binding) *env {
	if len(m.names) == 1 {
		return en.bind(m.names[0], item)
	}
	if item.kind == bindKey {
		return en.bind(m.names[0], item).bind(m.names[1], binding{kind: bindRef, ref: item.ref})
	}
	index, _ := cel.FromGo(i)
	return en.bind(m.names[0], binding{kind: bindVal, val: index}).bind(m.names[1], item)
}

// maxItems is the greatest number of elements of a list that the search looks at.
const maxItems = 4096

// items returns the elements of a list, or the keys of a map, as bindings that say where they come
// from.
func (r *run) items(st *state, e ast.Expr, en *env) ([]binding, error) {
	var out []binding
	if e.Kind() == ast.ListKind {
		for _, item := range e.AsList().Elements() {
			out = append(out, binding{kind: bindExpr, expr: item, env: en})
		}
		return out, nil
	}
	if at, optional, ok := r.resolve(st, e, en); ok && !optional {
		v := st.value(at)
		switch v.Kind() {
		case jsondoc.Array:
			for i := range min(v.Len(), maxItems) {
				out = append(out, binding{kind: bindRef, ref: at.child(i)})
			}
			return out, nil
		case jsondoc.Object:
			for name := range v.Members() {
				out = append(out, binding{kind: bindKey, ref: at.child(name)})
			}
			return out, nil
		case jsondoc.Absent:
			return nil, errNoSuchKey
		}
	}
	if e.Kind() == ast.IdentKind {
		if b, ok := en.lookup(e.AsIdent()); ok && b.kind == bindExpr {
			return r.items(st, b.expr, b.env)
		}
	}
	if m, ok := asMacro(e); ok && (m.name == "filter" || m.name == "map") {
		return r.macroItems(st, m, en)
	}
	if isCall(e, operators.Add) {
		a, err := r.items(st, e.AsCall().Args()[0], en)
		if err != nil {
			return nil, err
		}
		b, err := r.items(st, e.AsCall().Args()[1], en)
		return append(a, b...), err
	}
	if isCall(e, operators.Conditional) {
		branch, err := r.branch(st, e.AsCall().Args(), en)
		if err != nil {
			return nil, err
		}
		return r.items(st, branch, en)
	}
	v, err := r.eval(st, e, en)
	if err != nil {
		return nil, err
	}
	list, ok := v.Go().([]any)
	if !ok {
		return nil, errUnsupported
	}
	for _, item := range list[:min(len(list), maxItems)] {
		value, err := cel.FromGo(item)
		if err != nil {
			return nil, err
		}
		out = append(out, binding{kind: bindVal, val: value})
	}
	return out, nil
}

// macroItems is items for filter and map.
func (r *run) macroItems(st *state, m macroCall, en *env) ([]binding, error) {
	elements, err := r.elements(st, m, en)
	if err != nil {
		return nil, err
	}
	var out []binding
	for _, in := range elements {
		if m.name == "map" {
			out = append(out, binding{kind: bindExpr, expr: m.body, env: in})
			continue
		}
		v, err := r.eval(st, m.body, in)
		if err != nil {
			return nil, err
		}
		if v.Kind() == cel.KindBool && v.Bool() {
			b, _ := in.lookup(m.names[0])
			out = append(out, b)
		}
	}
	return out, nil
}
