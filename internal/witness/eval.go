package witness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"

	"github.com/keelson-io/keelson/cel"
)

// This file parses expressions and computes the values of their parts in a state. The values guide
// the search; only package schema decides whether an object is a witness. Macros stay calls in the
// tree, so that the search sees the list, the variable and the body.

// Operations has the compiled functions and operators of expressions. Searches may share it. The
// zero value is not usable: call NewOperations. It is safe for concurrent use.
type Operations struct {
	lang   *cel.Language
	parser *parser.Parser

	mu       sync.Mutex
	compiled map[string]*cel.Expression // by text; nil if it does not compile
}

// NewOperations returns an empty table.
func NewOperations() (*Operations, error) {
	var vars []cel.Variable
	for i := range maxArgs {
		vars = append(vars, cel.Variable{Name: argName(i)})
	}
	lang, err := cel.NewLanguage(cel.LanguageOptions{Kubernetes: cel.NewestKubernetes, Variables: vars})
	if err != nil {
		return nil, err
	}
	p, err := parser.NewParser(parser.EnableOptionalSyntax(true), parser.MaxRecursionDepth(200))
	if err != nil {
		return nil, err
	}
	return &Operations{lang: lang, parser: p, compiled: map[string]*cel.Expression{}}, nil
}

// maxArgs is the greatest number of arguments of a call.
const maxArgs = 8

// argName returns the variable that has argument i.
func argName(i int) string { return fmt.Sprintf("a%d", i) }

// parse parses an expression without expanding macros.
func (o *Operations) parse(text string) (*ast.AST, error) {
	out, errs := o.parser.Parse(common.NewTextSource(text))
	if len(errs.GetErrors()) > 0 {
		return nil, errors.New(errs.ToDisplayString())
	}
	return out, nil
}

// call evaluates a text over the variables a0, a1 and so on.
func (o *Operations) call(ctx context.Context, text string, args []cel.Value) (cel.Value, error) {
	if len(args) > maxArgs {
		return cel.Value{}, errUnsupported
	}
	o.mu.Lock()
	x, ok := o.compiled[text]
	if !ok {
		if compiled, err := o.lang.CompileUnchecked(text); err == nil {
			x = compiled
		}
		if len(o.compiled) < maxOperations {
			o.compiled[text] = x
		}
	}
	o.mu.Unlock()
	if x == nil {
		return cel.Value{}, errUnsupported
	}
	vars := make(cel.Vars, len(args))
	for i, a := range args {
		vars[argName(i)] = a
	}
	v, _, err := x.Eval(ctx, vars, evalLimit)
	return v, err
}

const (
	maxOperations = 10_000  // further ones are compiled at each use
	evalLimit     = 200_000 // cost units of one call
)

var (
	errUnsupported = errors.New("the search does not know this form of expression")
	errNoSuchKey   = errors.New("no such key")
)

// eval returns the value of an expression, or the error that it fails with.
func (r *run) eval(st *state, e ast.Expr, en *env) (cel.Value, error) {
	if r.evals++; r.evals&0xff == 0 && r.ctx.Err() != nil || r.evals > r.maxEvals {
		return cel.Value{}, context.DeadlineExceeded
	}
	switch e.Kind() {
	case ast.LiteralKind:
		return literal(e)
	case ast.IdentKind:
		return r.evalIdent(st, e.AsIdent(), en)
	case ast.SelectKind:
		if at, optional, ok := r.resolve(st, e, en); ok && !optional {
			return r.load(st, at)
		}
		return r.apply(st, en, "a0."+e.AsSelect().FieldName(), e.AsSelect().Operand())
	case ast.ListKind:
		return r.evalList(st, e.AsList(), en)
	case ast.MapKind:
		return r.evalMap(st, e.AsMap(), en)
	case ast.CallKind:
		return r.evalCall(st, e, en)
	}
	return cel.Value{}, errUnsupported
}

// literal returns the value of a literal.
func literal(e ast.Expr) (cel.Value, error) {
	v := e.AsLiteral()
	if v == types.NullValue {
		return cel.FromGo(nil)
	}
	return cel.FromGo(v.Value())
}

