package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/operators"
)

// This file removes functions and macros from a Language.

// Subset lists the functions and macros of a Language. Functions that a later version of a library
// adds are not available until they are listed.
type Subset struct {
	// Functions are names such as "size" or "math.greatest", operators such as "+", "&&", "in",
	// "[]" and "?:", or identifiers of single overloads such as "size_string". Nil means all
	// functions.
	//
	// "-" means subtraction and negation; "-_" means negation, "_-_" subtraction.
	Functions []string
	// Macros are names such as "has", "all" or "cel.bind". Nil means all macros, an empty slice
	// none. The expansion of a macro may use operators that are not listed; its arguments must not.
	Macros []string
}

// OperatorNames has the functions of each operator.
var OperatorNames = map[string][]string{
	"+": {operators.Add}, "-": {operators.Subtract, operators.Negate}, "*": {operators.Multiply}, "/": {operators.Divide},
	"%": {operators.Modulo}, "<": {operators.Less}, "<=": {operators.LessEquals}, ">": {operators.Greater},
	">=": {operators.GreaterEquals}, "==": {operators.Equals}, "!=": {operators.NotEquals}, "!": {operators.LogicalNot},
	"&&": {operators.LogicalAnd}, "||": {operators.LogicalOr}, "?:": {operators.Conditional}, "in": {operators.In},
	"[]": {operators.Index}, "[?]": {operators.OptIndex}, ".?": {operators.OptSelect},
}

// usedByMacros has the functions in the expansions of macros.
var usedByMacros = map[string]bool{
	operators.LogicalAnd: true, operators.LogicalOr: true, operators.LogicalNot: true, operators.Conditional: true,
	operators.Add: true, operators.Equals: true, "optional.of": true, "optional.none": true, "hasValue": true, "value": true,
}

// Selection is a Subset whose names have been resolved.
type Selection struct { // all functions are included
	all       bool // of the functions
	functions map[string]bool
	overloads map[string][]string // by function, for functions of which only some overloads are included
	Macros    []cel.Macro
}

// IsInternal reports whether expressions cannot write the name.
func IsInternal(name string) bool { return strings.Contains(name, "@") && name != operators.In }

// Selection resolves the names of s in an environment.
func (s *Subset) Selection(base *cel.Env) (*Selection, error) {
	out := &Selection{all: s.Functions == nil, functions: map[string]bool{}, overloads: map[string][]string{}}
	fns := base.Functions()
	byOverload := map[string]string{}
	for name, fn := range fns {
		for _, o := range fn.OverloadDecls() {
			byOverload[o.ID()] = name
		}
	}
	for _, name := range s.Functions {
		names := OperatorNames[name]
		macroPart := map[string]string{"math.greatest": "math.@max", "math.least": "math.@min"}[name]
		switch {
		case len(names) > 0:
			for _, n := range names {
				out.functions[n] = true
			}
		case fns[name] != nil && !IsInternal(name):
			out.functions[name] = true
		case byOverload[name] != "":
			fn := byOverload[name]
			out.overloads[fn] = append(out.overloads[fn], name)
		case macroPart != "" && fns[macroPart] != nil:
			return nil, fmt.Errorf("function %q: it is a macro; list it in Macros as %q", name, strings.TrimPrefix(name, "math."))
		default:
			return nil, fmt.Errorf("function %q: not in the libraries of this language", name)
		}
	}
	wanted := map[string]bool{}
	for _, name := range s.Macros {
		_, short, dotted := strings.Cut(name, ".")
		if !dotted {
			short = name
		}
		wanted[short] = false
	}
	for _, m := range base.Macros() {
		if _, ok := wanted[m.Function()]; ok || s.Macros == nil {
			wanted[m.Function()] = true
			out.Macros = append(out.Macros, m)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !wanted[name] {
			return nil, fmt.Errorf("macro %q: not in the libraries of this language", name)
		}
	}
	return out, nil
}

// Offers reports whether expressions may call a function in any form.
func (s *Selection) Offers(name string) bool {
	return s.all || s.functions[name] || len(s.overloads[name]) > 0
}

// Declarations returns the functions that the checker must know: the selected ones, and those that
// macros need.
func (s *Selection) Declarations(fns map[string]*decls.FunctionDecl) map[string]*decls.FunctionDecl {
	out := map[string]*decls.FunctionDecl{}
	for name, fn := range fns {
		switch {
		case s.all || s.functions[name] || IsInternal(name) || usedByMacros[name]:
			out[name] = fn
		case len(s.overloads[name]) > 0:
			if part := fn.Subset(cel.IncludeOverloads(s.overloads[name]...)); part != nil {
				out[name] = part
			}
		}
	}
	return out
}

// Verify returns an error if an expression calls, outside of the expansions of macros, a function
// that is not selected.
func (s *Selection) Verify(source string, tree *ast.AST) error {
	if s.all {
		return nil
	}
	macros := tree.SourceInfo().MacroCalls()
	var visit func(e ast.Expr) error
	visit = func(e ast.Expr) error {
		if macro, ok := macros[e.ID()]; ok {
			return VisitChildren(macro, visit)
		}
		if e.Kind() == ast.CallKind {
			name := e.AsCall().FunctionName()
			if e.AsCall().IsMemberFunction() && e.AsCall().Target().Kind() == ast.IdentKind {
				if dotted := e.AsCall().Target().AsIdent() + "." + name; usedByMacros[dotted] {
					name = dotted
				}
			}
			if !s.functions[name] && !IsInternal(name) {
				if err := s.verifyPart(tree, e, name); err != nil {
					at := tree.SourceInfo().GetStartLocation(e.ID())
					return fmt.Errorf("%d:%d: %w in %q", at.Line(), at.Column()+1, err, source)
				}
			}
		}
		return VisitChildren(e, visit)
	}
	return visit(tree.Expr())
}

// verifyPart checks a call of a function of which only some overloads are selected. The types of
// its arguments must be known, because otherwise an overload is chosen at run time.
func (s *Selection) verifyPart(tree *ast.AST, e ast.Expr, name string) error {
	if len(s.overloads[name]) == 0 {
		return fmt.Errorf("function %q is not part of this language", name)
	}
	ref := tree.ReferenceMap()[e.ID()]
	if ref == nil {
		return fmt.Errorf("function %q is part of this language for some types only, and types are not checked", name)
	}
	for _, id := range ref.OverloadIDs {
		if !slices.Contains(s.overloads[name], id) {
			return fmt.Errorf("overload %q of function %q is not part of this language", id, name)
		}
	}
	call := e.AsCall()
	args := call.Args()
	if call.IsMemberFunction() {
		args = append([]ast.Expr{call.Target()}, args...)
	}
	for _, arg := range args {
		if t := tree.GetType(arg.ID()); strings.Contains(t.String(), "dyn") {
			return fmt.Errorf("function %q is part of this language for some types only, and an argument's type is %s", name, t)
		}
	}
	return nil
}

// VisitChildren calls visit for each direct child of e.
func VisitChildren(e ast.Expr, visit func(ast.Expr) error) error {
	var below []ast.Expr
	switch e.Kind() {
	case ast.SelectKind:
		below = append(below, e.AsSelect().Operand())
	case ast.CallKind:
		if e.AsCall().IsMemberFunction() {
			below = append(below, e.AsCall().Target())
		}
		below = append(below, e.AsCall().Args()...)
	case ast.ListKind:
		below = e.AsList().Elements()
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			below = append(below, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			below = append(below, field.AsStructField().Value())
		}
	}
	for _, b := range below {
		if err := visit(b); err != nil {
			return err
		}
	}
	return nil
}
