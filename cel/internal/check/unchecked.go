package check

import (
	"regexp"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file resolves the names in an expression that was not checked: variables, types, and
// functions with dots in their names. Names are looked up in the namespace of the container, from
// the innermost.

// Vocabulary has the meaning of names in the expressions of a Language.
type Vocabulary struct {
	Env        *Declarations
	Known      map[string]bool      // declared variables
	Schemas    map[string]*val.Type // of variables that have one
	Strict     bool                 // has(x.f) is an error if x cannot have members
	Patches    bool                 // literals of patches are permitted
	Kubernetes bool                 // expressions have the semantics of Kubernetes' rules
}

// ResolveNames returns the tree with the meanings of its names.
func (v *Vocabulary) ResolveNames(tree *ast.AST) *ast.AST {
	r := &resolver{lang: v, refs: map[int64]*ast.ReferenceInfo{}, types: map[int64]*types.Type{}}
	r.visit(tree.Expr(), nil)
	return ast.NewCheckedAST(tree, r.types, r.refs)
}

// resolver records the meanings of names.
type resolver struct {
	lang  *Vocabulary
	refs  map[int64]*ast.ReferenceInfo
	types map[int64]*types.Type
}

// locals are the variables of comprehensions, in a list from the innermost.
type locals struct {
	name string
	next *locals
}

func (l *locals) has(name string) bool {
	for ; l != nil; l = l.next {
		if l.name == name {
			return true
		}
	}
	return false
}

func (l *locals) with(names ...string) *locals {
	for _, name := range names {
		if name != "" {
			l = &locals{name, l}
		}
	}
	return l
}

// qualified returns a chain of names as text. It is "" if e is not a chain, or starts with a local
// variable.
func qualified(e ast.Expr, in *locals) string {
	switch e.Kind() {
	case ast.IdentKind:
		if name := e.AsIdent(); !in.has(name) {
			return name
		}
	case ast.SelectKind:
		if sel := e.AsSelect(); !sel.IsTestOnly() {
			if name := qualified(sel.Operand(), in); name != "" {
				return name + "." + sel.FieldName()
			}
		}
	}
	return ""
}

// resolve records the meaning of e if name is a variable or type.
func (r *resolver) resolve(e ast.Expr, name string) bool {
	if name == "" {
		return false
	}
	for _, candidate := range r.lang.Env.Base.Container.ResolveCandidateNames(name) {
		if r.lang.Known[candidate] {
			r.refs[e.ID()] = ast.NewIdentReference(candidate, nil)
			return true
		}
		if v, found := r.lang.Env.Base.CELTypeProvider().FindIdent(candidate); found {
			if t, ok := v.(*types.Type); ok {
				r.types[e.ID()] = types.NewTypeTypeWithParam(t)
				r.refs[e.ID()] = ast.NewIdentReference(candidate, nil)
			} else {
				r.refs[e.ID()] = ast.NewIdentReference(candidate, v)
			}
			return true
		}
	}
	return false
}

// visit resolves the names in e.
func (r *resolver) visit(e ast.Expr, in *locals) {
	switch e.Kind() {
	case ast.IdentKind:
		r.resolve(e, qualified(e, in))
	case ast.SelectKind:
		if !r.resolve(e, qualified(e, in)) {
			r.visit(e.AsSelect().Operand(), in)
		}
	case ast.CallKind:
		r.call(e, in)
	case ast.ListKind:
		for _, elem := range e.AsList().Elements() {
			r.visit(elem, in)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			r.visit(entry.AsMapEntry().Key(), in)
			r.visit(entry.AsMapEntry().Value(), in)
		}
	case ast.StructKind:
		r.structure(e, in)
	case ast.ComprehensionKind:
		comp := e.AsComprehension()
		r.visit(comp.IterRange(), in)
		r.visit(comp.AccuInit(), in)
		result := in.with(comp.AccuVar())
		inner := result.with(comp.IterVar(), comp.IterVar2())
		r.visit(comp.LoopCondition(), inner)
		r.visit(comp.LoopStep(), inner)
		r.visit(comp.Result(), result)
	}
}

// call finds functions with dots in their names, which the parser treats as member functions.
func (r *resolver) call(e ast.Expr, in *locals) {
	call := e.AsCall()
	fns := r.lang.Env.impls
	if call.IsMemberFunction() {
		if prefix := qualified(call.Target(), in); prefix != "" {
			for _, candidate := range r.lang.Env.Base.Container.ResolveCandidateNames(prefix + "." + call.FunctionName()) {
				if fns[candidate] != nil {
					e.SetKindCase(ast.NewExprFactory().NewCall(e.ID(), candidate, call.Args()...))
					break
				}
			}
		}
	} else if fns[call.FunctionName()] == nil {
		for _, candidate := range r.lang.Env.Base.Container.ResolveCandidateNames(call.FunctionName()) {
			if fns[candidate] != nil {
				e.SetKindCase(ast.NewExprFactory().NewCall(e.ID(), candidate, call.Args()...))
				break
			}
		}
	}
	call = e.AsCall()
	if call.IsMemberFunction() {
		r.visit(call.Target(), in)
	}
	for _, arg := range call.Args() {
		r.visit(arg, in)
	}
}

// structure finds the type of a message literal.
func (r *resolver) structure(e ast.Expr, in *locals) {
	s := e.AsStruct()
	for _, candidate := range r.lang.Env.Base.Container.ResolveCandidateNames(s.TypeName()) {
		if _, found := r.lang.Env.Base.CELTypeProvider().FindStructType(candidate); found {
			r.refs[e.ID()] = ast.NewIdentReference(candidate, nil)
			break
		}
	}
	for _, field := range s.Fields() {
		r.visit(field.AsStructField().Value(), in)
	}
}

// ValidPattern reports whether a constant pattern compiles. If not, evaluating it is an error.
func ValidPattern(s string) bool {
	_, err := regexp.Compile(s)
	return err == nil
}
