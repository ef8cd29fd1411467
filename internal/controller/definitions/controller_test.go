package definitions

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkit"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file tests the controller over a store in memory.

type rig struct {
	*testing.T
	ctx   context.Context
	store store.Store
	cache *cache.Cache
	kinds *kind.Registry
	crds  *kind.Version
	*Controller
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, store: mem.New(mem.Options{}), kinds: kind.NewRegistry(new(crd.Compiler).Definitions())}
	for k := range r.kinds.Load().All() {
		if k.Name == "CustomResourceDefinition" {
			r.crds = k.Storage
		}
	}
	r.cache = cache.New(r.store, cache.Options{})
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithTimeout(context.Background(), time.Minute)
	var logged bytes.Buffer
	r.Controller = &Controller{
		Kinds: r.kinds, Cache: r.cache, Store: r.store, Logger: slog.New(slog.NewTextHandler(&logged, nil)), Delete: r.deleteOne,
	}
	t.Cleanup(func() {
		cancel()
		r.cache.Close()
		r.store.Close()
	})
	return r
}

// start runs the controller until the test ends.
func (r *rig) start() {
	r.Helper()
	if err := r.Sync(r.ctx); err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan error, 1)
	r.Controller.Begin(ctx)
	go func() { done <- r.Controller.Run(ctx) }()
	r.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.Error(err)
		}
	})
}

// deleteOne deletes an instance; one that says "stay" stays.
func (r *rig) deleteOne(ctx context.Context, k *kind.Kind, namespace, name string) error {
	item, err := r.store.Get(ctx, k.Key(namespace, name))
	if err != nil || bytes.Contains(item.Value, []byte(`"stay"`)) {
		return err
	}
	_, err = r.store.Delete(ctx, item.Key, item.Rev)
	return err
}

// crd is a definition; edit may change its text.
func def(plural, kindName string, more ...string) string {
	text := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%s.example.org"},
		"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"%s","kind":"%s"MORE},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"string"}}}}}}}]}}`,
		plural, plural, kindName)
	return strings.Replace(text, "MORE", strings.Join(more, ""), 1)
}

// create stores a definition as the API would.
func (r *rig) create(text string) string {
	r.Helper()
	d := jsondoc.Get()
	defer d.Release()
	if _, err := r.crds.Decode(d, []byte(text)); err != nil {
		r.Fatal(err)
	}
	meta.FillCreate(meta.Object{Doc: d}, time.Now())
	r.crds.PrepareCreate(d)
	if result := r.crds.Validate(r.ctx, d, nil, 0); len(result.Errors) > 0 {
		r.Fatal(result.Errors)
	}
	value, err := r.crds.Encode(d, nil)
	if err != nil {
		r.Fatal(err)
	}
	name := strings.Clone(meta.Object{Doc: d}.Name())
	if _, err := r.store.Create(r.ctx, key(name), value); err != nil {
		r.Fatal(err)
	}
	return name
}

// get reads a definition, nil if there is none.
func (r *rig) get(name string) *apiextv1.CustomResourceDefinition {
	item, err := r.store.Get(r.ctx, key(name))
	if err != nil {
		return nil
	}
	d, err := crd.Parse(item.Value)
	if err != nil {
		r.Fatal(err)
	}
	return d
}

// remove deletes a definition as the API would.
func (r *rig) remove(name string) {
	r.Helper()
	item, err := r.store.Get(r.ctx, key(name))
	if err != nil {
		r.Fatal(err)
	}
	d := jsondoc.Get()
	defer d.Release()
	if err := r.crds.Load(d, item.Value, item.Rev); err != nil {
		r.Fatal(err)
	}
	if !r.crds.Kind.Behavior.Delete(d, time.Now().UTC().Format(time.RFC3339)) {
		r.Fatal("definition is deleted at once, want it marked")
	}
	value, err := r.crds.Encode(d, nil)
	if err != nil {
		r.Fatal(err)
	}
	if _, err := r.store.Update(r.ctx, item.Key, value, item.Rev); err != nil {
		r.Fatal(err)
	}
}

// until waits for something to become true.
func (r *rig) until(what string, ok func() bool) {
	r.Helper()
	testkit.Eventually(r, what, ok)
}

func (r *rig) established(name string) func() bool {
	return func() bool {
		d := r.get(name)
		return d != nil && crd.HasCondition(d, apiextv1.Established)
	}
}

