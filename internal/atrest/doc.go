// Package atrest keeps objects in the tables of a database, and finds objects there by expressions.
//
// # Model
//
// A database mirrors a source: a server, a snapshot, or files. Each kind has a table with a row for
// each object: its namespace, name, UID, resource version and labels, and the object as JSON in the
// column doc. The table keelson_kinds says which table has which kind, and how far its export is.
//
// A [List] writes all objects of a kind, in transactions of a few thousand objects. The table
// keelson_seen has the keys that it has written, so that the rows of objects that no longer exist
// can be removed at the end, also if another process continues the list.
//
// A [Filter] finds the objects for which an expression is true: the database selects candidates by
// what package cel/sql translates, and the evaluator decides about the rest of the expression.
//
// # Invariants
//
//   - What a transaction says of progress is true for the rows that it writes.
//   - An object that the database cannot hold is a [*Refusal], and has no row.
//   - An error of a database names it, without its password.
//
// # Calls
//
// Open, Database.List, List.Write, List.Finish; NewFilter, Database.Select.
package atrest
