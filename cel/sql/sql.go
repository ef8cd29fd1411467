package sql

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/keelson-io/keelson/cel"
)

// This file has the entry point, its result and its errors.

// Dialect is a database whose SQL is generated.
type Dialect string

// The dialects, with the oldest versions with which they are tested.
const (
	Postgres Dialect = "postgres" // PostgreSQL 15, documents in a column of type jsonb
	SQLite   Dialect = "sqlite"   // SQLite 3.45, documents in a column of JSON text or of what jsonb() returns
)

// Dialects returns the names of all dialects.
func Dialects() []string { return []string{string(Postgres), string(SQLite)} }

// Options says where the documents are.
type Options struct {
	Dialect Dialect
	// Columns has the columns of the variables; without any, the documents are self, in the column doc.
	Columns []Column
	// Values has variables that have the same value for all rows, which become parameters: nil, a bool, an int64, a float64 or a
	// string.
	Values map[string]any
}

// Query is a condition on documents.
type Query struct {
	// Where is the condition for a WHERE clause. Its parameters are $1, $2, … in PostgreSQL,
	// and ?1, ?2, … in SQLite.
	Where string
	// Args are the values of the parameters: strings, int64s and float64s.
	Args []any
	// Residual is the conjunction of the operands of && that are not part of Where; "" if Where is
	// the whole expression. The documents for which the expression is true are those for which
	// Where and Residual are true.
	Residual string
	// Refused says why the operands in Residual are not part of Where.
	Refused []*RefusedError
}

// RefusedError is the error of an expression, or of a part of it, that has no exact translation.
type RefusedError struct {
	Line, Column int    // of the part in the expression; from 1
	Construct    string // what cannot be translated, such as a function's name
	Reason       string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%d:%d: %s: %s", e.Line, e.Column, e.Construct, e.Reason)
}

// maxSize is the greatest size of a WHERE clause in bytes. Each level of an expression may double
// it, because a condition needs both cases of its operands.
const maxSize = 128 << 10

// Translate translates a checked expression with a boolean result. The error is a [*RefusedError]
// if no part of the expression can be translated.
func Translate(x *cel.Expression, o Options) (*Query, error) {
	t, err := newTranslator(x, o)
	if err != nil {
		return nil, err
	}
	return t.query()
}

// newTranslator returns a translator whose variables have their columns.
func newTranslator(x *cel.Expression, o Options) (*translator, error) {
	if typ := x.Type(); typ != "bool" && typ != "dyn" {
		return nil, fmt.Errorf("expression: got type %s, want bool", typ)
	}
	t := &translator{x: x, values: o.Values, tree: x.Tree(), params: &params{index: map[any]int{}}}
	switch o.Dialect {
	case Postgres:
		t.db = postgres{t.params}
	case SQLite:
		t.db = sqlite{t.params}
	default:
		return nil, fmt.Errorf("dialect: got %q, want one of %s", o.Dialect, strings.Join(Dialects(), ", "))
	}
	if err := t.bind(o.Dialect, o.Columns); err != nil {
		return nil, err
	}
	return t, t.checkTypes(t.tree.Expr())
}

// query translates the operands of the outermost && one by one.
func (t *translator) query() (q *Query, err error) {
	q = &Query{}
	var where []string
	var residual []ast.Expr
	for _, e := range conjuncts(t.tree.Expr()) {
		truth, err := t.truth(e)
		var refused *RefusedError
		switch {
		case errors.As(err, &refused):
			residual, q.Refused = append(residual, e), append(q.Refused, refused)
		case err != nil:
			return nil, err
		default:
			where = append(where, truth.yes)
		}
	}
	if len(where) == 0 {
		return nil, q.Refused[0]
	}
	clause := and(where...)
	q.Where, q.Args = t.params.render(and(t.db.requires(clause), clause), t.db)
	if len(residual) == 0 {
		return q, nil
	}
	q.Residual, err = t.x.Text(conjunction(residual))
	return q, err
}

// conjunction returns the expression with operands of &&, which Text writes with the parentheses that they need.
func conjunction(operands []ast.Expr) ast.Expr {
	all := operands[0]
	for _, e := range operands[1:] {
		all = ast.NewExprFactory().NewCall(0, operators.LogicalAnd, all, e)
	}
	return all
}

// conjuncts returns the operands of nested && from left to right.
func conjuncts(e ast.Expr) []ast.Expr {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
		var list []ast.Expr
		for _, arg := range e.AsCall().Args() {
			list = append(list, conjuncts(arg)...)
		}
		return list
	}
	return []ast.Expr{e}
}

// params collects the values of parameters. Equal values share a parameter. Until the clause is
// complete, a parameter is written as its index between two characters U+0000, which are nowhere
// else in the SQL.
type params struct {
	values []any
	index  map[any]int
}

// add returns the parameter with the value v.
func (p *params) add(v any) string {
	n, ok := p.index[v]
	if !ok {
		n = len(p.values)
		p.values = append(p.values, v)
		p.index[v] = n
	}
	return "\x00" + strconv.Itoa(n) + "\x00"
}

// render returns the clause with the parameters that it uses, numbered from 1.
func (p *params) render(clause string, db database) (where string, args []any) {
	var b strings.Builder
	numbers := map[string]int{}
	for i, part := range strings.Split(clause, "\x00") {
		if i%2 == 0 {
			b.WriteString(part)
			continue
		}
		n, ok := numbers[part]
		if !ok {
			index, err := strconv.Atoi(part)
			if err != nil {
				panic("BUG: parameter: " + err.Error())
			}
			args = append(args, p.values[index])
			n = len(args)
			numbers[part] = n
		}
		b.WriteString(db.prefix() + strconv.Itoa(n))
	}
	return b.String(), args
}
