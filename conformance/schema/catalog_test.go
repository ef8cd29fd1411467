package schema_test

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/testcrds"
)

// This file makes objects of the definitions of many projects, damages them,
// and compares what both implementations make of them.

var (
	objects = flag.Int("objects", 0, "objects that TestCatalogObjects compares; 0 is as many as there is time for")
	budget  = flag.Duration("budget", 0, "how long TestCatalogObjects runs; 0 is 20 seconds (10 if -short), or no limit if -objects is given")
	perType = flag.Int("per-type", 120, "objects of each version before the next one is taken")
	maxSize = flag.Int("max-size", 0, "size in bytes of the largest definition to try; 0 is 300,000 if -short, else no limit")
)

// TestCatalogObjects compares objects of the definitions of the catalog, version
// by version in random order, until there are enough or time is up. As many
// workers do it as there are processors.
func TestCatalogObjects(t *testing.T) {
	limit, size := *budget, *maxSize
	if limit == 0 && *objects == 0 {
		limit = 20 * time.Second
		if testing.Short() {
			limit /= 2
		}
	}
	if size == 0 && testing.Short() {
		size = 300_000
	}
	start := *seed
	if *seed == 1 && !testing.Short() {
		start = rand.Uint64() // not asked for one; what every change must pass does not depend on chance
	}
	t.Logf("-seed=%d", start)
	all, err := testcrds.Definitions(testcrds.Catalog())
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(d testcrds.Definition) bool {
		return !strings.Contains(d.Name, *only) || size > 0 && len(d.YAML) > size
	})
	if len(all) == 0 {
		t.Fatalf("no definition has %q in its name", *only)
	}
	runs, began := make([]catalogRun, runtime.GOMAXPROCS(0)), time.Now()
	t.Run("workers", func(t *testing.T) {
		for i := range runs {
			run := &runs[i]
			*run = catalogRun{began: began, limit: limit, objects: (*objects + len(runs) - 1) / len(runs), r: rand.New(rand.NewPCG(start, uint64(i)))}
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				for !run.done() && !t.Failed() {
					run.definition(t, &all[run.r.IntN(len(all))])
				}
			})
		}
	})
	var sum catalogRun
	for i := range runs {
		sum.add(&runs[i])
	}
	t.Logf("%d objects of %d versions in %v: %d valid, %d invalid, %d with warnings", sum.compared, sum.versions,
		time.Since(began).Round(time.Second), sum.valid, sum.invalid, sum.warned)
	if sum.valid == 0 || sum.invalid == 0 {
		t.Error("nothing compared")
	}
}

// catalogRun is what one worker does: its definitions and objects depend on the seed and its number alone.
type catalogRun struct {
	began   time.Time
	limit   time.Duration
	objects int
	r       *rand.Rand

	compared, versions, valid, invalid, warned int
}

func (c *catalogRun) add(o *catalogRun) {
	c.compared, c.versions, c.valid, c.invalid, c.warned = c.compared+o.compared, c.versions+o.versions, c.valid+o.valid, c.invalid+o.invalid, c.warned+o.warned
}

func (c *catalogRun) done() bool {
	return c.objects > 0 && c.compared >= c.objects || c.limit > 0 && time.Since(c.began) > c.limit
}

// definition compares objects of one version of d.
func (c *catalogRun) definition(t *testing.T, d *testcrds.Definition) {
	text, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	def := new(apiextv1.CustomResourceDefinition)
	if d.Beta {
		def, err = crd.Parse(text)
	} else {
		err = json.Unmarshal(text, def)
	}
	if err != nil {
		t.Fatal(err)
	}
	v := &def.Spec.Versions[c.r.IntN(len(def.Spec.Versions))]
	if v.Schema == nil || !isStructural(v.Schema.OpenAPIV3Schema) {
		return // is not served
	}
	c.versions++
	name := d.Name + "/" + v.Name
	p := newPairOf(t, name, v.Schema.OpenAPIV3Schema, def.Spec.PreserveUnknownFields)
	seed := c.r.Uint64()
	g := &generator{rand.New(rand.NewPCG(seed, 0))}
	apiVersion := def.Spec.Group + "/" + v.Name
	for n := 0; n < *perType && !t.Failed() && !c.done(); n += 5 {
		src := []byte(mustJSON(g.root(p.up.schema, apiVersion, def.Spec.Names.Kind)))
		changed := g.damaged(t, src, 1+g.r.IntN(3))
		p.check(t, src, nil, false)
		p.check(t, changed, nil, false)
		p.check(t, changed, src, false)
		p.check(t, g.damaged(t, changed, 1), changed, g.one(2))
		p.check(t, g.repaired(t, changed, src), changed, false)
		c.compared += 5
	}
	if t.Failed() {
		t.Logf("%s: -seed=%d", name, seed)
	}
	c.valid, c.invalid, c.warned = c.valid+p.valid, c.invalid+p.invalid, c.warned+p.warned
}

func isStructural(s *apiextv1.JSONSchemaProps) bool {
	var internal apiextensions.JSONSchemaProps
	if s == nil || apiextv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(s, &internal, nil) != nil {
		return false
	}
	structural, err := structuralschema.NewStructural(&internal)
	return err == nil && len(structuralschema.ValidateStructural(nil, structural)) == 0
}

// repaired is damaged with some of its members as they are in whole, so that an
// update of it changes what is valid and leaves what is not.
func (g *generator) repaired(t testing.TB, damaged, whole []byte) []byte {
	var a, b map[string]any
	if json.Unmarshal(damaged, &a) != nil || json.Unmarshal(whole, &b) != nil {
		t.Fatal("BUG: not the JSON that was generated")
	}
	a = g.mix(plainNumbers(a), plainNumbers(b)).(map[string]any)
	return []byte(mustJSON(g.damage(a, true)))
}

// mix takes some of b's members into a.
func (g *generator) mix(a, b any) any {
	x, isMap := a.(map[string]any)
	y, both := b.(map[string]any)
	if !isMap || !both {
		if g.one(3) {
			return b
		}
		return a
	}
	for _, name := range sortedNames(x) {
		if other, ok := y[name]; ok {
			x[name] = g.mix(x[name], other)
		}
	}
	return x
}
