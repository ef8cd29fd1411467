package sql

import (
	"strconv"
	"strings"
)

// This file generates the SQL of MariaDB. Documents are text, and the connection has the character set utf8mb4. Integers are DECIMAL
// of 65 digits; the result of each operator is kept near the range of an int64, because more digits are an error.

type mariadb struct{ params *params }

// bytesCollation compares texts by their code points, and does not ignore spaces at the end.
const bytesCollation = " COLLATE utf8mb4_nopad_bin"

// prefix: parameters have no numbers.
func (d mariadb) prefix() string { return "?" }

func (d mariadb) column(name string) place { return place{base: name, path: "$"} }

func (d mariadb) flat(column string, k kind) (text, guard, raw string) {
	guard = column + " IS NOT NULL"
	switch k {
	case boolKind:
		return "(" + column + " = 1)", column + " IN (0, 1)", ""
	case intKind:
		return "CAST(" + column + " AS DECIMAL(65, 0))", guard, column
	}
	return column, guard, ""
}

func (d mariadb) text(s string) string { return d.params.add(s) }

func (d mariadb) integer(i int64) string { return "CAST(" + d.params.add(i) + " AS DECIMAL(65, 0))" }

func (d mariadb) rawInteger(i int64) string { return d.params.add(i) }

func (d mariadb) double(f float64) string { return "CAST(" + d.params.add(f) + " AS DOUBLE)" }

func (d mariadb) number(i int64) string {
	return "CAST(" + strconv.FormatInt(i, 10) + " AS DECIMAL(65, 0))"
}

// member refuses names that need an escape in a path.
func (d mariadb) member(p place, name string, constant bool) (place, bool) {
	if name == "" || strings.ContainsAny(name, "\"\\\x00") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		return place{}, false
	}
	p.path += `."` + name + `"`
	p.bound = p.bound || constant || !isPlain(name)
	return p, true
}

func (d mariadb) item(p place, i int) place {
	p.path += "[" + strconv.Itoa(i) + "]"
	return p
}

// path returns the path of a place.
func (d mariadb) path(p place) string {
	if p.bound {
		return d.params.add(p.path)
	}
	return "'" + p.path + "'"
}

// json returns the JSON of a value, NULL if it is absent.
func (d mariadb) json(p place) string {
	if p.path == "$" {
		return p.base
	}
	return "JSON_EXTRACT(" + p.base + ", " + d.path(p) + ")"
}

// kind returns the type of a value, NULL if it is absent.
func (d mariadb) kind(p place) string { return "JSON_TYPE(" + d.json(p) + ")" }

// scalar returns the text of a scalar, NULL for other values.
func (d mariadb) scalar(p place) string { return "JSON_VALUE(" + p.base + ", " + d.path(p) + ")" }

func (d mariadb) hasType(p place, n node) string {
	if n == numberNode {
		return d.kind(p) + " IN ('INTEGER', 'DOUBLE')"
	}
	names := [...]string{objectNode: "OBJECT", arrayNode: "ARRAY", stringNode: "STRING", boolNode: "BOOLEAN", nullNode: "NULL"}
	return d.kind(p) + " = '" + names[n] + "'"
}

func (d mariadb) exists(p place) string { return d.kind(p) + " IS NOT NULL" }

func (d mariadb) existsNotNull(p place) string { return d.kind(p) + " <> 'NULL'" }

// asText: JSON_VALUE is NULL for the empty string.
func (d mariadb) asText(p place) string { return "COALESCE(" + d.scalar(p) + ", '')" }

func (d mariadb) asBool(p place) string { return "(" + d.json(p) + " = 'true')" }

// asInt does not trust the type: it is INTEGER for 1e2, too.
func (d mariadb) asInt(p place) (text, guard string) {
	text = "CAST(" + d.scalar(p) + " AS DECIMAL(65, 0))"
	return text, "(" + d.kind(p) + " = 'INTEGER' AND " + d.scalar(p) + " REGEXP '^-?[0-9]+$' AND " + text + int64Range + ")"
}

func (d mariadb) asDouble(p place) string { return "CAST(" + d.scalar(p) + " AS DOUBLE)" }

func (d mariadb) nearest(number string) string { return "CAST(" + number + " AS DOUBLE)" }

func (d mariadb) isNaN(column string) string { return "" }

func (d mariadb) size(p place, n node) string {
	return "CAST(JSON_LENGTH(" + d.json(p) + ") AS DECIMAL(65, 0))"
}

