package check

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/containers"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// This file checks the types of expressions in which every type is known. It gives nodes the same
// types and overloads as cel-go's checker. It gives up on everything else (dyn, optionals, null,
// empty lists, and all errors), and cel-go checks.

// overloadDecl is the declaration of one overload.
type overloadDecl struct {
	id     string
	args   []*types.Type
	result *types.Type
	member bool
	plain  bool // the type of every argument is plain or a parameter
}

// checks is what the quick checker needs to know about the declarations.
type checks struct {
	functions map[string][]overloadDecl
	off       bool // the quick checker cannot be used with these declarations
}

// newChecks returns the overloads of all functions.
func newChecks(e *Declarations, fns map[string]*decls.FunctionDecl) *checks {
	k := &checks{functions: map[string][]overloadDecl{}, off: !hasCrossTypeComparisons(e.Base)}
	for name, fn := range fns {
		if fn.IsDeclarationDisabled() {
			continue
		}
		var list []overloadDecl
		for _, o := range fn.OverloadDecls() {
			d := overloadDecl{id: o.ID(), args: o.ArgTypes(), result: o.ResultType(), member: o.IsMemberFunction(), plain: true}
			for _, t := range d.args {
				d.plain = d.plain && plainFormal(t)
			}
			list = append(list, d)
		}
		k.functions[name] = list
	}
	for _, v := range e.Base.Variables() {
		if name := v.Name(); name == "self" || name == "oldSelf" {
			k.off = true
		}
	}
	return k
}

// plainFormal reports whether only values of the same type can be passed as a t.
func plainFormal(t *types.Type) bool {
	switch t.Kind() {
	case types.TypeParamKind:
		return true
	case types.ListKind, types.MapKind, types.OpaqueKind, types.TypeKind:
		for _, p := range t.Parameters() {
			if !plainFormal(p) {
				return false
			}
		}
		return true
	}
	return plainScalar(t)
}

// plainScalar reports whether t is a scalar type to which no other type can be assigned.
func plainScalar(t *types.Type) bool {
	switch t {
	case types.BoolType, types.IntType, types.UintType, types.DoubleType, types.StringType, types.BytesType,
		types.TimestampType, types.DurationType:
		return true
	}
	return false
}

// knownType reports whether t has no dyn, optionals or parameters.
func knownType(t *types.Type) bool {
	switch t.Kind() {
	case types.ListKind, types.MapKind:
		for _, p := range t.Parameters() {
			if !knownType(p) {
				return false
			}
		}
		return true
	case types.StructKind:
		return true
	case types.OpaqueKind:
		return len(t.Parameters()) == 0
	}
	return plainScalar(t)
}

// localType is a variable of a comprehension, in a list from the innermost.
type localType struct {
	name string
	t    *types.Type
	next *localType
}

// quickChecker checks one tree.
type quickChecker struct {
	*checks
	provider  *Provider
	self, old *types.Type
	locals    *localType
	types     map[int64]*types.Type
	refs      map[int64]*ast.ReferenceInfo
	idents    map[string]*ast.ReferenceInfo
	bad       bool // cel-go must check
}

// Check returns tree with types and overloads, nil if cel-go must check it.
func (k *checks) Check(tree *ast.AST, p *Provider, self, old *types.Type) *ast.AST {
	if k.off {
		return nil
	}
	c := &quickChecker{checks: k, provider: p, self: self, old: old,
		types: map[int64]*types.Type{}, refs: map[int64]*ast.ReferenceInfo{}, idents: map[string]*ast.ReferenceInfo{}}
	c.node(tree.Expr())
	if c.bad {
		return nil
	}
	return ast.NewCheckedAST(tree, c.types, c.refs)
}

// giveUp ends the check, so that cel-go checks. It returns a placeholder.
func (c *quickChecker) giveUp() *types.Type {
	c.bad = true
	return types.ErrorType
}

// node returns the type of a node, which it computes once.
func (c *quickChecker) node(e ast.Expr) *types.Type {
	if c.bad {
		return types.ErrorType
	}
	if t, ok := c.types[e.ID()]; ok {
		return t
	}
	t := c.anyNode(e)
	c.types[e.ID()] = t
	return t
}

