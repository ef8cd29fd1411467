package sql

import (
	"slices"
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
		{`self.s == "a"`, []string{gin}, []string{`CREATE INDEX objects_s ON objects (json_extract(doc, '$."s"'))`}},
		{`3 < self.n`, []string{byN}, []string{`CREATE INDEX objects_n ON objects (json_extract(doc, '$."n"'))`}},
		{`self.s.startsWith("a") && self.b`, []string{byS}, []string{`CREATE INDEX objects_s ON objects (json_extract(doc, '$."s"'))`}},
		{`self.s in ["a", "b"]`, []string{gin}, []string{`CREATE INDEX objects_s ON objects (json_extract(doc, '$."s"'))`}},
		{`"a" in self.l`, []string{gin}, nil},
		{`self.l.exists(x, x == "a")`, []string{gin}, nil},
		{`self.n > 3 || self.s == "a"`, []string{byN, gin}, nil},
		{`self.m["it's"] > "a"`, []string{`CREATE INDEX ON objects (((((doc -> 'm') -> 'it''s'::text) #>> '{}')) COLLATE "C")`}, nil},
		{`self.m.a_b > "a"`, []string{`CREATE INDEX ON objects (((((doc -> 'm') -> 'a_b') #>> '{}')) COLLATE "C")`}, []string{`CREATE INDEX objects_m_a_b ON objects (json_extract(doc, '$."m"."a_b"'))`}},
		{`self.n > 3 || self.b`, nil, nil},
		{`self.s != "a" || !(self.n > 3)`, nil, nil},
		{`self.s == self.o.s`, nil, nil},
	} {
		x, err := compile(t, row.expr)
		if err != nil {
			t.Fatal(err)
		}
		columns := []Column{{Of: "self", Name: "t.doc"}}
		for dialect, want := range map[Dialect][]string{Postgres: row.postgres, SQLite: row.sqlite, MariaDB: nil} {
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
	for dialect, want := range map[Dialect]string{Postgres: "CREATE INDEX ON t (age)", SQLite: "CREATE INDEX t_age ON t (age)", MariaDB: "CREATE INDEX t_age ON t (age)"} {
		got, err := Indexes(x, Options{Dialect: dialect, Columns: []Column{{Of: "other", Name: "t.age", Type: BigInt}}}, "t")
		if err != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("%s: got %q, %v, want %s", dialect, got, err, want)
		}
	}
	if _, err := Indexes(x, Options{Dialect: SQLite}, "t; --"); err == nil {
		t.Error("a table with a statement in its name: got no error")
	}
}

func TestAfter(t *testing.T) {
	for prefix, want := range map[string]string{"": "", "a": "b", "a\U0010FFFF": "b", "\U0010FFFF": "", "\uD7FF": "\uE000", "ä": "å"} {
		if got := after(prefix); got != want {
			t.Errorf("%q: got %q, want %q", prefix, got, want)
		}
	}
}
