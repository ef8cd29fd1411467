package cel_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// This file holds the grammar that random expressions are made from: every
// overload that an environment declares, found by what it returns, and how a
// call of it is written.

// overload is one way to call a function.
type overload struct {
	id, function string
	member       bool
	args         []*types.Type
	result       *types.Type
}

// grammar is what an environment declares.
type grammar struct {
	overloads []overload
	macros    []string
	makes     map[string][]int // overloads that can return a type, by its text; filled in as it is asked for
}

// newGrammar reads an environment. What no expression can spell is there too:
// macros make it.
func newGrammar(env *cel.Env) *grammar {
	g := &grammar{makes: map[string][]int{}}
	for name, fn := range env.Functions() {
		for _, o := range fn.OverloadDecls() {
			g.overloads = append(g.overloads, overload{o.ID(), name, o.IsMemberFunction(), o.ArgTypes(), o.ResultType()})
		}
	}
	slices.SortFunc(g.overloads, func(a, b overload) int { return cmp.Compare(a.id, b.id) })
	for _, m := range env.Macros() {
		g.macros = append(g.macros, fmt.Sprintf("%s/%d", m.Function(), m.ArgCount()))
	}
	slices.Sort(g.macros)
	return g
}

// hidden reports whether no expression spells the function.
func hidden(function string) bool {
	return strings.Contains(function, "@") && function != operators.In
}

// returning are the overloads that return t, for some types of parameters.
func (g *grammar) returning(t *types.Type) []int {
	key := t.String()
	if found, ok := g.makes[key]; ok {
		return found
	}
	var found []int
	for i, o := range g.overloads {
		if !hidden(o.function) && unify(o.result, t, map[string]*types.Type{}) {
			found = append(found, i)
		}
	}
	g.makes[key] = found
	return found
}

// unify finds the parameters with which pattern is t.
func unify(pattern, t *types.Type, params map[string]*types.Type) bool {
	if pattern.Kind() == types.TypeParamKind {
		if known, ok := params[pattern.TypeName()]; ok {
			return known.String() == t.String()
		}
		params[pattern.TypeName()] = t
		return true
	}
	if pattern.Kind() != t.Kind() || pattern.TypeName() != t.TypeName() || len(pattern.Parameters()) != len(t.Parameters()) {
		return false
	}
	for i, p := range pattern.Parameters() {
		if !unify(p, t.Parameters()[i], params) {
			return false
		}
	}
	return true
}

// fill replaces parameters; new makes a type for one that has none yet.
func fill(t *types.Type, params map[string]*types.Type, fresh func() *types.Type) *types.Type {
	switch t.Kind() {
	case types.TypeParamKind:
		if _, ok := params[t.TypeName()]; !ok {
			params[t.TypeName()] = fresh()
		}
		return params[t.TypeName()]
	case types.ListKind:
		return types.NewListType(fill(t.Parameters()[0], params, fresh))
	case types.MapKind:
		return types.NewMapType(fill(t.Parameters()[0], params, fresh), fill(t.Parameters()[1], params, fresh))
	}
	if isOptional(t) {
		return types.NewOptionalType(fill(t.Parameters()[0], params, fresh))
	}
	return t
}

// phrase is a piece of an expression: texts and the phrases between them.
type phrase struct {
	parts []any       // string or *phrase
	free  []string    // variables of comprehensions that it uses and does not bind
	t     *types.Type // what it evaluates to
	binds []string    // the variables that it binds
}

func (p *phrase) String() string {
	var b strings.Builder
	p.write(&b)
	return b.String()
}

func (p *phrase) write(b *strings.Builder) {
	for _, part := range p.parts {
		switch part := part.(type) {
		case string:
			b.WriteString(part)
		case *phrase:
			part.write(b)
		}
	}
}

// uses reports whether the phrase needs a variable of a comprehension around it.
func (p *phrase) uses(bound []string) bool {
	for _, name := range p.free {
		if !slices.Contains(bound, name) {
			return true
		}
	}
	bound = append(slices.Clip(bound), p.binds...)
	for _, part := range p.parts {
		if child, ok := part.(*phrase); ok && child.uses(bound) {
			return true
		}
	}
	return false
}

// closed are the phrases of p that stand for themselves, smallest first.
func (p *phrase) closed() []*phrase {
	var out []*phrase
	var visit func(*phrase)
	visit = func(q *phrase) {
		if !q.uses(nil) {
			out = append(out, q)
		}
		for _, part := range q.parts {
			if child, ok := part.(*phrase); ok {
				visit(child)
			}
		}
	}
	visit(p)
	slices.SortStableFunc(out, func(a, b *phrase) int { return cmp.Compare(len(a.String()), len(b.String())) })
	return out
}

// infix are the operators between two operands.
var infix = map[string]string{
	operators.LogicalAnd: "&&", operators.LogicalOr: "||", operators.Equals: "==", operators.NotEquals: "!=",
	operators.Less: "<", operators.LessEquals: "<=", operators.Greater: ">", operators.GreaterEquals: ">=",
	operators.Add: "+", operators.Subtract: "-", operators.Multiply: "*", operators.Divide: "/", operators.Modulo: "%",
	operators.In: "in",
}

// call writes a call.
func call(o overload, args []*phrase) *phrase {
	p := &phrase{t: o.result}
	add := func(parts ...any) { p.parts = append(p.parts, parts...) }
	op, isInfix := infix[o.function]
	switch {
	case isInfix:
		add("(", args[0], " "+op+" ", args[1], ")")
	case o.function == operators.LogicalNot:
		add("!(", args[0], ")")
	case o.function == operators.Negate:
		add("-(", args[0], ")")
	case o.function == operators.Conditional:
		add("(", args[0], " ? ", args[1], " : ", args[2], ")")
	case o.function == operators.Index:
		add(operand(args[0]), "[", args[1], "]")
	case o.function == operators.OptIndex:
		add(operand(args[0]), "[?", args[1], "]")
	case o.function == operators.OptSelect:
		add(operand(args[0]), ".?", args[1])
	case o.member:
		add(operand(args[0]), "."+o.function+"(")
		addList(p, args[1:])
		add(")")
	default:
		add(o.function + "(")
		addList(p, args)
		add(")")
	}
	return p
}

func addList(p *phrase, args []*phrase) {
	for i, arg := range args {
		if i > 0 {
			p.parts = append(p.parts, ", ")
		}
		p.parts = append(p.parts, arg)
	}
}

// operand is a phrase that may stand before a dot.
func operand(p *phrase) *phrase {
	s := p.String()
	if s[0] == '-' || s[0] == '!' || s[0] >= '0' && s[0] <= '9' {
		return &phrase{parts: []any{"(", p, ")"}, t: p.t}
	}
	return p
}

func isOptional(t *types.Type) bool {
	return t.Kind() == types.OpaqueKind && t.TypeName() == "optional_type"
}
