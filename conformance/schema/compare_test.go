package schema_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/testcrds"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file runs both implementations over the definitions of three projects.

var (
	seed   = flag.Uint64("seed", 1, "seed of the generator")
	rounds = flag.Int("rounds", 60, "objects for each definition")
	only   = flag.String("only", "", "part of the name of the definitions to try")
)

// pair is one schema in both implementations.
type pair struct {
	name string
	up   *upstream
	own  *schema.Program

	valid, invalid, warned int // what upstream said
}

// seen counts verdicts, so that a test can tell that it compared something.
func (p *pair) seen(errs, warnings []string) {
	if len(errs) == 0 {
		p.valid++
	} else {
		p.invalid++
	}
	if len(warnings) > 0 {
		p.warned++
	}
}

func newPair(t testing.TB, name string, s *apiextv1.JSONSchemaProps) *pair {
	t.Helper()
	return newPairOf(t, name, s, false)
}

// newPairOf is newPair for a definition that may preserve unknown fields.
func newPairOf(t testing.TB, name string, s *apiextv1.JSONSchemaProps, preserve bool) *pair {
	t.Helper()
	up, err := newUpstream(s)
	if err != nil {
		t.Fatalf("%s: upstream: %v", name, err)
	}
	up.preserve = preserve
	parsed, errs := structural.Parse(s, field.NewPath("schema"))
	if len(errs) > 0 {
		t.Fatalf("%s: %v", name, errs)
	}
	env, err := cel.NewEnv(cel.EnvOptions{Stored: true})
	if err != nil {
		t.Fatal(err)
	}
	own, err := schema.Compile(parsed, schema.Options{Resource: true, Env: env, PreserveUnknown: preserve})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return &pair{name: name, up: up, own: own}
}

// check compares everything that both say about src, with an old object if
// there is one, and returns the normalised object.
func (p *pair) check(t testing.TB, src, oldSrc []byte, status bool) {
	t.Helper()
	p.checkStored(t, src)
	obj, strict, upErr := p.up.decode(src, false)
	d := jsondoc.Get()
	defer d.Release()
	found, err := p.own.Decode(d, src)
	if (upErr == nil) != (err == nil) {
		t.Errorf("%s: decode: upstream %v, got %v\n%s", p.name, upErr, err, src)
		return
	}
	if err != nil {
		if want, got := upErr.Error(), err.Error(); want != got && strings.Count(string(src), `"metadata"`) < 3 {
			t.Errorf("%s: decode:\nupstream %s\n     got %s\n%s", p.name, want, got, src)
		}
		return
	}
	if want, got := mustJSON(obj), string(d.Root().AppendJSON(nil)); want != got {
		t.Errorf("%s: normalised:\nsource   %s\nupstream %s\n     got %s", p.name, src, want, got)
		return
	}
	if (found != 0) != (len(strict) > 0) {
		t.Errorf("%s: found %d, upstream says %q\n%s", p.name, found, strict, src)
	}
	if got := jsondoc.StrictTexts(p.own.Strict(src)); !slices.Equal(got, strict) {
		t.Errorf("%s: strict:\nupstream %q\n     got %q\n%s", p.name, strict, got, src)
	}
	var old map[string]any
	var oldDoc *jsondoc.Doc
	if oldSrc != nil {
		if old, _, upErr = p.up.decode(oldSrc, false); upErr != nil {
			return
		}
		oldDoc = jsondoc.Get()
		defer oldDoc.Release()
		if _, err := p.own.Decode(oldDoc, oldSrc); err != nil {
			t.Errorf("%s: old: %v", p.name, err)
			return
		}
	}
	scope := schema.Whole
	if status {
		scope = schema.Status
	}
	wantErrs, wantWarnings := p.up.validate(obj, old, status)
	p.seen(wantErrs, wantWarnings)
	r := p.own.Validate(context.Background(), d, oldDoc, scope)
	got := texts(r.Errors)
	slices.Sort(r.Warnings)
	// Upstream walks Go maps: where two members decide, either may come first.
	for range 40 {
		slices.Sort(wantWarnings)
		if slices.Equal(got, wantErrs) && slices.Equal(r.Warnings, wantWarnings) {
			break
		}
		wantErrs, wantWarnings = p.up.validate(obj, old, status)
	}
	if !slices.Equal(got, wantErrs) {
		t.Errorf("%s: errors (status %v):\n%s\nobject %s\nold    %s", p.name, status, diff(wantErrs, got), src, oldSrc)
	}
	if !slices.Equal(r.Warnings, wantWarnings) {
		t.Errorf("%s: warnings:\n%s\nobject %s\nold    %s", p.name, diff(wantWarnings, r.Warnings), src, oldSrc)
	}
}

