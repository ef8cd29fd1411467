// This file has the flag --sql of "eval".

package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/cel/sql"
	"github.com/keelson-io/keelson/internal/cli/command"
)

// sqlResult is what "eval --sql -o json" prints.
type sqlResult struct {
	Dialect  string       `json:"dialect"`
	Where    string       `json:"where,omitempty"`
	Args     []any        `json:"args,omitempty"`
	Residual string       `json:"residual,omitempty"`
	Refused  []sqlRefusal `json:"refused,omitempty"`
}

// sqlIndexes is what "eval --sql --indexes -o json" prints.
type sqlIndexes struct {
	Dialect string   `json:"dialect"`
	Indexes []string `json:"indexes"`
}

// sqlRefusal is a part of the expression that has no exact translation.
type sqlRefusal struct {
	Line      int    `json:"line"`
	Column    int    `json:"column"`
	Construct string `json:"construct"`
	Reason    string `json:"reason"`
}

// printSQL prints the translation of an expression. It returns an error if no part has one.
func (o *options) printSQL(expr string, stdin io.Reader, out io.Writer) error {
	switch {
	case !slices.Contains(sql.Dialects(), o.sql):
		return command.UsageError(fmt.Errorf("--sql: got %q, want %s", o.sql, strings.Join(sql.Dialects(), " or ")))
	case o.data != "" || o.oldData != "" || len(o.unknown) > 0:
		return command.UsageError(errors.New("--sql: the expression is not evaluated; leave out --data, --old-data and --unknown"))
	}
	language, _, err := o.language(stdin)
	if err != nil {
		return err
	}
	options := sql.Options{Dialect: sql.Dialect(o.sql), Columns: o.columns()}
	if options.Values, err = o.constants(stdin); err != nil {
		return err
	}
	x, err := language.CompileExpression(expr)
	if err != nil {
		return o.adviseVariable(err)
	}
	if o.indexes != "" {
		return o.printIndexes(x, options, out)
	}
	q, err := sql.Translate(x, options)
	var refused *sql.RefusedError
	if errors.As(err, &refused) {
		q = &sql.Query{Refused: []*sql.RefusedError{refused}}
	} else if err != nil {
		return err
	}
	if o.output == "json" {
		return errors.Join(printSQLJSON(out, o.sql, q), noTranslation(err))
	}
	if err != nil {
		return noTranslation(err)
	}
	fmt.Fprintln(out, q.Where)
	for i, arg := range q.Args {
		text, err := json.Marshal(arg)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "-- %d: %s\n", i+1, text)
	}
	if q.Residual != "" {
		fmt.Fprintf(out, "-- residual, to be evaluated for each document: %s\n", q.Residual)
		for _, r := range q.Refused {
			fmt.Fprintf(out, "--   %v\n", r)
		}
	}
	return nil
}

// printIndexes prints the statements that create the indexes which serve an expression.
func (o *options) printIndexes(x *cel.Expression, options sql.Options, out io.Writer) error {
	statements, err := sql.Indexes(x, options, o.indexes)
	switch {
	case err != nil:
		return err
	case o.output == "json":
		return command.PrintJSON(out, sqlIndexes{Dialect: o.sql, Indexes: statements})
	case len(statements) == 0:
		return errors.New("no index serves the condition: one needs an equality, a range, a prefix, in a list, or an item of a list, of a member and a constant")
	}
	for _, statement := range statements {
		fmt.Fprintln(out, statement+";")
	}
	return nil
}

// columns returns the columns of the variables.
func (o *options) columns() []sql.Column {
	columns := map[string]sql.Column{"self": {Of: "self", Name: "doc"}}
	for _, name := range o.given {
		if !strings.Contains(name, "=") {
			columns[name] = sql.Column{Of: name}
		}
	}
	for _, text := range o.sqlColumns {
		of, column, ok := strings.Cut(text, "=")
		if !ok {
			of, column = "self", text
		}
		name, typ, _ := strings.Cut(column, ":")
		columns[of] = sql.Column{Of: of, Name: name, Type: sql.ColumnType(typ)}
	}
	var list []sql.Column
	for _, of := range slices.Sorted(maps.Keys(columns)) {
		list = append(list, columns[of])
	}
	return list
}

// constants returns the values of --var, which are the same in all rows.
func (o *options) constants(stdin io.Reader) (map[string]any, error) {
	vars := cel.Vars{}
	if err := o.giveValues(vars, stdin); err != nil {
		return nil, err
	}
	values := map[string]any{}
	for name, v := range vars {
		switch v.Kind() {
		case cel.KindNull, cel.KindBool, cel.KindInt, cel.KindDouble, cel.KindString:
			values[name] = v.Go()
		default:
			return nil, command.UsageError(fmt.Errorf("--var %s: with --sql, only a scalar is a value; write --var %[1]s if the rows have it in a column, and --sql-column %[1]s=COLUMN if the column has another name", name))
		}
	}
	return values, nil
}

// noTranslation says that no part of an expression has a translation; nil if err is nil.
func noTranslation(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("no exact translation: %w", err)
}

// printSQLJSON prints a query as JSON.
func printSQLJSON(out io.Writer, dialect string, q *sql.Query) error {
	result := sqlResult{Dialect: dialect, Where: q.Where, Args: q.Args, Residual: q.Residual}
	for _, r := range q.Refused {
		result.Refused = append(result.Refused, sqlRefusal{r.Line, r.Column, r.Construct, r.Reason})
	}
	return command.PrintJSON(out, result)
}
