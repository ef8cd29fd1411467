package kind

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/testcrds"
)

// This file compares what both sides say about the definitions of the catalog.

var (
	seedFlag = flag.Uint64("seed", 0, "seed of what is random; 0 draws one, or is 1 if -short")
	budget   = flag.Duration("budget", 0, "how long each random test runs; 0 is until its work is done, or a few seconds if -short")
)

// source is a source of randomness and the seed that it came from.
func source(t testing.TB) (*rand.Rand, uint64) {
	seed := *seedFlag
	if seed == 0 {
		seed = drawn()
	}
	t.Logf("-seed=%d", seed)
	return rand.New(rand.NewPCG(seed, 0)), seed
}

// drawn is a random seed. What every change must pass does not depend on chance.
func drawn() uint64 {
	if testing.Short() {
		return 1
	}
	return rand.Uint64()
}

// stop reports whether a test that may take long is to stop now.
func stop(start time.Time) bool {
	limit := *budget
	if limit == 0 && testing.Short() {
		limit = 5 * time.Second
	}
	return limit > 0 && time.Since(start) > limit
}

// theirBeta reads a definition of v1beta1 as Kubernetes did.
func theirBeta(t testing.TB, text []byte) *apiextv1.CustomResourceDefinition {
	t.Helper()
	beta, internal, definition := new(v1beta1.CustomResourceDefinition), new(apiextensions.CustomResourceDefinition), new(apiextv1.CustomResourceDefinition)
	if err := json.Unmarshal(text, beta); err != nil {
		t.Fatal(err)
	}
	scheme.Default(beta)
	if err := scheme.Convert(beta, internal, nil); err != nil {
		t.Fatal(err)
	}
	if err := scheme.Convert(internal, definition, nil); err != nil {
		t.Fatal(err)
	}
	definition.APIVersion, definition.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	scheme.Default(definition)
	return definition
}

// workers calls fn in as many subtests at once as there are processors, each with
// what hands out the numbers from 0 on.
func workers(t *testing.T, fn func(t *testing.T, next func() int)) {
	var last atomic.Int64
	next := func() int { return int(last.Add(1)) - 1 }
	t.Run("workers", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				fn(t, next)
			})
		}
	})
}

// catalog calls fn for definitions of the catalog in random order until there
// are no more or time is up, for several at once.
func catalog(t *testing.T, fn func(t *testing.T, d *testcrds.Definition, definition *apiextv1.CustomResourceDefinition)) {
	all, err := testcrds.Definitions(testcrds.Catalog())
	if err != nil {
		t.Fatal(err)
	}
	r, _ := source(t)
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if testing.Short() && *budget == 0 {
		all = slices.DeleteFunc(all, func(d testcrds.Definition) bool { return len(d.YAML) > 400_000 }) // cost upstream seconds
	}
	start := time.Now()
	var n atomic.Int64
	workers(t, func(t *testing.T, next func() int) {
		for i := next(); i < len(all) && (i == 0 || !stop(start)); i = next() {
			n.Add(1)
			t.Run(all[i].Name, func(t *testing.T) { fn(t, &all[i], read(t, &all[i])) })
		}
	})
	t.Logf("%d of %d definitions in %v", n.Load(), len(all), time.Since(start).Round(time.Second))
}

// read is a definition of the catalog. One of v1beta1 is compared with what upstream reads.
func read(t *testing.T, d *testcrds.Definition) *apiextv1.CustomResourceDefinition {
	text, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if !d.Beta {
		return parse(t, text)
	}
	definition, err := crd.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := pretty(t, definition), pretty(t, theirBeta(t, text)); got != want {
		t.Errorf("read from v1beta1:\n     got %s\nupstream %s", got, want)
	}
	return definition
}

func pretty(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// established is a copy of crd as it is when it is served.
func established(definition *apiextv1.CustomResourceDefinition) *apiextv1.CustomResourceDefinition {
	c := definition.DeepCopy()
	c.ResourceVersion = "1"
	c.Status.AcceptedNames = c.Spec.Names
	c.Status.Conditions = []apiextv1.CustomResourceDefinitionCondition{{Type: apiextv1.Established, Status: apiextv1.ConditionTrue}}
	return c
}

// TestCatalog compares the verdicts on every definition of the catalog: as a
// new one, and as one that is there already.
func TestCatalog(t *testing.T) {
	var accepted, refused, dear atomic.Int64
	catalog(t, func(t *testing.T, d *testcrds.Definition, definition *apiextv1.CustomResourceDefinition) {
		want := theirs(t, definition, nil)
		for _, diff := range compare(ours(definition, nil), want) {
			t.Errorf("create: %s", diff)
		}
		old := established(definition)
		for _, diff := range compare(ours(old, old.DeepCopy()), theirs(t, old, old.DeepCopy())) {
			t.Errorf("update: %s", diff)
		}
		if len(want) == 0 {
			accepted.Add(1)
		} else {
			refused.Add(1)
		}
		if has(want, "exceeds budget") {
			dear.Add(1)
		}
	})
	if accepted.Load() == 0 {
		t.Error("none was accepted")
	}
	t.Logf("%d accepted, %d refused, %d of them for the cost of rules", accepted.Load(), refused.Load(), dear.Load())
}

func has(errs field.ErrorList, text string) bool {
	for _, e := range errs {
		if strings.Contains(e.Detail, text) {
			return true
		}
	}
	return false
}
