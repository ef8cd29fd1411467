package api

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/controller/namespace"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file tests what writes leave behind.

func TestCreateFillsIn(t *testing.T) {
	s := newTestServer(t)
	a := s.must(201, "POST", widgets, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"generateName":"w-","uid":"mine","generation":7,
		"creationTimestamp":"2001-01-01T00:00:00Z"},"spec":{},"status":{"phase":"sent"}}`)
	name := a.text("metadata", "name")
	if !strings.HasPrefix(name, "w-") || len(name) != 7 {
		t.Errorf("name: got %q", name)
	}
	if uid := a.text("metadata", "uid"); len(uid) != 36 {
		t.Errorf("uid: got %q", uid)
	}
	if g := a.get("metadata", "generation"); g != 1.0 {
		t.Errorf("generation: got %v", g)
	}
	if c := a.text("metadata", "creationTimestamp"); c < "2020" {
		t.Errorf("creationTimestamp: got %q", c)
	}
	if a.get("status") != nil {
		t.Errorf("status of a create is kept: %s", a.body)
	}
	if a.text("spec", "color") != "red" {
		t.Errorf("default is missing: %s", a.body)
	}
	if got := s.must(200, "GET", widgets+"/"+name, ""); got.body != a.body {
		t.Errorf("create answered\n%swhile a read answers\n%s", a.body, got.body)
	}
}

func TestWarnings(t *testing.T) {
	s := newTestServer(t)
	a := s.must(201, "POST", widgets, widget("a", `"bogus":1,"more":2,"color":"x","color":"y"`))
	want := []string{`299 - "duplicate field \"spec.color\""`, `299 - "unknown field \"spec.bogus\""`, `299 - "unknown field \"spec.more\""`}
	if got := a.header.Values("Warning"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("warnings: got %q, want %q", got, want)
	}
	a = s.must(201, "POST", widgets+"?fieldValidation=Ignore", widget("b", `"bogus":1`))
	if got := a.header.Values("Warning"); len(got) > 0 {
		t.Errorf("warnings though they are to be ignored: %q", got)
	}
	a = s.must(200, "GET", "/apis/demo.io/v1beta1/namespaces/default/widgets", "")
	if got := a.header.Get("Warning"); !strings.Contains(got, "demo.io/v1beta1 Widget is deprecated") {
		t.Errorf("warning of a deprecated version: got %q", got)
	}
	a = s.must(201, "POST", widgets, "apiVersion: demo.io/v1\nkind: Widget\nmetadata: {name: yaml}\nspec:\n  color: a\n  color: b\n", "Content-Type", "application/yaml")
	if got := a.header.Get("Warning"); !strings.Contains(got, `key \"color\" already set in map`) {
		t.Errorf("warning of a YAML duplicate: got %q", got)
	}
}

func TestUpdateCountsGenerations(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("a", `"replicas":1`))
	steps := []struct {
		line        int
		path, patch string
		generation  float64
		changed     bool
	}{
		{where(), "", `{"spec":{"replicas":2}}`, 2, true},
		{where(), "", `{"spec":{"replicas":2}}`, 2, false},
		{where(), "", `{}`, 2, false},
		{where(), "", `{"metadata":{"labels":{"x":"y"}}}`, 2, true},
		{where(), "", `{"status":{"phase":"lost"}}`, 2, false},
		{where(), "/status", `{"status":{"phase":"kept"},"spec":{"replicas":9}}`, 2, true},
		{where(), "/status", `{"status":{"phase":"kept"}}`, 2, false},
		{where(), "/scale", `{"spec":{"replicas":5}}`, 3, true},
		{where(), "/scale", `{"spec":{"replicas":5}}`, 3, false},
	}
	for _, step := range steps {
		before := s.must(200, "GET", widgets+"/a", "")
		time.Sleep(time.Millisecond)
		s.must(200, "PATCH", widgets+"/a"+step.path, step.patch, "Content-Type", merge)
		after := s.must(200, "GET", widgets+"/a", "")
		if g := after.get("metadata", "generation"); g != step.generation {
			t.Errorf("line %d: generation: got %v, want %v", step.line, g, step.generation)
		}
		if changed := before.text("metadata", "resourceVersion") != after.text("metadata", "resourceVersion"); changed != step.changed {
			t.Errorf("line %d: written: got %v, want %v: %s", step.line, changed, step.changed, after.body)
		}
	}
	a := s.must(200, "GET", widgets+"/a", "")
	if a.text("status", "phase") != "kept" || a.get("spec", "replicas") != 5.0 {
		t.Errorf("object in the end: %s", a.body)
	}
}

