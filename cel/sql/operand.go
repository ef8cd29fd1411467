package sql

import (
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/cel"
)

// This file translates paths in the document: variables, members, and items by their index or key.

// operand is a value in the document, or the key of a map.
type operand struct {
	place  place
	schema *cel.Type // nil for a key
	key    string    // SQL of a key
	value  *value    // of a variable over a list of expressions, instead of a place
	guard  string    // the condition under which the path to the place is not an error; "" is always

	// names are the names of the members from the document to the place; nil if the place is below an
	// item of a list or in another variable.
	names  []string
	column string // with the document

	// entry is the value of a key that a macro takes from the map at ofMap.
	entry *operand
	ofMap string

	// nullCounts: null is a value. In other places, members of objects, null counts as absent.
	nullCounts bool
	// optional: the path has a part with .?, and the value is an optional. isEmptyIfAbsent: it has
	// been unwrapped by orValue([]) or orValue({}).
	optional, isEmptyIfAbsent bool
	present, absent           string // of an optional, or of a member: the conditions that there is a value, or none
}

// operand translates a path.
func (t *translator) operand(e ast.Expr) (operand, error) {
	if o, ok := t.columnOf(e); ok && !isPresenceTest(e) {
		return o, nil
	}
	switch e.Kind() {
	case ast.IdentKind:
		for s := t.scope; s != nil; s = s.outer {
			if s.name == e.AsIdent() {
				bound := s.bound
				bound.nullCounts = true
				return bound, nil
			}
		}
		if v, ok := t.values[e.AsIdent()]; ok {
			constant, err := t.constant(e, v)
			return operand{value: &constant}, err
		}
		return operand{}, t.refuse(e, e.AsIdent(), "no column has this variable")
	case ast.SelectKind:
		if isPresenceTest(e) {
			break
		}
		parent, err := t.operand(e.AsSelect().Operand())
		if err != nil {
			return operand{}, err
		}
		return t.member(e, parent, e.AsSelect().FieldName())
	case ast.CallKind:
		return t.calledOperand(e)
	}
	return operand{}, t.refuse(e, "expression", "only paths in the document are translated here")
}

// isPresenceTest reports whether e is has(x.f).
func isPresenceTest(e ast.Expr) bool { return e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() }

// calledOperand translates x.?f, x["k"] and x.?f.orValue([]).
func (t *translator) calledOperand(e ast.Expr) (operand, error) {
	call := e.AsCall()
	switch call.FunctionName() {
	case operators.OptSelect:
		parent, err := t.operand(call.Args()[0])
		if err != nil {
			return operand{}, err
		}
		name, ok := literalString(call.Args()[1])
		if !ok {
			return operand{}, t.refuse(e, ".?", "the name of the member is not constant")
		}
		child, err := t.member(e, parent, name)
		child.optional = true
		if !parent.optional && parent.schema != nil {
			// The optional part begins here: what it is selected from must be there.
			child.guard = and(parent.guard, t.mayHaveMembers(parent))
		}
		return child, err
	case operators.Index:
		parent, err := t.operand(call.Args()[0])
		if err != nil {
			return operand{}, err
		}
		return t.indexed(e, parent, call.Args()[1])
	case "orValue":
		inner, err := t.operand(call.Target())
		if err != nil {
			return operand{}, err
		}
		if !inner.optional || !isEmptyLiteral(call.Args()[0]) {
			return operand{}, t.refuse(e, "orValue", "only a scalar, [] or {} are translated")
		}
		inner.optional, inner.isEmptyIfAbsent = false, true
		return inner, nil
	}
	return operand{}, t.refuse(e, call.FunctionName(), "its result is not a path in the document")
}

