package sql

import (
	"github.com/google/cel-go/common/ast"

	"github.com/keelson-io/keelson/cel"
)

// This file translates values whose type is known only in the row: a condition has a case for each type that they may have.

// dynamic is the type of the members and items of a value without a type.
var dynamic = &cel.Type{Kind: cel.Dyn}

// isDynamic reports whether values of a type may be objects and lists whose members have no type.
func isDynamic(schema *cel.Type) bool {
	return schema != nil && schema.Kind == cel.Dyn && !schema.IntOrString
}

// elem returns the type of the items of a list, or of the values of a map; nil if it is not known.
func elem(schema *cel.Type) *cel.Type {
	if isDynamic(schema) {
		return dynamic
	}
	return schema.Elem
}

// mayHaveMembers returns the condition that has(value.member) is true or false, not an error.
func (t *translator) mayHaveMembers(o operand) string {
	if !isDynamic(o.schema) || !t.x.LenientPresence() {
		return t.isObject(o)
	}
	return and(t.db.exists(o.place), "("+t.db.hasType(o.place, arrayNode)+") IS NOT TRUE")
}

// dynamicValue returns a value in a place of the document whose type is not known.
func (t *translator) dynamicValue(o operand) value {
	there := t.db.exists(o.place)
	if !o.nullCounts {
		there = t.db.existsNotNull(o.place)
	}
	v := value{kind: dynKind, place: o.place, guard: and(o.guard, there), names: o.names, column: o.column}
	if o.schema.IntOrString {
		_, isInt := t.db.asInt(o.place)
		v.guard = and(o.guard, or(t.db.hasType(o.place, stringNode), isInt))
	}
	return v
}

// as returns a value without a type as one with a type. The guard includes that it has that type. Other values are returned as they
// are.
func (t *translator) as(k kind, v value) value {
	if v.kind != dynKind {
		return v
	}
	switch k {
	case boolKind:
		return value{kind: k, text: t.db.asBool(v.place), guard: and(v.guard, t.db.hasType(v.place, boolNode))}
	case stringKind:
		return value{kind: k, text: t.db.asText(v.place), guard: and(v.guard, t.db.hasType(v.place, stringNode)), names: v.names, column: v.column}
	case intKind:
		text, isInt := t.db.asInt(v.place)
		return value{kind: k, text: text, guard: and(v.guard, isInt)}
	case doubleKind:
		_, isInt := t.db.asInt(v.place)
		return value{kind: k, text: t.db.asDouble(v.place), guard: and(v.guard, t.db.hasType(v.place, numberNode), "("+isInt+") IS NOT TRUE")}
	case nullKind:
		return value{kind: k, guard: and(v.guard, t.db.hasType(v.place, nullNode))}
	}
	return v
}

// mirrored are the comparisons with the operands exchanged.
var mirrored = map[string]string{"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}

// compareDynamic compares a value without a type to one with a type. Values of different types are not equal, and have no order;
// numbers of both types are compared as numbers.
func (t *translator) compareDynamic(op string, a, b value) truth {
	if op == "<>" {
		return t.compareDynamic("=", a, b).swap()
	}
	var yes, no []string
	for _, k := range comparable(b.kind) {
		same := t.compareTyped(op, t.as(k, a), b)
		yes, no = append(yes, same.yes), append(no, same.no)
	}
	if op == "=" {
		return truth{yes: or(yes...), no: and(a.guard, b.guard, "("+or(yes...)+") IS NOT TRUE")}
	}
	return truth{yes: or(yes...), no: or(no...)}
}

// comparable returns the types whose values are compared with values of a type.
func comparable(k kind) []kind {
	if k == intKind || k == doubleKind {
		return []kind{intKind, doubleKind}
	}
	return []kind{k}
}

// dynamicSize translates size() of a value without a type.
func (t *translator) dynamicSize(v value) value {
	isText, isList, isObject := t.db.hasType(v.place, stringNode), t.db.hasType(v.place, arrayNode), t.db.hasType(v.place, objectNode)
	text := "CASE WHEN " + isText + " THEN " + t.db.length(t.db.asText(v.place)) + " WHEN " + isList + " THEN " + t.db.size(v.place, arrayNode) +
		" ELSE " + t.db.size(v.place, objectNode) + " END"
	return value{kind: intKind, text: text, guard: and(v.guard, or(isText, isList, isObject))}
}

// dynamicSource returns what a macro goes through if it has no type: the items of a list, or the keys of a map.
func (t *translator) dynamicSource(e ast.Expr, list operand, alias string) (source, error) {
	if list.isEmptyIfAbsent && !list.nullCounts {
		return source{}, t.refuse(e, "optional", "an optional value without a type is not translated here")
	}
	from, place := t.db.listOrKeys(list.place, alias)
	return source{from: from, item: operand{place: place, schema: dynamic, nullCounts: true},
		guard: and(list.guard, or(t.db.hasType(list.place, arrayNode), t.isObject(list)))}, nil
}
