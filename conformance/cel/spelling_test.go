package cel_test

import (
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
)

// This file writes what can be written in several ways: texts, operators without
// parentheses, names that hide others, members of what is no variable.

// spell writes a call of an operator in one of the ways in which people do: the
// operands may then belong to other operators than they were made for.
func (w *writer) spell(o overload, p *phrase) *phrase {
	if _, ok := infix[o.function]; !ok || !w.one(3) {
		return p
	}
	op := infix[o.function]
	between := " " + op + " "
	switch w.IntN(5) {
	case 0:
		between = "\n  " + op + "\t"
	case 1:
		between = " // a comment\n" + op + " "
	case 2:
		if op != "in" {
			between = op
		}
	}
	out := &phrase{parts: []any{p.parts[1], between, p.parts[3]}, t: p.t}
	if w.one(2) {
		out.parts = []any{"( ", p.parts[1], between, p.parts[3], " )"}
	}
	return out
}

// quote writes a text.
func (w *writer) quote(s string) string {
	plain := !strings.ContainsAny(s, "'\"\\\n\r\t") && s != ""
	switch w.IntN(12) {
	case 0:
		if plain {
			return "'" + s + "'"
		}
	case 1:
		if !strings.ContainsAny(s, "\"\n\r") {
			return w.pick("r", "R") + "\"" + s + "\""
		}
	case 2:
		if plain {
			return "\"\"\"" + s + "\"\"\""
		}
	case 3:
		return strconv.QuoteToASCII(s)
	case 4:
		return "(\"\" + " + strconv.Quote(s) + ")" // no constant
	}
	return strconv.Quote(s)
}

// variable is a name for a variable of a macro: as a rule a new one.
func (w *writer) variable() string {
	w.fresh++
	if w.one(25) {
		if n := len(w.scope); n > 0 && w.one(2) {
			return w.scope[w.IntN(n)].name
		}
		return w.pick("self", "oldSelf", "s", "li", "__result__", "size", "math", "format")
	}
	return "v" + strconv.Itoa(w.fresh)
}

// memberOf is a member, of a type, of an object that is computed; nil if no
// object has one.
func (w *writer) memberOf(t *types.Type, depth int) *phrase {
	type place struct{ object, field string }
	var places []place
	for _, object := range sortedKeys(w.words.fields) {
		for _, field := range sortedKeys(w.words.fields[object]) {
			of := w.words.fields[object][field]
			if of.String() == t.String() || t.Kind() == types.BoolKind && w.one(4) {
				places = append(places, place{object, field})
			}
		}
	}
	if len(places) == 0 {
		return nil
	}
	at := places[w.IntN(len(places))]
	of := operand(w.expr(types.NewObjectType(at.object), depth))
	switch {
	case w.words.fields[at.object][at.field].String() != t.String():
		return form("has(", of, "."+at.field+")")
	case w.one(4):
		return form(of, ".?"+at.field+".orValue(", w.expr(t, depth), ")")
	}
	return form(of, "."+at.field)
}