// evalIdent returns the value of a variable.
func (r *run) evalIdent(st *state, name string, en *env) (cel.Value, error) {
	b, ok := en.lookup(name)
	if !ok { // the name of a type
		return r.s.o.Operations.call(r.ctx, name, nil)
	}
	switch b.kind {
	case bindRef:
		return r.load(st, b.ref)
	case bindOpt:
		v, err := r.load(st, b.ref)
		if err != nil {
			return r.s.o.Operations.call(r.ctx, "optional.none()", nil)
		}
		return r.s.o.Operations.call(r.ctx, "optional.of(a0)", []cel.Value{v})
	case bindKey:
		name, _ := lastStep(st.current(b.ref)).(string)
		return cel.StringValue(name), nil
	case bindExpr:
		return r.eval(st, b.expr, b.env)
	}
	return b.val, nil
}

// evalList returns the value of a list literal.
func (r *run) evalList(st *state, l ast.ListExpr, en *env) (cel.Value, error) {
	if len(l.OptionalIndices()) > 0 {
		return cel.Value{}, errUnsupported
	}
	values := make([]cel.Value, 0, l.Size())
	for _, item := range l.Elements() {
		v, err := r.eval(st, item, en)
		if err != nil {
			return cel.Value{}, err
		}
		values = append(values, v)
	}
	return cel.FromGo(values)
}

// evalMap returns the value of a map literal whose keys are texts.
func (r *run) evalMap(st *state, m ast.MapExpr, en *env) (cel.Value, error) {
	out := make(map[string]cel.Value, m.Size())
	for _, entry := range m.Entries() {
		e := entry.AsMapEntry()
		key, err := r.eval(st, e.Key(), en)
		if err != nil {
			return cel.Value{}, err
		}
		name, ok := key.Go().(string)
		if !ok || e.IsOptional() {
			return cel.Value{}, errUnsupported
		}
		if out[name], err = r.eval(st, e.Value(), en); err != nil {
			return cel.Value{}, err
		}
	}
	return cel.FromGo(out)
}

// apply evaluates the arguments, and a text over them.
func (r *run) apply(st *state, en *env, text string, args ...ast.Expr) (cel.Value, error) {
	values := make([]cel.Value, 0, len(args))
	for _, a := range args {
		v, err := r.eval(st, a, en)
		if err != nil {
			return cel.Value{}, err
		}
		values = append(values, v)
	}
	return r.s.o.Operations.call(r.ctx, text, values)
}

// evalCall returns the value of a call.
func (r *run) evalCall(st *state, e ast.Expr, en *env) (cel.Value, error) {
	c := e.AsCall()
	args := c.Args()
	if body, in, ok := asBind(e, en); ok {
		return r.eval(st, body, in)
	}
	if m, ok := asMacro(e); ok {
		return r.evalMacro(st, m, en)
	}
	switch name := c.FunctionName(); {
	case name == operators.LogicalAnd, name == operators.LogicalOr:
		return r.evalLogic(st, args, name == operators.LogicalOr, en)
	case name == operators.Conditional:
		branch, err := r.branch(st, args, en)
		if err != nil {
			return cel.Value{}, err
		}
		return r.eval(st, branch, en)
	case name == "has" && len(args) == 1 && args[0].Kind() == ast.SelectKind:
		s := args[0].AsSelect()
		return r.apply(st, en, "has(a0."+s.FieldName()+")", s.Operand())
	case name == operators.OptSelect && args[1].Kind() == ast.LiteralKind:
		field, _ := args[1].AsLiteral().Value().(string)
		return r.apply(st, en, "a0.?"+field, args[0])
	}
	text, all, ok := callText(c, en)
	if !ok {
		return cel.Value{}, errUnsupported
	}
	return r.apply(st, en, text, all...)
}

// branch returns the part of a conditional that its condition selects.
func (r *run) branch(st *state, args []ast.Expr, en *env) (ast.Expr, error) {
	v, err := r.eval(st, args[0], en)
	switch {
	case err != nil:
		return nil, err
	case v.Kind() != cel.KindBool:
		return nil, errUnsupported
	case v.Bool():
		return args[1], nil
	}
	return args[2], nil
}

