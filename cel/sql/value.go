package sql

import (
	"fmt"
	"math"
	"strconv"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file translates scalars, and functions that return them.

// kind is the type of a scalar.
type kind int

const (
	boolKind kind = iota
	intKind
	stringKind
	doubleKind
	nullKind
	dynKind // known only in the row
)

// value is a scalar: SQL that never fails, and the condition under which it is the value. If the
// condition does not hold, the value is an error.
type value struct {
	kind  kind
	text  string
	guard string // "" is always
	place place  // of a value whose type is not known, and of a string or an integer of a document
	path  string // of those, the part of the guard that says that the place is there
	raw   string // SQL that compares with integers as it is, and that an index on a column supports
	flat  string // the column of a scalar
	nan   string // the condition that a double is NaN, for which every comparison but != is false; "" if it never is

	isConstant bool
	integer    int64 // of a constant

	// Of a member of the document, the names from the document to it; of a constant, its JSON. They
	// are for conditions that an index supports.
	names  []string
	column string
	json   string
}

// value translates a scalar.
func (t *translator) value(e ast.Expr) (value, error) {
	defer t.leave()
	if err := t.enter(e); err != nil {
		return value{}, err
	}
	v, err := t.unbounded(e)
	if err != nil {
		return value{}, err
	}
	return v, t.bounded(e, len(v.text)+len(v.guard))
}

// unbounded translates a scalar of any size.
func (t *translator) unbounded(e ast.Expr) (value, error) {
	if e.Kind() == ast.LiteralKind {
		return t.literal(e)
	}
	if e.Kind() == ast.CallKind {
		switch fn := e.AsCall().FunctionName(); fn {
		case operators.OptSelect, operators.Index:
		case "orValue":
			return t.orValue(e)
		default:
			return t.call(e, fn)
		}
	}
	if e.Kind() == ast.ComprehensionKind || isPresenceTest(e) {
		return t.booleanValue(e)
	}
	o, err := t.operand(e)
	if err != nil {
		return value{}, err
	}
	if o.optional {
		return value{}, t.refuse(e, "optional", "only orValue, hasValue and has are translated")
	}
	return t.scalar(e, o)
}

// literal translates a constant.
func (t *translator) literal(e ast.Expr) (value, error) {
	switch v := e.AsLiteral().(type) {
	case types.Bool, types.Int, types.Double, types.String:
		return t.constant(e, v.Value())
	case types.Null:
		return t.constant(e, nil)
	}
	return value{}, t.refuse(e, e.AsLiteral().Type().TypeName(), "constants of this type are not translated")
}

// constant translates a value that is the same in all rows: nil, a bool, an int64, a float64 or a string.
func (t *translator) constant(e ast.Expr, v any) (value, error) {
	switch v := v.(type) {
	case nil:
		return value{kind: nullKind}, nil
	case bool:
		if v {
			return value{kind: boolKind, text: always}, nil
		}
		return value{kind: boolKind, text: never}, nil
	case int64:
		return value{isConstant: true, integer: v, kind: intKind, text: t.db.integer(v), json: strconv.FormatInt(v, 10), raw: t.db.rawInteger(v)}, nil
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			break
		}
		return value{isConstant: true, kind: doubleKind, text: t.db.double(v)}, nil
	case string:
		if hasNUL(v) {
			return value{}, t.refuse(e, "string", "databases have no text with the character U+0000")
		}
		return value{isConstant: true, kind: stringKind, text: t.db.text(v), json: string(jsondoc.AppendQuoted(nil, v))}, nil
	}
	return value{}, t.refuse(e, fmt.Sprintf("%T", v), "constants of this type are not translated")
}

// hasNUL reports whether s has a character that is in no text of a database.
func hasNUL(s string) bool {
	for i := range len(s) {
		if s[i] == 0 {
			return true
		}
	}
	return false
}

