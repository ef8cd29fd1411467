package sql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/cel"
	celsql "github.com/keelson-io/keelson/cel/sql"
)

// TestIndexes holds that databases use the indexes that are suggested, for each form of a condition.
func TestIndexes(t *testing.T) {
	schema, err := cel.TypeOfSchema([]byte(schemaText), false)
	if err != nil {
		t.Fatal(err)
	}
	language, err := cel.NewLanguage(cel.LanguageOptions{Kubernetes: "1.37", Variables: []cel.Variable{{Name: "self", Schema: schema}, {Name: "object"}, {Name: "row"}}})
	if err != nil {
		t.Fatal(err)
	}
	docs, flat := make([]string, 20_000), make([][4]any, 20_000)
	for i := range docs {
		docs[i] = fmt.Sprintf(`{"o": {"s": "name-%05d", "n": %d}, "l": ["item-%d", "all"], "k": [%[2]d], "m": {"it's": "key-%05[1]d"}, "x": [{"s": "%[1]d"}]}`, i, i, i)
		flat[i] = [4]any{fmt.Sprintf("name-%05d", i), i, float64(i), nil}
	}
	forms := []struct {
		name, expr string
		want       []int
		not        []celsql.Dialect // that have no such index
	}{
		{"equality", `self.o.s == "name-00007"`, []int{7}, nil},
		{"equality of integers", `7 == self.o.n`, []int{7}, nil},
		{"equality without types", `object.o.s == "name-00007"`, []int{7}, nil},
		{"range", `self.o.n >= 19998`, []int{19998, 19999}, nil},
		{"range of strings", `self.o.s > "name-19997"`, []int{19998, 19999}, nil},
		{"prefix", `self.o.s.startsWith("name-1999")`, []int{19990, 19991, 19992, 19993, 19994, 19995, 19996, 19997, 19998, 19999}, nil},
		{"prefix of a key", `self.m["it's"].startsWith("key-1999")`, []int{19990, 19991, 19992, 19993, 19994, 19995, 19996, 19997, 19998, 19999}, []celsql.Dialect{celsql.SQLite}},
		{"containment", `"item-7" in self.l`, []int{7}, []celsql.Dialect{celsql.SQLite}},
		{"containment of integers", `7 in self.k`, []int{7}, []celsql.Dialect{celsql.SQLite}},
		{"exists", `self.l.exists(x, "item-7" == x)`, []int{7}, []celsql.Dialect{celsql.SQLite}},
		{"in", `self.o.s in ["name-00007", "name-00009"]`, []int{7, 9}, nil},
		{"in integers", `self.o.n in [7, 9]`, []int{7, 9}, nil},
		{"||", `self.o.n == 7 || self.o.s == "name-00009"`, []int{7, 9}, []celsql.Dialect{celsql.SQLite}},
		{"&&", `has(self.o) && self.o.n == 7 && self.o.s.startsWith("name")`, []int{7}, nil},
		{"column", `row.n > 19998`, []int{19999}, nil},
		{"column in", `row.n in [7, 9]`, []int{7, 9}, nil},
		{"column of texts", `row.s.startsWith("name-1999") && row.s > "name-19998"`, []int{19999}, nil},
	}
	for name, open := range map[string]func(*testing.T) *database{"sqlite": openSQLite, "postgres": openPostgres} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			d.fill(t, docs, flat)
			for _, form := range forms {
				x, err := language.CompileExpression(form.expr)
				if err != nil {
					t.Fatal(err)
				}
				options := celsql.Options{Dialect: d.dialect, Columns: columns}
				statements, err := celsql.Indexes(x, options, "t")
				if err != nil {
					t.Fatal(err)
				}
				if slices.Contains(form.not, d.dialect) {
					if len(statements) > 0 {
						t.Errorf("%s: got %q, want none", form.name, statements)
					}
					continue
				}
				d.index(t, statements)
				q, err := celsql.Translate(x, options)
				if err != nil {
					t.Fatal(err)
				}
				if plan := d.plan(t, q); !usesIndex(plan) {
					t.Errorf("%s: %s: no index is used\n%s\n%s\n%s", form.name, form.expr, strings.Join(statements, "\n"), q.Where, plan)
				}
				if got, err := d.selected(context.Background(), q); err != nil || !slices.Equal(got, form.want) {
					t.Errorf("%s: got %v, %v, want %v", form.expr, got, err, form.want)
				}
			}
		})
	}
}

// index drops the indexes of the table, and creates others.
func (d *database) index(t *testing.T, statements []string) {
	query := "SELECT indexname FROM pg_indexes WHERE tablename = 't' AND indexname <> 't_pkey'"
	if d.dialect == celsql.SQLite {
		query = "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 't'"
	}
	var old []string
	rows, err := d.db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		old = append(old, "DROP INDEX "+name)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	for _, statement := range slices.Concat(old, statements, []string{"ANALYZE t"}) {
		if _, err := d.db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// plan returns how the database runs a query.
func (d *database) plan(t *testing.T, q *celsql.Query) string {
	explain := "EXPLAIN SELECT id FROM t WHERE "
	if d.dialect == celsql.SQLite {
		explain = "EXPLAIN QUERY PLAN SELECT id FROM t WHERE "
	}
	rows, err := d.db.Query(explain+q.Where, q.Args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	for rows.Next() {
		line := make([]any, len(columns))
		for i := range line {
			line[i] = new(any)
		}
		if err := rows.Scan(line...); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&plan, *line[len(line)-1].(*any))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}

// usesIndex reports whether a plan looks rows up in an index, and does not read all of the table.
func usesIndex(plan string) bool {
	return (strings.Contains(plan, "Index Scan") || strings.Contains(plan, "SEARCH t USING")) && !strings.Contains(plan, "Seq Scan") && !strings.Contains(plan, "SCAN t\n")
}
