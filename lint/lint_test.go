package lint

import (
	"fmt"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/testcrds"
)

// This file tests what Check says; internal/cli has the texts as users see them.

// definition returns one whose spec has the given schema, indented by 14 columns.
func definition(schema string) string {
	return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
` + schema
}

func load(t testing.TB, text string) *Definition {
	t.Helper()
	d, err := Load(Source{Name: "test.yaml", Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestPublishedDefinitionsHaveNoErrorsAndDoNotBreakThemselves(t *testing.T) {
	for _, family := range testcrds.Families() {
		docs, err := testcrds.CRDs(family)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			d := load(t, string(doc.YAML))
			for _, f := range append(Check(t.Context(), d, nil).Findings, compare(d, load(t, string(doc.YAML)))...) {
				if f.Severity != Warning {
					t.Errorf("%s: %s: %s: %s", doc.Source, f.Severity, f.Path, f.Message)
				}
			}
		}
	}
}

func TestErrorsAreTheServersVerdict(t *testing.T) {
	for _, schema := range []string{
		"            properties: {a: {type: string, maxLength: 3}}\n",
		"            properties: {a: {type: text}}\n",
		"            properties: {a: {type: string, default: 3}}\n",
		"            x-kubernetes-validations: [{rule: self.a == 1}]\n            properties: {a: {type: string}}\n",
		"            x-kubernetes-validations: [{rule: 'self.a.all(x, self.a.all(y, x == y))'}]\n            properties: {a: {type: array, items: {type: string}}}\n",
		"            required: [b]\n            properties: {a: {type: string, minLength: 3, maxLength: 2}}\n",
	} {
		text := definition(schema)
		var def apiextv1.CustomResourceDefinition
		if err := yaml.Unmarshal([]byte(text), &def); err != nil {
			t.Fatal(err)
		}
		crd.Default(&def)
		def.Status.StoredVersions = []string{"v1"}
		want := len(crd.Validate(&def)) > 0
		r := Check(t.Context(), load(t, text), nil)
		if got := Worst(r.Findings) == Error; got != want {
			t.Errorf("%s: got refused %v, want %v: %+v", schema, got, want, r.Findings)
		}
	}
}

func TestBoundsInAdviceAreTheLargestThatFit(t *testing.T) {
	for _, tt := range []struct {
		name, schema string
		bounds       int
	}{
		{"one list", `
            x-kubernetes-validations: [{rule: 'self.a.all(x, self.a.exists_one(y, x == y))'}]
            properties:
              a: {type: array, items: {type: string, maxLength: 10}}`, 1},
		{"list and text", `
            x-kubernetes-validations: [{rule: 'self.a.all(x, self.a.exists_one(y, y.contains(x)))'}]
            properties:
              a: {type: array, items: {type: string}}`, 2},
		{"a map above the rule", `
            properties:
              m:
                type: object
                additionalProperties:
                  type: object
                  x-kubernetes-validations: [{rule: 'self.a.all(x, x > 0)'}]
                  properties:
                    a: {type: array, maxItems: 1000, items: {type: integer}}`, 1},
		{"a bound that is too large", `
            x-kubernetes-validations: [{rule: 'self.a.all(x, self.a.exists_one(y, x == y))'}]
            properties:
              a: {type: array, maxItems: 1000000, items: {type: integer}}`, 1},
		{"a messageExpression", `
            x-kubernetes-validations: [{rule: 'true', messageExpression: 'self.a.all(x, self.b.replace("a", "bb") == "c") ? "x" : "y"'}]
            properties:
              b: {type: string}
              a: {type: array, items: {type: integer}}`, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := load(t, definition(strings.TrimPrefix(tt.schema, "\n")+"\n"))
			trees := d.schemas()
			costs, ok := trees[0].costs()
			if !ok {
				t.Fatal("no costs")
			}
			c := costs.Costs[0]
			if c.Advice == nil || len(c.Advice.Bounds) != tt.bounds {
				t.Fatalf("cost %d: got advice %+v, want %d bounds", c.Total, c.Advice, tt.bounds)
			}
			if c.Advice.Then > RuleLimit {
				t.Errorf("with %s: got %d, want at most %d", c.Advice, c.Advice.Then, RuleLimit)
			}
			// One more of each does not fit.
			var at node
			trees[0].each(func(n node) {
				if n.path == before(c.Path, ".x-kubernetes-validations") {
					at = n
				}
			})
			s := newSearch(at, &c)
			var chosen []*candidate
			for i := range s.candidates {
				for _, b := range c.Advice.Bounds {
					if b.Path == s.candidates[i].Path {
						chosen = append(chosen, &s.candidates[i])
					}
				}
			}
			if cost := s.estimate(); cost != c.Total {
				t.Errorf("the copy of the schema: got cost %d, want %d", cost, c.Total)
			}
			if cost := s.with(c.Advice.Bounds[0].Value+1, chosen...); cost <= RuleLimit {
				t.Errorf("one more than %s: got %d, want above %d", c.Advice, cost, RuleLimit)
			}
		})
	}
}

func TestManyExpensiveRulesShareTheLimit(t *testing.T) {
	var schema strings.Builder
	schema.WriteString("            properties:\n")
	for i := range 12 {
		fmt.Fprintf(&schema, "              a%d: {type: array, maxItems: 1500, items: {type: integer}, x-kubernetes-validations: [{rule: 'self.all(x, self.exists_one(y, x == y))'}]}\n", i)
	}
	costs, ok := load(t, definition(schema.String())).schemas()[0].costs()
	if !ok || costs.Total <= TotalLimit || costs.Costs[0].Total > RuleLimit {
		t.Fatalf("got %d of %d, the most expensive %d: want only the sum above its limit", costs.Total, TotalLimit, costs.Costs[0].Total)
	}
	total := uint64(0)
	for _, c := range costs.Costs {
		if c.Advice == nil || len(c.Advice.Bounds) != 1 {
			t.Fatalf("%s: got advice %+v, want a bound", c.Where, c.Advice)
		}
		total += c.Advice.Then
	}
	if total > TotalLimit || total < TotalLimit*9/10 {
		t.Errorf("with all of the advice: got %d, want just below %d", total, TotalLimit)
	}
}

func TestWhereSpeaksOfObjects(t *testing.T) {
	for path, want := range map[string]string{
		schemaPath(0): "(the object)",
		schemaPath(0) + ".properties[spec].properties[rules].items.properties[a]": "spec.rules[*].a",
		schemaPath(0) + ".properties[items].additionalProperties.items":           "items[*][*]",
		schemaPath(0) + ".properties[a].x-kubernetes-validations[0].rule":         "a",
	} {
		if got := inObjects(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestExpressionsAreFoundInTheFile(t *testing.T) {
	for _, tt := range []struct{ name, yaml, at string }{
		{"plain", "            x-kubernetes-validations:\n            - rule: self.a && self.nope\n", "19:35"},
		{"quoted", "            x-kubernetes-validations:\n            - rule: \"self.a && self.nope\"\n", "19:36"},
		{"flow", "            x-kubernetes-validations: [{rule: self.a && self.nope}]\n", "18:61"},
		{"literal", "            x-kubernetes-validations:\n            - rule: |-\n                self.a &&\n                  self.nope\n              message: m\n", "21:23"},
		{"folded", "            x-kubernetes-validations:\n            - rule: >-\n                self.a &&\n                self.nope\n", "21:21"},
		{"plain on two lines", "            x-kubernetes-validations:\n            - rule: self.a &&\n                self.nope\n", "20:21"},
		{"anchor", "            x-kubernetes-validations:\n            - rule: &r self.a && self.nope\n", "19:38"},
	} {
		r := Check(t.Context(), load(t, definition(tt.yaml+"            properties: {a: {type: boolean}}\n")), nil)
		if len(r.Findings) == 0 || r.Findings[0].Expression == nil {
			t.Errorf("%s: got %+v, want a pointer into the expression", tt.name, r.Findings)
			continue
		}
		if got := fmt.Sprintf("%d:%d", r.Findings[0].Line, r.Findings[0].Column); got != tt.at {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.at)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(definition("            properties: {a: {type: string, maxLength: 3}}\n"))
	f.Add(definition("            x-kubernetes-validator: [{rule: a > 1}]\n            properties: {a: {type: integer, enum: [1, a]}}\n"))
	f.Add("kind: CustomResourceDefinition\nspec: {versions: [{schema: {openAPIV3Schema: []}}]}")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Load(Source{Name: "fuzz", Text: []byte(text)})
		if err != nil {
			return
		}
		Check(t.Context(), d, nil)
		Check(t.Context(), d, d)
	})
}
