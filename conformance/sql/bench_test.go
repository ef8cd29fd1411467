package sql

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/keelson-io/keelson/cel"
	celsql "github.com/keelson-io/keelson/cel/sql"
	"github.com/keelson-io/keelson/internal/testcrds"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file measures queries over many objects beside the evaluator.

var benchObjects = flag.Int("bench-objects", 0, "objects of the measurement of queries; 0: it is not run")

// benchQueries are the queries. An index serves those that are indexed.
var benchQueries = []struct {
	name, expr string
	indexed    bool
}{
	{"equality", `self.metadata.name == "route-0000777"`, true},
	{"range", `self.metadata.name > "route-0000990" && self.metadata.name < "route-0001000"`, true},
	{"prefix", `self.metadata.name.startsWith("route-00007")`, true},
	{"in", `self.metadata.name in ["route-0000007", "route-0000009"]`, true},
	{"item of a list", `"host-777.example.com" in self.spec.hostnames`, true},
	{"condition of a number in lists", `self.spec.rules.exists(r, r.backendRefs.exists(b, b.weight > 99))`, false},
	{"rule of the Gateway API", `!self.spec.rules.all(r, !has(r.filters) || r.filters.all(f, f.type != "RequestMirror" || has(f.requestMirror)))`, false},
	{"contains, size", `size(self.spec.hostnames) > 1 && self.spec.hostnames[0].contains("-77777.")`, false},
}

// TestBench prints, for each database and query, the time of the evaluator for all objects, which are read from the database, and the
// time of the query.
func TestBench(t *testing.T) {
	if *benchObjects == 0 {
		t.Skip("without -bench-objects")
	}
	schema := routeSchema(t)
	language, err := cel.NewLanguage(cel.LanguageOptions{Kubernetes: "1.37", Variables: []cel.Variable{{Name: "self", Schema: schema}}})
	if err != nil {
		t.Fatal(err)
	}
	docs := make([]string, *benchObjects)
	for i := range docs {
		docs[i] = benchRoute(i)
	}
	t.Logf("%d objects of %d bytes", len(docs), len(docs[0]))
	for name, open := range map[string]func(*testing.T) *database{"sqlite": openSQLiteBinary, "postgres": openPostgres} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			start := time.Now()
			d.fill(t, docs, nil)
			t.Logf("stored in %.1f s", time.Since(start).Seconds())
			d.benchIndexes(t, language)
			for _, query := range benchQueries {
				x, err := language.CompileExpression(query.expr)
				if err != nil {
					t.Fatal(err)
				}
				q, err := celsql.Translate(x, celsql.Options{Dialect: d.dialect})
				if err != nil {
					t.Fatal(err)
				}
				evaluator, selected := d.evaluate(t, x, schema)
				start := time.Now()
				got, err := d.selected(context.Background(), q)
				took := time.Since(start)
				if err != nil || len(got) != selected {
					t.Errorf("%s: got %d rows, %v, want %d", query.expr, len(got), err, selected)
				}
				t.Logf("| %s | %d | %.0f ms | %.1f ms | 1 / %.1f |", query.name, len(got), float64(evaluator.Microseconds())/1000,
					float64(took.Microseconds())/1000, float64(evaluator)/float64(took))
			}
		})
	}
}

// evaluate reads and evaluates all objects, and returns how long that took and how many are selected.
func (d *database) evaluate(t *testing.T, x *cel.Expression, schema *cel.Type) (took time.Duration, selected int) {
	column := "doc"
	if d.binary {
		column = "json(doc)"
	}
	start := time.Now()
	rows, err := d.db.Query("SELECT " + column + " FROM t")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var text sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		d := jsondoc.Get()
		if err := jsondoc.Parse(d, text); err != nil {
			t.Fatal(err)
		}
		result, _, err := x.Eval(context.Background(), cel.Vars{"self": cel.FromDoc(d.Root(), schema)}, 0)
		if err == nil && result.Bool() {
			selected++
		}
		d.Release()
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return time.Since(start), selected
}

// benchIndexes creates the indexes that serve the queries.
func (d *database) benchIndexes(t *testing.T, language *cel.Language) {
	start := time.Now()
	seen := map[string]bool{}
	for _, query := range benchQueries {
		x, err := language.CompileExpression(query.expr)
		if err != nil {
			t.Fatal(err)
		}
		statements, err := celsql.Indexes(x, celsql.Options{Dialect: d.dialect}, "t")
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range statements {
			if seen[statement] {
				continue
			}
			seen[statement] = true
			if _, err := d.db.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := d.db.Exec("ANALYZE t"); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d indexes in %.1f s", len(seen), time.Since(start).Seconds())
}

// routeSchema returns the type of HTTPRoute.
func routeSchema(t *testing.T) *cel.Type {
	text, err := testcrds.CRD(testcrds.Families()[0], "httproutes.gateway.networking.k8s.io")
	if err == nil {
		text, err = (&testcrds.Definition{YAML: text}).JSON()
	}
	if err != nil {
		t.Fatal(err)
	}
	var route struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal(text, &route); err != nil {
		t.Fatal(err)
	}
	schema, err := cel.TypeOfSchema(route.Spec.Versions[0].Schema.OpenAPIV3Schema, true)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// benchRoute returns an HTTPRoute of about 1 KB.
func benchRoute(i int) string {
	return fmt.Sprintf(`{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","metadata":{"name":"route-%07[1]d","namespace":"team-%03[2]d","uid":"00000000-0000-4000-8000-%012[1]d",`+
		`"resourceVersion":"%[1]d","generation":1,"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"app":"app-%[2]d","team":"team-%03[2]d","tier":"web"}},`+
		`"spec":{"parentRefs":[{"group":"gateway.networking.k8s.io","kind":"Gateway","name":"public","namespace":"infra","sectionName":"https"}],`+
		`"hostnames":["host-%[1]d.example.com","www.host-%[1]d.example.com"],"rules":[{"matches":[{"path":{"type":"PathPrefix","value":"/v1/%[1]d"},`+
		`"headers":[{"type":"Exact","name":"x-version","value":"%[2]d"}]}],"filters":[{"type":"RequestHeaderModifier","requestHeaderModifier":{"set":[{"name":"x-route","value":"%[1]d"}]}}],`+
		`"backendRefs":[{"group":"","kind":"Service","name":"service-a-%[2]d","port":8080,"weight":%[3]d},{"group":"","kind":"Service","name":"service-b-%[2]d","port":8080,"weight":%[4]d}]},`+
		`{"matches":[{"path":{"type":"Exact","value":"/healthz"}}],"backendRefs":[{"group":"","kind":"Service","name":"health","port":8081,"weight":1}]}]}}`, i, i%1000, i%100, 100-i%100)
}