// anyNode computes the type of a node.
func (c *quickChecker) anyNode(e ast.Expr) *types.Type {
	switch e.Kind() {
	case ast.LiteralKind:
		if t, ok := e.AsLiteral().Type().(*types.Type); ok && plainScalar(t) {
			return t
		}
	case ast.IdentKind:
		return c.ident(e)
	case ast.SelectKind:
		return c.selection(e)
	case ast.CallKind:
		return c.call(e)
	case ast.ListKind:
		return c.list(e)
	case ast.ComprehensionKind:
		return c.comprehension(e)
	}
	return c.giveUp()
}

// local returns the type of a comprehension's variable, nil if there is none with that name.
func (c *quickChecker) local(name string) *types.Type {
	for v := c.locals; v != nil; v = v.next {
		if v.name == name {
			return v.t
		}
	}
	return nil
}

// ident returns the type of a variable.
func (c *quickChecker) ident(e ast.Expr) *types.Type {
	name := e.AsIdent()
	t := c.local(name)
	switch {
	case t != nil:
	case name == "self":
		t = c.self
	case name == "oldSelf":
		t = c.old
	}
	if t == nil || !knownType(t) {
		return c.giveUp()
	}
	ref, ok := c.idents[name]
	if !ok {
		ref = ast.NewIdentReference(name, nil)
		c.idents[name] = ref
	}
	c.refs[e.ID()] = ref
	return t
}

// selection returns the type of a member.
func (c *quickChecker) selection(e ast.Expr) *types.Type {
	sel := e.AsSelect()
	operand := c.node(sel.Operand())
	var t *types.Type
	switch operand.Kind() {
	case types.MapKind:
		t = operand.Parameters()[1]
	case types.StructKind:
		f, ok := c.provider.FindStructFieldType(operand.TypeName(), sel.FieldName())
		if !ok {
			return c.giveUp()
		}
		t = f.Type
	default:
		return c.giveUp()
	}
	switch {
	case sel.IsTestOnly():
		return types.BoolType
	case !knownType(t):
		return c.giveUp()
	}
	return t
}

// list returns the type of a list literal, whose items must have one type.
func (c *quickChecker) list(e ast.Expr) *types.Type {
	var item *types.Type
	if len(e.AsList().OptionalIndices()) > 0 {
		return c.giveUp()
	}
	for _, elem := range e.AsList().Elements() {
		t := c.node(elem)
		if item == nil {
			item = t
		}
		if !t.IsExactType(item) {
			return c.giveUp()
		}
	}
	if item == nil {
		return c.giveUp()
	}
	return types.NewListType(item)
}

// call returns the type of a call.
func (c *quickChecker) call(e ast.Expr) *types.Type {
	call := e.AsCall()
	name := call.FunctionName()
	if name == operators.LogicalAnd || name == operators.LogicalOr {
		return c.logic(e)
	}
	var buf [4]*types.Type
	args := buf[:0]
	if call.IsMemberFunction() {
		// A function with a dotted name looks like a member function of a variable.
		if prefix, ok := containers.ToQualifiedName(call.Target()); ok {
			if _, found := c.functions[prefix+"."+name]; found {
				return c.giveUp()
			}
		}
		args = append(args, c.node(call.Target()))
	}
	for _, arg := range call.Args() {
		args = append(args, c.node(arg))
	}
	if c.bad {
		return types.ErrorType
	}
	return c.resolve(e, name, call.IsMemberFunction(), args)
}

// logic returns the type of && and ||.
func (c *quickChecker) logic(e ast.Expr) *types.Type {
	for _, arg := range e.AsCall().Args() {
		if c.node(arg) != types.BoolType {
			return c.giveUp()
		}
	}
	name := e.AsCall().FunctionName()
	if c.idents[name] == nil {
		list := c.functions[name]
		if len(list) != 1 {
			return c.giveUp()
		}
		c.idents[name] = ast.NewFunctionReference(list[0].id)
	}
	c.refs[e.ID()] = c.idents[name]
	return types.BoolType
}

