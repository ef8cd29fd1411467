package sql

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/ast"

	"github.com/keelson-io/keelson/cel"
)

// This file translates what macros go through: lists and the keys of maps in the document, which
// become tables, and lists that the expression writes out, whose items become one condition each.

// source is what a macro goes through.
type source struct {
	from   string  // the table of the items, "" if the items are listed
	item   operand // an item of the table
	values []value // the listed items
	guard  string  // the condition under which the source is not an error

	// contains returns a condition that follows from a constant being an item, "" if there is none.
	contains func(item value) string
}

// source translates the range of a macro, and the right side of in.
func (t *translator) source(e ast.Expr) (source, error) {
	if e.Kind() == ast.ListKind {
		return t.listed(e)
	}
	list, err := t.operand(e)
	if err != nil {
		return source{}, err
	}
	if list.optional {
		return source{}, t.refuse(e, "optional", "optional lists are translated only with orValue([])")
	}
	if list.schema == nil {
		return source{}, t.refuse(e, "macro", "only lists and maps of the document are translated")
	}
	t.tables++
	alias := fmt.Sprintf(ownNames+"%d", t.tables)
	s := source{}
	switch {
	case isDynamic(list.schema):
		var err error
		if s, err = t.dynamicSource(e, list, alias); err != nil {
			return source{}, err
		}
	case list.schema.Kind == cel.List && list.schema.Elem != nil:
		from, place := t.db.list(list.place, alias)
		s = source{from: from, item: operand{place: place, schema: list.schema.Elem}, guard: and(list.guard, t.db.hasType(list.place, arrayNode))}
	case list.schema.Kind == cel.Map && list.schema.Elem != nil:
		from, key, value := t.db.entries(list.place, alias)
		entry := operand{place: value, schema: list.schema.Elem, nullCounts: true}
		s = source{from: from, item: operand{key: key, entry: &entry, ofMap: list.place.id()}, guard: and(list.guard, t.isObject(list))}
	default:
		return source{}, t.refuse(e, "macro", "only lists and maps whose items have a type are translated")
	}
	s.contains = func(item value) string { return t.containsItem(list, item) }
	if list.isEmptyIfAbsent {
		s.guard = or(s.guard, and(list.guard, list.absent))
	}
	return s, nil
}

// maxListed is the greatest number of items of a list that the expression writes out.
const maxListed = 32

// listed translates a list that the expression writes out. An item that is an error makes the list
// one.
func (t *translator) listed(e ast.Expr) (source, error) {
	list := e.AsList()
	if len(list.OptionalIndices()) > 0 || list.Size() > maxListed {
		return source{}, t.refuse(e, "list", fmt.Sprintf("optional items and more than %d items are not translated", maxListed))
	}
	s := source{guard: always}
	for _, item := range list.Elements() {
		v, err := t.value(item)
		if err != nil {
			return source{}, err
		}
		s.guard = and(s.guard, v.guard)
		s.values = append(s.values, value{kind: v.kind, text: v.text, place: v.place})
	}
	return s, nil
}

// counts has the conditions on the items for which a test is true, false, or an error.
type counts struct {
	someTrue, someFalse string // at least one item
	noneNotTrue         string // the test is true for all items
	noneNotFalse        string // the test is false for all items
	number              string // of items for which it is true
}

// each translates a test of the items of a source, and the condition that it is an error for none.
func (t *translator) each(s source, variable string, test ast.Expr) (c counts, known string, err error) {
	if s.from == "" {
		return t.eachListed(s, variable, test)
	}
	inner, err := t.testOf(variable, s.item, test)
	if err != nil {
		return counts{}, "", err
	}
	return counts{someTrue: s.some(inner.yes), someFalse: s.some(inner.no), noneNotTrue: s.none(inner.yes), noneNotFalse: s.none(inner.no),
		number: t.db.count(s.from, inner.yes)}, s.none(or(inner.yes, inner.no)), nil
}

// some returns the condition that another one is true for an item of the table.
func (s source) some(condition string) string {
	return "EXISTS (SELECT 1 FROM " + s.from + " WHERE " + condition + ")"
}

// none returns the condition that another one is true for all items of the table.
func (s source) none(condition string) string {
	return "NOT EXISTS (SELECT 1 FROM " + s.from + " WHERE (" + condition + ") IS NOT TRUE)"
}

// eachListed is each for listed items.
func (t *translator) eachListed(s source, variable string, test ast.Expr) (c counts, known string, err error) {
	var yes, no, either, ones []string
	for i := range s.values {
		inner, err := t.testOf(variable, operand{value: &s.values[i]}, test)
		if err != nil {
			return counts{}, "", err
		}
		yes, no, either = append(yes, inner.yes), append(no, inner.no), append(either, or(inner.yes, inner.no))
		ones = append(ones, "CASE WHEN "+inner.yes+" THEN "+t.db.number(1)+" ELSE "+t.db.number(0)+" END")
	}
	c = counts{someTrue: or(yes...), someFalse: or(no...), noneNotTrue: and(yes...), noneNotFalse: and(no...), number: t.db.number(0)}
	if len(ones) > 0 {
		c.number = "(" + strings.Join(ones, " + ") + ")"
	}
	return c, and(either...), nil
}

// testOf translates the test of a macro for an item.
func (t *translator) testOf(variable string, item operand, test ast.Expr) (truth, error) {
	t.scope = &scope{name: variable, bound: item, outer: t.scope}
	defer func() { t.scope = t.scope.outer }()
	return t.truth(test)
}