// indexed translates x[i] for constants, and m[k] for the keys k that a macro takes from m.
func (t *translator) indexed(e ast.Expr, parent operand, index ast.Expr) (operand, error) {
	if parent.schema == nil || parent.optional || parent.isEmptyIfAbsent {
		return operand{}, t.refuse(e, "[]", "only lists and maps of the document are translated")
	}
	isDyn := isDynamic(parent.schema)
	if key, ok := literalString(index); ok && (isDyn || parent.schema.Kind == cel.Map) {
		return t.entry(e, parent, key, true)
	}
	if index.Kind() == ast.LiteralKind && (isDyn || parent.schema.Kind == cel.List && parent.schema.Elem != nil) {
		if i, ok := index.AsLiteral().(types.Int); ok && i >= 0 && i < maxIndex {
			guard := and(parent.guard, t.db.hasType(parent.place, arrayNode)) // in PostgreSQL, a scalar is its item 0
			return operand{place: t.db.item(parent.place, int(i)), schema: elem(parent.schema), guard: guard, nullCounts: true}, nil
		}
	}
	if index.Kind() == ast.IdentKind && parent.schema.Kind == cel.Map {
		key, err := t.operand(index)
		if err == nil && key.entry != nil && key.ofMap == parent.place.id() {
			return *key.entry, nil
		}
	}
	return operand{}, t.refuse(e, "[]", "only constant indexes, constant keys, and keys of the same map are translated")
}

// maxIndex is greater than the length of any list.
const maxIndex = 1 << 30

// isEmptyLiteral reports whether e is [] or {}.
func isEmptyLiteral(e ast.Expr) bool {
	return e.Kind() == ast.ListKind && e.AsList().Size() == 0 || e.Kind() == ast.MapKind && e.AsMap().Size() == 0
}

// literalString returns the string of a literal.
func literalString(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

// member translates the selection of a field from parent.
func (t *translator) member(e ast.Expr, parent operand, field string) (operand, error) {
	if parent.schema == nil || parent.isEmptyIfAbsent {
		return operand{}, t.refuse(e, field, "the value has no members with types")
	}
	switch {
	case parent.schema.Kind == cel.Map, isDynamic(parent.schema):
		return t.entry(e, parent, field, false)
	case parent.schema.Kind == cel.Object:
	default:
		return operand{}, t.refuse(e, field, "the value has no members with types")
	}
	name, ok := cel.Unescape(field)
	if !ok {
		return operand{}, t.refuse(e, field, "it is not the name of a member")
	}
	f := parent.schema.Field(name)
	if f == nil || f.Type == nil {
		return operand{}, t.refuse(e, field, "the schema gives it no type")
	}
	child, err := t.child(e, parent, name, f.Type, false)
	child.present = t.db.existsNotNull(child.place)
	child.absent = "(" + child.present + ") IS NOT TRUE"
	return child, err
}

// entry translates the selection of a key from a map. constant says that the key is a constant of the expression.
func (t *translator) entry(e ast.Expr, parent operand, key string, constant bool) (operand, error) {
	schema := elem(parent.schema)
	if schema == nil {
		return operand{}, t.refuse(e, key, "the schema gives it no type")
	}
	child, err := t.child(e, parent, key, schema, constant)
	child.nullCounts = true
	child.present = t.db.exists(child.place)
	child.absent = "(" + child.present + ") IS NOT TRUE"
	return child, err
}

// child returns the member of parent with that name in the document.
func (t *translator) child(e ast.Expr, parent operand, name string, schema *cel.Type, constant bool) (operand, error) {
	p, ok := t.db.member(parent.place, name, constant)
	if !ok {
		return operand{}, t.refuse(e, name, "this database cannot name the member")
	}
	guard := parent.guard
	if parent.optional {
		// A parent that is absent makes the child absent. One of another type is an error.
		guard = and(guard, or(parent.absent, t.mayHaveMembers(parent)))
	}
	child := operand{place: p, schema: schema, guard: guard, optional: parent.optional}
	child.column = parent.column
	if parent.names != nil {
		child.names = append(slices.Clone(parent.names), name)
	}
	return child, nil
}
