package crd

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file tests that definitions read as outlines are served as those that
// are read completely.

// storedText is a definition as a server stores it, established.
func storedText(tb testing.TB, crd *apiextv1.CustomResourceDefinition) []byte {
	tb.Helper()
	crd.APIVersion, crd.Kind = apiextv1.SchemeGroupVersion.String(), "CustomResourceDefinition"
	crd.UID, crd.Generation = "6b1c", 3
	crd.Status.AcceptedNames, crd.Status.StoredVersions = crd.Spec.Names, []string{crd.Spec.Versions[0].Name}
	SetCondition(crd, apiextv1.CustomResourceDefinitionCondition{
		Type: apiextv1.Established, Status: apiextv1.ConditionTrue, Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
	}, time.Unix(1_700_000_000, 0))
	text, err := json.Marshal(crd)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// betaText is a definition as it is stored today, in v1beta1.
func betaText(tb testing.TB, v1 []byte) []byte {
	tb.Helper()
	d := new(jsondoc.Doc)
	if err := jsondoc.Parse(d, v1); err != nil {
		tb.Fatal(err)
	}
	text, err := encodeBeta(d)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// TestHeavyOutline holds outlines of real definitions against their plain twins: the
// same but for the schemas, and the same schemas when somebody asks.
func TestHeavyOutline(t *testing.T) {
	c := new(Compiler)
	for _, family := range []string{"gateway-standard", "cert-manager", "prometheus-operator"} {
		for i, text := range realDefinitions(t, family) {
			raw := betaText(t, storedText(t, copyOf(t, text, i)))
			if i%2 == 0 {
				raw = storedText(t, copyOf(t, text, i))
			}
			outline, err := c.ParseStored(raw)
			if err != nil || !outline.Outline {
				t.Fatalf("%s %d is not read as an outline: %v", family, i, err)
			}
			whole, err := Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			lazy, err := c.CompileStored(outline)
			if err != nil {
				t.Fatal(err)
			}
			eager, err := c.Compile(whole)
			if err != nil {
				t.Fatal(err)
			}
			for j, v := range lazy.All {
				if v.Structural() == nil || v.Structural() != eager.All[j].Structural() {
					t.Errorf("%s %s: the schema differs", whole.Name, v.Name)
				}
				if got, want := v.Schema.String(), eager.All[j].Schema.String(); got != want {
					t.Errorf("%s %s: compiled to\n%s\nwant\n%s", whole.Name, v.Name, got, want)
				}
			}
			for j := range whole.Spec.Versions {
				whole.Spec.Versions[j].Schema, outline.Definition.Spec.Versions[j].Schema = nil, nil
			}
			if !equality.Semantic.DeepEqual(whole, outline.Definition) {
				t.Errorf("%s: got %+v, want %+v", whole.Name, outline.Definition, whole)
			}
		}
	}
}

// TestOutlineOnlyIfTrusted holds that schemas that no server may have checked are
// read at once.
func TestOutlineOnlyIfTrusted(t *testing.T) {
	for _, row := range []struct {
		where  string
		change func(crd *apiextv1.CustomResourceDefinition)
		raw    string
		want   bool
	}{
		{where: where(), want: true},
		{where: where(), change: func(crd *apiextv1.CustomResourceDefinition) { crd.Status.Conditions = nil }},
		{where: where(), change: func(crd *apiextv1.CustomResourceDefinition) { crd.APIVersion = betaVersion }}, // fields are kept
		{where: where(), change: func(crd *apiextv1.CustomResourceDefinition) { crd.Spec.PreserveUnknownFields = true }},
		{where: where(), change: func(crd *apiextv1.CustomResourceDefinition) {
			SetCondition(crd, apiextv1.CustomResourceDefinitionCondition{Type: apiextv1.NonStructuralSchema, Status: apiextv1.ConditionTrue}, time.Time{})
		}},
		{where: where(), raw: `{"spec":{"versions":[{"name":"a","schema":{"openAPIV3Schema":{}},"schema":{}}]}}`},
	} {
		crd := new(apiextv1.CustomResourceDefinition)
		if err := json.Unmarshal(storedText(t, definition(t)), crd); err != nil {
			t.Fatal(err)
		}
		if row.change != nil {
			row.change(crd)
		}
		raw, err := json.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		if row.raw != "" {
			raw = []byte(row.raw)
		}
		got, err := new(Compiler).ParseStored(raw)
		if err != nil {
			t.Errorf("%s: %v", row.where, err)
		} else if got.Outline != row.want {
			t.Errorf("%s: got outline %v, want %v", row.where, got.Outline, row.want)
		}
	}
}

// FuzzOutline holds that whatever is read as an outline is the same definition
// when it is read completely.
func FuzzOutline(f *testing.F) {
	f.Add(storedText(f, definition(f)))
	f.Add(betaText(f, storedText(f, definition(f))))
	f.Add([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}}}]},"status":{"conditions":[{"type":"Established","status":"True"}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, ok := separate(raw)
		if !ok {
			return
		}
		outline := p.outline()
		if outline == nil {
			return
		}
		whole, err := Parse(raw)
		if err != nil {
			return // the schema itself cannot be read: found out when it is used
		}
		for i := range whole.Spec.Versions {
			whole.Spec.Versions[i].Schema, outline.Definition.Spec.Versions[i].Schema = nil, nil
		}
		if !equality.Semantic.DeepEqual(whole, outline.Definition) {
			t.Errorf("got %+v\nwant %+v", outline.Definition, whole)
		}
	})
}

// TestHeavyIdleMemory holds what a definition keeps that nobody uses, besides its
// text, which the cache has anyway.
func TestHeavyIdleMemory(t *testing.T) {
	const most = 8 << 10
	texts := realDefinitions(t, "prometheus-operator")
	raws := make([][]byte, len(texts))
	for i, text := range texts {
		raws[i] = betaText(t, storedText(t, copyOf(t, text, i)))
	}
	var kinds []*kind.Kind
	c, before := new(Compiler), int64(0)
	for i := range 30 * len(raws) {
		if i == 10*len(raws) { // by now the pools hold what they will
			kinds = nil
			before = heap()
		}
		s, err := c.ParseStored(raws[i%len(raws)])
		if err != nil {
			t.Fatal(err)
		}
		k, err := c.CompileStored(s)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, k)
	}
	each := (heap() - before) / int64(len(kinds))
	t.Logf("%d bytes each", each)
	if each < 1<<10 || each > most {
		t.Errorf("got %d bytes for an idle definition, want 1 KB to %d", each, most)
	}
	runtime.KeepAlive(kinds)
	runtime.KeepAlive(raws)
}

// BenchmarkStart reads and compiles stored definitions as a server does when it
// starts, and completely.
func BenchmarkStart(b *testing.B) {
	for _, family := range []string{"cert-manager", "prometheus-operator"} {
		var raws [][]byte
		size := 0
		for i, text := range realDefinitions(b, family) {
			raw := betaText(b, storedText(b, copyOf(b, text, i)))
			raws, size = append(raws, raw), size+len(raw)
		}
		c := new(Compiler)
		run := func(name string, parse func(raw []byte) (*Stored, error)) {
			b.Run(fmt.Sprintf("%s/%d/%s", family, len(raws), name), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					for _, raw := range raws {
						s, err := parse(raw)
						if err != nil {
							b.Fatal(err)
						}
						if _, err := c.CompileStored(s); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
		run("outline", c.ParseStored)
		run("whole", func(raw []byte) (*Stored, error) {
			crd, err := Parse(raw)
			return &Stored{Definition: crd}, err
		})
	}
}