// scalar returns the scalar in a place of the document.
func (t *translator) scalar(e ast.Expr, o operand) (value, error) {
	switch {
	case o.value != nil:
		return *o.value, nil
	case o.schema == nil:
		return value{kind: stringKind, text: o.key}, nil
	}
	if o.nullCounts && o.schema.Nullable {
		return value{}, t.refuse(e, "nullable", "null is a value here, which is not translated")
	}
	switch o.schema.Kind {
	case cel.Dyn:
		return t.dynamicValue(o), nil
	case cel.Double:
		return value{kind: doubleKind, text: t.db.asDouble(o.place), guard: and(o.guard, t.db.hasType(o.place, numberNode))}, nil
	case cel.Bool:
		return value{kind: boolKind, text: t.db.asBool(o.place), guard: and(o.guard, t.db.hasType(o.place, boolNode))}, nil
	case cel.String:
		return value{kind: stringKind, text: t.db.asText(o.place), guard: and(o.guard, t.db.hasType(o.place, stringNode)), names: o.names, column: o.column, place: o.place, path: o.guard}, nil
	case cel.Int:
		text, guard := t.db.asInt(o.place)
		return value{kind: intKind, text: text, guard: and(o.guard, guard), names: o.names, column: o.column, place: o.place, path: o.guard}, nil
	}
	names := map[cel.TypeKind]string{cel.Bytes: "bytes", cel.Timestamp: "timestamp",
		cel.Duration: "duration", cel.List: "list", cel.Map: "map", cel.Object: "object"}
	return value{}, t.refuse(e, names[o.schema.Kind], "values of this type are not translated")
}

// orValue translates x.?f.orValue(v) for scalars.
func (t *translator) orValue(e ast.Expr) (value, error) {
	o, err := t.operand(e.AsCall().Target())
	if err != nil {
		return value{}, err
	}
	if !o.optional {
		return value{}, t.refuse(e, "orValue", "only optional members of the document are translated")
	}
	base := o.guard
	o.guard, o.optional = "", false
	there, err := t.scalar(e, o)
	if err != nil {
		return value{}, err
	}
	otherwise, err := t.value(e.AsCall().Args()[0])
	if err != nil {
		return value{}, err
	}
	if there.kind != otherwise.kind || there.kind == dynKind || there.kind == nullKind {
		return value{}, t.refuse(e, "orValue", "the two values have different types")
	}
	return value{kind: there.kind, text: "CASE WHEN " + o.present + " THEN " + there.text + " ELSE " + otherwise.text + " END",
		guard: and(base, otherwise.guard, or(and(o.present, there.guard), o.absent))}, nil
}

// booleanValue returns a condition as a value, for comparisons of conditions.
func (t *translator) booleanValue(e ast.Expr) (value, error) {
	c, err := t.truth(e)
	if err != nil {
		return value{}, err
	}
	return value{kind: boolKind, text: "((" + c.yes + ") IS TRUE)", guard: or(c.yes, c.no)}, nil
}

// call translates a function that returns a scalar.
func (t *translator) call(e ast.Expr, fn string) (value, error) {
	args := e.AsCall().Args()
	if e.AsCall().IsMemberFunction() {
		args = append([]ast.Expr{e.AsCall().Target()}, args...)
	}
	switch fn {
	case operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo:
		return t.arithmetic(e, fn, args)
	case operators.Negate:
		v, err := t.value(args[0])
		if err != nil || v.kind != intKind {
			return value{}, t.orRefuse(err, e, "-")
		}
		text, guard := t.db.arithmetic("-", t.db.number(0), v.text)
		return value{kind: intKind, text: text, guard: and(v.guard, guard)}, nil
	case operators.Conditional:
		return t.chosenValue(args)
	case "size":
		return t.size(e, args[0])
	case "string":
		v, err := t.value(args[0])
		if err != nil || v.kind != intKind && v.kind != stringKind {
			return value{}, t.orRefuse(err, e, fn)
		}
		if v.kind == intKind {
			v = value{kind: stringKind, text: t.db.decimal(v.text), guard: v.guard}
		}
		return v, nil
	}
	if _, ok := predicates[fn]; ok || fn == operators.LogicalAnd || fn == operators.LogicalOr || fn == operators.LogicalNot {
		return t.booleanValue(e)
	}
	return value{}, t.refuse(e, fn, "this function is not translated")
}

// orRefuse returns err, or the refusal of a function for its arguments' types.
func (t *translator) orRefuse(err error, e ast.Expr, fn string) error {
	if err != nil {
		return err
	}
	return t.refuse(e, fn, "it is not translated for arguments of these types")
}

