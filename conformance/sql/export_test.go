package sql

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/conformance/sql/servers"
	"github.com/keelson-io/keelson/internal/atrest"
)

// This file exports objects to PostgreSQL.

// TestExport holds that PostgreSQL has the objects of an export that it can hold, that the others are
// reported, and that expressions find the same objects as in SQLite.
func TestExport(t *testing.T) {
	db := servers.Postgres(t, "--locale=C.UTF-8")
	var socket string
	if err := db.QueryRow("SELECT current_setting('unix_socket_directories')").Scan(&socket); err != nil {
		t.Fatal(err)
	}
	widgets := atrest.Kind{Group: "example.com", Kind: "Widget"}
	widget := func(name, spec string) atrest.Text {
		return atrest.Text{JSON: []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"` + name + `","labels":{"a":"b"}},"spec":` + spec + `}`)}
	}
	var objects []atrest.Text
	for i := range 3000 {
		objects = append(objects, widget(fmt.Sprintf("w%d", i), fmt.Sprintf(`{"n":%d,"t":"text %d"}`, i, i)))
	}
	objects = append(objects, widget("nul", `"\u0000"`), widget("float", `{"n":1.5e300}`), widget("deep", strings.Repeat("[", 9000)+strings.Repeat("]", 9000)))
	addresses := []string{"sqlite://" + t.TempDir() + "/a.db", "postgres://test:secret@/postgres?host=" + url.QueryEscape(socket)}
	found := map[string][2]string{}
	for i, address := range addresses {
		for range 2 { // the second time, nothing changes
			d, err := atrest.Open(t.Context(), address, atrest.Write)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			var refused []string
			n, err := d.Mirror(t.Context(), widgets, slices.Values(objects), func(err error) { refused = append(refused, err.Error()) }, func(int) {})
			if err != nil || n.Objects < 3001 || n.Objects+len(refused) != len(objects) || !strings.Contains(refused[0], "Widget.example.com nul: ") {
				t.Error(n, refused, err)
			}
			tables, err := d.Tables(t.Context())
			if err != nil || len(tables) != 1 || !tables[0].Complete || tables[0].Version != "v1" {
				t.Fatal(tables, err)
			}
			for _, expr := range []string{"self.spec.n == 7", "self.spec.n > 2995", "self.spec.t.matches('7{3}')", "self.spec.t.find('[0-9]+') == '8'", "self.spec.n > 1e300", "self.metadata.labels.a == 'b'"} {
				f, err := atrest.NewFilter(d.Dialect(), expr, nil)
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				_, err = d.Select(t.Context(), tables[0], f, func(_, name string, _ []byte) error {
					if name != "deep" { // only SQLite refuses it
						names = append(names, name)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				pair := found[expr]
				pair[i] = strings.Join(names, " ")
				found[expr] = pair
			}
		}
	}
	for expr, pair := range found {
		if pair[0] != pair[1] || pair[0] == "" {
			t.Errorf("%s: SQLite finds %.200s, PostgreSQL %.200s", expr, pair[0], pair[1])
		}
	}

	// A database that is gone is named, without its password.
	d, err := atrest.Open(t.Context(), addresses[1], atrest.Write)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := db.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(socket, socket+".gone"); err != nil {
		t.Fatal(err)
	}
	_, err = d.Mirror(t.Context(), widgets, slices.Values(objects), func(error) {}, func(int) {})
	if renamed := os.Rename(socket+".gone", socket); renamed != nil {
		t.Fatal(renamed)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "postgres://test@/postgres?host=") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got the error %v", err)
	}
}

// TestHostilePostgres holds that what another user of a database makes does not run with the rights of this one.
func TestHostilePostgres(t *testing.T) {
	db := servers.Postgres(t, "--locale=C.UTF-8")
	var socket string
	if err := db.QueryRow("SELECT current_setting('unix_socket_directories')").Scan(&socket); err != nil {
		t.Fatal(err)
	}
	address := func(database, user string) string {
		return "postgres://" + user + "@/" + database + "?host=" + url.QueryEscape(socket)
	}
	widgets := atrest.Kind{Group: "example.com", Kind: "Widget"}
	objects := []atrest.Text{{JSON: []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"m":{"k":"v"}}`)}}
	export := func(address string) error {
		d, err := atrest.Open(t.Context(), address, atrest.Write)
		if err != nil {
			return err
		}
		defer d.Close()
		_, err = d.Mirror(t.Context(), widgets, slices.Values(objects), func(err error) { t.Error(err) }, func(int) {})
		return err
	}
	query := func(address string) error {
		d, err := atrest.Open(t.Context(), address, atrest.ReadOnly)
		if err != nil {
			return err
		}
		defer d.Close()
		tables, err := d.Tables(t.Context())
		if err != nil {
			return err
		}
		f, err := atrest.NewFilter(d.Dialect(), "'k' in self.m && self.m.exists(k, k == 'k')", nil)
		if err != nil {
			return err
		}
		n, err := d.Select(t.Context(), tables[0], f, func(string, string, []byte) error { return nil })
		if err == nil && n.Objects != 1 {
			t.Errorf("got %d objects, want 1", n.Objects)
		}
		return err
	}
	const table = "widget_example_com"
	if _, err := db.Exec("CREATE ROLE stranger LOGIN"); err != nil {
		t.Fatal(err)
	}
	for i, row := range []struct {
		statements    []string // of the stranger, after an export
		read, written string   // parts of the errors of the superuser; "" is none
	}{
		{nil, "", `it belongs to "stranger"`},
		{[]string{"ALTER TABLE " + table + " ENABLE ROW LEVEL SECURITY"}, `it has row security of "stranger"`, `it belongs to "stranger"`},
		{[]string{"ALTER TABLE " + table + " RENAME TO t", "CREATE VIEW " + table + " AS SELECT * FROM t"}, "it is not an ordinary table", `it belongs to "stranger"`},
		{[]string{"ALTER TABLE keelson_kinds RENAME TO t", "CREATE VIEW keelson_kinds AS SELECT * FROM t"}, "it is not an ordinary table", "it is not an ordinary table"},
		{[]string{`UPDATE keelson_kinds SET table_name = '` + table + `"; DROP TABLE keelson_seen; SELECT namespace, name, doc FROM "` + table + `'`}, "did not make it", `it belongs to "stranger"`},
		// Functions with the names of those in pg_catalog, and with types that fit better.
		{[]string{"CREATE FUNCTION unnest(text[]) RETURNS SETOF text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$hijacked$$; END'",
			"CREATE FUNCTION x(jsonb, text) RETURNS jsonb LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$hijacked$$; END'",
			"CREATE AGGREGATE jsonb_agg(text) (SFUNC = x, STYPE = jsonb, INITCOND = '[]')"}, "", `it belongs to "stranger"`},
	} {
		name := fmt.Sprintf("d%d", i)
		if _, err := db.Exec("CREATE DATABASE " + name + " OWNER stranger"); err != nil {
			t.Fatal(err)
		}
		if err := export(address(name, "stranger")); err != nil {
			t.Fatal(err)
		}
		theirs, err := sql.Open("pgx", address(name, "stranger"))
		if err != nil {
			t.Fatal(err)
		}
		defer theirs.Close()
		for _, statement := range row.statements {
			if _, err := theirs.Exec(statement); err != nil {
				t.Fatal(statement, err)
			}
		}
		for i, want := range []string{row.read, row.written} {
			err := []func(string) error{query, export}[i](address(name, "test"))
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%v: got the error %v, want %q", row.statements, err, want)
			}
		}
		if i == 5 { // The owner of the functions exports again.
			if err := export(address(name, "stranger")); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := atrest.Open(t.Context(), address("d0", "test")+"&default_query_exec_mode=simple_protocol", atrest.ReadOnly); err == nil || !strings.Contains(err.Error(), "simple_protocol") {
		t.Errorf("got the error %v", err)
	}
}
