// Package peer compares cel2sql, which translates what an expression looks like, with the evaluator. It is a module of its own, because
// few versions of cel2sql can be downloaded.
package peer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	upstream "github.com/google/cel-go/cel"
	"github.com/spandigital/cel2sql/v3"
	"github.com/spandigital/cel2sql/v3/pg"

	"github.com/keelson-io/keelson/cel"
	celsql "github.com/keelson-io/keelson/cel/sql"
	"github.com/keelson-io/keelson/conformance/sql/servers"
)

// row is a row of the table; nil is NULL.
type row struct{ s, p, n, d, b any }

// expressions are those of the table in docs/sql.md, each with rows for which the naive translation is wrong.
var expressions = []struct {
	expr string
	rows []row
}{
	{`r.n / 0 == 1 || r.s == "a"`, []row{{s: "a", n: 1}, {s: "b", n: 1}}},
	{`r.n + 9223372036854775807 > 0 || r.s == "a"`, []row{{s: "a", n: 1}, {s: "b", n: 1}, {s: "c", n: 0}}},
	{`(r.b ? 1 : 2) == 2`, []row{{b: true}, {b: false}, {b: nil}}},
	{`r.s < "b"`, []row{{s: "B"}, {s: "a"}, {s: "c"}}},
	{`r.s.startsWith(r.p)`, []row{{s: `a\b`, p: `a\`}, {s: "ab", p: "a"}, {s: "b", p: "a"}}},
	{`r.s.matches("^a.b$")`, []row{{s: "a\nb"}, {s: "axb"}}},
	{`r.s.matches("^\\d$")`, []row{{s: "٣"}, {s: "3"}}},
	{`r.s.matches("^\\w$")`, []row{{s: "ä"}, {s: "a"}}},
	{`r.d == r.d`, []row{{d: math.NaN()}, {d: 1.5}}},
	{`int(r.d) == 1`, []row{{d: 1.5}, {d: 1.0}, {d: 0.5}}},
	{`string(r.d) == "1.23456789e+08"`, []row{{d: 123456789.0}, {d: 1.5}}},
}

// columns are those of the rows.
var columns = []celsql.Column{{Of: "r.s", Type: celsql.Text, Name: "r.s"}, {Of: "r.p", Type: celsql.Text, Name: "r.p"}, {Of: "r.n", Type: celsql.BigInt, Name: "r.n"},
	{Of: "r.d", Type: celsql.Double, Name: "r.d"}, {Of: "r.b", Type: celsql.Boolean, Name: "r.b"}}

// TestPeer holds the table in docs/sql.md: the rows that cel2sql selects, those for which the evaluator returns true, and those that our
// translation selects.
func TestPeer(t *testing.T) {
	page, err := os.ReadFile("../../../docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	schemas := map[string]pg.Schema{"Row": pg.NewSchema([]pg.FieldSchema{{Name: "s", Type: "text"}, {Name: "p", Type: "text"}, {Name: "n", Type: "bigint"},
		{Name: "d", Type: "double precision"}, {Name: "b", Type: "boolean"}})}
	env, err := upstream.NewEnv(upstream.CustomTypeProvider(pg.NewTypeProvider(schemas)), upstream.Variable("r", upstream.ObjectType("Row")))
	if err != nil {
		t.Fatal(err)
	}
	language, err := cel.NewLanguage(cel.LanguageOptions{Kubernetes: cel.NewestKubernetes, Variables: []cel.Variable{{Name: "r"}}})
	if err != nil {
		t.Fatal(err)
	}
	db := servers.Postgres(t, "--locale-provider=icu", "--icu-locale=en", "--locale=C.UTF-8") // as most databases: the order of texts is that of a language
	for _, e := range expressions {
		fill(t, db, e.rows)
		parsed, issues := env.Compile(e.expr)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		naive, err := cel2sql.Convert(parsed, cel2sql.WithSchemas(schemas))
		if err != nil {
			t.Fatal(err)
		}
		x, err := language.CompileExpression(e.expr)
		if err != nil {
			t.Fatal(err)
		}
		want := show(evaluated(x, e.rows), nil)
		peer := show(selected(db, naive))
		ours := "not translated"
		q, err := celsql.Translate(x, celsql.Options{Dialect: celsql.Postgres, Columns: columns})
		if _, refused := errors.AsType[*celsql.RefusedError](err); !refused {
			if err != nil {
				t.Fatal(err)
			}
			ours = show(selected(db, q.Where, q.Args...))
			if ours != want {
				t.Errorf("%s: we select %s, want %s\n%s", e.expr, ours, want, q.Where)
			}
		}
		if peer == want {
			t.Errorf("%s: cel2sql selects what the evaluator does: %s", e.expr, peer)
		}
		line := fmt.Sprintf("| `%s` | %s | %s | %s | %s |", strings.ReplaceAll(e.expr, "|", `\|`), rows(e.rows), want, peer, ours)
		if !strings.Contains(string(page), line+"\n") {
			t.Errorf("docs/sql.md lacks the line\n%s", line)
		}
	}
}

// rows describes rows by the columns that an expression reads.
func rows(list []row) string {
	var out []string
	for _, r := range list {
		var parts []string
		for i, v := range []any{r.s, r.p, r.n, r.d, r.b} {
			if text, isText := v.(string); isText {
				v = fmt.Sprintf("%q", text)
			}
			if v != nil {
				parts = append(parts, fmt.Sprintf("%c=%v", "spndb"[i], v))
			}
		}
		if len(parts) == 0 {
			parts = []string{"NULL"}
		}
		out = append(out, "`"+strings.Join(parts, " ")+"`")
	}
	return strings.Join(out, ", ")
}

// fill replaces the rows of the table.
func fill(t *testing.T, db *sql.DB, list []row) {
	for _, statement := range []string{"DROP TABLE IF EXISTS r", "CREATE TABLE r (id int, s text, p text, n bigint, d double precision, b boolean)"} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range list {
		if _, err := db.Exec("INSERT INTO r VALUES ($1, $2, $3, $4, $5, $6)", i+1, r.s, r.p, r.n, r.d, r.b); err != nil {
			t.Fatal(err)
		}
	}
}

// selected returns the numbers of the rows that a condition selects.
func selected(db *sql.DB, where string, args ...any) ([]int, error) {
	result, err := db.Query("SELECT id FROM r WHERE "+where+" ORDER BY id", args...)
	if err != nil {
		return nil, err
	}
	defer result.Close()
	var ids []int
	for result.Next() {
		var id int
		if err := result.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, result.Err()
}

// evaluated returns the numbers of the rows for which an expression is true. NULL is a member that is absent.
func evaluated(x *cel.Expression, list []row) []int {
	var ids []int
	for i, r := range list {
		members := map[string]any{"s": r.s, "p": r.p, "n": r.n, "d": r.d, "b": r.b}
		for name, v := range members {
			if v == nil {
				delete(members, name)
			}
		}
		v, err := cel.FromGo(members)
		if err != nil {
			panic(err)
		}
		if got, _, err := x.Eval(context.Background(), cel.Vars{"r": v}, 0); err == nil && got.Kind() == cel.KindBool && got.Bool() {
			ids = append(ids, i+1)
		}
	}
	return ids
}

// show returns numbers of rows as text.
func show(ids []int, err error) string {
	switch {
	case err != nil:
		return "the query fails"
	case len(ids) == 0:
		return "none"
	}
	slices.Sort(ids)
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ", "), "[]")
}
