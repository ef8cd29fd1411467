package sql

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/conformance/sql/servers"
	"github.com/keelson-io/keelson/internal/atrest"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file compares what "keelson query" finds with the evaluator.

// queriedObjects is the number of objects of TestRandomQuery.
const queriedObjects = 500

// TestRandomQuery holds that a query of an export finds the objects for which the evaluator returns true, however much of the expression
// the database evaluates, and counts those for which it is an error there.
func TestRandomQuery(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(*seed, 1))}
	typ, err := cel.TypeOfSchema([]byte(schemaText), false)
	if err != nil {
		t.Fatal(err)
	}
	var objects []atrest.Text
	for i := range queriedObjects {
		head := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w%04d"}`, i)
		if document := g.document(); document != "{}" {
			head += "," + document[1:len(document)-1]
		}
		objects = append(objects, atrest.Text{JSON: []byte(head + "}")})
	}
	db := servers.Postgres(t, "--locale=C.UTF-8")
	var socket string
	if err := db.QueryRow("SELECT current_setting('unix_socket_directories')").Scan(&socket); err != nil {
		t.Fatal(err)
	}
	for name, address := range map[string]string{"sqlite": "sqlite://" + t.TempDir() + "/a.db", "postgres": "postgres://test@/postgres?host=" + url.QueryEscape(socket)} {
		t.Run(name, func(t *testing.T) {
			d, err := atrest.Open(t.Context(), address, atrest.Write)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			kind := atrest.Kind{Group: "example.com", Kind: "Widget"}
			if _, err := d.Mirror(t.Context(), kind, slices.Values(objects), func(err error) { t.Error(err) }, func(int) {}); err != nil {
				t.Fatal(err)
			}
			tables, err := d.Tables(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			q := queried{t: t, db: d, table: tables[0], roots: map[string]jsondoc.Value{}}
			err = d.Each(t.Context(), q.table, func(_, name string, doc []byte) error {
				q.names = append(q.names, name)
				q.roots[name] = parse(t, string(doc)) // as the database has it
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for q.compared*queriedObjects < *pairs/4 {
				// The only variable is self.
				expr := strings.NewReplacer("object.", "self.", "row.", "self.").Replace(g.conjunction())
				for _, typ := range []*cel.Type{typ, nil} {
					q.compare(expr, typ)
				}
			}
			t.Logf("%d queries compared, %d objects selected", q.compared, q.selected)
			if q.selected == 0 {
				t.Error("no object was selected")
			}
		})
	}
}

// queried compares queries of a table.
type queried struct {
	t     *testing.T
	db    *atrest.Database
	table *atrest.Table
	names []string
	roots map[string]jsondoc.Value // by name

	compared, selected int
}

// compare compares one query, unless its expression does not fit the type of self.
func (q *queried) compare(expr string, typ *cel.Type) {
	language, err := cel.NewLanguage(cel.LanguageOptions{Kubernetes: cel.NewestKubernetes, Variables: []cel.Variable{{Name: "self", Schema: typ}}})
	if err != nil {
		q.t.Fatal(err)
	}
	x, err := language.CompileExpression(expr)
	if err != nil {
		return
	}
	filter, err := atrest.NewFilter(q.db.Dialect(), expr, typ)
	if err != nil {
		q.t.Fatalf("%s: %v", expr, err)
	}
	var got, want []string
	if _, err := q.db.Select(context.Background(), q.table, filter, func(_, name string, _ []byte) error {
		got = append(got, name)
		return nil
	}); err != nil {
		q.t.Fatalf("%s: %v", expr, err)
	}
	for _, name := range q.names {
		if isTrue(x, cel.Vars{"self": cel.FromDoc(q.roots[name], typ)}) {
			want = append(want, name)
		}
	}
	if !slices.Equal(got, want) {
		q.t.Errorf("%s: the query finds %v, want %v", expr, got, want)
	}
	q.compared++
	q.selected += len(got)
}
