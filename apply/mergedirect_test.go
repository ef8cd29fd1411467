package apply

import (
	"strings"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/fastpath"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
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

// confirms reports whether Confirm takes a patch for one that changes nothing. It
// must come to what decoding makes of what Apply does.
func confirms(t testing.TB, m *Manager, program *schema.Program, live *jsondoc.Doc, patch string, o Options) bool {
	t.Helper()
	config, will, got, want := new(jsondoc.Doc), new(jsondoc.Doc), new(jsondoc.Doc), new(jsondoc.Doc)
	if err := jsondoc.Parse(config, []byte(patch)); err != nil {
		t.Fatal(err)
	}
	decode(t, program, will, patch)
	if !m.Confirm(live, config, will, got, o) {
		return false
	}
	merged, err := m.Apply(live, []byte(patch), o)
	if err != nil {
		t.Fatal(err)
	}
	decode(t, program, want, string(merged))
	if g, w := string(got.Root().AppendJSON(nil)), string(want.Root().AppendJSON(nil)); g != w {
		t.Errorf("%s confirms\n%s\nand plainly is\n%s", patch, g, w)
	}
	return true
}

func TestConfirm(t *testing.T) {
	fastpath.Confirm.Need(t)
	m, program := routes(t)
	first, err := m.Apply(nil, []byte(route), Options{Manager: "m", Time: at})
	if err != nil {
		t.Fatal(err)
	}
	live := new(jsondoc.Doc)
	decode(t, program, live, string(first))
	live.Set(live.NewString("u"), "metadata", "uid")
	minimal := `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","metadata":{"name":"http-app-1","namespace":"default"`
	later := at.Add(time.Minute)
	short := strings.Replace(route, `"group":"gateway.networking.k8s.io","kind":"Gateway",`, "", 1)
	for _, test := range []struct {
		manager, patch string
		force, want    bool
	}{
		{"m", route, false, true},
		{"other", route, false, true},
		{"m", short, false, true},      // what the schema fills in is not said
		{"other", short, false, false}, // so the list is another one: a conflict
		{"other", short, true, true},
		{"other", minimal + `}}`, false, true},
		{"other", minimal + `,"labels":{"app":"store"}}}`, false, true},
		{"other", minimal + `,"labels":{"app":null}}}`, false, false},
		{"other", minimal + `,"labels":{"app":"other"}}}`, true, false},
		{"other", minimal + `,"labels":{"mine":"x"}}}`, true, false},
		{"other", minimal + `,"managedFields":null}}`, true, false},
		{"m", minimal + `}}`, true, false}, // which gives everything up
		{"m", strings.Replace(route, "8080", "9090", 1), true, false},
		{"m", strings.Replace(route, `"foo.example.com"`, `"foo.example.com","foo.example.com"`, 1), true, false},
		{"m", strings.Replace(route, "HTTPRoute", "GRPCRoute", 1), true, false},
		{"kubectl", strings.Replace(route, `"annotations":{`, `"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}",`, 1), true, false},
	} {
		if got := confirms(t, m, program, live, test.patch, Options{Manager: test.manager, Time: later, Force: test.force}); got != test.want {
			t.Errorf("%s applies %s, force %v: confirmed %v, want %v", test.manager, test.patch, test.force, got, test.want)
		}
	}
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
