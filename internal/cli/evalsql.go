// This file has the flag --sql of "eval".

package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/cel/sql"
)

// sqlResult is what "eval --sql -o json" prints.
type sqlResult struct {
	Dialect  string       `json:"dialect"`
	Where    string       `json:"where,omitempty"`
	Args     []any        `json:"args,omitempty"`
	Residual string       `json:"residual,omitempty"`
	Refused  []sqlRefusal `json:"refused,omitempty"`
}

// sqlRefusal is a part of the expression that has no exact translation.
type sqlRefusal struct {
	Line      int    `json:"line"`
	Column    int    `json:"column"`
	Construct string `json:"construct"`
	Reason    string `json:"reason"`
}

// printSQL prints the translation of an expression. It returns an error if no part has one.
func (o *evalOptions) printSQL(expr string, stdin io.Reader, out io.Writer) error {
	switch {
	case !slices.Contains(sql.Dialects(), o.sql):
		return &usageError{fmt.Errorf("--sql: got %q, want %s", o.sql, strings.Join(sql.Dialects(), " or "))}
	case o.schema == "":
		return &usageError{errors.New("--sql: want --schema, because the types of members decide how they are compared")}
	case o.data != "" || o.oldData != "" || len(o.unknown) > 0:
		return &usageError{errors.New("--sql: the expression is not evaluated; leave out --data, --old-data and --unknown")}
	}
	language, _, err := o.language(stdin)
	if err != nil {
		return err
	}
	x, err := language.CompileExpression(expr)
	if err != nil {
		return err
	}
	q, err := sql.Translate(x, sql.Options{Dialect: sql.Dialect(o.sql), Column: o.sqlColumn})
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
		fmt.Fprintf(out, "-- %d: %q\n", i+1, arg)
	}
	if q.Residual != "" {
		fmt.Fprintf(out, "-- residual, to be evaluated for each document: %s\n", q.Residual)
		for _, r := range q.Refused {
			fmt.Fprintf(out, "--   %v\n", r)
		}
	}
	return nil
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
	return printJSON(out, result)
}