func (r *rig) condition(name string, t apiextv1.CustomResourceDefinitionConditionType) string {
	d := r.get(name)
	if d == nil {
		return "gone"
	}
	c := crd.Condition(d, t)
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

func TestEstablish(t *testing.T) {
	r := newRig(t)
	before := r.create(def("olds", "Old"))
	r.start()
	if r.kinds.Load().Lookup("example.org", "olds") == nil {
		t.Error("after Sync: stored definition is not served")
	}
	r.until("established", r.established(before))

	name := r.create(def("widgets", "Widget", `,"shortNames":["w"]`))
	r.until("established", r.established(name))
	k := r.kinds.Load().Lookup("example.org", "widgets")
	if k == nil || !k.Established || k.ListKind != "WidgetList" || k.ShortNames[0] != "w" || len(k.Versions) != 1 {
		t.Fatalf("got kind %+v", k)
	}
	d := r.get(name)
	var types []string
	for _, c := range d.Status.Conditions {
		types = append(types, string(c.Type))
	}
	if got := strings.Join(types, " "); got != "NamesAccepted Established" {
		t.Errorf("got conditions %s", got)
	}
	if got, want := r.condition(name, apiextv1.NamesAccepted), "True NoConflicts: no conflicts found"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if d.Status.AcceptedNames.Singular != "widget" || d.Status.StoredVersions[0] != "v1" {
		t.Errorf("got status %+v", d.Status)
	}
}

func TestNamesInUse(t *testing.T) {
	r := newRig(t)
	r.start()
	first := r.create(def("widgets", "Widget", `,"shortNames":["w"]`))
	r.until("established", r.established(first))
	second := r.create(def("gadgets", "Widget", `,"shortNames":["w"],"categories":["all"]`))
	want := `False ListKindConflict: "WidgetList" is already in use`
	r.until(want, func() bool { return r.condition(second, apiextv1.NamesAccepted) == want })
	if got, want := r.condition(second, apiextv1.Established), "False NotAccepted: not all names are accepted"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	names := r.get(second).Status.AcceptedNames
	if names.Plural != "gadgets" || names.Kind != "" || names.ShortNames != nil || names.Categories == nil {
		t.Errorf("got accepted names %+v", names)
	}
	if r.kinds.Load().Lookup("example.org", "gadgets") != nil {
		t.Error("a definition without its names is served")
	}
	// The names become free with the end of their owner.
	r.remove(first)
	r.until("established", r.established(second))
	if r.get(first) != nil || r.kinds.Load().Lookup("example.org", "widgets") != nil {
		t.Error("the first definition is still there")
	}
}

// TestNamesAreRemembered checks that the names of a group are not gathered again for each
// definition, and that the remembered names are the granted ones.
func TestNamesAreRemembered(t *testing.T) {
	c := new(Controller)
	c.defs = map[string]*definition{}
	names := func(plural string, short ...string) apiextv1.CustomResourceDefinitionNames {
		return apiextv1.CustomResourceDefinitionNames{Plural: plural, Kind: plural, ShortNames: short}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		name := fmt.Sprint("d", random.IntN(20))
		d := c.defs[name]
		if d == nil {
			d = &definition{name: name, group: "g"}
			c.defs[name] = d
		}
		switch random.IntN(4) {
		case 0:
			c.grant(d, names("p"+name))
		case 1:
			c.grant(d, names("p"+name, fmt.Sprint("s", random.IntN(5))))
		case 2:
			c.grant(d, apiextv1.CustomResourceDefinitionNames{})
		default:
			c.gone(t.Context(), name)
		}
		d.asked = d.granted // nobody waits for a name
		got, want := c.names("g"), c.gatherNames("g")
		for _, n := range []crd.Names{got, want} {
			maps.DeleteFunc(n.Resources, func(s string, _ bool) bool { return s == "" })
			maps.DeleteFunc(n.Kinds, func(s string, _ bool) bool { return s == "" })
		}
		if !maps.Equal(got.Resources, want.Resources) || !maps.Equal(got.Kinds, want.Kinds) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	// What a new definition is granted is added to what is remembered.
	before := reflect.ValueOf(c.names("g").Resources).Pointer()
	c.defs["new"] = &definition{name: "new", group: "g"}
	c.grant(c.defs["new"], names("new"))
	if got := c.names("g").Resources; !got["new"] || before != 0 && reflect.ValueOf(got).Pointer() != before {
		t.Error("the names were gathered again")
	}
}

// TestSyncOfNewDefinitions holds that definitions of one group which nobody has settled yet do not stand in their own way.
func TestSyncOfNewDefinitions(t *testing.T) {
	r := newRig(t)
	names := []string{r.create(def("as", "A")), r.create(def("bs", "B")), r.create(def("cs", "C"))}
	if err := r.Sync(r.ctx); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if got := r.get(name); !crd.HasCondition(got, apiextv1.Established) || !crd.HasCondition(got, apiextv1.NamesAccepted) {
			t.Errorf("%s: got %+v, want it to be served", name, got.Status)
		}
	}
}

func TestInstancesGoFirst(t *testing.T) {
	r := newRig(t)
	r.start()
	name := r.create(def("widgets", "Widget"))
	r.until("established", r.established(name))
	k := r.kinds.Load().Lookup("example.org", "widgets")
	for i, spec := range []string{"go", "go", "stay"} {
		value := fmt.Sprintf(`{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"w%d","namespace":"n%d"},"spec":{"a":"%s"}}`, i, i, spec)
		if _, err := r.store.Create(r.ctx, k.Key(fmt.Sprint("n", i), fmt.Sprint("w", i)), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	r.remove(name)
	left := func() int {
		page, err := r.store.List(r.ctx, k.StoragePrefix+"/", store.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Items)
	}
	r.until("all but one deleted", func() bool { return left() == 1 })
	if got, want := r.condition(name, apiextv1.Terminating), "True InstanceDeletionInProgress: CustomResource deletion is in progress"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if k := r.kinds.Load().Lookup("example.org", "widgets"); k == nil || !k.Terminating {
		t.Errorf("got kind %+v, want it served and terminating", k)
	}
	item, err := r.store.Get(r.ctx, k.Key("n2", "w2"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.Delete(r.ctx, item.Key, item.Rev); err != nil {
		t.Fatal(err)
	}
	r.until("definition gone", func() bool { return r.get(name) == nil })
	r.until("kind gone", func() bool { return r.kinds.Load().Lookup("example.org", "widgets") == nil })

	// The same definition again is another one.
	r.create(def("widgets", "Widget"))
	r.until("established", r.established(name))
	if again := r.kinds.Load().Lookup("example.org", "widgets"); again == nil || again.UID == k.UID || again.Terminating {
		t.Errorf("got kind %+v", again)
	}
}

func TestNeverEstablished(t *testing.T) {
	r := newRig(t)
	r.start()
	first := r.create(def("widgets", "Widget"))
	r.until("established", r.established(first))
	second := r.create(def("gadgets", "Widget"))
	r.until("refused", func() bool {
		return strings.HasPrefix(r.condition(second, apiextv1.NamesAccepted), "False")
	})
	r.remove(second)
	r.until("gone", func() bool { return r.get(second) == nil })
}

// TestTwoControllers checks that two of them agree.
func TestTwoControllers(t *testing.T) {
	r := newRig(t)
	r.start()
	other := &Controller{Kinds: new(kind.Registry), Cache: r.cache, Store: r.store, Delete: r.deleteOne}
	if err := other.Sync(r.ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan error, 1)
	other.Begin(ctx)
	go func() { done <- other.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for i := range 20 {
		r.create(def(fmt.Sprintf("k%ds", i), fmt.Sprintf("K%d", i)))
	}
	for i := range 20 {
		r.until("established", r.established(fmt.Sprintf("k%ds.example.org", i)))
	}
	for i := range 10 {
		r.remove(fmt.Sprintf("k%ds.example.org", i))
	}
	r.until("ten kinds in both", func() bool {
		return other.Kinds.Load().Len() == 10 && r.kinds.Load().Len() == 10+1
	})
}

// TestWaitEnds holds that nobody waits for a controller that does not run, or for ever.
func TestWaitEnds(t *testing.T) {
	c := newRig(t).Controller
	c.Wait(context.Background(), 1)
	run, stop := context.WithCancel(context.Background())
	c.Begin(run)
	impatient, cancel := context.WithCancel(context.Background())
	cancel()
	c.Wait(impatient, 1)
	waited := make(chan struct{})
	go func() { c.Wait(context.Background(), 1); close(waited) }()
	stop()
	<-waited
	c.Wait(context.Background(), 1)
}
