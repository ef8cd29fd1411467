package sql

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file translates comparisons and functions with a boolean result.

// predicates are the functions that predicate translates, and the SQL of comparisons.
var predicates = map[string]string{
	operators.Equals: "=", operators.NotEquals: "<>", operators.Less: "<", operators.LessEquals: "<=", operators.Greater: ">",
	operators.GreaterEquals: ">=", operators.In: "", operators.OldIn: "", "startsWith": "", "endsWith": "", "contains": "", "matches": "", "hasValue": "",
}

// opposites are the comparisons that hold if others do not.
var opposites = map[string]string{"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

// predicate translates a function with a boolean result.
func (t *translator) predicate(e ast.Expr, fn string) (truth, error) {
	args := e.AsCall().Args()
	if e.AsCall().IsMemberFunction() {
		args = append([]ast.Expr{e.AsCall().Target()}, args...)
	}
	op, known := predicates[fn]
	switch {
	case !known:
		v, err := t.value(e)
		if err != nil {
			return truth{}, err
		}
		return t.ofBool(e, v)
	case op != "":
		return t.comparison(e, op, args)
	}
	switch fn {
	case operators.In, operators.OldIn:
		return t.membership(e, args)
	case "hasValue":
		o, err := t.operand(args[0])
		if err != nil || !o.optional {
			return truth{}, t.orRefuse(err, e, fn)
		}
		typed, err := t.isTyped(e, o)
		return truth{yes: and(o.guard, o.present, typed), no: and(o.guard, o.absent)}, err
	}
	return t.textTest(e, fn, args)
}

// comparison translates == != < <= > >= of scalars of one type.
func (t *translator) comparison(e ast.Expr, op string, args []ast.Expr) (truth, error) {
	a, err := t.value(args[0])
	if err != nil {
		return truth{}, err
	}
	b, err := t.value(args[1])
	if err != nil {
		return truth{}, err
	}
	if !t.areComparable(a, b) {
		return truth{}, t.refuse(e, op, "it is not translated for values of these types")
	}
	return t.compare(op, a, b), nil
}

// areComparable reports whether compare knows the types of two scalars.
func (t *translator) areComparable(a, b value) bool {
	if a.kind == dynKind || b.kind == dynKind {
		return a.kind != b.kind
	}
	isNumber := func(v value) bool { return v.kind == intKind || v.kind == doubleKind }
	return a.kind == b.kind && a.kind != nullKind || isNumber(a) && isNumber(b)
}

// compare compares two scalars that areComparable.
func (t *translator) compare(op string, a, b value) truth {
	switch {
	case a.kind == dynKind:
		return t.compareDynamic(op, a, b)
	case b.kind == dynKind:
		return t.compareDynamic(mirrored[op], b, a)
	}
	return t.compareTyped(op, a, b)
}

// compareTyped compares two scalars with types.
func (t *translator) compareTyped(op string, a, b value) truth {
	switch {
	case a.kind == nullKind || b.kind == nullKind:
		if op != "=" {
			return truth{never, never}
		}
		return truth{yes: and(a.guard, b.guard), no: never}
	case a.kind == doubleKind && b.kind == intKind:
		b.text, b.raw = t.db.nearest(b.text), ""
	case a.kind == intKind && b.kind == doubleKind:
		a.text, a.raw = t.db.nearest(a.text), ""
	case a.kind == intKind && a.raw != "" && b.raw != "":
		a.text, b.text = a.raw, b.raw
	}
	if op == "<>" {
		return t.compareTyped("=", a, b).swap()
	}
	if nan := or(a.nan, b.nan); nan != never {
		guard := and(a.guard, b.guard)
		a.nan, b.nan = "", ""
		number := t.compareTyped(op, a, b)
		return truth{yes: and("("+nan+") IS NOT TRUE", number.yes), no: or(and(guard, nan), number.no)}
	}
	left := a.text
	if a.kind == stringKind {
		left = t.db.bytesOrder(left)
	}
	guard := and(a.guard, b.guard)
	if short := t.shortComparison(op, a, b); short != "" {
		return truth{yes: short, no: and(guard, left+" "+opposites[op]+" "+b.text)}
	}
	if op == "=" {
		return truth{yes: and(t.contained(a, b), guard, left+" = "+b.text), no: and(guard, left+" <> "+b.text)}
	}
	return truth{yes: and(guard, left+" "+op+" "+b.text), no: and(guard, left+" "+opposites[op]+" "+b.text)}
}

// shortComparison returns the condition that a member compares to a constant, if the dialect has a shorter one than that the member has
// its type, and compares; "" if not.
func (t *translator) shortComparison(op string, a, b value) string {
	if a.isConstant && !b.isConstant {
		a, b, op = b, a, mirrored[op]
	}
	if a.place.base == "" || !b.isConstant || a.kind != b.kind {
		return ""
	}
	short := t.db.comparison(op, a, b)
	if short == "" {
		return ""
	}
	return and(a.path, short)
}

// contained returns a condition that follows from the equality of a member and a constant, and that
// an index on the documents supports; "" if there is none.
func (t *translator) contained(a, b value) string {
	if b.names != nil {
		a, b = b, a
	}
	if len(a.names) == 0 || b.json == "" {
		return ""
	}
	return t.db.containsDocument(a.column, document(a.names, b.json))
}

// document returns a document with nothing but a value.
func document(names []string, value string) string {
	for _, name := range slices.Backward(names) {
		value = "{" + string(jsondoc.AppendQuoted(nil, name)) + ":" + value + "}"
	}
	return value
}

// membership translates x in list, and key in map.
func (t *translator) membership(e ast.Expr, args []ast.Expr) (truth, error) {
	a, err := t.value(args[0])
	if err != nil {
		return truth{}, err
	}
	if args[1].Kind() == ast.ListKind {
		return t.oneOf(e, a, args[1].AsList())
	}
	list, err := t.source(args[1])
	if err != nil {
		return truth{}, err
	}
	v, err := t.scalar(args[1], list.item)
	if err != nil {
		return truth{}, err
	}
	if !t.areComparable(v, a) || list.item.entry != nil && a.kind == dynKind {
		return truth{}, t.refuse(e, "in", "it is not translated for items of this type")
	}
	same := t.compare("=", v, value{kind: a.kind, text: a.text, place: a.place})
	if list.item.entry != nil {
		// The value of the key is read, too, and is an error if it has another type.
		typed, err := t.isTyped(args[1], *list.item.entry)
		if err != nil {
			return truth{}, err
		}
		same.yes = and(same.yes, typed)
	}
	guard := and(a.guard, list.guard)
	return truth{yes: and(list.contains(a), guard, list.some(same.yes)), no: and(guard, list.none(same.no))}, nil
}

// oneOf translates x in [a, b, c].
func (t *translator) oneOf(e ast.Expr, a value, list ast.ListExpr) (truth, error) {
	if len(list.OptionalIndices()) > 0 {
		return truth{}, t.refuse(e, "in", "optional items are not translated")
	}
	if list.Size() == 0 {
		return truth{never, always}, nil // the evaluator does not evaluate x
	}
	var items []value
	oneType := a.kind != dynKind
	for _, item := range list.Elements() {
		b, err := t.value(item)
		if err != nil {
			return truth{}, err
		}
		if !t.areComparable(a, b) || b.guard != "" {
			return truth{}, t.refuse(item, "in", "only constants of the same type are translated")
		}
		items, oneType = append(items, b), oneType && b.kind == a.kind
	}
	if oneType {
		return t.oneOfType(a, items), nil
	}
	yes, no := []string{}, []string{a.guard}
	for _, b := range items {
		same := t.compare("=", a, b)
		yes, no = append(yes, same.yes), append(no, same.no)
	}
	return truth{yes: or(yes...), no: and(no...)}, nil
}

// oneOfType translates x in [a, b, c] for items of the type of x.
func (t *translator) oneOfType(a value, items []value) truth {
	var texts, contained []string
	left := a.text
	switch {
	case a.raw != "":
		left = a.raw
	case a.kind == stringKind:
		left = t.db.bytesOrder(left)
	}
	for _, b := range items {
		if a.raw != "" {
			b.text = b.raw
		}
		texts, contained = append(texts, b.text), append(contained, t.contained(a, b))
	}
	if slices.Contains(contained, "") {
		contained = []string{always} // no index finds all of them
	}
	list := " (" + strings.Join(texts, ", ") + ")"
	return truth{yes: and(or(contained...), a.guard, left+" IN"+list), no: and(a.guard, left+" NOT IN"+list)}
}

// textTest translates startsWith, endsWith, contains and matches.
func (t *translator) textTest(e ast.Expr, fn string, args []ast.Expr) (truth, error) {
	a, err := t.value(args[0])
	if err != nil {
		return truth{}, err
	}
	b, err := t.value(args[1])
	if err != nil {
		return truth{}, err
	}
	a, b = t.as(stringKind, a), t.as(stringKind, b)
	if a.kind != stringKind || b.kind != stringKind {
		return truth{}, t.refuse(e, fn, "it is not translated for arguments of these types")
	}
	var test string
	switch fn {
	case "startsWith":
		test = and(t.prefixRange(a, args[1]), t.db.startsWith(a.text, b.text))
	case "endsWith":
		test = t.db.endsWith(a.text, b.text)
	case "contains":
		test = t.db.contains(a.text, b.text)
	case "matches":
		pattern, ok := literalString(args[1])
		if !ok {
			return truth{}, t.refuse(e, fn, "the pattern is not constant")
		}
		if test, ok = t.db.matches(a.text, pattern); !ok {
			return truth{}, t.refuse(e, fn, "this database has no equal pattern")
		}
	}
	guard := and(a.guard, b.guard)
	return truth{yes: and(guard, test), no: and(guard, "NOT ("+test+")")}, nil
}

// prefixRange returns a condition that follows from a member having a prefix, and that an index supports; "" if none is needed.
func (t *translator) prefixRange(v value, prefix ast.Expr) string {
	text, ok := literalString(prefix)
	_, isSQLite := t.db.(sqlite)
	if end := after(text); ok && isSQLite && end != "" && (v.flat != "" || len(v.names) > 0) {
		return t.db.bytesOrder(v.text) + " >= " + t.db.text(text) + " AND " + t.db.bytesOrder(v.text) + " < " + t.db.text(end)
	}
	return ""
}

// isTyped returns the condition that a value of the document can be read as its type: a member of
// another type is an error when it is read.
func (t *translator) isTyped(e ast.Expr, o operand) (string, error) {
	if o.schema == nil {
		return "", t.refuse(e, "value without a type", "the schema gives it no type")
	}
	if o.nullCounts && o.schema.Nullable {
		return "", t.refuse(e, "nullable", "null is a value here, which is not translated")
	}
	switch o.schema.Kind {
	case cel.List:
		return t.db.hasType(o.place, arrayNode), nil
	case cel.Map, cel.Object:
		return t.isObject(o), nil
	}
	o.guard = ""
	v, err := t.scalar(e, o)
	return v.guard, err
}
