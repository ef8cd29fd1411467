package atrest

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// exported returns the path of a SQLite file with a Widget, to which statements have been added by another program.
func exported(t *testing.T, statements ...string) string {
	t.Helper()
	d := openTest(t)
	mirror(t, d, widget("a", `{"x":1}`))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	file := strings.TrimPrefix(d.name, "sqlite://")
	db, err := sql.Open("sqlite", strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace("file:"+file))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return file
}

// TestHostileFiles holds that SQL in a file of somebody else does not run.
func TestHostileFiles(t *testing.T) {
	const table, foreign = "widget_example_com", "keelson export did not make it"
	created := sqlite{}.createTable(table)
	victim := filepath.Join(t.TempDir(), "victim")
	named := func(name string) string {
		return "UPDATE keelson_kinds SET table_name = '" + strings.ReplaceAll(name, "'", "''") + "'"
	}
	for _, row := range []struct {
		name        string
		statements  []string
		read, write string // parts of the errors; "" is none
	}{
		{"statements in the name", []string{named(table + `"; ATTACH '` + victim + `' AS v; CREATE TABLE v.x(a); SELECT '' FROM "` + table)}, foreign, foreign},
		{"another table", []string{"CREATE TABLE other (a)", named("other")}, foreign, foreign},
		{"a table of SQLite", []string{named("sqlite_schema")}, foreign, foreign},
		{"a number without a table", []string{named(table + "_2")}, "it is missing", "it is missing"},
		{"a number that is not one", []string{named(table + "_02")}, foreign, foreign},
		{"no kind", []string{"UPDATE keelson_kinds SET kind = '', api_group = ''"}, foreign, foreign},
		{"view", []string{"DROP TABLE " + table, "CREATE VIEW " + table + " AS SELECT '' AS namespace, 'a' AS name, '{}' AS doc"}, "it is a view", "it is a view"},
		{"view in capitals", []string{"DROP TABLE " + table, "CREATE VIEW Widget_Example_Com AS SELECT '' AS namespace, 'a' AS name, '{}' AS doc"}, "it is a view", "it is a view"},
		{"view for the kinds", []string{"ALTER TABLE keelson_kinds RENAME TO k", "CREATE VIEW keelson_kinds AS SELECT * FROM k"}, "it is a view", "it is a view"},
		{"generated column", []string{"DROP TABLE " + table, strings.Replace(created, "doc BLOB NOT NULL", "doc BLOB NOT NULL AS (hex(zeroblob(1000000)))", 1)}, "other columns", "other columns"},
		{"virtual table", []string{"DROP TABLE " + table, "CREATE VIRTUAL TABLE " + table + " USING fts5(namespace, name, uid, resource_version, labels, doc)"}, "other columns", "other columns"},
		{"trigger", []string{"CREATE TRIGGER x AFTER UPDATE ON " + table + " BEGIN DELETE FROM keelson_kinds; END"}, "", "it has a trigger"},
		{"trigger of the kinds", []string{"CREATE TRIGGER x AFTER UPDATE ON keelson_kinds BEGIN DELETE FROM keelson_kinds; END"}, "", "it has a trigger"},
		{"an index", []string{"CREATE INDEX x ON " + table + " (json_extract(doc, '$.\"spec\"'))"}, "", ""},
		{"other things", []string{"CREATE TABLE mine (a)", "CREATE VIEW v AS SELECT json(doc) FROM " + table}, "", ""},
	} {
		file := exported(t, row.statements...)
		for i, want := range []string{row.read, row.write} {
			mode := []Mode{ReadOnly, Write}[i]
			err := func() error {
				d, err := Open(t.Context(), "sqlite://"+file, mode)
				if err != nil {
					return err
				}
				defer d.Close()
				if mode == Write {
					_, err := d.Mirror(t.Context(), widgets, texts(widget("a", `{"x":2}`)), func(error) {}, func(int) {})
					return err
				}
				tables, err := d.Tables(t.Context())
				if err != nil {
					return err
				}
				filter, err := NewFilter(d.Dialect(), "self.spec.x == 1", nil)
				if err != nil {
					return err
				}
				n, err := d.Select(t.Context(), tables[0], filter, func(string, string, []byte) error { return nil })
				if err == nil && n.Objects != 1 {
					t.Errorf("%s: got %d objects, want 1", row.name, n.Objects)
				}
				return err
			}()
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s, mode %d: got the error %v, want %q", row.name, mode, err, want)
			}
		}
	}
	if _, err := os.Stat(victim); err == nil {
		t.Error("a name of a table made another file")
	}
}

