package cel

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/checker"

	"github.com/keelson-io/keelson/cel/internal/check"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// This file compares the quick checker with cel-go's.

// sameTypes compares what both checkers say about an expression over self;
// quick says whether the quick one said anything.
func sameTypes(t testing.TB, ts *TypeSet, src string, self *Type) (quick bool) {
	t.Helper()
	env := ts.env.decls
	one, _ := env.Grammar.Parse(src)
	if one == nil {
		return false
	}
	celSelf := ts.check.Provider.CelType(self)
	got := env.Checks.Check(one, ts.check.Provider, celSelf, celSelf)
	if got == nil {
		return false
	}
	two, _ := env.Grammar.Parse(src)
	slow, err := ts.check.Checker(self, false)
	if err != nil {
		t.Fatal(err)
	}
	want, errs := checker.Check(two, check.NoSource, slow)
	if len(errs.GetErrors()) > 0 {
		t.Errorf("%s: the quick checker accepts what is wrong: %s", src, errs.ToDisplayString())
		return true
	}
	for id, typ := range want.TypeMap() {
		if g := got.GetType(id); g.String() != typ.String() || g.Kind() != typ.Kind() {
			t.Errorf("%s: node %d: got type %s, want %s", src, id, g, typ)
		}
	}
	for id := range got.TypeMap() {
		if _, ok := want.TypeMap()[id]; !ok {
			t.Errorf("%s: node %d has a type", src, id)
		}
	}
	for id, ref := range want.ReferenceMap() {
		g := got.ReferenceMap()[id]
		if g == nil || g.Name != ref.Name || !slices.Equal(g.OverloadIDs, ref.OverloadIDs) || ref.Value != nil {
			t.Errorf("%s: node %d: got reference %v, want %v", src, id, g, ref)
		}
	}
	if len(got.ReferenceMap()) != len(want.ReferenceMap()) {
		t.Errorf("%s: got %d references, want %d", src, len(got.ReferenceMap()), len(want.ReferenceMap()))
	}
	return true
}

func TestQuickChecker(t *testing.T) {
	env := testEnv(t)
	total, quick := 0, 0
	root := newShaper().build(route(t), true)
	ts := env.Types()
	var walk func(s *apiextv1.JSONSchemaProps, self *Type)
	walk = func(s *apiextv1.JSONSchemaProps, self *Type) {
		if self == nil {
			return
		}
		for _, rule := range s.XValidations {
			total++
			if sameTypes(t, ts, rule.Rule, self) {
				quick++
			}
		}
		for _, f := range self.Fields {
			if prop, ok := s.Properties[f.Name]; ok {
				walk(&prop, f.Type)
			}
		}
		if self.Kind == List {
			walk(s.Items.Schema, self.Elem)
		}
	}
	walk(route(t), root)
	t.Logf("rules of HTTPRoute: quick %d of %d", quick, total)
	if quick < total {
		t.Errorf("the quick checker knows %d of %d rules of HTTPRoute", quick, total)
	}

	text, err := os.ReadFile("../conformance/cel/testdata/expressions.txt")
	if err != nil {
		t.Skip(err)
	}
	total, quick = 0, 0
	var self *Type
	for _, line := range strings.Split(string(text), "\n") {
		if text, ok := strings.CutPrefix(line, "schema "); ok {
			var s apiextv1.JSONSchemaProps
			if err := yaml.Unmarshal([]byte(text), &s); err != nil {
				t.Fatal(err)
			}
			self = newShaper().build(&s, false)
			ts = env.Types()
			continue
		}
		if self != nil && !strings.HasPrefix(line, "data ") {
			total++
			if sameTypes(t, ts, line, self) {
				quick++
			}
		}
	}
	t.Logf("table: quick %d of %d", quick, total)
}
