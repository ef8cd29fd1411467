package kind

import (
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/crd"
)

// This file makes definitions that nobody wrote, right and wrong in every part,
// and changes of them, and compares what both sides say.

var definitionsFlag = flag.Int("definitions", 0, "definitions that TestRandomDefinitions compares; 0 is as many as there is time for")

// TestRandomDefinitions compares random definitions as new ones, and random
// changes of them as updates. Of what differs it shows the smallest form.
// Ledger: old-default-errors.
func TestRandomDefinitions(t *testing.T) {
	_, seed := source(t)
	start := time.Now()
	var c verdicts
	var mu sync.Mutex
	shown := map[string]bool{}
	first := func(shape string) bool {
		mu.Lock()
		defer mu.Unlock()
		known := shown[shape]
		shown[shape] = true
		return !known && len(shown) <= 12
	}
	workers(t, func(t *testing.T, next func() int) {
		var own verdicts
		for n := next(); !stopRandom(start, n); n = next() {
			own.definition(t, seed, n, first)
		}
		mu.Lock()
		defer mu.Unlock()
		c.add(own)
	})
	t.Logf("%d definitions in %v, %d comparisons, %d of them updates: %d accepted, %d refused, %d cut off by cost; upstream panicked %d times",
		c.definitions, time.Since(start).Round(time.Second), c.all, c.updates, c.valid, c.all-c.valid-c.cut-c.panics, c.cut, c.panics)
	if c.valid == 0 || c.valid == c.all {
		t.Error("nothing compared")
	}
}

// verdicts counts what came of comparisons.
type verdicts struct{ definitions, all, updates, valid, cut, panics int }

func (v *verdicts) add(o verdicts) {
	v.definitions, v.all, v.updates = v.definitions+o.definitions, v.all+o.all, v.updates+o.updates
	v.valid, v.cut, v.panics = v.valid+o.valid, v.cut+o.cut, v.panics+o.panics
}

// definition compares the random definition of a number and changes of it. Of
// the differences whose shape is the first of its kind it shows the smallest form.
func (v *verdicts) definition(t *testing.T, seed uint64, n int, first func(shape string) bool) {
	v.definitions++
	g := newMaker(seed, n)
	def := g.definition()
	next := g.changed(def)
	for _, pair := range [][2]*apiextv1.CustomResourceDefinition{{def, nil}, {next, def}, {def, next}} {
		for _, diff := range v.compare(t, pair[0], pair[1]) {
			shape := shapeOf(diff)
			if !first(shape) {
				t.Fail()
				continue
			}
			small, old := shrink(pair[0], pair[1], func(a, b *apiextv1.CustomResourceDefinition) bool {
				return slices.ContainsFunc(new(verdicts).compare(t, a, b), func(d string) bool { return shapeOf(d) == shape })
			})
			t.Errorf("%s\n\t-seed=%d number %d\n\tnew %s\n\told %s", diff, seed, n, pretty(t, small), pretty(t, old))
		}
	}
}