// arithmetic translates operators on integers, and the concatenation of strings.
func (t *translator) arithmetic(e ast.Expr, fn string, args []ast.Expr) (value, error) {
	op := map[string]string{operators.Add: "+", operators.Subtract: "-", operators.Multiply: "*", operators.Divide: "/", operators.Modulo: "%"}[fn]
	a, err := t.value(args[0])
	if err != nil {
		return value{}, err
	}
	b, err := t.value(args[1])
	if err != nil {
		return value{}, err
	}
	if a.kind == dynKind && b.kind != dynKind {
		a = t.as(b.kind, a)
	} else if b.kind == dynKind && a.kind != dynKind {
		b = t.as(a.kind, b)
	}
	switch {
	case a.kind == intKind && b.kind == intKind:
		text, guard := t.db.arithmetic(op, a.text, b.text)
		return value{kind: intKind, text: text, guard: and(a.guard, b.guard, guard)}, nil
	case a.kind == stringKind && b.kind == stringKind && fn == operators.Add:
		return value{kind: stringKind, text: t.db.concat(a.text, b.text), guard: and(a.guard, b.guard)}, nil
	}
	return value{}, t.refuse(e, op, "it is not translated for arguments of these types")
}

// chosenValue translates a ? b : c for scalars.
func (t *translator) chosenValue(args []ast.Expr) (value, error) {
	cond, err := t.truth(args[0])
	if err != nil {
		return value{}, err
	}
	a, err := t.value(args[1])
	if err != nil {
		return value{}, err
	}
	b, err := t.value(args[2])
	if err != nil || a.kind != b.kind || a.kind == dynKind || a.kind == nullKind {
		return value{}, t.orRefuse(err, args[2], "?:")
	}
	return value{kind: a.kind, text: "CASE WHEN " + cond.yes + " THEN " + a.text + " ELSE " + b.text + " END",
		guard: or(and(cond.yes, a.guard), and(cond.no, b.guard))}, nil
}

// size translates size() of strings, lists and maps.
func (t *translator) size(e, arg ast.Expr) (value, error) {
	if arg.Kind() == ast.ComprehensionKind {
		return t.filteredSize(e, arg)
	}
	if o, err := t.operand(arg); err == nil && o.schema != nil && !o.optional && (o.schema.Kind == cel.List || o.schema.Kind == cel.Map) {
		n := arrayNode
		if o.schema.Kind == cel.Map {
			n = objectNode
		}
		text, guard := t.db.size(o.place, n), t.db.hasType(o.place, n)
		if o.isEmptyIfAbsent {
			text, guard = "CASE WHEN "+o.absent+" THEN "+t.db.number(0)+" ELSE "+text+" END", or(guard, o.absent)
		}
		return value{kind: intKind, text: text, guard: and(o.guard, guard)}, nil
	}
	v, err := t.value(arg)
	if err == nil && v.kind == dynKind {
		return t.dynamicSize(v), nil
	}
	if err != nil || v.kind != stringKind {
		return value{}, t.orRefuse(err, e, "size")
	}
	return value{kind: intKind, text: t.db.length(v.text), guard: v.guard}, nil
}

// filteredSize translates size() of the macro filter.
func (t *translator) filteredSize(e, arg ast.Expr) (value, error) {
	c := arg.AsComprehension()
	step := c.LoopStep()
	if c.HasIterVar2() || c.AccuInit().Kind() != ast.ListKind || step.Kind() != ast.CallKind || step.AsCall().FunctionName() != operators.Conditional ||
		!isFilter(c, step.AsCall().Args()[1]) {
		return value{}, t.refuse(e, "size", "of macros, only filter with one variable is translated")
	}
	source, err := t.source(c.IterRange())
	if err != nil {
		return value{}, err
	}
	test := step.AsCall().Args()[0]
	if source.from == "" {
		counts, known, err := t.eachListed(source, c.IterVar(), test)
		return value{kind: intKind, text: counts.number, guard: and(source.guard, known)}, err
	}
	inner, err := t.testOf(c.IterVar(), source.item, test)
	if err != nil {
		return value{}, err
	}
	// The items that are kept are read, too.
	if source.item.schema != nil {
		item := source.item
		item.nullCounts = true
		typed, err := t.isTyped(arg, item)
		if err != nil {
			return value{}, err
		}
		inner.yes = and(inner.yes, typed)
	}
	return value{kind: intKind, text: t.db.count(source.from, inner.yes), guard: and(source.guard, source.none(or(inner.yes, inner.no)))}, nil
}

// isFilter reports whether a step appends the item itself.
func isFilter(c ast.ComprehensionExpr, step ast.Expr) bool {
	if step.Kind() != ast.CallKind || step.AsCall().FunctionName() != operators.Add || len(step.AsCall().Args()) != 2 {
		return false
	}
	item := step.AsCall().Args()[1]
	return item.Kind() == ast.ListKind && item.AsList().Size() == 1 && item.AsList().Elements()[0].Kind() == ast.IdentKind &&
		item.AsList().Elements()[0].AsIdent() == c.IterVar()
}
