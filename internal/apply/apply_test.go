package apply

import (
	"fmt"
	"testing"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/testcrds"
	"github.com/keelson-io/keelson/jsondoc"
	kschema "github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file tests the direct walks against SMD and measures them.

// route is a kind as real clients have it, 928 bytes of it.
const route = `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","metadata":{"name":"http-app-1","namespace":"default","labels":{"app":"store","tier":"edge"},"annotations":{"example.com/owner":"team-a"}},"spec":{"hostnames":["foo.example.com","bar.example.com"],"parentRefs":[{"group":"gateway.networking.k8s.io","kind":"Gateway","name":"my-gateway","sectionName":"https"}],"rules":[{"backendRefs":[{"group":"","kind":"Service","name":"my-service1","port":8080,"weight":1}],"matches":[{"path":{"type":"PathPrefix","value":"/bar"}}]},{"backendRefs":[{"group":"","kind":"Service","name":"my-service2","port":8080,"weight":1}],"filters":[{"requestHeaderModifier":{"add":[{"name":"my-header","value":"foo"}]},"type":"RequestHeaderModifier"}],"matches":[{"headers":[{"name":"magic","type":"Exact","value":"foo"}],"method":"GET","path":{"type":"PathPrefix","value":"/some/thing"},"queryParams":[{"name":"great","type":"Exact","value":"example"}]}]}]}}`

// routes returns the Manager of HTTPRoutes and their compiled schema.
func routes(t testing.TB) (*Manager, *kschema.Program) {
	t.Helper()
	text, err := testcrds.CRD(testcrds.Families()[0], "httproutes.gateway.networking.k8s.io")
	if err != nil {
		t.Skipf("no definition of HTTPRoute: %v", err)
	}
	var crd apiextv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	c := Config{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind, Version: "v1"}
	var program *kschema.Program
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		s, errs := structural.Parse(v.Schema.OpenAPIV3Schema, nil)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		c.Versions = append(c.Versions, Version{Name: v.Name, Schema: s, Status: true})
		if v.Name == "v1" {
			dropRules(s)
			if program, err = kschema.Compile(s, kschema.Options{Resource: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m, program
}

// dropRules takes the rules from a schema: they have no say in decoding.
func dropRules(s *structural.Schema) {
	if s == nil {
		return
	}
	s.Rules = nil
	for _, p := range s.Properties {
		dropRules(p)
	}
	dropRules(s.Items)
	dropRules(s.Additional)
}

func decode(t testing.TB, p *kschema.Program, d *jsondoc.Doc, text string) {
	t.Helper()
	d.Reset(p.Shapes())
	if _, err := p.Decode(d, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// both runs an update directly and through SMD and returns the outcomes.
func both(t testing.TB, m *Manager, live *jsondoc.Doc, fresh func() *jsondoc.Doc, o Options) (direct, plain string) {
	t.Helper()
	d := fresh()
	if !m.updateDirect(live, d, &o) {
		t.Fatal("the direct way was not taken")
	}
	p := fresh()
	m.updatePlain(live, p, &o)
	return string(d.Root().AppendJSON(nil)), string(p.Root().AppendJSON(nil))
}

func TestDirectEqualsPlainOnRoutes(t *testing.T) {
	m, program := routes(t)
	fresh := func() *jsondoc.Doc {
		d := new(jsondoc.Doc)
		decode(t, program, d, route)
		return d
	}
	o := Options{Manager: "m", Time: at}
	direct, plain := both(t, m, nil, fresh, o)
	if direct != plain {
		t.Fatalf("create:\ndirect %s\nplain  %s", direct, plain)
	}
	live := new(jsondoc.Doc)
	decode(t, program, live, direct)
	live.Set(live.NewString("u"), "metadata", "uid")
	for i, change := range []func(d *jsondoc.Doc){
		func(d *jsondoc.Doc) {},
		func(d *jsondoc.Doc) { d.Set(d.NewStrings([]string{"x.example.com"}), "spec", "hostnames") },
		func(d *jsondoc.Doc) { d.Remove("metadata", "labels") },
		func(d *jsondoc.Doc) { d.Remove("spec", "rules"); d.Set(d.NewString("b"), "metadata", "labels", "tier") },
		func(d *jsondoc.Doc) { d.Set(d.NewString("new"), "metadata", "annotations", "z") },
	} {
		for _, manager := range []string{"m", "other"} {
			fresh := func() *jsondoc.Doc {
				d := new(jsondoc.Doc)
				decode(t, program, d, direct)
				d.Set(d.NewString("u"), "metadata", "uid")
				change(d)
				return d
			}
			for _, sound := range []bool{false, true} {
				got, want := both(t, m, live, fresh, Options{Manager: manager, Time: at.Add(time.Hour), KnownValid: sound})
				if got != want {
					t.Errorf("update %d by %s, sound %v:\ndirect %s\nplain  %s", i, manager, sound, got, want)
				}
			}
		}
	}
}

func TestManagerName(t *testing.T) {
	for _, test := range []struct{ manager, agent, want string }{
		{"m", "kubectl/v1", "m"},
		{"", "kubectl/v1.37 (linux)", "kubectl"},
		{"", "a\x00b", "ab"},
		{"", "", ""},
		{"", fmt.Sprintf("%0200d/x", 0), fmt.Sprintf("%0128d", 0)},
	} {
		if got := ManagerName(test.manager, test.agent); got != test.want {
			t.Errorf("ManagerName(%q, %q) = %q, want %q", test.manager, test.agent, got, test.want)
		}
	}
}

func BenchmarkCreate(b *testing.B) { benchmark(b, false, (*Manager).updateDirectB) }

func BenchmarkCreatePlain(b *testing.B) { benchmark(b, false, (*Manager).updatePlain) }

func BenchmarkUpdate(b *testing.B) { benchmark(b, true, (*Manager).updateDirectB) }

func BenchmarkUpdatePlain(b *testing.B) { benchmark(b, true, (*Manager).updatePlain) }

func (m *Manager) updateDirectB(live, new *jsondoc.Doc, o *Options) { m.updateDirect(live, new, o) }

func benchmark(b *testing.B, update bool, run func(*Manager, *jsondoc.Doc, *jsondoc.Doc, *Options)) {
	m, program := routes(b)
	o := Options{Manager: "m", Time: at}
	var live *jsondoc.Doc
	text := route
	if update {
		live = new(jsondoc.Doc)
		decode(b, program, live, route)
		m.updateDirect(nil, live, &o)
		text = string(live.Root().AppendJSON(nil))
		decode(b, program, live, text)
		live.Set(live.NewString("u"), "metadata", "uid")
	}
	d := new(jsondoc.Doc)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		decode(b, program, d, text)
		if update {
			d.Set(d.NewStrings([]string{"x.example.com"}), "spec", "hostnames")
		}
		b.StartTimer()
		run(m, live, d, &o)
	}
}

func BenchmarkApply(b *testing.B) {
	m, program := routes(b)
	live := new(jsondoc.Doc)
	first, err := m.Apply(nil, []byte(route), Options{Manager: "m", Time: at})
	if err != nil {
		b.Fatal(err)
	}
	decode(b, program, live, string(first))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Apply(live, []byte(route), Options{Manager: "m", Time: at}); err != nil {
			b.Fatal(err)
		}
	}
}