// left is crd as upstream's checks leave it: without what metadata has not got in
// the defaults of embedded resources.
func left(t *testing.T, def *apiextv1.CustomResourceDefinition) *apiextv1.CustomResourceDefinition {
	t.Helper()
	internal, out := new(apiextensions.CustomResourceDefinition), new(apiextv1.CustomResourceDefinition)
	if err := scheme.Convert(def.DeepCopy(), internal, nil); err != nil {
		t.Fatal(err)
	}
	validation.ValidateCustomResourceDefinition(context.Background(), internal)
	if err := scheme.Convert(internal, out, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

const cutOff = "no further validation rules will be run"

// compare lists the differences.
func (v *verdicts) compare(t *testing.T, def, old *apiextv1.CustomResourceDefinition) []string {
	v.all++
	if old != nil {
		v.updates++
	}
	want, panicked := try(func() field.ErrorList { return theirs(t, def, old) })
	got := ours(def, old)
	switch {
	case panicked:
		v.panics++ // some of it is too much for upstream; we must only survive it
		return nil
	case has(want, cutOff):
		v.cut++ // which default is the last one looked at depends on the order of a Go map
		if !has(got, cutOff) {
			return []string{"theirs only: the budget of defaults is used up"}
		}
		return nil
	case has(want, "must not be used inside of resource meta"):
		return nil // refused; what else is said of its defaults differs, see the ledger
	case has(want, "must be object if parent array's x-kubernetes-list-type is map"):
		return nil // refused; whether such lists are equal in rules of defaults differs, see the ledger
	case len(want) == 0:
		v.valid++
	}
	differ := compare(got, want)
	// Upstream walks Go maps: where two members decide, either may come first.
	for try := 0; len(differ) > 0 && try < 10; try++ {
		differ = compare(got, theirs(t, def, old))
	}
	if len(differ) > 0 {
		differ = compare(ours(left(t, def), old), want) // upstream changes defaults before it shows them, see the ledger
	}
	if old != nil && defaultsInMetadata(old) {
		differ = slices.DeleteFunc(differ, func(d string) bool { return strings.HasSuffix(d, ": must not have unknown fields") }) // see the ledger
	}
	return differ
}

// defaultsInMetadata reports whether there is a default in the metadata of a
// resource.
func defaultsInMetadata(def *apiextv1.CustomResourceDefinition) bool {
	var below func(s *apiextv1.JSONSchemaProps, meta bool) bool
	below = func(s *apiextv1.JSONSchemaProps, meta bool) bool {
		if s == nil {
			return false
		}
		if meta && s.Default != nil || s.Items != nil && below(s.Items.Schema, meta) || s.AdditionalProperties != nil && below(s.AdditionalProperties.Schema, meta) {
			return true
		}
		for name, p := range s.Properties {
			if below(&p, meta || name == "metadata") {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(def.Spec.Versions, func(v apiextv1.CustomResourceDefinitionVersion) bool {
		return v.Schema != nil && below(v.Schema.OpenAPIV3Schema, false)
	})
}

var (
	differsIn = regexp.MustCompile(`^(ours|theirs) only: +\w+ `)
	anyPath   = regexp.MustCompile(`^[^:]*: `)
	anyValue  = regexp.MustCompile(`"[^"]*"|\d+|\{.*\}|\[.*\]`)
)

// shapeOf is what a difference says without where and of what.
func shapeOf(diff string) string {
	head := differsIn.FindString(diff)
	path := anyPath.FindString(diff[len(head):])
	return head + path[strings.LastIndexByte(path, '.')+1:] + anyValue.ReplaceAllString(diff[len(head)+len(path):], "X")
}

func stopRandom(start time.Time, n int) bool {
	if *definitionsFlag > 0 {
		return n >= *definitionsFlag
	}
	limit := *budget
	if limit == 0 {
		limit = 10 * time.Second
	}
	return time.Since(start) > limit
}

// maker makes definitions.
type maker struct {
	r    *rand.Rand
	calm int // how much rarer than usual mistakes are
}

func newMaker(seed uint64, n int) *maker {
	return &maker{rand.New(rand.NewPCG(seed, uint64(n))), []int{1, 4, 20}[n%3]}
}

func (g *maker) one(n int) bool { return g.r.IntN(n) == 0 }

func pick[T any](g *maker, of ...T) T { return of[g.r.IntN(len(of))] }

// mistake is one time in n, or less if it is calm.
func (g *maker) mistake(n int) bool { return g.one(n * g.calm) }

// maybe is a value or, by a mistake one time in n, another one.
func maybe[T any](g *maker, n int, value T, others ...T) T {
	if g.mistake(n) {
		return pick(g, others...)
	}
	return value
}

func (g *maker) definition() *apiextv1.CustomResourceDefinition {
	def := new(apiextv1.CustomResourceDefinition)
	def.APIVersion, def.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	spec := &def.Spec
	spec.Group = maybe(g, 12, "example.org", "", "org", "x.k8s.io", "kubernetes.io", "Example.org")
	spec.Names = apiextv1.CustomResourceDefinitionNames{Plural: maybe(g, 20, "widgets", "", "Widgets", "other"), Kind: maybe(g, 20, "Widget", "", "wi_dget", "WidgetList")}
	if g.mistake(8) {
		spec.Names.Singular = pick(g, "widget", "W", "a.b")
		spec.Names.ListKind = pick(g, "Widgets", "Widget", "x y")
		spec.Names.ShortNames = pick(g, []string{"w"}, []string{"w", "W"}, []string{""})
		spec.Names.Categories = pick(g, []string{"all"}, []string{"All", ""})
	}
	spec.Scope = maybe(g, 15, apiextv1.NamespaceScoped, "Cluster", "", "Odd")
	def.Name = maybe(g, 15, spec.Names.Plural+"."+spec.Group, "widgets.example.org", "", "x_y")
	if g.mistake(15) {
		def.GenerateName = "widgets."
	}
	def.Annotations = pick(g, nil, nil, nil, map[string]string{"api-approved.kubernetes.io": pick(g, "https://x.example/1", "unapproved, just a test", "odd", "")})
	if g.mistake(20) {
		def.Labels = pick(g, map[string]string{"a": "-", "b": "-"}, map[string]string{"a": "b"})
	}
	spec.PreserveUnknownFields = g.mistake(30)
	for i := range 1 + g.r.IntN(3)*g.r.IntN(2) {
		spec.Versions = append(spec.Versions, g.version(i))
	}
	g.alike(spec)
	spec.Conversion = g.conversion()
	if g.mistake(10) {
		def.Status.StoredVersions = pick(g, []string{"v1"}, []string{"v0", "v1"}, []string{"v1", "v1"}, []string{"v2"})
	}
	if g.mistake(20) {
		def.Status.AcceptedNames = apiextv1.CustomResourceDefinitionNames{Plural: "-", Kind: "K", ListKind: "K", Categories: []string{"A"}}
	}
	return g.settled(def)
}

// settled is crd as it comes out of JSON, defaulted.
func (g *maker) settled(def *apiextv1.CustomResourceDefinition) *apiextv1.CustomResourceDefinition {
	text, err := json.Marshal(def)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	out := new(apiextv1.CustomResourceDefinition)
	if err := json.Unmarshal(text, out); err != nil {
		panic("BUG: " + err.Error())
	}
	crd.Default(out)
	if g.mistake(40) && len(out.Spec.Versions) > 0 {
		out.Status.StoredVersions = nil
	}
	return out
}

func (g *maker) version(i int) apiextv1.CustomResourceDefinitionVersion {
	v := apiextv1.CustomResourceDefinitionVersion{
		Name:   maybe(g, 20, []string{"v1", "v2", "v3"}[i], "V1", "", "v1", "1"),
		Served: !g.one(6), Storage: maybe(g, 20, i == 0, true, false),
		Deprecated: g.one(6),
	}
	if g.mistake(8) {
		v.DeprecationWarning = new(pick(g, "old", "", "a\x01b", "é\u00a0x", strings.Repeat("x", 257), "bell\a", "\ufffd", "two\nlines"))
	}
	if !g.mistake(25) {
		v.Schema = &apiextv1.CustomResourceValidation{OpenAPIV3Schema: g.root()}
		if g.mistake(40) {
			v.Schema.OpenAPIV3Schema = nil
		}
	}
	if g.one(3) {
		v.Subresources = &apiextv1.CustomResourceSubresources{}
		if g.one(2) {
			v.Subresources.Status = &apiextv1.CustomResourceSubresourceStatus{}
		}
		if g.one(3) {
			paths := []string{".spec.replicas", ".status.replicas", ".x", "spec", "", ".spec", ".spec.", ".status.selector", "$.x"}
			v.Subresources.Scale = &apiextv1.CustomResourceSubresourceScale{
				SpecReplicasPath: maybe(g, 3, ".spec.replicas", paths...), StatusReplicasPath: maybe(g, 3, ".status.replicas", paths...),
			}
			if g.one(2) {
				v.Subresources.Scale.LabelSelectorPath = new(pick(g, paths...))
			}
		}
	}
	for range g.r.IntN(3) * g.r.IntN(2) {
		v.AdditionalPrinterColumns = append(v.AdditionalPrinterColumns, apiextv1.CustomResourceColumnDefinition{
			Name: maybe(g, 8, "A", ""), Type: maybe(g, 8, "string", "", "odd", "date", "object"), Format: maybe(g, 4, "", "date", "odd", "int32", "byte"),
			JSONPath: maybe(g, 8, ".spec.a", "", "x", ".a[", ".metadata.name"), Priority: g.r.Int32N(3) - 1,
		})
	}
	if g.mistake(6) {
		for range 1 + g.r.IntN(3)*g.r.IntN(5) {
			v.SelectableFields = append(v.SelectableFields, apiextv1.SelectableField{JSONPath: pick(g, ".spec.a", ".a", ".b", ".c", ".d.a", ".d.b", ".e",
				".kind", ".apiVersion", ".status", ".metadata.name", "", "a", ".", "..a", ".a.", ".a[0]", "['a']", ".a['b']", ".nope", ".items.a", ".type", ".d.c", ".d.d")})
		}
	}
	return v
}

// alike makes versions have in common what they often do: then it is the
// definition's own, and errors are found elsewhere.
func (g *maker) alike(spec *apiextv1.CustomResourceDefinitionSpec) {
	first := &spec.Versions[0]
	for i := range spec.Versions[1:] {
		v := &spec.Versions[i+1]
		if g.one(2) {
			v.Schema = first.Schema.DeepCopy()
		}
		if g.one(2) {
			v.Subresources = first.Subresources.DeepCopy()
		}
		if g.one(2) {
			v.AdditionalPrinterColumns = first.AdditionalPrinterColumns
		}
		if g.one(2) {
			v.SelectableFields = first.SelectableFields
		}
	}
}

func (g *maker) conversion() *apiextv1.CustomResourceConversion {
	if !g.mistake(8) {
		return nil
	}
	c := &apiextv1.CustomResourceConversion{Strategy: pick[apiextv1.ConversionStrategyType](g, "Webhook", "Webhook", "Webhook", "None", "", "Odd")}
	if g.one(4) {
		return c
	}
	c.Webhook = &apiextv1.WebhookConversion{ConversionReviewVersions: pick(g, nil, []string{"v1"}, []string{"v1", "v1"}, []string{"v9"}, []string{"V1", "v1beta1"}, []string{""})}
	if g.one(8) {
		return c
	}
	client := new(apiextv1.WebhookClientConfig)
	if g.one(2) {
		client.URL = new(pick(g, "https://x.example/a", "http://x", "https://u:p@x/?q#f", "://", "https://", "", "x"))
	}
	if g.one(2) {
		client.Service = &apiextv1.ServiceReference{Name: maybe(g, 3, "n", ""), Namespace: maybe(g, 3, "ns", ""),
			Path: pick(g, nil, new("/a"), new("x"), new("//"), new(""), new("/a//b"), new("/A"), new("/a/")), Port: pick(g, nil, new(int32(0)), new(int32(443)), new(int32(70000)))}
	}
	client.CABundle = pick(g, nil, nil, []byte("x"), []byte("-----BEGIN RSA-----\neA==\n-----END RSA-----\n"), []byte("-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n"))
	c.Webhook.ClientConfig = client
	return c
}

// changed is a copy of crd with some of its parts made anew.
func (g *maker) changed(def *apiextv1.CustomResourceDefinition) *apiextv1.CustomResourceDefinition {
	c, other := def.DeepCopy(), g.definition()
	c.ResourceVersion = maybe(g, 20, "1", "")
	for range 1 + g.r.IntN(3) {
		switch g.r.IntN(12) {
		case 0:
			c.Spec.Group = other.Spec.Group
		case 1:
			c.Spec.Names = other.Spec.Names
		case 2:
			c.Spec.Scope = pick[apiextv1.ResourceScope](g, "Cluster", "Namespaced")
		case 3:
			c.Annotations, c.Labels = other.Annotations, other.Labels
		case 4:
			c.Spec.PreserveUnknownFields = !c.Spec.PreserveUnknownFields
		case 5:
			c.Spec.Conversion = other.Spec.Conversion
		case 6:
			c.Spec.Versions = other.Spec.Versions
		case 7:
			c.Status.StoredVersions = other.Status.StoredVersions
		case 8:
			c.Status.AcceptedNames = other.Status.AcceptedNames
		default:
			g.touch(&c.Spec.Versions[g.r.IntN(len(c.Spec.Versions))])
		}
	}
	if g.one(2) {
		def.Status.Conditions = []apiextv1.CustomResourceDefinitionCondition{{Type: apiextv1.Established, Status: pick[apiextv1.ConditionStatus](g, "True", "True", "False")}}
		def.ResourceVersion = "1"
		c.Status.Conditions = def.Status.Conditions
	}
	return g.settled(c)
}

// touch changes something of a version.
func (g *maker) touch(v *apiextv1.CustomResourceDefinitionVersion) {
	other := g.version(0)
	switch g.r.IntN(6) {
	case 0:
		v.Schema = other.Schema
	case 1:
		v.SelectableFields = append(v.SelectableFields, other.SelectableFields...)
	case 2:
		v.Subresources = other.Subresources
	case 3:
		v.Deprecated, v.DeprecationWarning = other.Deprecated, other.DeprecationWarning
	default:
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			v.Schema = other.Schema
			return
		}
		s := v.Schema.OpenAPIV3Schema
		if len(s.Properties) > 0 && g.one(2) {
			for name := range s.Properties {
				s.Properties[name] = g.schema(1)
				break
			}
			return
		}
		g.spoil(s, 0)
	}
}
