package crd

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/kind"
)

// This file tests what many kinds cost, and using them while they change.

// TestConcurrent reads snapshots while kinds come and go; for the race
// detector.
func TestConcurrent(t *testing.T) {
	r := new(kind.Registry)
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				s := r.Load()
				n := 0
				for k := range s.All() {
					n++
					if s.Lookup(k.Group, k.Plural) != k {
						t.Errorf("%s is listed and not found", k.Plural)
						return
					}
				}
				if n != s.Len() {
					t.Errorf("got %d kinds, want %d", n, s.Len())
					return
				}
			}
		})
	}
	for i := range 300 {
		k := &kind.Kind{Group: "g.io", Plural: fmt.Sprint("p", i%50), UID: fmt.Sprint(i)}
		r.Put(k)
		if i%3 == 0 {
			r.Remove(k)
		}
	}
	close(stop)
	readers.Wait()
}

// TestMemory holds what a kind keeps: thousands of them have to fit. Nothing is
// compiled until it is used, and equal schemas are kept once.
func TestMemory(t *testing.T) {
	const n = 200
	for name, row := range map[string]struct {
		most   int64
		schema func(i int) string
	}{
		"equal schemas":     {4 << 10, func(int) string { return plainSchema }},
		"different schemas": {8 << 10, func(i int) string { return strings.Replace(plainSchema, "num", fmt.Sprint("num", i), 1) }},
	} {
		r, c := new(kind.Registry), new(Compiler)
		before := heap()
		for i := range n {
			k, err := c.Compile(definition(t, "widgets", fmt.Sprint("p", i), "SCHEMA", row.schema(i)))
			if err != nil {
				t.Fatal(err)
			}
			r.Put(k)
		}
		each := (heap() - before) / n
		t.Logf("%s: %d bytes each", name, each)
		if each <= 0 || each > row.most {
			t.Errorf("%s: got %d bytes a kind, want more than 0 and at most %d", name, each, row.most)
		}
		runtime.KeepAlive(r)
	}
}

// TestRefusedAtOnce holds that a schema that does not compile is an error of the
// definition, though nothing else compiles it yet.
func TestRefusedAtOnce(t *testing.T) {
	crd := definition(t)
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	for i := range 1 << 16 {
		leaf := map[string]apiextv1.JSONSchemaProps{fmt.Sprint("x", i): {Type: "string"}}
		spec.Properties[fmt.Sprint("p", i)] = apiextv1.JSONSchemaProps{Type: "object", Properties: leaf}
	}
	if _, err := Compile(crd); err != nil {
		t.Fatal(err)
	}
	compare(t, where(), texts(new(Compiler).unsupported(crd)), []string{"spec.versions: Invalid value: version v1: schema has more than 65535 kinds of objects"})
}

// TestMemoryIsCounted compiles definitions that keep much for their length, and holds that they keep no more than is counted for them.
func TestMemoryIsCounted(t *testing.T) {
	tree := "" // oneOf in oneOf
	for range 14 {
		if tree == "" {
			tree = `{"minLength":1}`
		}
		tree = `{"oneOf":[` + tree + `,` + tree + `]}`
	}
	deep := `{"type":"string"}`
	for range 480 {
		deep = `{"type":"object","properties":{"a":` + deep + `}}`
	}
	many := strings.Repeat(`,"p%d":{"type":"integer"}`, 1)
	var members, rules strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&members, many, i)
		fmt.Fprintf(&rules, `,{"rule":"self > %d"}`, i)
	}
	for name, schema := range map[string]string{
		"branches in branches": `{"type":"object","properties":{"a":{"type":"string","oneOf":[` + tree + `]}}}`,
		"levels":               deep,
		"members":              `{"type":"object","properties":{"a":{"type":"string"}` + members.String() + `}}`,
		"rules":                `{"type":"object","properties":{"a":{"type":"integer","x-kubernetes-validations":[{"rule":"self > 1"}` + rules.String() + `]}}}`,
	} {
		d := definition(t, "SCHEMA", schema)
		raw, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		before := heap()
		k, err := new(Compiler).Compile(d)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := k.Storage.Schema.Load(); err != nil { // compiles all of it
			t.Fatalf("%s: %v", name, err)
		}
		k.Storage.Structural()
		kept, counted := heap()-before, Memory(raw)
		t.Logf("%s: %d bytes keep %.1f MB, %.1f MB are counted", name, len(raw), float64(kept)/1e6, float64(counted)/1e6)
		if kept > counted {
			t.Errorf("%s: %d bytes keep %d, and only %d are counted", name, len(raw), kept, counted)
		}
		runtime.KeepAlive(k)
		runtime.KeepAlive(d)
	}
}