// TestAuthorizer holds that a connection does not do what an export does not need, even if a statement asks for it.
func TestAuthorizer(t *testing.T) {
	file := exported(t, "CREATE VIEW v AS SELECT name FROM widget_example_com", "CREATE TRIGGER x AFTER DELETE ON widget_example_com BEGIN DELETE FROM keelson_kinds; END")
	other := filepath.Join(t.TempDir(), "other")
	for mode, allowed := range map[Mode][]string{
		ReadOnly: {"SELECT count(*) FROM widget_example_com"},
		Write:    {"SELECT count(*) FROM widget_example_com", "UPDATE widget_example_com SET uid = 'b'", "PRAGMA journal_mode = DELETE"},
	} {
		d := &Database{}
		address := "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(file)
		d.db = sql.OpenDB(newConnector(address, mode))
		d.db.SetMaxOpenConns(1)
		for _, statement := range []string{
			"SELECT count(*) FROM widget_example_com", "UPDATE widget_example_com SET uid = 'b'", "PRAGMA journal_mode = DELETE",
			"DELETE FROM widget_example_com", // has a trigger
			"ATTACH '" + other + "' AS o", "VACUUM INTO '" + other + "'", "SELECT name FROM v", "DROP TABLE keelson_seen", "CREATE VIEW w AS SELECT 1",
			"CREATE TEMP TABLE w (a)", "CREATE INDEX w ON keelson_seen (name)", "CREATE VIRTUAL TABLE w USING fts5(a)", "REINDEX", "ALTER TABLE keelson_seen ADD COLUMN x",
			"SELECT load_extension('" + other + "')", "SELECT hex(zeroblob(9))", "SELECT writefile('" + other + "', 'a')", "SELECT fts3_tokenizer('simple')",
			"SELECT * FROM pragma_database_list", "PRAGMA writable_schema = ON", "PRAGMA hard_heap_limit = 0", "PRAGMA trusted_schema = ON",
			"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 3) SELECT count(*) FROM c",
			"SELECT 1; SELECT 2",
		} {
			rows, err := d.db.Query(statement)
			if err == nil {
				rows.Next()
				err = rows.Err()
				rows.Close()
			}
			if want := slices.Contains(allowed, statement); (err == nil) != want {
				t.Errorf("mode %d: %s: got the error %v, want success: %v", mode, statement, err, want)
			}
			if _, err := d.db.Prepare(statement); err == nil && strings.Contains(statement, ";") {
				t.Errorf("mode %d: %s: got two statements in a call", mode, statement)
			}
		}
		if err := d.db.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("a statement made another file")
	}
}

// TestMemoryOfSQLite holds that SQLite fails before it takes more memory than its limit.
func TestMemoryOfSQLite(t *testing.T) {
	d := openTest(t)
	var length int64
	// Of each text, SQLite has a copy for each parameter.
	text := strings.Repeat("a", int(heapLimit()/4))
	err := d.db.QueryRow("SELECT length(?1) + length(?2) + length(?3) + length(?4)", text, text+"a", text+"b", text+"c").Scan(&length)
	if err := d.named(err); err == nil || !strings.Contains(err.Error(), "SQLite needs more than 256 MiB of memory") {
		t.Errorf("got %d, %v, want an error", length, err)
	}
}

// TestContextEndsStatements holds that a statement ends while SQLite works on it.
func TestContextEndsStatements(t *testing.T) {
	d := openTest(t)
	var list []string
	for i := range 200 {
		list = append(list, widget("w"+strings.Repeat("x", i), `{}`))
	}
	mirror(t, d, list...)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	// 200 to the power of five steps: years.
	var n int
	const t5 = "widget_example_com AS a, widget_example_com AS b, widget_example_com AS c, widget_example_com AS d, widget_example_com AS e"
	if err := d.db.QueryRowContext(ctx, "SELECT count(*) FROM "+t5+" WHERE a.uid <> b.uid OR c.uid <> d.uid OR e.uid <> a.uid").Scan(&n); err == nil {
		t.Errorf("got %d", n)
	}
}

// TestFiles holds that only the owner reads a new file and its journals, and that other things than files are refused.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(t.Context(), "sqlite://"+filepath.Join(dir, "a.db"), Write)
	if err != nil {
		t.Fatal(err)
	}
	mirror(t, d, widget("a", `{"x":1}`))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 2 { // with the log of writes
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got the mode %v, want 0600", e.Name(), info.Mode())
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []Mode{ReadOnly, Write} {
		if _, err := Open(t.Context(), "sqlite://"+dir, mode); err == nil || !strings.Contains(err.Error(), "want a file") {
			t.Errorf("a folder: got the error %v", err)
		}
	}
}
