package sql

import "strconv"

// This file generates the SQL of PostgreSQL. Documents are jsonb; integers are numeric, which does
// not overflow.

type postgres struct{ params *params }

// int64Range is the condition that a numeric is an int64.
const int64Range = " BETWEEN -9223372036854775808 AND 9223372036854775807"

func (d postgres) prefix() string { return "$" }

func (d postgres) requires(string) string { return "" }

func (d postgres) column(name string) place { return place{base: name} }

func (d postgres) text(s string) string { return d.params.add(s) + "::text" }

func (d postgres) number(i int64) string { return "(" + strconv.FormatInt(i, 10) + ")::numeric" }

func (d postgres) member(p place, name string, constant bool) (place, bool) {
	text := "'" + name + "'"
	if constant || !isPlain(name) {
		text = d.text(name)
	}
	return place{base: "(" + p.base + " -> " + text + ")"}, true
}

func (d postgres) item(p place, i int) place {
	return place{base: "(" + p.base + " -> " + strconv.Itoa(i) + ")"}
}

func (d postgres) hasType(p place, n node) string {
	names := [...]string{objectNode: "object", arrayNode: "array", stringNode: "string", boolNode: "boolean", numberNode: "number", nullNode: "null"}
	return "jsonb_typeof(" + p.base + ") = '" + names[n] + "'"
}

func (d postgres) exists(p place) string { return p.base + " IS NOT NULL" }

func (d postgres) existsNotNull(p place) string { return "jsonb_typeof(" + p.base + ") <> 'null'" }

func (d postgres) asText(p place) string { return "(" + p.base + " #>> '{}')" }

func (d postgres) asBool(p place) string { return "(" + p.base + " = 'true'::jsonb)" }

func (d postgres) asInt(p place) (text, guard string) {
	n := "(CASE jsonb_typeof(" + p.base + ") WHEN 'number' THEN (" + p.base + ")::numeric END)"
	return n, "(scale(" + n + ") = 0 AND " + n + int64Range + ")"
}

// asDouble keeps numbers away from the cast that it refuses: those beyond the largest double, and those that round to zero.
func (d postgres) asDouble(p place) string {
	n := "(" + p.base + ")::numeric"
	return "(CASE WHEN jsonb_typeof(" + p.base + ") <> 'number' THEN NULL WHEN abs(" + n + ") >= 1.7976931348623158e308 THEN NULL WHEN abs(" + n +
		") <= 2.4703282292062327e-324 THEN 0 ELSE (" + n + ")::float8 END)"
}

func (d postgres) integer(i int64) string { return d.rawInteger(i) + "::numeric" }

func (d postgres) rawInteger(i int64) string { return d.params.add(i) + "::bigint" }

func (d postgres) double(f float64) string { return d.params.add(f) + "::float8" }

func (d postgres) nearest(number string) string { return "(" + number + ")::float8" }

func (d postgres) flat(column string, k kind) (text, guard, raw string) {
	guard = column + " IS NOT NULL"
	if k == intKind {
		return column + "::numeric", guard, column
	}
	return column, guard, ""
}

func (d postgres) isNaN(column string) string { return column + " = 'NaN'" }

func (d postgres) size(p place, n node) string {
	if n == arrayNode {
		return "(CASE jsonb_typeof(" + p.base + ") WHEN 'array' THEN jsonb_array_length(" + p.base + ")::numeric END)"
	}
	return "(CASE jsonb_typeof(" + p.base + ") WHEN 'object' THEN (SELECT count(*) FROM jsonb_object_keys(" + p.base + "))::numeric END)"
}

func (d postgres) list(p place, alias string) (from string, item place) {
	return "jsonb_array_elements(CASE jsonb_typeof(" + p.base + ") WHEN 'array' THEN " + p.base + " ELSE '[]' END) AS " + alias + "(cel_v)",
		place{base: alias + ".cel_v"}
}

func (d postgres) listOrKeys(p place, alias string) (from string, item place) {
	return "jsonb_array_elements(CASE jsonb_typeof(" + p.base + ") WHEN 'array' THEN " + p.base + " WHEN 'object' THEN " +
		"(SELECT coalesce(pg_catalog.jsonb_agg(cel_k), '[]') FROM jsonb_object_keys(" + p.base + ") AS cel_k) ELSE '[]' END) AS " + alias + "(cel_v)", place{base: alias + ".cel_v"}
}

func (d postgres) entries(p place, alias string) (from, key string, value place) {
	return "jsonb_each(CASE jsonb_typeof(" + p.base + ") WHEN 'object' THEN " + p.base + " ELSE '{}' END) AS " + alias + "(cel_k, cel_v)",
		alias + ".cel_k", place{base: alias + ".cel_v"}
}

func (d postgres) bytesOrder(text string) string { return text + ` COLLATE "C"` }

func (d postgres) containsDocument(column, document string) string {
	return column + " @> (" + d.text(document) + ")::jsonb"
}

// index returns a GIN index, which serves all equalities, or an index on the expression.
func (d postgres) index(v value, isEquality bool) string {
	switch {
	case v.flat != "" && v.kind == stringKind:
		return "(" + d.bytesOrder(v.flat) + ")"
	case v.flat != "":
		return "(" + v.flat + ")"
	case len(v.names) == 0:
		return ""
	case isEquality:
		return "USING gin (" + v.column + " jsonb_path_ops)"
	}
	text, ok := quoteParams(d.params, v.text)
	switch {
	case !ok:
		return ""
	case v.kind == stringKind:
		return "((" + text + `) COLLATE "C")`
	}
	return "((" + text + "))"
}

func (d postgres) indexesAlternatives() bool { return true }

func (d postgres) count(from, condition string) string {
	return "(SELECT count(*)::numeric FROM " + from + " WHERE " + condition + ")"
}

func (d postgres) length(text string) string { return "char_length(" + text + ")::numeric" }

func (d postgres) comparison(op string, v, constant value) string { return "" }

func (d postgres) concat(a, b string) string { return "(" + a + " || " + b + ")" }

func (d postgres) startsWith(text, part string) string {
	return "starts_with(" + d.bytesOrder(text) + ", " + part + ")" // an index has the order of bytes
}

func (d postgres) endsWith(text, part string) string {
	return d.bytesOrder("right("+text+", char_length("+part+"))") + " = " + part
}

func (d postgres) contains(text, part string) string { return "strpos(" + text + ", " + part + ") > 0" }

func (d postgres) matches(text, pattern string) (string, bool) {
	re, ok := portablePattern(pattern)
	if !ok {
		return "", false
	}
	return text + ` COLLATE "C" ~ ` + d.text(re), true
}

func (d postgres) arithmetic(op, a, b string) (text, guard string) {
	switch op {
	case "/":
		text = "div(" + a + ", NULLIF(" + b + ", 0))"
	case "%":
		// The remainder of the least integer and -1 is an overflow, like the quotient.
		return "mod(" + a + ", NULLIF(" + b + ", 0))", "div(" + a + ", NULLIF(" + b + ", 0))" + int64Range
	default:
		text = "(" + a + " " + op + " " + b + ")"
	}
	return text, text + int64Range
}

func (d postgres) decimal(number string) string { return "(" + number + ")::text" }
