package apply

import (
	"strings"
	"testing"
	"time"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file tests the direct way of Apply against SMD.

// bothApply runs an apply directly and through SMD.
func bothApply(t testing.TB, m *Manager, live *jsondoc.Doc, patch string, o Options) (direct, plain string) {
	t.Helper()
	config := new(jsondoc.Doc)
	if err := jsondoc.Parse(config, []byte(patch)); err != nil {
		t.Fatal(err)
	}
	merged := new(jsondoc.Doc)
	if _, ok := m.applyDirect(live, config, merged, &o); !ok {
		t.Fatalf("the direct way was not taken for %s", patch)
	}
	p, err := m.applyPlain(live, config, &o)
	if err != nil {
		t.Fatal(err)
	}
	return string(merged.Root().AppendJSON(nil)), string(p)
}

func TestDirectApplyEqualsPlain(t *testing.T) {
	m, program := routes(t)
	o := Options{Manager: "m", Time: at}
	first, plain := bothApply(t, m, nil, route, o)
	if first != plain {
		t.Fatalf("create:\ndirect %s\nplain  %s", first, plain)
	}
	live := new(jsondoc.Doc)
	decode(t, program, live, first)
	live.Set(live.NewString("u"), "metadata", "uid")
	minimal := `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","metadata":{"name":"http-app-1","namespace":"default"`
	tests := []struct{ manager, patch string }{
		{"m", route},
		{"m", strings.Replace(route, "8080", "9090", 1)},
		{"m", strings.Replace(route, `"foo.example.com"`, `"baz.example.com"`, 1)},
		{"m", strings.Replace(route, `"tier":"edge"`, `"tier":"edge","new":"label"`, 1)},
		{"m", strings.Replace(route, `"namespace":"default",`, `"namespace":"default","finalizers":["a/b","a/c"],`, 1)},
		{"other", minimal + `,"labels":{"mine":"x"}}}`},
		{"other", minimal + `,"labels":{"app":"store"}}}`},
		{"other", minimal + `}}`},
		{"other", minimal + `},"spec":{"parentRefs":[{"group":"gateway.networking.k8s.io","kind":"Gateway","name":"my-gateway","sectionName":"https"}]}}`},
	}
	for _, test := range tests {
		direct, plain := bothApply(t, m, live, test.patch, Options{Manager: test.manager, Time: at.Add(time.Minute)})
		if direct != plain {
			t.Errorf("%s applies %s:\ndirect %s\nplain  %s", test.manager, test.patch, direct, plain)
		}
	}
	// By force, from one who owns all of it, or with defaults that only the live object has.
	for _, patch := range []string{
		route,
		strings.Replace(route, "8080", "9090", 1),
		minimal + `,"labels":{"app":"mine","tier":"mine"}}}`,
		minimal + `},"spec":{"hostnames":["a.example.com"],"parentRefs":[{"name":"my-gateway"}]}}`,
	} {
		direct, plain := bothApply(t, m, live, patch, Options{Manager: "other", Time: at.Add(time.Minute), Force: true})
		if direct != plain {
			t.Errorf("other applies by force %s:\ndirect %s\nplain  %s", patch, direct, plain)
		}
	}
}

func BenchmarkApplyChange(b *testing.B) {
	m, program := routes(b)
	first, err := m.Apply(nil, []byte(route), Options{Manager: "m", Time: at})
	if err != nil {
		b.Fatal(err)
	}
	live := new(jsondoc.Doc)
	decode(b, program, live, string(first))
	patch := []byte(strings.Replace(route, "8080", "9090", 1))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Apply(live, patch, Options{Manager: "m", Time: at}); err != nil {
			b.Fatal(err)
		}
	}
}