// table returns a table of the items of an array.
func (d mariadb) table(array, alias string) string {
	return "JSON_TABLE(" + array + ", '$[*]' COLUMNS (cel_n FOR ORDINALITY, cel_v JSON PATH '$')) AS " + alias
}

func (d mariadb) list(p place, alias string) (from string, item place) {
	return d.table("CASE "+d.kind(p)+" WHEN 'ARRAY' THEN "+d.json(p)+" ELSE '[]' END", alias), place{base: alias + ".cel_v", path: "$"}
}

func (d mariadb) listOrKeys(p place, alias string) (from string, item place) {
	array := "CASE " + d.kind(p) + " WHEN 'ARRAY' THEN " + d.json(p) + " WHEN 'OBJECT' THEN JSON_KEYS(" + d.json(p) + ") ELSE '[]' END"
	return d.table(array, alias), place{base: alias + ".cel_v", path: "$"}
}

// entries joins the keys and the values of an object, which have the same order.
func (d mariadb) entries(p place, alias string) (from, key string, value place) {
	object := "CASE " + d.kind(p) + " WHEN 'OBJECT' THEN " + d.json(p) + " ELSE '{}' END"
	from = "JSON_TABLE(JSON_KEYS(" + object + "), '$[*]' COLUMNS (cel_n FOR ORDINALITY, cel_k LONGTEXT PATH '$')) AS " + alias + "k JOIN JSON_TABLE(" + object +
		", '$.*' COLUMNS (cel_n FOR ORDINALITY, cel_v JSON PATH '$')) AS " + alias + " ON " + alias + "k.cel_n = " + alias + ".cel_n"
	return from, alias + "k.cel_k", place{base: alias + ".cel_v", path: "$"}
}

func (d mariadb) bytesOrder(text string) string { return text + bytesCollation }

func (d mariadb) containsDocument(column, document string) string { return "" }

// index returns an index on a column of numbers. MariaDB has no index on an expression, and texts are compared by another collation than
// that of most columns.
func (d mariadb) index(v value, isEquality bool) string {
	if v.flat == "" || v.kind == stringKind {
		return ""
	}
	return "(" + v.flat + ")"
}

func (d mariadb) indexesAlternatives() bool { return false }

func (d mariadb) count(from, condition string) string {
	return "(SELECT CAST(COUNT(*) AS DECIMAL(65, 0)) FROM " + from + " WHERE " + condition + ")"
}

func (d mariadb) length(text string) string {
	return "CAST(CHAR_LENGTH(" + text + ") AS DECIMAL(65, 0))"
}

func (d mariadb) comparison(op string, v, constant value) string { return "" }

func (d mariadb) concat(a, b string) string { return "CONCAT(" + a + ", " + b + ")" }

func (d mariadb) startsWith(text, part string) string {
	return "LEFT(" + text + ", CHAR_LENGTH(" + part + "))" + bytesCollation + " = " + part
}

func (d mariadb) endsWith(text, part string) string {
	return "RIGHT(" + text + ", CHAR_LENGTH(" + part + "))" + bytesCollation + " = " + part
}

func (d mariadb) contains(text, part string) string {
	return "LOCATE(" + part + ", " + text + bytesCollation + ") > 0"
}

// matches refuses: a pattern can exceed a limit of the engine, which is an error of the query.
func (d mariadb) matches(text, pattern string) (string, bool) { return "", false }

// arithmetic adds 0 to its results, because MariaDB has a negative zero, which does not equal 0.
func (d mariadb) arithmetic(op, a, b string) (text, guard string) {
	switch op {
	case "/":
		text = "((" + a + " - MOD(" + a + ", " + b + ")) / NULLIF(" + b + ", 0))" // exact, unlike a quotient with decimals
	case "%":
		// The remainder of the least integer and -1 is an overflow, like the quotient.
		return "(MOD(" + a + ", " + b + ") + 0)", "(" + b + " <> 0 AND NOT (" + a + " = -9223372036854775808 AND " + b + " = -1))"
	default:
		text = "(" + a + " " + op + " " + b + ")"
	}
	text = "CAST(GREATEST(LEAST(" + text + ", 9223372036854775808), -9223372036854775809) + 0 AS DECIMAL(65, 0))"
	return text, text + int64Range
}

func (d mariadb) decimal(number string) string {
	return "CONVERT(CAST(" + number + " AS CHAR) USING utf8mb4)"
}
