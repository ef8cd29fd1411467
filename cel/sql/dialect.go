package sql

// This file says what a database must be able to do, and does it in two dialects.

// node is the type of a JSON value.
type node int

const (
	objectNode node = iota
	arrayNode
	stringNode
	boolNode
	numberNode // with or without a fraction
	nullNode
)

// place is a JSON value in a row.
type place struct {
	base string // SQL of a JSON value, or of the column
	path string // of the value below base in SQLite, with SQL between two characters U+0001; "" is base itself
	// bound: the path has a constant of the expression, and is a parameter.
	bound bool
	// SQLite: SQL of the type and of the scalar of an item that a list yields. baseType is SQL of the type of base if that is an item.
	type_, atom, baseType string
}

// id returns a text that tells places of one row apart.
func (p place) id() string { return p.base + "\x01" + p.path }

// database generates SQL in a dialect. The SQL that it returns never fails: a value of another type
// is NULL.
type database interface {
	// prefix is what stands before the number of a parameter.
	prefix() string
	// requires returns a condition that is true, and that is an error in versions of the database in which the clause would select other
	// rows; "" if there are none.
	requires(clause string) string
	// column returns the place of the documents.
	column(name string) place
	// flat returns the value of a column with another type than JSON, and the condition that it has one. raw is the column itself if
	// its values compare with integers as they are.
	flat(column string, k kind) (text, guard, raw string)
	// isNaN returns the condition that a column of doubles has no number; "" if none can be stored.
	isNaN(column string) string
	// text, integer and double return parameters. rawInteger is an integer that compares with a column of the type BigInt.
	text(s string) string
	integer(i int64) string
	rawInteger(i int64) string
	double(f float64) string
	// number returns an integer that the translation adds, such as the 1 of a count. It is text, not a parameter.
	number(i int64) string
	// member returns the place of a member; false if the dialect cannot name it. A constant name is a constant of the expression, and
	// becomes a parameter.
	member(p place, name string, constant bool) (place, bool)
	// item returns the place of an item of an array.
	item(p place, i int) place
	// hasType returns the condition that the value exists and has that type.
	hasType(p place, n node) string
	// exists returns the condition that the value exists, and that it exists and is not null.
	exists(p place) string
	existsNotNull(p place) string
	// asText returns the text of a string. It is only meaningful if hasType(p, stringNode).
	asText(p place) string
	// asBool returns a boolean. It is only meaningful if hasType(p, boolNode).
	asBool(p place) string
	// asInt returns an integer and the condition that the value is one of 64 bits.
	asInt(p place) (text, guard string)
	// asDouble returns the number nearest to a JSON number. It is only meaningful if hasType(p, numberNode).
	asDouble(p place) string
	// nearest returns the double nearest to an integer.
	nearest(number string) string
	// size returns the number of items of a list or of members of an object.
	size(p place, n node) string
	// list returns a table with a row for each item of an array under an alias, and the item's place.
	// The table is empty if the value is not an array.
	list(p place, alias string) (from string, item place)
	// listOrKeys is list of the items of an array, or of the keys of an object.
	listOrKeys(p place, alias string) (from string, item place)
	// entries returns a table with a row for each entry of an object, the key, and the value's place.
	entries(p place, alias string) (from, key string, value place)
	// bytesOrder returns text in the order of its bytes, for comparisons.
	bytesOrder(text string) string
	// containsDocument returns the condition that a column contains another document, for dialects
	// with an index that finds such documents; "" for others.
	containsDocument(column, document string) string
	// index returns what an index is on that serves an equality, or an order, of a value and a constant; "" if there is none.
	index(v value, isEquality bool) string
	// indexesAlternatives reports whether indexes serve the operands of OR.
	indexesAlternatives() bool
	// count returns the number of rows of a table for which a condition is true.
	count(from, condition string) string
	// length returns the number of code points of a text.
	length(text string) string
	// concat returns a text after another one.
	concat(a, b string) string
	// comparison returns the condition that a string or an integer of a document has its type, and compares to a constant; "" if there is
	// none that is shorter than the conditions for both.
	comparison(op string, v, constant value) string
	// startsWith, endsWith and contains return conditions on texts.
	startsWith(text, part string) string
	endsWith(text, part string) string
	contains(text, part string) string
	// matches returns the condition that a text matches a pattern of RE2; false if the dialect has no
	// equal pattern.
	matches(text, pattern string) (string, bool)
	// arithmetic returns the result of an operator (+ - * / %) on integers, and the condition that
	// it does not overflow or divide by zero.
	arithmetic(op, a, b string) (text, guard string)
	// decimal returns the decimal digits of an integer.
	decimal(number string) string
}
