package requests

import (
	"strings"
	"testing"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/testkit"
)

func TestLanguagesAreMadeOnce(t *testing.T) {
	has := cel.AdmissionVariables{Params: true, New: true}
	if first, again := For(has), For(has); first != again {
		t.Error("a language was made twice")
	}
	if For(has) == For(cel.AdmissionVariables{Params: true}) {
		t.Error("languages with other variables are one")
	}
}

func TestCompile(t *testing.T) {
	all := cel.AdmissionVariables{Params: true, Authorizer: true}
	undeclared := func(name string) string { return "undeclared reference to '" + name + "'" }
	for _, row := range []struct {
		at    testkit.Position
		has   cel.AdmissionVariables
		text  string
		types []string
		err   string // "": it compiles
	}{
		{testkit.Here(), all, "object.spec.a == oldObject.spec.a && request.name == namespaceObject.metadata.name", []string{"bool"}, ""},
		{testkit.Here(), all, "params.limit > 1", []string{"bool"}, ""},
		{testkit.Here(), cel.AdmissionVariables{}, "params.limit > 1", []string{"bool"}, undeclared("params")},
		{testkit.Here(), all, "authorizer.requestResource.check('get').allowed()", nil, ""},
		{testkit.Here(), cel.AdmissionVariables{Params: true}, "authorizer.path('/').check('get').allowed()", nil, undeclared("authorizer")},
		{testkit.Here(), all, "variables.a", nil, undeclared("variables")},
		{testkit.Here(), all, "Object{}", nil, undeclared("Object")},
		{testkit.Here(), cel.AdmissionVariables{Patches: true}, "Object{}", []string{"Object"}, ""},
		{testkit.Here(), cel.AdmissionVariables{Patches: true}, `[JSONPatch{op: "remove", path: "/a"}]`, []string{"list(JSONPatch)"}, ""},
		{testkit.Here(), all, "request.nothing", nil, "undefined field 'nothing'"},
		{testkit.Here(), all, "1 +", nil, "compilation failed: "},
		{testkit.Here(), all, "1 + 1", nil, ""},
		{testkit.Here(), all, "1 + 1", []string{"bool"}, "must evaluate to bool but got int"},
		{testkit.Here(), all, "1 + 1", []string{"bool", "string"}, "must evaluate to one of [bool string] but got int"},
		{testkit.Here(), all, "'a'", []string{"bool", "string"}, ""},
	} {
		x := For(row.has).Compile(row.text, row.types...)
		switch {
		case x.Source != row.text:
			t.Errorf("%s: source: got %q, want %q", row.at, x.Source, row.text)
		case row.err == "" && (x.Err != nil || x.X == nil):
			t.Errorf("%s: %s: got error %v", row.at, row.text, x.Err)
		case row.err != "" && (x.Err == nil || x.X != nil || x.Internal || !strings.Contains(x.Err.Error(), row.err)):
			t.Errorf("%s: %s: got %v, want an error with %q", row.at, row.text, x.Err, row.err)
		}
	}
}

// TestCompositionGrows checks that an expression can read the variables that were added before it was
// compiled, with their types, and no others.
func TestCompositionGrows(t *testing.T) {
	c := NewComposition()
	l := For(cel.AdmissionVariables{Composed: true}).With(c)
	if x := l.Compile("variables.a"); x.Err == nil {
		t.Error("a variable can be read before it is there")
	}
	c.Add("a", l.Compile("1 + 1"))
	c.Add("b", l.Compile("variables.a > 1"))
	for _, row := range []struct {
		at   testkit.Position
		text string
		typ  string // "": it does not compile
	}{
		{testkit.Here(), "variables.a", "int"},
		{testkit.Here(), "variables.b", "bool"},
		{testkit.Here(), "variables.b && variables.a == 2", "bool"},
		{testkit.Here(), "variables.c", ""},
		{testkit.Here(), "variables.a == 'x'", ""},
	} {
		x := l.Compile(row.text)
		if got := ""; x.Err == nil {
			if got = x.X.Type(); got != row.typ {
				t.Errorf("%s: %s: got type %s, want %s", row.at, row.text, got, row.typ)
			}
		} else if row.typ != "" {
			t.Errorf("%s: %s: %v", row.at, row.text, x.Err)
		}
	}
	// Another policy has other variables.
	if x := For(cel.AdmissionVariables{Composed: true}).With(NewComposition()).Compile("variables.a"); x.Err == nil {
		t.Error("a variable of another composition can be read")
	}
}