// evalLogic evaluates && and ||, which absorb errors.
func (r *run) evalLogic(st *state, args []ast.Expr, decides bool, en *env) (cel.Value, error) {
	var failure error
	for _, a := range args {
		v, err := r.eval(st, a, en)
		switch {
		case err != nil:
			failure = err
		case v.Kind() != cel.KindBool:
			failure = errUnsupported
		case v.Bool() == decides:
			return v, nil
		}
	}
	if failure != nil {
		return cel.Value{}, failure
	}
	return cel.FromGo(!decides)
}

// evalMacro evaluates a macro, element by element.
func (r *run) evalMacro(st *state, m macroCall, en *env) (cel.Value, error) {
	items, err := r.elements(st, m, en)
	if err != nil {
		return cel.Value{}, err
	}
	var out []cel.Value
	count := 0
	var failure error
	for _, in := range items {
		v, err := r.eval(st, m.body, in)
		if err != nil {
			failure = err
			continue
		}
		is := v.Kind() == cel.KindBool && v.Bool()
		switch m.name {
		case "all":
			if !is {
				return cel.FromGo(false)
			}
		case "exists":
			if is {
				return cel.FromGo(true)
			}
		case "filter":
			if is {
				item, err := r.evalIdent(st, m.names[0], in)
				if err != nil {
					return cel.Value{}, err
				}
				out = append(out, item)
			}
		case "map":
			out = append(out, v)
		}
		if is {
			count++
		}
	}
	switch {
	case failure != nil:
		return cel.Value{}, failure
	case m.name == "all":
		return cel.FromGo(true)
	case m.name == "exists":
		return cel.FromGo(false)
	case m.name == "exists_one":
		return cel.FromGo(count == 1)
	}
	return cel.FromGo(out)
}

// operatorTexts are the texts of operators over arguments.
var operatorTexts = map[string]string{
	operators.Equals: "a0 == a1", operators.NotEquals: "a0 != a1", operators.Less: "a0 < a1", operators.LessEquals: "a0 <= a1",
	operators.Greater: "a0 > a1", operators.GreaterEquals: "a0 >= a1", operators.Add: "a0 + a1", operators.Subtract: "a0 - a1",
	operators.Multiply: "a0 * a1", operators.Divide: "a0 / a1", operators.Modulo: "a0 % a1", operators.Negate: "-a0", operators.LogicalNot: "!a0",
	operators.In: "a0 in a1", operators.OldIn: "a0 in a1", operators.Index: "a0[a1]", operators.OptIndex: "a0[?a1]",
}

// callText returns a call as a text over its arguments, the target first. ok is false for forms
// that only a whole evaluation understands.
func callText(c ast.CallExpr, en *env) (text string, args []ast.Expr, ok bool) {
	args = c.Args()
	if text, ok := operatorTexts[c.FunctionName()]; ok {
		return text, args, true
	}
	name := c.FunctionName()
	if strings.ContainsAny(name, "_@") && !c.IsMemberFunction() && operators.Arity(name) > 0 || name == "bind" || strings.HasPrefix(name, "opt") && len(args) == 2 || strings.HasPrefix(name, "transform") {
		return "", nil, false
	}
	first := 0
	if c.IsMemberFunction() {
		if space, ok := namespace(c.Target(), en); ok {
			name = space + "." + name
		} else {
			args = append([]ast.Expr{c.Target()}, args...)
			name, first = "a0."+name, 1
		}
	}
	var names []string
	for i := first; i < len(args); i++ {
		names = append(names, argName(i))
	}
	return name + "(" + strings.Join(names, ", ") + ")", args, true
}

// namespace returns the name that qualifies a function, such as math in math.greatest. A variable
// is not a namespace.
func namespace(e ast.Expr, en *env) (string, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		_, bound := en.lookup(e.AsIdent())
		return e.AsIdent(), !bound
	case ast.SelectKind:
		up, ok := namespace(e.AsSelect().Operand(), en)
		return up + "." + e.AsSelect().FieldName(), ok
	}
	return "", false
}
