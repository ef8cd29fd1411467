package sql

import (
	"slices"
	"strings"
	"testing"
)

// TestIndexStatements holds the indexes that serve expressions. That databases use them is tested in databases (conformance/sql).
func TestIndexStatements(t *testing.T) {
	gin := "CREATE INDEX ON objects USING gin (doc jsonb_path_ops)"
	byN := "CREATE INDEX ON objects (((CASE jsonb_typeof((doc -> 'n')) WHEN 'number' THEN ((doc -> 'n'))::numeric END)))"
	byS := `CREATE INDEX ON objects ((((doc -> 's') #>> '{}')) COLLATE "C")`
	for _, row := range []struct {
		expr             string
		postgres, sqlite []string
	}{
		{`self.s == "a"`, []string{gin}, []string{`CREATE INDEX objects_s_aeabfa60 ON objects (json_extract(doc, '$."s"'))`}},
		{`3 < self.n`, []string{byN}, []string{`CREATE INDEX objects_n_1d1be663 ON objects (json_extract(doc, '$."n"'))`}},
		{`self.s.startsWith("a") && self.b`, []string{byS}, []string{`CREATE INDEX objects_s_aeabfa60 ON objects (json_extract(doc, '$."s"'))`}},
		{`self.s in ["a", "b"]`, []string{gin}, []string{`CREATE INDEX objects_s_aeabfa60 ON objects (json_extract(doc, '$."s"'))`}},
		{`"a" in self.l`, []string{gin}, nil},
		{`self.l.exists(x, x == "a")`, []string{gin}, nil},
		{`self.n > 3 || self.s == "a"`, []string{byN, gin}, nil},
		{`self.m["it's"] > "a"`, []string{`CREATE INDEX ON objects (((((doc -> 'm') -> 'it''s'::text) #>> '{}')) COLLATE "C")`}, nil},
		{`self.m.a_b > "a"`, []string{`CREATE INDEX ON objects (((((doc -> 'm') -> 'a_b') #>> '{}')) COLLATE "C")`}, []string{`CREATE INDEX objects_m_a_b_027a47b1 ON objects (json_extract(doc, '$."m"."a_b"'))`}},
		{`self.n > 3 || self.b`, nil, nil},
		{`self.s != "a" || !(self.n > 3)`, nil, nil},
		{`self.s == self.o.s`, nil, nil},
	} {
		x, err := compile(t, row.expr)
		if err != nil {
			t.Fatal(err)
		}
		columns := []Column{{Of: "self", Name: "t.doc"}}
		for dialect, want := range map[Dialect][]string{Postgres: row.postgres, SQLite: row.sqlite} {
			got, err := Indexes(x, Options{Dialect: dialect, Columns: columns}, "objects")
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s in %s:\n got %q, %v\nwant %q", row.expr, dialect, got, err, want)
			}
		}
	}
	x, err := compile(t, "other > 3")
	if err != nil {
		t.Fatal(err)
	}
	for dialect, want := range map[Dialect]string{Postgres: "CREATE INDEX ON t (age)", SQLite: "CREATE INDEX t_age_b388ede6 ON t (age)"} {
		got, err := Indexes(x, Options{Dialect: dialect, Columns: []Column{{Of: "other", Name: "t.age", Type: BigInt}}}, "t")
		if err != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("%s: got %q, %v, want %s", dialect, got, err, want)
		}
	}
	if _, err := Indexes(x, Options{Dialect: SQLite}, "t; --"); err == nil {
		t.Error("a table with a statement in its name: got no error")
	}
}

// TestIndexNames holds that indexes on other members, columns or tables have other names, of at most 63 characters.
func TestIndexNames(t *testing.T) {
	long := strings.Repeat("m", 70)
	seen := map[string]string{}
	for _, row := range []struct {
		expr, table string
		columns     []Column
	}{
		{`other.a.b == "x"`, "t", nil}, {`other.a_b == "x"`, "t", nil}, {`other.a_b == "x"`, "t_a", nil}, {`other.b == "x"`, "t_a", nil},
		{`other.` + long + `a == "x"`, "t", nil}, {`other.` + long + `b == "x"`, "t", nil}, {`other.a == "x"`, strings.Repeat("t", 63), nil},
		{`other.a == "x"`, "t", nil}, {`other == "x"`, "t", []Column{{Of: "other", Name: "a", Type: Text}}}, {`other.a == "x"`, "t", []Column{{Of: "other", Name: "a"}}},
	} {
		x, err := compile(t, row.expr)
		if err != nil {
			t.Fatal(err)
		}
		if row.columns == nil {
			row.columns = []Column{{Of: "other"}}
		}
		statements, err := Indexes(x, Options{Dialect: SQLite, Columns: row.columns}, row.table)
		if err != nil || len(statements) != 1 {
			t.Fatalf("%s: got %q, %v, want one index", row.expr, statements, err)
		}
		name := strings.Fields(statements[0])[2]
		if other := seen[name]; other != "" || len(name) > 63 {
			t.Errorf("%s: got the name %s, which %q has", row.expr, name, other)
		}
		seen[name] = statements[0]
	}
}

func TestAfter(t *testing.T) {
	for prefix, want := range map[string]string{"": "", "a": "b", "a\U0010FFFF": "b", "\U0010FFFF": "", "\uD7FF": "\uE000", "ä": "å"} {
		if got := after(prefix); got != want {
			t.Errorf("%q: got %q, want %q", prefix, got, want)
		}
	}
}
