package crd

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/testcrds"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file measures what many real kinds cost.

// realDefinitions are the definitions of a family, as JSON.
func realDefinitions(tb testing.TB, family string) [][]byte {
	tb.Helper()
	var out [][]byte
	for _, f := range testcrds.Families() {
		if !strings.HasPrefix(f.Name, family) {
			continue
		}
		docs, err := testcrds.CRDs(f)
		if err != nil {
			tb.Skip(err)
		}
		for _, d := range docs {
			text, err := yaml.YAMLToJSON(d.YAML)
			if err != nil {
				tb.Fatal(err)
			}
			out = append(out, text)
		}
	}
	return out
}

// copyOf is the i-th copy of a definition, in a group of its own.
func copyOf(tb testing.TB, text []byte, i int) *apiextv1.CustomResourceDefinition {
	tb.Helper()
	crd := new(apiextv1.CustomResourceDefinition)
	if err := json.Unmarshal(text, crd); err != nil {
		tb.Fatal(err)
	}
	crd.Spec.Group = fmt.Sprintf("g%d.example.org", i)
	crd.Name = crd.Spec.Names.Plural + "." + crd.Spec.Group
	Default(crd)
	return crd
}

// BenchmarkKinds makes 2,000 kinds of real definitions under other groups. It
// reports the time to compile and put one, what one keeps until it is used, and
// what each different definition keeps: idle, and once all versions were used.
func BenchmarkKinds(b *testing.B) {
	const n = 2000
	for _, family := range []string{"gateway-standard", "cert-manager", "prometheus-operator"} {
		b.Run(family, func(b *testing.B) {
			texts := realDefinitions(b, family)
			for b.Loop() {
				b.StopTimer()
				empty := heap()
				r, c := new(kind.Registry), new(Compiler)
				var idle int64
				for i := range n {
					if i == len(texts) {
						idle = heap() - empty
					}
					crd := copyOf(b, texts[i%len(texts)], i)
					b.StartTimer()
					k, err := c.Compile(crd)
					if err != nil {
						b.Fatal(err)
					}
					r.Put(k)
					b.StopTimer()
				}
				all := heap() - empty
				for k := range r.Load().All() {
					if err := k.Load(); err != nil {
						b.Fatal(err)
					}
				}
				used := heap() - empty
				b.ReportMetric(float64(all)/n, "B/kind")
				b.ReportMetric(float64(idle)/float64(len(texts)), "B/idle-definition")
				b.ReportMetric(float64(used-all)/float64(len(texts)), "B/used-definition")
				runtime.KeepAlive(r)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n, "µs/kind")
		})
	}
}

// heap returns the bytes of the heap that are in use, once nothing more is freed: pools and finalizers of earlier tests take
// several collections.
func heap() int64 {
	used := int64(math.MaxInt64)
	for {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if int64(m.HeapAlloc) >= used {
			return used
		}
		used = int64(m.HeapAlloc)
	}
}

func httpRoute(b *testing.B) []byte {
	b.Helper()
	for _, f := range testcrds.Families() {
		if f.Name != "gateway-standard" {
			continue
		}
		text, err := testcrds.CRD(f, "httproutes.gateway.networking.k8s.io")
		if err != nil {
			b.Fatal(err)
		}
		if text, err = yaml.YAMLToJSON(text); err != nil {
			b.Fatal(err)
		}
		return text
	}
	b.Fatal("no definition")
	return nil
}

// BenchmarkDefinition measures what the way of a large definition costs.
func BenchmarkDefinition(b *testing.B) {
	text := httpRoute(b)
	crd, err := Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	Default(crd)
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			if _, err := Parse(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("validate", func(b *testing.B) {
		for b.Loop() {
			if errs := Validate(crd); len(errs) > 0 {
				b.Fatal(errs)
			}
		}
	})
	v := new(Compiler).Definitions().Storage
	b.Run("create", func(b *testing.B) {
		d := jsondoc.Get()
		defer d.Release()
		for b.Loop() {
			if _, err := v.Decode(d, text); err != nil {
				b.Fatal(err)
			}
			v.PrepareCreate(d)
			if r := v.Validate(context.Background(), d, nil, schema.Whole); len(r.Errors) > 0 {
				b.Fatal(r.Errors)
			}
			raw, err := v.Encode(d, nil)
			if err != nil {
				b.Fatal(err)
			}
			stored, err := Parse(raw)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := Compile(stored); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("compile", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Compile(crd); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPut measures that adding a kind costs the same among few and many.
func BenchmarkPut(b *testing.B) {
	for _, n := range []int{10, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := new(kind.Registry)
			for i := range n {
				r.Put(&kind.Kind{Group: "g.io", Plural: fmt.Sprint("p", i)})
			}
			k := &kind.Kind{Group: "g.io", Plural: "p5"}
			b.ReportAllocs()
			for b.Loop() {
				r.Put(k)
			}
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	r := new(kind.Registry)
	for i := range 2000 {
		r.Put(&kind.Kind{Group: "gateway.networking.k8s.io", Plural: fmt.Sprint("p", i)})
	}
	b.ReportAllocs()
	for b.Loop() {
		if r.Load().Lookup("gateway.networking.k8s.io", "p1234") == nil {
			b.Fatal("gone")
		}
	}
}