// checkStored compares how both read src from storage.
func (p *pair) checkStored(t testing.TB, src []byte) {
	t.Helper()
	obj, _, upErr := p.up.decode(src, true)
	d := jsondoc.Get()
	defer d.Release()
	if _, err := p.own.DecodeStored(d, src); (upErr == nil) != (err == nil) {
		t.Errorf("%s: stored: upstream %v, got %v\n%s", p.name, upErr, err, src)
	} else if err == nil {
		if want, got := mustJSON(obj), string(d.Root().AppendJSON(nil)); want != got {
			t.Errorf("%s: stored:\nsource   %s\nupstream %s\n     got %s", p.name, src, want, got)
		}
	}
}

// diff lists what only one side has.
func diff(want, got []string) string {
	var b strings.Builder
	for _, w := range want {
		if !slices.Contains(got, w) {
			fmt.Fprintf(&b, "  upstream only: %s\n", w)
		}
	}
	for _, g := range got {
		if !slices.Contains(want, g) {
			fmt.Fprintf(&b, "  keelson only:  %s\n", g)
		}
	}
	for i, w := range want {
		if n, m := count(want, w), count(got, w); n != m && m > 0 && slices.Index(want, w) == i {
			fmt.Fprintf(&b, "  upstream %d times, keelson %d: %s\n", n, m, w)
		}
	}
	return b.String()
}

// definitions calls fn for every version of every definition.
func definitions(t *testing.T, rules bool, fn func(t *testing.T, p *pair, apiVersion, kind string, examples [][]byte)) {
	for _, family := range testcrds.Families() {
		if family.Name == "gateway-standard" {
			continue // the experimental channel has the same kinds and more
		}
		docs, err := testcrds.CRDs(family)
		if err != nil {
			t.Skipf("definitions are not to be had: %v", err)
		}
		found, err := testcrds.Examples(family)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			var crd apiextv1.CustomResourceDefinition
			if err := yaml.Unmarshal(d.YAML, &crd); err != nil {
				t.Fatal(err)
			}
			for _, v := range crd.Spec.Versions {
				name := crd.Name + "/" + v.Name
				if !strings.Contains(name, *only) {
					continue
				}
				t.Run(name, func(t *testing.T) {
					s := v.Schema.OpenAPIV3Schema
					if !rules {
						stripRules(s)
					}
					apiVersion := crd.Spec.Group + "/" + v.Name
					fn(t, newPair(t, name, s), apiVersion, crd.Spec.Names.Kind, examplesOf(t, found, apiVersion, crd.Spec.Names.Kind))
				})
			}
		}
	}
}

func examplesOf(t *testing.T, docs []testcrds.Doc, apiVersion, kind string) [][]byte {
	var list [][]byte
	for _, d := range docs {
		if d.APIVersion == apiVersion && d.Kind == kind {
			b, err := yaml.YAMLToJSON(d.YAML)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, b)
		}
	}
	return list
}

func stripRules(s *apiextv1.JSONSchemaProps) {
	if s == nil {
		return
	}
	s.XValidations = nil
	for name, p := range s.Properties {
		stripRules(&p)
		s.Properties[name] = p
	}
	if s.Items != nil {
		stripRules(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		stripRules(s.AdditionalProperties.Schema)
	}
}

// TestValues compares everything but rules.
func TestValues(t *testing.T) { testFamilies(t, false) }

// TestRules compares everything, rules included.
func TestRules(t *testing.T) { testFamilies(t, true) }

func testFamilies(t *testing.T, rules bool) {
	definitions(t, rules, func(t *testing.T, p *pair, apiVersion, kind string, examples [][]byte) {
		g := &generator{rand.New(rand.NewPCG(*seed, uint64(len(p.name))))}
		for i := 0; i < *rounds && !t.Failed(); i++ {
			var src []byte
			if len(examples) > 0 && i%2 == 0 {
				src = examples[g.r.IntN(len(examples))]
			} else {
				src = []byte(mustJSON(g.root(p.up.schema, apiVersion, kind)))
			}
			p.check(t, src, nil, false)
			changed := g.damaged(t, src, 1+g.r.IntN(3))
			p.check(t, changed, nil, false)
			p.check(t, changed, src, false)
			p.check(t, g.damaged(t, changed, 1), changed, false)
			p.check(t, g.damaged(t, changed, 1), changed, true)
		}
		if p.valid == 0 && *rounds > 20 || p.invalid == 0 {
			t.Errorf("nothing compared: %d valid, %d invalid objects", p.valid, p.invalid)
		}
		t.Logf("%d valid, %d invalid objects, %d with warnings", p.valid, p.invalid, p.warned)
	})
}

// damaged returns src with some damage; sometimes with a member there twice.
func (g *generator) damaged(t testing.TB, src []byte, times int) []byte {
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	v = plainNumbers(v)
	for range times {
		v = g.damage(v, true)
	}
	out := []byte(mustJSON(v))
	if g.r.IntN(10) == 0 {
		if i := bytes.LastIndexByte(out, '{'); i >= 0 && out[i+1] == '"' {
			out = slices.Insert(out, i+1, []byte(`"a":1,"name":"x","a":2,"type":"Exact",`)...)
		}
	}
	return out
}

func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	}
	return v
}

func count(list []string, text string) int {
	n := 0
	for _, item := range list {
		if item == text {
			n++
		}
	}
	return n
}
