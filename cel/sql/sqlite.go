package sql

import (
	"math"
	"strconv"
	"strings"
)

// This file generates the SQL of SQLite. Documents are text, or what jsonb() returns. An integer that overflows becomes a
// real number, by which overflows are found.

type sqlite struct{ params *params }

func (d sqlite) prefix() string { return "?" }

// requires: before 3.45, SQLite finds no member whose key is written with an escape. It has no function jsonb either.
func (d sqlite) requires(clause string) string {
	if strings.Contains(clause, "json_") {
		return "jsonb('1') IS NOT NULL"
	}
	return ""
}

func (d sqlite) column(name string) place { return place{base: name, path: "$"} }

func (d sqlite) text(s string) string { return d.params.add(s) }

func (d sqlite) number(i int64) string {
	if i == -1<<63 {
		return "(-9223372036854775807 - 1)" // the literal would be the negative of a real number
	}
	return "(" + strconv.FormatInt(i, 10) + ")"
}

// member refuses names that the paths of SQLite cannot have.
func (d sqlite) member(p place, name string, constant bool) (place, bool) {
	if name == "" || strings.ContainsAny(name, "\"\\\x00") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		return place{}, false
	}
	p.path += `."` + name + `"`
	p.bound = p.bound || constant || !isPlain(name)
	p.type_, p.atom = "", ""
	return p, true
}

func (d sqlite) item(p place, i int) place {
	p.path += "[" + strconv.Itoa(i) + "]"
	p.type_, p.atom = "", ""
	return p
}

// kind returns the type of a value, NULL if it is absent.
func (d sqlite) kind(p place) string {
	if p.type_ != "" {
		return p.type_
	}
	return "json_type(" + d.json(p) + ", " + d.path(p) + ")"
}

