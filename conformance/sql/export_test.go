package sql

import (
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