func TestScale(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("a", ``))
	s.must(201, "POST", widgets, widget("b", `"replicas":3`))
	a := s.must(500, "GET", widgets+"/a/scale", "")
	if !strings.Contains(a.body, `the spec replicas field \".spec.replicas\" does not exist`) {
		t.Errorf("scale without replicas: %s", a.body)
	}
	s.must(200, "PATCH", widgets+"/b/status", `{"status":{"replicas":2,"selector":"app=b"}}`, "Content-Type", merge)
	a = s.must(200, "GET", widgets+"/b/scale", "")
	if a.text("kind") != "Scale" || a.get("spec", "replicas") != 3.0 || a.get("status", "replicas") != 2.0 || a.text("status", "selector") != "app=b" {
		t.Errorf("scale: %s", a.body)
	}
	s.must(200, "PUT", widgets+"/b/scale", strings.Replace(a.body, `"replicas":3`, `"replicas":4`, 1))
	s.must(409, "PUT", widgets+"/b/scale", strings.Replace(a.body, `"replicas":3`, `"replicas":5`, 1))
	s.must(422, "PUT", widgets+"/b/scale", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"b"},"spec":{"replicas":-1}}`)
	s.must(400, "PUT", widgets+"/b/scale", widget("b", ``))
	if got := s.must(200, "GET", widgets+"/b", ""); got.get("spec", "replicas") != 4.0 {
		t.Errorf("object after scaling: %s", got.body)
	}
}

func TestPatchesAndVersions(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("a", `"replicas":1`))
	a := s.must(200, "PATCH", "/apis/demo.io/v1beta1/namespaces/default/widgets/a", `[{"op":"replace","path":"/spec/color","value":"green"}]`, "Content-Type", jpatch)
	if a.text("apiVersion") != "demo.io/v1beta1" || a.text("spec", "color") != "green" {
		t.Errorf("patch in another version: %s", a.body)
	}
	if a = s.must(200, "GET", widgets+"/a", ""); a.text("apiVersion") != "demo.io/v1" || a.text("spec", "color") != "green" {
		t.Errorf("read in the stored version: %s", a.body)
	}
}

func TestApply(t *testing.T) {
	s := newTestServer(t)
	put := func(code int, manager, force, spec string) answer {
		t.Helper()
		return s.must(code, "PATCH", widgets+"/a?fieldManager="+manager+force, "apiVersion: demo.io/v1\nkind: Widget\nmetadata: {name: a}\nspec: {"+spec+"}", "Content-Type", ssa)
	}
	first := put(201, "m1", "", "color: blue, replicas: 1")
	if again := put(200, "m1", "", "color: blue, replicas: 1"); again.text("metadata", "resourceVersion") != first.text("metadata", "resourceVersion") {
		t.Errorf("applying the same again wrote: %s", again.body)
	}
	a := put(409, "m2", "", "color: green")
	if !strings.Contains(a.body, `Apply failed with 1 conflict: conflict with \"m1\": .spec.color`) {
		t.Errorf("conflict: %s", a.body)
	}
	put(200, "m2", "&force=true", "color: green")
	put(500, "m2", "", "bogus: 1")
	a = put(200, "m1", "", "") // gives up color (m2 has it) and replicas (nobody else has it)
	if a.text("spec", "color") != "green" || a.get("spec", "replicas") != nil {
		t.Errorf("after giving up fields: %s", a.body)
	}
	s.must(404, "PATCH", widgets+"/none/status?fieldManager=m", "apiVersion: demo.io/v1\nkind: Widget\nstatus: {phase: x}", "Content-Type", ssa)
}

