package cel_test

import (
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"regexp"
	"sort"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/testcrds"
)

// This file runs every rule of published definitions on random objects.

// definitions calls fn for every version of every definition of a family.
func definitions(t testing.TB, f testcrds.Family, fn func(name string, s *schema.Structural)) {
	files, err := testcrds.Open(f.Module)
	if err != nil {
		t.Skip(err)
	}
	err = fs.WalkDir(files, f.CRDs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		for _, part := range strings.Split(string(text), "\n---\n") {
			var crd apiextensionsv1.CustomResourceDefinition
			if err := yaml.Unmarshal([]byte(part), &crd); err != nil || crd.Kind != "CustomResourceDefinition" {
				continue
			}
			for _, v := range crd.Spec.Versions {
				fn(crd.Spec.Names.Kind+"/"+v.Name, structuralOf(t, v.Schema.OpenAPIV3Schema))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDefinitions(t *testing.T) {
	for _, f := range testcrds.Families() {
		t.Run(f.Name, func(t *testing.T) {
			rules, evaluations := 0, 0
			definitions(t, f, func(name string, s *schema.Structural) {
				g := &generator{rand: rand.New(rand.NewPCG(1, 2)), words: words(s)}
				visit(s, "", true, func(path string, node *schema.Structural, root bool) {
					if len(node.XValidations) == 0 {
						return
					}
					r, e := compareRules(t, g, name+path, node, root)
					rules, evaluations = rules+r, evaluations+e
				})
			})
			t.Logf("%d rules, %d evaluations", rules, evaluations)
		})
	}
}

// visit calls fn for a node and the nodes below it.
func visit(s *schema.Structural, path string, root bool, fn func(string, *schema.Structural, bool)) {
	fn(path, s, root)
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		p := s.Properties[name]
		visit(&p, path+"."+name, p.XEmbeddedResource, fn)
	}
	if s.Items != nil {
		visit(s.Items, path+"[]", s.Items.XEmbeddedResource, fn)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		visit(s.AdditionalProperties.Structural, path+"{}", s.AdditionalProperties.Structural.XEmbeddedResource, fn)
	}
}

const objectsPerNode = 40

func compareRules(t *testing.T, g *generator, at string, s *schema.Structural, root bool) (rules, evaluations int) {
	up, our := newUpstream(t, s, root), newSubject(t, s, root)
	if (up == nil) != (our == nil) {
		t.Errorf("%s: one side has no type", at)
		return
	}
	for _, v := range s.XValidations {
		for _, expr := range []string{v.Rule, v.MessageExpression} {
			if expr == "" {
				continue
			}
			rules++
			prog, want := up.compile(expr)
			ours, got := our.compile(expr)
			if normal(want) != normal(got) {
				t.Errorf("%s: %s\n\tupstream %v\n\tkeelson  %v", at, expr, want, got)
				continue
			}
			if want.compile != "" {
				continue
			}
			for range objectsPerNode {
				self, old := g.value(s, 0), g.value(s, 0)
				w, o := up.eval(prog, want, self, old), our.eval(t, ours, got, self, old)
				evaluations++
				if w != o && !known(expr, w, o) {
					t.Errorf("%s: %s\n\tself %v\n\tupstream %v\n\tkeelson  %v", at, expr, self, w, o)
					break
				}
			}
		}
	}
	return rules, evaluations
}

// generator makes random data for a schema.
type generator struct {
	rand  *rand.Rand
	words []string
	wild  bool // more than valid data: wrong types, greatest numbers, unknown members
	large bool // some lists and texts are long
}

var quoted = regexp.MustCompile(`'([^']*)'|"([^"]*)"`)

// words are the texts that the rules of a schema mention.
func words(s *schema.Structural) []string {
	out := []string{"", "a", "b.example.com", "*.example.com", "héllo", "https://x.org/p", "10.0.0.1", "1Gi", "50%", "A-b_c"}
	visit(s, "", true, func(_ string, n *schema.Structural, _ bool) {
		for _, v := range n.XValidations {
			for _, m := range quoted.FindAllStringSubmatch(v.Rule, -1) {
				out = append(out, m[1]+m[2])
			}
		}
	})
	return out
}

func (g *generator) value(s *schema.Structural, depth int) any {
	if g.wild && depth > 0 && g.rand.IntN(40) == 0 {
		return g.odd()
	}
	if s.Nullable && g.rand.IntN(8) == 0 && depth > 0 {
		return nil
	}
	if v := s.ValueValidation; v != nil && len(v.Enum) > 0 && g.rand.IntN(10) > 0 {
		return v.Enum[g.rand.IntN(len(v.Enum))].Object
	}
	if s.XIntOrString {
		if g.rand.IntN(2) == 0 {
			return int64(g.rand.IntN(100))
		}
		return g.words[g.rand.IntN(len(g.words))]
	}
	switch s.Type {
	case "string":
		return g.text(s)
	case "integer":
		if g.wild && g.rand.IntN(8) == 0 {
			return []int64{-1, math.MaxInt64, math.MinInt64, 1 << 53}[g.rand.IntN(4)]
		}
		if g.rand.IntN(12) == 0 {
			return int64(g.rand.IntN(70000))
		}
		return int64(g.rand.IntN(6))
	case "number":
		if g.wild && g.rand.IntN(2) == 0 {
			return []any{int64(0), int64(3), -1.5, 0.5, 1e300, int64(math.MaxInt64)}[g.rand.IntN(6)]
		}
		return g.rand.Float64() * 10
	case "boolean":
		return g.rand.IntN(2) == 0
	case "array":
		out := []any{}
		n := g.rand.IntN(4)
		if g.large && g.rand.IntN(3) == 0 && depth < 4 {
			n = g.rand.IntN(40)
		}
		for range n {
			out = append(out, g.value(s.Items, depth+1))
		}
		return out
	case "object":
		return g.object(s, depth)
	}
	return fmt.Sprint("free", g.rand.IntN(3))
}

func (g *generator) text(s *schema.Structural) string {
	format := ""
	if s.ValueValidation != nil {
		format = s.ValueValidation.Format
	}
	switch {
	case g.rand.IntN(10) == 0:
	case format == "date-time":
		return "2024-05-06T07:08:09Z"
	case format == "date":
		return "2024-05-06"
	case format == "duration":
		return "1h5s"
	case format == "byte":
		return "aGVsbG8="
	case g.wild && g.rand.IntN(3) == 0:
		return []string{"a", "b", "k"}[g.rand.IntN(3)]
	case g.large && g.rand.IntN(3) == 0:
		return strings.Repeat(g.words[g.rand.IntN(len(g.words))], 1+g.rand.IntN(40))
	}
	return g.words[g.rand.IntN(len(g.words))]
}

func (g *generator) object(s *schema.Structural, depth int) any {
	out := map[string]any{}
	required := map[string]bool{}
	if s.ValueValidation != nil {
		for _, name := range s.ValueValidation.Required {
			required[name] = true
		}
	}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		p := s.Properties[name]
		often := 2
		if depth > 4 {
			often = 5
		}
		if required[name] || g.rand.IntN(often) == 0 {
			out[name] = g.value(&p, depth+1)
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		// One entry at most: with more, upstream's order is random.
		if g.rand.IntN(2) == 0 {
			out[g.words[g.rand.IntN(len(g.words))]] = g.value(s.AdditionalProperties.Structural, depth+1)
		}
		if g.wild && g.rand.IntN(2) == 0 {
			clear(out)
			out["k"] = g.value(s.AdditionalProperties.Structural, depth+1)
		}
	}
	if g.wild && g.rand.IntN(12) == 0 {
		out["unknown"] = g.odd()
	}
	return out
}

// odd is what no schema asks for.
func (g *generator) odd() any {
	switch g.rand.IntN(7) {
	case 0:
		return nil
	case 1:
		return int64(g.rand.IntN(3))
	case 2:
		return 2.5
	case 3:
		return g.words[g.rand.IntN(len(g.words))]
	case 4:
		return []any{int64(1), "a"}
	case 5:
		return map[string]any{"k": "a"}
	}
	return true
}
