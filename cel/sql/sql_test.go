package sql

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/cel"
)

// testSchema is the type of the documents of the tests.
const testSchema = `{"type": "object", "properties": {
	"s": {"type": "string"}, "n": {"type": "integer"}, "b": {"type": "boolean"}, "t": {"type": "string", "format": "date-time"},
	"o": {"type": "object", "properties": {"s": {"type": "string"}}},
	"m": {"type": "object", "additionalProperties": {"type": "string"}},
	"z": {"type": "array", "items": {"type": "string", "nullable": true}},
	"l": {"type": "array", "items": {"type": "string"}}}}`

// compile compiles an expression over a document of testSchema.
func compile(t testing.TB, expr string) (*cel.Expression, error) {
	schema, err := cel.TypeOfSchema([]byte(testSchema), false)
	if err != nil {
		t.Fatal(err)
	}
	language, err := cel.NewLanguage(cel.LanguageOptions{Kubernetes: cel.NewestKubernetes, Variables: []cel.Variable{{Name: "self", Schema: schema}, {Name: "other"}}})
	if err != nil {
		t.Fatal(err)
	}
	return language.CompileExpression(expr)
}

// TestTranslate holds the SQL of some expressions. That it selects the right documents is tested in
// databases (conformance/sql).
func TestTranslate(t *testing.T) {
	for _, row := range []struct {
		expr, postgres, sqlite string
		args                   string // of PostgreSQL
	}{
		{`self.s == "a"`, `(doc @> ($1::text)::jsonb AND jsonb_typeof((doc -> 's')) = 'string' AND ((doc -> 's') #>> '{}') COLLATE "C" = $2::text)`,
			`(jsonb('1') IS NOT NULL AND json_extract(doc, '$."s"') COLLATE BINARY = ?1)`, `[{"s":"a"} a]`},
		{`!has(self.o.s)`, `(jsonb_typeof((doc -> 'o')) = 'object' AND (jsonb_typeof(((doc -> 'o') -> 's')) <> 'null') IS NOT TRUE)`,
			`(jsonb('1') IS NOT NULL AND (json_type(doc, '$."o"') = 'object' AND (json_type(doc, '$."o"."s"') <> 'null') IS NOT TRUE))`, `[]`},
		{`self.l.exists(x, x == "a")`, `(doc @> ($1::text)::jsonb AND jsonb_typeof((doc -> 'l')) = 'array' AND EXISTS (SELECT 1 FROM jsonb_array_elements(CASE jsonb_typeof((doc -> 'l')) WHEN 'array' THEN (doc -> 'l') ELSE '[]' END) AS cel_1(cel_v) WHERE (jsonb_typeof(cel_1.cel_v) = 'string' AND (cel_1.cel_v #>> '{}') COLLATE "C" = $2::text)))`,
			`(jsonb('1') IS NOT NULL AND (json_type(doc, '$."l"') = 'array' AND EXISTS (SELECT 1 FROM json_each(CASE json_type(doc, '$."l"') WHEN 'array' THEN doc ELSE '[]' END, '$."l"') AS cel_1 WHERE cel_1.atom COLLATE BINARY = ?1)))`, `[{"l":["a"]} a]`},
		{`self.s.matches("^[a-c]+$")`, `(jsonb_typeof((doc -> 's')) = 'string' AND ((doc -> 's') #>> '{}') COLLATE "C" ~ $1::text)`, "", `[***:^[a-c]+$]`},
		{`self.m["a b"] == "c"`, `(doc @> ($1::text)::jsonb AND jsonb_typeof(((doc -> 'm') -> $2::text)) = 'string' AND (((doc -> 'm') -> $2::text) #>> '{}') COLLATE "C" = $3::text)`,
			`(jsonb('1') IS NOT NULL AND json_extract(doc, ?1) COLLATE BINARY = ?2)`, `[{"m":{"a b":"c"}} a b c]`},
		{"true", "TRUE", "TRUE", "[]"},
		{"1 == 2 || self.b", "($1::bigint = $2::bigint OR (jsonb_typeof((doc -> 'b')) = 'boolean' AND ((doc -> 'b') = 'true'::jsonb)))",
			`(jsonb('1') IS NOT NULL AND (?1 = ?2 OR (json_type(doc, '$."b"') IN ('true', 'false') AND (json_type(doc, '$."b"') = 'true'))))`, "[1 2]"},
	} {
		for dialect, want := range map[Dialect]string{Postgres: row.postgres, SQLite: row.sqlite} {
			x, err := compile(t, row.expr)
			if err != nil {
				t.Fatal(err)
			}
			q, err := Translate(x, Options{Dialect: dialect})
			if want == "" {
				var refused *RefusedError
				if !errors.As(err, &refused) {
					t.Errorf("%s in %s: got error %v, want a refusal", row.expr, dialect, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s in %s: %v", row.expr, dialect, err)
				continue
			}
			if q.Where != want || q.Residual != "" {
				t.Errorf("%s in %s:\n got %s\nwant %s", row.expr, dialect, q.Where, want)
			}
			if got := fmt.Sprint(q.Args); dialect == Postgres && got != row.args {
				t.Errorf("%s: got args %s, want %s", row.expr, got, row.args)
			}
		}
	}
}

// TestRefusals holds where and why expressions are refused.
func TestRefusals(t *testing.T) {
	for _, row := range []struct{ expr, want string }{
		{`self.t > timestamp("2024-01-01T00:00:00Z")`, "1:5: timestamp: values of this type are not translated"},
		{`self.s ==` + "\n" + `  self.s.replace("a", "b")`, "2:17: replace: this function is not translated"},
		{`other == "a"`, "1:1: other: no column has this variable"},
		{`self.z.exists(x, x == "a")`, "1:18: nullable: null is a value here, which is not translated"},
		{`self.s.matches("\\ba")`, "1:15: matches: this database has no equal pattern"},
		{`self.o.s + other == "a"`, "1:12: other: no column has this variable"},
		{`self.s == "\u0000"`, "1:11: string: databases have no text with the character U+0000"},
		{`self.s == "a" ? self.l == ["a"] : true`, "1:21: list: values of this type are not translated"},
	} {
		x, err := compile(t, row.expr)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Translate(x, Options{Dialect: Postgres})
		var refused *RefusedError
		if !errors.As(err, &refused) || err.Error() != row.want {
			t.Errorf("%s:\n got %v\nwant %s", row.expr, err, row.want)
		}
	}
}

// TestResidual holds that operands of && without a translation remain.
func TestResidual(t *testing.T) {
	x, err := compile(t, `self.n > 1 && (self.s.replace("a", "b") == "b" && self.b)`)
	if err != nil {
		t.Fatal(err)
	}
	q, err := Translate(x, Options{Dialect: SQLite, Columns: []Column{{Of: "self", Name: "t.body"}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `self.s.replace("a", "b") == "b"`; q.Residual != want || len(q.Refused) != 1 || q.Refused[0].Column != 30 {
		t.Errorf("got residual %q, refused %v, want %q", q.Residual, q.Refused, want)
	}
	// Operands that bind less than && keep their parentheses, also beside each other.
	for expr, want := range map[string]string{
		`self.n > 1 && (self.s.replace("a", "b") == "b" || self.b)`:                                                        `self.s.replace("a", "b") == "b" || self.b`,
		`self.n > 1 && self.s.replace("a", "b") == "b" && (self.b || self.s.replace("a", "c") == "c")`:                     `self.s.replace("a", "b") == "b" && (self.b || self.s.replace("a", "c") == "c")`,
		`(self.b ? self.s.replace("a", "b") == "b" : self.b) && self.n > 1 && (self.b || self.s.replace("a", "c") == "c")`: `(self.b ? (self.s.replace("a", "b") == "b") : self.b) && (self.b || self.s.replace("a", "c") == "c")`,
		`self.l.map(x, x + "a").exists(x, x == "b" || x == "c") && self.n > 1 && self.s.replace("a", "b") == "b"`:          `self.l.map(x, x + "a").exists(x, x == "b" || x == "c") && self.s.replace("a", "b") == "b"`,
	} {
		x, err := compile(t, expr)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := Translate(x, Options{Dialect: SQLite}); err != nil || q.Residual != want {
			t.Errorf("%s: got the residual %s, %v, want %s", expr, q.Residual, err, want)
		}
	}
	if want := "t.body"; !strings.Contains(q.Where, want) || strings.Contains(q.Where, "(doc") {
		t.Errorf("got %s, want the column %s", q.Where, want)
	}
}

// TestColumns holds that variables and members have columns of their own, and that variables with one value are parameters.
func TestColumns(t *testing.T) {
	language, err := cel.NewLanguage(cel.LanguageOptions{Kubernetes: cel.NewestKubernetes, Variables: []cel.Variable{{Name: "request"}, {Name: "age", Type: "int"}, {Name: "limit"}}})
	if err != nil {
		t.Fatal(err)
	}
	columns := []Column{{Of: "request.path", Name: "r.path", Type: Text}, {Of: "age", Type: BigInt}, {Of: "request"}}
	for expr, want := range map[string]string{
		`request.path.startsWith("/finance")`:   "(r.path IS NOT NULL AND starts_with(r.path COLLATE \"C\", $1::text)) [/finance]",
		`age < limit`:                           "(age IS NOT NULL AND age < $1::bigint) [7]",
		`!has(request.path)`:                    "r.path IS NULL []",
		`request.replicas == true`:              "(((request -> 'replicas') IS NOT NULL AND jsonb_typeof((request -> 'replicas')) = 'boolean') AND ((request -> 'replicas') = 'true'::jsonb) = TRUE) []",
		`["a"].exists(request, request == "b")`: "$1::text COLLATE \"C\" = $2::text [a b]",
		`1/0 != 0 && false`:                     "FALSE []",
		`request.path > "a"`:                    `(r.path IS NOT NULL AND r.path COLLATE "C" > $1::text) [a]`,
	} {
		x, err := language.CompileExpression(expr)
		if err != nil {
			t.Fatal(err)
		}
		q, err := Translate(x, Options{Dialect: Postgres, Columns: columns, Values: map[string]any{"limit": int64(7)}})
		if err != nil {
			t.Errorf("%s: %v", expr, err)
		} else if got := fmt.Sprint(q.Where, " ", q.Args); got != want {
			t.Errorf("%s:\n got %s\nwant %s", expr, got, want)
		}
	}
	x, err := language.CompileExpression("age > 1")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		column Column
		want   string
	}{
		{Column{Of: "age", Type: Text}, "column age: got the type text, but age has the type int"},
		{Column{Of: "age", Name: "Path", Type: BigInt}, "column Path: SQLite's function json_each has a column of that name; write it after its table, such as t.Path"},
		{Column{Of: "age", Name: "CEL_1.doc", Type: BigInt}, "column CEL_1.doc: names that begin with cel_ are those of the conditions"},
		{Column{Of: "age", Type: "date"}, `column age: got the type "date", want one of json, text, bigint, double, boolean`},
		{Column{Of: "age", Name: "a'; --"}, `column: got "a'; --", want letters, digits and underscores, such as doc or t.doc`},
		{Column{Of: "a-b", Name: "x"}, `column x: got the variable "a-b", want one such as self, or a member such as request.path`},
		{Column{Of: "request.body", Name: "x"}, "column x: the type json is for variables, not for the member request.body"},
	} {
		if _, err := Translate(x, Options{Dialect: SQLite, Columns: []Column{row.column}}); err == nil || err.Error() != row.want {
			t.Errorf("%v: got %v, want %s", row.column, err, row.want)
		}
	}
}

// TestSizeIsBounded holds that an expression cannot make a clause of any size.
func TestSizeIsBounded(t *testing.T) {
	expr := "self.b"
	for range 40 {
		expr = "(" + expr + " ? self.b : " + "!" + "self.b)"
	}
	for _, expr := range []string{expr, strings.Repeat("!(", 200) + "self.b" + strings.Repeat(")", 200)} {
		x, err := compile(t, expr)
		if err != nil {
			t.Fatal(err)
		}
		q, err := Translate(x, Options{Dialect: Postgres})
		var refused *RefusedError
		if err == nil && len(q.Where) > maxSize || err != nil && !errors.As(err, &refused) {
			t.Errorf("got error %v", err)
		}
	}
}

// FuzzConstants holds that no constant and no name becomes a part of the SQL text: the clause does
// not depend on them.
func FuzzConstants(f *testing.F) {
	for _, s := range []string{"", "a", "'", "';DROP TABLE t--", "\\", "$1", "?", "\x00", "\"", "*/", "ä"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		quoted := fmt.Sprintf("%q", strings.ToValidUTF8(s, "?"))
		for _, form := range []string{"self.s == %s", "%s in self.l", "self.s.startsWith(%s)", "self.m.exists(k, k == %s)", "[%s].exists(x, x == self.s)", "self.m[%s] == 'a'", "self.m.all(k, k != %s && self.m['b'] < %[1]s)"} {
			x, err := compile(t, fmt.Sprintf(form, quoted))
			if err != nil {
				t.Skip() // Go escapes what CEL does not
			}
			other, err := compile(t, fmt.Sprintf(form, `"another one"`))
			if err != nil {
				t.Fatal(err)
			}
			for _, dialect := range []Dialect{Postgres, SQLite} {
				want, err := Translate(other, Options{Dialect: dialect})
				if err != nil {
					t.Fatal(err)
				}
				got, err := Translate(x, Options{Dialect: dialect})
				var refused *RefusedError
				if errors.As(err, &refused) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				// A constant that equals a name shares its parameter.
				if len(got.Args) == len(want.Args) && got.Where != want.Where {
					t.Errorf("%s: got %s, want %s", quoted, got.Where, want.Where)
				}
			}
		}
	})
}

func BenchmarkTranslate(b *testing.B) {
	x, err := compile(b, `self.l.all(x, x.matches("^[a-z]+$") && (self.n > 3 || self.s in ["a", "b"])) && has(self.o.s) && self.m.exists(k, k == self.s)`)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Translate(x, Options{Dialect: Postgres}); err != nil {
			b.Fatal(err)
		}
	}
}