// path returns the path of a place.
func (d sqlite) path(p place) string {
	var parts []string
	for i, part := range strings.Split(p.path, "\x01") {
		switch {
		case i%2 == 1:
			parts = append(parts, part)
		case p.bound:
			parts = append(parts, d.text(part))
		default:
			parts = append(parts, "'"+part+"'")
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return "(" + strings.Join(parts, " || ") + ")"
}

// scalar returns a scalar.
func (d sqlite) scalar(p place) string {
	if p.type_ != "" {
		return p.atom
	}
	return "json_extract(" + d.json(p) + ", " + d.path(p) + ")"
}

// json returns the JSON in which a path is looked up. Only objects and arrays that a table yields are JSON; other items are values.
func (d sqlite) json(p place) string {
	if p.baseType == "" {
		return p.base
	}
	return "CASE WHEN " + p.baseType + " IN ('object', 'array') THEN " + p.base + " ELSE '{}' END"
}

func (d sqlite) hasType(p place, n node) string {
	switch n {
	case boolNode:
		return d.kind(p) + " IN ('true', 'false')"
	case numberNode:
		return d.kind(p) + " IN ('integer', 'real')"
	}
	names := [...]string{objectNode: "object", arrayNode: "array", stringNode: "text", nullNode: "null"}
	return d.kind(p) + " = '" + names[n] + "'"
}

func (d sqlite) exists(p place) string { return d.kind(p) + " IS NOT NULL" }

func (d sqlite) existsNotNull(p place) string { return d.kind(p) + " <> 'null'" }

func (d sqlite) asText(p place) string { return d.scalar(p) }

func (d sqlite) asBool(p place) string { return "(" + d.kind(p) + " = 'true')" }

func (d sqlite) asInt(p place) (text, guard string) {
	return d.scalar(p), "(" + d.kind(p) + " = 'integer' AND typeof(" + d.scalar(p) + ") = 'integer')"
}

func (d sqlite) asDouble(p place) string { return "CAST(" + d.scalar(p) + " AS REAL)" }

func (d sqlite) integer(i int64) string { return d.params.add(i) }

func (d sqlite) rawInteger(i int64) string { return d.params.add(i) }

func (d sqlite) double(f float64) string { return d.params.add(f) }

func (d sqlite) nearest(number string) string { return "CAST(" + number + " AS REAL)" }

func (d sqlite) flat(column string, k kind) (text, guard, raw string) {
	switch k {
	case boolKind:
		return "(" + column + " = 1)", "(typeof(" + column + ") = 'integer' AND " + column + " IN (0, 1))", ""
	case intKind:
		return column, "typeof(" + column + ") = 'integer'", column
	case doubleKind:
		return column, "typeof(" + column + ") = 'real'", ""
	}
	return column, "typeof(" + column + ") = 'text'", ""
}

func (d sqlite) isNaN(column string) string { return "" }

func (d sqlite) size(p place, n node) string {
	if n == arrayNode {
		return "json_array_length(" + d.json(p) + ", " + d.path(p) + ")"
	}
	return "(SELECT count(*) FROM json_each(" + d.json(p) + ", " + d.path(p) + "))"
}

// list returns items whose members are looked up in the document, by the index of the item: SQLite would print each item, and parse it
// again. A scalar would be a table of one row.
func (d sqlite) list(p place, alias string) (from string, item place) {
	from = "json_each(CASE " + d.kind(p) + " WHEN 'array' THEN " + d.json(p) + " ELSE '[]' END, " + d.path(p) + ") AS " + alias
	p.path += "[\x01" + alias + ".key\x01]"
	p.type_, p.atom = alias+".type", alias+".atom"
	return from, p
}

func (d sqlite) listOrKeys(p place, alias string) (from string, item place) {
	keys := "(SELECT json_group_array(key) FROM json_each(" + d.json(p) + ", " + d.path(p) + "))"
	array := "json_extract(" + d.json(p) + ", " + d.path(p) + ")"
	return "json_each(CASE " + d.kind(p) + " WHEN 'array' THEN " + array + " WHEN 'object' THEN " + keys + " ELSE '[]' END) AS " + alias, d.each(alias)
}

func (d sqlite) entries(p place, alias string) (from, key string, value place) {
	return "json_each(CASE " + d.kind(p) + " WHEN 'object' THEN " + d.json(p) + " ELSE '{}' END, " + d.path(p) + ") AS " + alias,
		alias + ".key", d.each(alias)
}

// each returns the place of a value that json_each yields.
func (d sqlite) each(alias string) place {
	return place{base: alias + ".value", path: "$", type_: alias + ".type", atom: alias + ".atom", baseType: alias + ".type"}
}

func (d sqlite) bytesOrder(text string) string { return text + " COLLATE BINARY" }

func (d sqlite) containsDocument(column, document string) string { return "" }

// index returns an index on the expression. Constant keys are parameters, which no index has.
func (d sqlite) index(v value, isEquality bool) string {
	switch {
	case v.flat != "":
		return "(" + v.flat + ")"
	case len(v.names) == 0 || strings.Contains(v.text, "\x00"):
		return ""
	}
	return "(" + v.text + ")"
}

// indexesAlternatives: SQLite reads the whole table if an operand of OR has another condition besides that on an expression.
func (d sqlite) indexesAlternatives() bool { return false }

func (d sqlite) count(from, condition string) string {
	return "(SELECT count(*) FROM " + from + " WHERE " + condition + ")"
}

func (d sqlite) length(text string) string { return "length(" + text + ")" }

// comparison looks the member up once or twice, not three times. A text that is no JSON equals only a string. An integer beyond 64 bits is
// a real number, which equals none, and is above all of them.
func (d sqlite) comparison(op string, v, constant value) string {
	switch {
	case v.kind == stringKind && op == "=" && !strings.HasPrefix(constant.json, `"{`) && !strings.HasPrefix(constant.json, `"[`):
		return d.bytesOrder(d.scalar(v.place)) + " = " + constant.text
	case v.kind == intKind && op == "=":
		return "(" + d.kind(v.place) + " = 'integer' AND " + d.scalar(v.place) + " = " + constant.text + ")"
	case v.kind == intKind && op == ">=":
		return "(" + d.kind(v.place) + " = 'integer' AND " + d.scalar(v.place) + " BETWEEN " + constant.text + " AND 9223372036854775807)"
	case v.kind == intKind && op == ">" && constant.integer == math.MaxInt64:
		return never
	case v.kind == intKind && op == ">":
		return "(" + d.kind(v.place) + " = 'integer' AND " + d.scalar(v.place) + " BETWEEN " + d.integer(constant.integer+1) + " AND 9223372036854775807)"
	}
	return ""
}

func (d sqlite) concat(a, b string) string { return "(" + a + " || " + b + ")" }

func (d sqlite) startsWith(text, part string) string {
	return "substr(" + text + ", 1, length(" + part + ")) = " + part
}

func (d sqlite) endsWith(text, part string) string {
	return "(length(" + text + ") >= length(" + part + ") AND substr(" + text + ", length(" + text + ") - length(" + part + ") + 1) = " + part + ")"
}

func (d sqlite) contains(text, part string) string { return "instr(" + text + ", " + part + ") > 0" }

// matches refuses: SQLite has no regular expressions unless its program adds some.
func (d sqlite) matches(text, pattern string) (string, bool) { return "", false }

func (d sqlite) arithmetic(op, a, b string) (text, guard string) {
	switch op {
	case "/", "%":
		text = "(" + a + " " + op + " " + b + ")"
		// The least integer divided by -1 overflows.
		return text, "(" + b + " <> 0 AND NOT (" + a + " = (-9223372036854775807 - 1) AND " + b + " = -1))"
	}
	text = "(" + a + " " + op + " " + b + ")"
	return text, "typeof" + text + " = 'integer'"
}

func (d sqlite) decimal(number string) string { return "CAST(" + number + " AS TEXT)" }