// resolve returns the result type of the only overload that accepts the arguments.
func (c *quickChecker) resolve(e ast.Expr, name string, member bool, args []*types.Type) *types.Type {
	var found *overloadDecl
	var result *types.Type
	list := c.functions[name]
	for i := range list {
		o := &list[i]
		if o.member != member || len(o.args) != len(args) {
			continue
		}
		if !o.plain && !c.never(o, args) {
			return c.giveUp()
		}
		var b binding
		if !o.plain || !b.fits(o.args, args) {
			continue
		}
		if found != nil {
			return c.giveUp()
		}
		found, result = o, b.apply(o.result)
	}
	if found == nil || result == nil {
		return c.giveUp()
	}
	c.refs[e.ID()] = ast.NewFunctionReference(found.id)
	return result
}

// never reports whether an overload with types that are not plain cannot match, because one of its
// plain types does not.
func (c *quickChecker) never(o *overloadDecl, args []*types.Type) bool {
	for i, formal := range o.args {
		if plainScalar(formal) && formal != args[i] {
			return true
		}
	}
	return false
}

// binding has the types that the parameters of an overload's types represent.
type binding struct {
	names [4]string
	types [4]*types.Type
	n     int
}

// fits reports whether all arguments match, and binds parameters.
func (b *binding) fits(formals, args []*types.Type) bool {
	for i, formal := range formals {
		if !b.fit(formal, args[i]) {
			return false
		}
	}
	return true
}

// fit is fits for one argument.
func (b *binding) fit(formal, t *types.Type) bool {
	switch formal.Kind() {
	case types.TypeParamKind:
		for i := range b.n {
			if b.names[i] == formal.TypeName() {
				return b.types[i].IsExactType(t)
			}
		}
		if b.n == len(b.names) {
			return false
		}
		b.names[b.n], b.types[b.n] = formal.TypeName(), t
		b.n++
		return true
	case types.ListKind, types.MapKind:
		if t.Kind() != formal.Kind() {
			return false
		}
		return b.fits(formal.Parameters(), t.Parameters())
	case types.OpaqueKind:
		return len(formal.Parameters()) == 0 && formal.IsExactType(t)
	case types.TypeKind:
		return false
	}
	return formal == t
}

// apply returns t with its parameters replaced, nil if one of them is not bound.
func (b *binding) apply(t *types.Type) *types.Type {
	switch t.Kind() {
	case types.TypeParamKind:
		for i := range b.n {
			if b.names[i] == t.TypeName() {
				return b.types[i]
			}
		}
		return nil
	case types.ListKind:
		if item := b.apply(t.Parameters()[0]); item != nil {
			return types.NewListType(item)
		}
		return nil
	}
	if knownType(t) {
		return t
	}
	return nil
}

// comprehension returns the type of a loop. map() and filter() start with an empty list, whose type
// is that of the collected items.
func (c *quickChecker) comprehension(e ast.Expr) *types.Type {
	comp := e.AsComprehension()
	over := c.node(comp.IterRange())
	outer := c.locals
	defer func() { c.locals = outer }()

	var iter, iter2 *types.Type
	switch over.Kind() {
	case types.ListKind:
		iter = over.Parameters()[0]
		if comp.HasIterVar2() {
			iter, iter2 = types.IntType, iter
		}
	case types.MapKind:
		iter = over.Parameters()[0]
		if comp.HasIterVar2() {
			iter2 = over.Parameters()[1]
		}
	default:
		return c.giveUp()
	}
	declare := func() {
		c.locals = &localType{comp.IterVar(), iter, c.locals}
		if iter2 != nil {
			c.locals = &localType{comp.IterVar2(), iter2, c.locals}
		}
	}
	var accu *types.Type
	if kind, parts := Recognise(comp); kind == ShapeMap {
		// The transformation cannot refer to the accumulator.
		declare()
		item := c.node(parts[1])
		if c.bad || !knownType(item) {
			return c.giveUp()
		}
		c.locals = outer
		accu = types.NewListType(item)
		c.types[comp.AccuInit().ID()] = accu
	} else {
		accu = c.node(comp.AccuInit())
	}
	c.locals = &localType{comp.AccuVar(), accu, outer}
	scope := c.locals
	declare()
	if c.node(comp.LoopCondition()) != types.BoolType || !c.node(comp.LoopStep()).IsExactType(accu) {
		return c.giveUp()
	}
	c.locals = scope
	return c.node(comp.Result())
}
