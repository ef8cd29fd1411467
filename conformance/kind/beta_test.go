package kind

import (
	"encoding/json"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"

	"github.com/keelson-io/keelson/crd"
)

// This file compares the conversion between the versions of definitions, which
// upstream has although it serves v1 only.

// Ledger: definitions-v1beta1.
func TestBeta(t *testing.T) {
	k := new(crd.Compiler).Definitions()
	r, seed := source(t)
	_ = r
	for n := range 300 {
		g := newMaker(seed, n)
		def := g.definition()
		def.Name = "widgets.example.org"
		internal, beta := new(apiextensions.CustomResourceDefinition), new(v1beta1.CustomResourceDefinition)
		if err := scheme.Convert(def, internal, nil); err != nil {
			t.Fatal(err)
		}
		if err := scheme.Convert(internal, beta, nil); err != nil {
			t.Fatal(err)
		}
		beta.APIVersion, beta.Kind = "apiextensions.k8s.io/v1beta1", "CustomResourceDefinition"
		text := []byte(pretty(t, def))
		got, err := k.Convert(text, "v1beta1")
		if err != nil {
			t.Fatal(err)
		}
		read := new(v1beta1.CustomResourceDefinition)
		if err := json.Unmarshal(got, read); err != nil {
			t.Fatal(err)
		}
		if a, b := pretty(t, read), pretty(t, beta); a != b {
			t.Fatalf("-seed=%d number %d: to v1beta1:\n     got %s\nupstream %s", seed, n, a, b)
		}
		back, err := k.Convert(got, "v1")
		if err != nil {
			t.Fatal(err)
		}
		again := new(apiextv1.CustomResourceDefinition)
		if err := json.Unmarshal(back, again); err != nil {
			t.Fatal(err)
		}
		if a, b := pretty(t, again), pretty(t, theirBeta(t, got)); a != b {
			t.Fatalf("-seed=%d number %d: back to v1:\n     got %s\nupstream %s", seed, n, a, b)
		}
	}
}