func TestDeleteWithFinalizers(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a","finalizers":["demo.io/f"]}}`)
	a := s.must(200, "DELETE", widgets+"/a", "")
	if a.text("metadata", "deletionTimestamp") == "" || a.get("metadata", "generation") != 2.0 {
		t.Errorf("first delete: %s", a.body)
	}
	if b := s.must(200, "DELETE", widgets+"/a", ""); b.text("metadata", "resourceVersion") != a.text("metadata", "resourceVersion") {
		t.Errorf("second delete wrote: %s", b.body)
	}
	a = s.must(409, "POST", widgets, widget("a", ``))
	if !strings.Contains(a.body, `object is being deleted: widgets.demo.io \"a\" already exists`) {
		t.Errorf("create over a terminating object: %s", a.body)
	}
	s.must(422, "PATCH", widgets+"/a", `{"metadata":{"finalizers":["demo.io/f","demo.io/g"]}}`, "Content-Type", merge)
	s.must(200, "PATCH", widgets+"/a", `{"metadata":{"finalizers":null}}`, "Content-Type", merge)
	s.must(404, "GET", widgets+"/a", "")

	s.must(201, "POST", widgets, widget("b", ``))
	a = s.must(200, "DELETE", widgets+"/b", `{"propagationPolicy":"Foreground"}`)
	if !strings.Contains(a.body, `"finalizers":["foregroundDeletion"]`) {
		t.Errorf("foreground: %s", a.body)
	}
	if got := a.header.Get("Warning"); got != "" {
		t.Errorf("foreground: got warning %q", got)
	}
	a = s.must(200, "DELETE", widgets+"/b?propagationPolicy=Orphan", "")
	if !strings.Contains(a.body, `"finalizers":["orphan"]`) {
		t.Errorf("orphan: %s", a.body)
	}
	a = s.must(200, "DELETE", widgets+"/b", `{"propagationPolicy":"Background"}`)
	if a.text("status") != "Success" || a.text("details", "kind") != "widgets" {
		t.Errorf("background: %s", a.body)
	}
}

func TestDeleteCollection(t *testing.T) {
	s := newTestServer(t)
	for _, name := range []string{"a", "b", "c"} {
		s.must(201, "POST", widgets, widget(name, `"color":"`+name+`"`))
	}
	a := s.must(200, "DELETE", widgets+"?fieldSelector=spec.color!=b", "")
	if strings.Count(a.body, `"kind":"Widget"`) != 2 {
		t.Errorf("deleted: %s", a.body)
	}
	a = s.must(200, "GET", widgets, "")
	if strings.Count(a.body, `"kind":"Widget"`) != 1 || !strings.Contains(a.body, `"name":"b"`) {
		t.Errorf("left: %s", a.body)
	}
}

// Writers that get into each other's way all get their way in the end.
func TestConcurrentPatches(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", gadgets, `{"apiVersion":"demo.io/v1","kind":"Gadget","metadata":{"name":"g"},"n":{}}`)
	const writers, writes = 8, 10
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range writes {
				a := s.call("PATCH", gadgets+"/g", fmt.Sprintf(`{"n":{"w%d-%d":1}}`, w, i), "Content-Type", merge)
				if a.code != 200 {
					t.Errorf("patch: got %d %s", a.code, a.body)
				}
				if !strings.Contains(s.must(200, "GET", gadgets+"/g", "").body, fmt.Sprintf(`"w%d-%d":1`, w, i)) {
					t.Errorf("own write is not read")
				}
			}
		})
	}
	all.Wait()
	a := s.must(200, "GET", gadgets+"/g", "")
	if n, ok := a.get("n").(map[string]any); !ok || len(n) != writers*writes {
		t.Errorf("writes that survived: got %d, want %d", len(n), writers*writes)
	}
}

func TestNamespaceDeletion(t *testing.T) {
	s := newTestServer(t)
	if a := s.must(405, "DELETE", "/api/v1/namespaces", ""); !strings.Contains(a.body, "the server does not allow this method on the requested resource") {
		t.Errorf("deleting all namespaces: %s", a.body)
	}
	c := &namespace.Controller{Kinds: s.kinds, Cache: s.h.Cache, Store: s.store, Logger: s.h.logger, API: s.h.Objects.Writer(objects.Server(), objects.ControllerManager)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })

	s.must(201, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`)
	in := "/apis/demo.io/v1/namespaces/n/widgets"
	s.must(201, "POST", in, widget("a", ``))
	s.must(201, "POST", in, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"b","finalizers":["demo.io/f"]}}`)
	a := s.must(200, "DELETE", "/api/v1/namespaces/n", "")
	if a.text("status", "phase") != "Terminating" || a.text("metadata", "deletionTimestamp") == "" {
		t.Errorf("namespace that is deleted: %s", a.body)
	}
	a = s.must(403, "POST", in, widget("c", ``))
	if !strings.Contains(a.body, `unable to create new content in namespace n because it is being terminated`) || !strings.Contains(a.body, `NamespaceTerminating`) {
		t.Errorf("create in a terminating namespace: %s", a.body)
	}
	s.eventually(func() bool { return s.call("GET", in+"/a", "").code == 404 })
	s.must(200, "GET", "/api/v1/namespaces/n", "")
	s.must(200, "PATCH", in+"/b", `{"metadata":{"finalizers":null}}`, "Content-Type", merge)
	s.eventually(func() bool { return s.call("GET", "/api/v1/namespaces/n", "").code == 404 })
}

