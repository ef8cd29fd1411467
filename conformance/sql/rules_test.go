package sql

import (
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/cel"
	celsql "github.com/keelson-io/keelson/cel/sql"
	"github.com/keelson-io/keelson/internal/testcrds"
)

// This file counts how many rules of published definitions are translated.

var (
	catalog = flag.Bool("catalog", false, "use all definitions of the catalog, not only those of the Gateway API")
	show    = flag.String("show", "", "print the refused rules with this construct")
)

// leastTranslated is the share of rules without oldSelf that must be translated in full.
var leastTranslated = map[celsql.Dialect]float64{celsql.Postgres: 0.85, celsql.SQLite: 0.75}

// rule is a rule of a node.
type rule struct {
	node string // the schema of the node as JSON
	root bool
	text string
}

// TestPublishedRules prints the share of the rules without oldSelf that PostgreSQL and SQLite can
// evaluate, and what the others need.
func TestPublishedRules(t *testing.T) {
	releases := testcrds.Catalog()
	if !*catalog {
		releases = releases[:1]
	}
	all, err := testcrds.Definitions(releases)
	if err != nil {
		t.Fatal(err)
	}
	rules := map[rule]bool{}
	for _, d := range all {
		text, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		var definition struct {
			Spec struct {
				Versions []struct {
					Schema struct{ OpenAPIV3Schema map[string]any }
				}
			}
		}
		if err := json.Unmarshal(text, &definition); err != nil {
			t.Fatal(err)
		}
		for _, v := range definition.Spec.Versions {
			collect(t, rules, v.Schema.OpenAPIV3Schema, true)
		}
	}
	for _, dialect := range []celsql.Dialect{celsql.Postgres, celsql.SQLite} {
		translated, total, refused := 0, 0, map[string]int{}
		for _, r := range slices.SortedFunc(maps.Keys(rules), func(a, b rule) int { return strings.Compare(a.text+a.node, b.text+b.node) }) {
			schema, err := cel.TypeOfSchema([]byte(r.node), r.root)
			if err != nil {
				continue // of a schema that is not structural
			}
			language, err := cel.NewLanguage(cel.LanguageOptions{Kubernetes: "1.37", Variables: []cel.Variable{{Name: "self", Schema: schema}}})
			if err != nil {
				t.Fatal(err)
			}
			x, err := language.CompileExpression(r.text)
			if err != nil {
				continue // with oldSelf
			}
			total++
			q, err := celsql.Translate(x, celsql.Options{Dialect: dialect})
			var e *celsql.RefusedError
			switch {
			case errors.As(err, &e):
			case err != nil:
				t.Errorf("%s: %v", r.text, err)
				continue
			case len(q.Refused) > 0:
				e = q.Refused[0]
			default:
				translated++
				continue
			}
			refused[e.Construct+": "+e.Reason]++
			if *show != "" && strings.Contains(e.Construct+": "+e.Reason, *show) {
				t.Logf("%v: %s", e, r.text)
			}
		}
		t.Logf("%s: %d of %d rules translated (%.1f %%)", dialect, translated, total, 100*float64(translated)/float64(max(total, 1)))
		reasons := slices.Collect(maps.Keys(refused))
		sort.Slice(reasons, func(i, j int) bool {
			return refused[reasons[i]] > refused[reasons[j]] || refused[reasons[i]] == refused[reasons[j]] && reasons[i] < reasons[j]
		})
		for _, reason := range reasons {
			t.Logf("%5d %s", refused[reason], reason)
		}
		if least := leastTranslated[dialect]; float64(translated) < least*float64(total) {
			t.Errorf("%s: got %d of %d rules translated, want %.0f %%", dialect, translated, total, 100*least)
		}
	}
}

// collect adds the rules of a schema.
func collect(t *testing.T, rules map[rule]bool, schema map[string]any, root bool) {
	if list, ok := schema["x-kubernetes-validations"].([]any); ok {
		node, err := json.Marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range list {
			text, _ := item.(map[string]any)["rule"].(string)
			rules[rule{string(node), root, text}] = true
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if sub, ok := schema[key].(map[string]any); ok {
			collect(t, rules, sub, false)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, sub := range properties {
		if sub, ok := sub.(map[string]any); ok {
			collect(t, rules, sub, false)
		}
	}
}
