// Package sql translates expressions of package cel to conditions of SQL, so that a database
// selects the documents for which an expression is true.
//
// # Model
//
// The documents are in one JSON column of a table: jsonb in PostgreSQL, text or
// the result of jsonb() in SQLite. [Translate] returns a WHERE clause with parameters. No text of an expression and no
// name of a member becomes a part of the SQL text: each is a parameter.
//
// The translation is exact: the clause is true for the documents for which the evaluator returns
// true, and for no others. An expression that cannot be translated exactly is refused with a
// [*RefusedError], which says where and why. If the expression is a conjunction, the conjuncts that
// can be translated select the candidates ([Query.Residual] is the rest): the database narrows, the
// evaluator decides.
//
// # Three values
//
// An expression of CEL is true, false, or an error, and && and || absorb errors on either side.
// SQL has true, false and NULL, and its own rules. So a boolean expression becomes two conditions
// (type truth): one that is true if and only if the expression is true, and one that is true if and
// only if it is false. An error is neither. A condition that does not hold may be false or NULL,
// therefore no condition is ever negated by NOT alone.
//
// A value becomes SQL that never fails (type value), and a condition under which it is the value:
// the guard. A cast is inside of a CASE that tests the type first, because SQL does not promise the
// order in which AND evaluates its operands.
//
// # Types
//
// Types of members come from the structural schema of the variable ([cel.Variable.Schema]). A value
// without a type is refused.
package sql