// eventually waits until something is so.
func (s *testServer) eventually(so func() bool) {
	s.t.Helper()
	testkit.Eventually(s.t, "what is waited for", so)
}

func TestTerminatingKind(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("a", ``))
	k := *s.kinds.Load().Lookup("demo.io", "widgets")
	k.Terminating = true
	s.kinds.Put(&k)
	const text = `widgets.demo.io \"b\" is forbidden: create not allowed while custom resource definition is terminating`
	if a := s.must(403, "POST", widgets, widget("b", ``)); !strings.Contains(a.body, text) {
		t.Errorf("create: %s", a.body)
	}
	a := s.must(403, "PATCH", widgets+"/b?fieldManager=m", "apiVersion: demo.io/v1\nkind: Widget\nmetadata: {name: b}", "Content-Type", ssa)
	if !strings.Contains(a.body, text) {
		t.Errorf("apply: %s", a.body)
	}
	s.must(403, "PATCH", widgets+"/b?fieldManager=m", "apiVersion: demo.io/v1\nkind: Widget\nmetadata: {name: b, resourceVersion: x}", "Content-Type", ssa) // whatever version it says
	s.must(200, "PATCH", widgets+"/a", `{"spec":{"color":"x"}}`, "Content-Type", merge)
	s.must(200, "DELETE", widgets+"/a", "")
}

func TestFinalizeOfNamespaces(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`)
	s.must(200, "DELETE", "/api/v1/namespaces/n", "")
	s.must(200, "GET", "/api/v1/namespaces/n", "") // nobody empties it here
	// Only finalize may take the finalizer away.
	a := s.must(200, "PATCH", "/api/v1/namespaces/n", `{"spec":{"finalizers":[]}}`, "Content-Type", "application/strategic-merge-patch+json")
	if !strings.Contains(a.body, `"finalizers":["kubernetes"]`) {
		t.Errorf("patch of the namespace: %s", a.body)
	}
	s.must(200, "PUT", "/api/v1/namespaces/n/finalize", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"},"spec":{}}`)
	s.must(404, "GET", "/api/v1/namespaces/n", "")
	// What was marked without a grace period is given one when its deletion is asked for once more; but not before it is let go.
	s.must(201, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"m","finalizers":["demo.io/f"]}}`)
	const graced = `"deletionGracePeriodSeconds":0`
	for range 2 {
		if a := s.must(200, "DELETE", "/api/v1/namespaces/m", ""); strings.Contains(a.body, graced) {
			t.Errorf("deleting a namespace: %s", a.body)
		}
	}
	if a := s.must(200, "PUT", "/api/v1/namespaces/m/finalize", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"m","finalizers":["demo.io/f"]},"spec":{"finalizers":[]}}`); !strings.Contains(a.body, `"spec":{}`) {
		t.Errorf("a namespace without finalizers: %s", a.body)
	}
	if a := s.must(200, "DELETE", "/api/v1/namespaces/m?dryRun=All", ""); !strings.Contains(a.body, graced) {
		t.Errorf("deleting it once more, as a dry run: %s", a.body)
	}
	version := s.must(200, "GET", "/api/v1/namespaces/m", "").text("metadata", "resourceVersion")
	a = s.must(200, "DELETE", "/api/v1/namespaces/m", "")
	if now := a.text("metadata", "resourceVersion"); now == version || !strings.Contains(a.body, graced) {
		t.Errorf("deleting it once more: %s", a.body)
	}
	if again := s.must(200, "DELETE", "/api/v1/namespaces/m", ""); again.body != a.body {
		t.Errorf("and again: %s", again.body)
	}
}

func TestMetricsDoNotGrowWithNonsense(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("a", ``))
	for i := range 20 {
		s.call("GET", fmt.Sprintf("%s/a/nonsense%d", widgets, i), "")
		s.call("GET", fmt.Sprintf("/apis/g%d/v1/things", i), "")
		s.call("GET", fmt.Sprintf("/path%d", i), "")
		s.call(fmt.Sprintf("VERB%d", i), widgets, "")
	}
	if a := s.must(200, "GET", "/metrics", ""); strings.Contains(a.body, "nonsense") || strings.Contains(a.body, "g7") ||
		strings.Contains(a.body, "path7") || strings.Contains(a.body, "VERB7") {
		t.Error("clients name metrics")
	}
}
