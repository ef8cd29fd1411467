package apply

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
)

// This file runs random sequences of writes through both sides.

var (
	sequences = flag.Int("sequences", 0, "how many random sequences of writes are compared; 0 means 50 if the test is short, else 400")
	first     = flag.Int("seed", 0, "of the first sequence")
)

// gen makes random objects and patches of widgets.
type gen struct{ *rand.Rand }

func (g gen) one(of ...any) any { return of[g.Intn(len(of))] }

func (g gen) maybe(m map[string]any, name string, make func() any) {
	if g.Intn(3) == 0 {
		m[name] = make()
	}
}

func (g gen) word() any { return g.one("a", "b", "c", "", "d<e>&\"f\\", "é") }
func (g gen) num() any  { return g.one(int64(0), int64(1), int64(2), 1.5) }

func (g gen) texts() any {
	out := map[string]any{}
	for range g.Intn(4) {
		out[fmt.Sprint(g.one("k", "x/y", "a.b", "c:d"))] = g.word()
	}
	return out
}

func (g gen) free(depth int) any {
	if depth == 0 {
		return g.one("x", int64(3), true, nil, 2.5)
	}
	switch g.Intn(4) {
	case 0:
		return []any{g.free(depth - 1), g.free(depth - 1)}
	case 1:
		return g.one("x", int64(3), false, []any{}, map[string]any{})
	}
	out := map[string]any{}
	for range g.Intn(3) {
		out[fmt.Sprint(g.one("p", "q", "r"))] = g.free(depth - 1)
	}
	return out
}

// set is a set list; dups allows items twice.
func (g gen) set(dups bool, of ...any) any {
	out := []any{}
	for range g.Intn(4) {
		item := g.one(of...)
		twice := false
		for _, have := range out {
			twice = twice || have == item
		}
		if dups && g.Intn(4) == 0 || !twice {
			out = append(out, item)
		}
	}
	return out
}

func (g gen) items(dups bool) any {
	out := []any{}
	seen := map[string]bool{}
	for range g.Intn(4) {
		item := map[string]any{"name": g.one("n1", "n2")}
		g.maybe(item, "proto", func() any { return g.one("tcp", "udp") })
		key := fmt.Sprint(item["name"], item["proto"])
		if item["proto"] == nil {
			key = fmt.Sprint(item["name"], "tcp")
		}
		if seen[key] && !(dups && g.Intn(4) == 0) {
			continue
		}
		seen[key] = true
		g.maybe(item, "v", g.num)
		g.maybe(item, "sub", func() any { return g.set(dups, "s", "t") })
		out = append(out, item)
	}
	return out
}

func (g gen) spec(dups bool) any {
	s := map[string]any{}
	g.maybe(s, "color", g.word)
	g.maybe(s, "replicas", g.num)
	g.maybe(s, "ratio", g.num)
	g.maybe(s, "flag", func() any { return g.one(true, false) })
	g.maybe(s, "when", func() any { return g.one("2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z") })
	g.maybe(s, "port", func() any { return g.one("http", int64(80), map[string]any{"a": "b"}) })
	g.maybe(s, "tags", func() any { return g.set(dups, "a", "b", "c") })
	g.maybe(s, "nums", func() any { return g.set(dups, int64(1), int64(2), int64(10), 1.5) })
	g.maybe(s, "plain", func() any { return g.one([]any{}, []any{map[string]any{"a": "x"}}, []any{map[string]any{"b": "y"}}) })
	g.maybe(s, "items", func() any { return g.items(dups) })
	g.maybe(s, "atom", func() any { return g.one(map[string]any{}, map[string]any{"a": "1"}, map[string]any{"b": "2"}) })
	g.maybe(s, "free", func() any { return g.object(2) })
	g.maybe(s, "half", func() any { return g.object(2) })
	g.maybe(s, "labels", g.texts)
	g.maybe(s, "deep", func() any {
		return g.one(map[string]any{}, map[string]any{"k": map[string]any{"x": int64(1)}}, map[string]any{"k": map[string]any{}, "l": map[string]any{"z": int64(2)}})
	})
	g.maybe(s, "embedded", func() any {
		return map[string]any{"apiVersion": "v1", "kind": "Foo", "metadata": map[string]any{"name": g.word(), "labels": g.texts()}, "spec": map[string]any{"q": g.word()}, "other": g.free(1)}
	})
	g.maybe(s, "nothing", func() any { return g.one(nil, "x") })
	return s
}

func (g gen) object(depth int) any {
	out := map[string]any{}
	g.maybe(out, "known", func() any { return map[string]any{"x": g.word()} })
	for range g.Intn(3) {
		out[fmt.Sprint(g.one("p", "q", "r"))] = g.free(depth - 1)
	}
	return out
}

func (g gen) status(dups bool) any {
	s := map[string]any{}
	g.maybe(s, "phase", g.word)
	g.maybe(s, "replicas", g.num)
	g.maybe(s, "conditions", func() any {
		out := []any{}
		for _, t := range []string{"A", "B"} {
			if g.Intn(2) == 0 {
				out = append(out, map[string]any{"type": t, "status": g.word()})
			}
		}
		return out
	})
	return s
}

func (g gen) metadata() map[string]any {
	m := map[string]any{"name": "w", "namespace": "ns"}
	g.maybe(m, "labels", g.texts)
	g.maybe(m, "annotations", g.texts)
	g.maybe(m, "finalizers", func() any { return g.set(false, "f/1", "f/2") })
	g.maybe(m, "ownerReferences", func() any {
		return []any{map[string]any{"apiVersion": "v1", "kind": "X", "name": "o", "uid": g.one("u1", "u2")}}
	})
	return m
}

// widget is an object; a config is what a client applies, so it has no doubles.
func (g gen) widget(version string, dups bool) map[string]any {
	o := map[string]any{"apiVersion": "demo.io/" + version, "kind": "Widget", "metadata": g.metadata()}
	g.maybe(o, "status", func() any { return g.status(dups) })
	if g.Intn(5) > 0 {
		o["spec"] = g.spec(dups)
	}
	return o
}

func clone(t testing.TB, raw []byte) map[string]any { return toUnstructured(t, raw).Object }

// world is the definition at one time.
type world struct {
	versions map[string]*sides
	gone     []string // members of the spec that it does not declare, and objects lose
}

func newWorld(t *testing.T, text string, gone ...string) *world {
	crd := crdOf(t, text)
	return &world{map[string]*sides{"v1": newSides(t, crd, "v1"), "v2": newSides(t, crd, "v2")}, gone}
}

// prune drops from an object what the definition does not declare.
func (w *world) prune(t *testing.T, live []byte) []byte {
	if live == nil || len(w.gone) == 0 {
		return live
	}
	o := clone(t, live)
	for _, name := range w.gone {
		unstructured.RemoveNestedField(o, "spec", name)
	}
	return marshal(t, o)
}

func TestRandomSequencesEqualUpstream(t *testing.T) { testSequences(t, newWorld(t, widgets)) }

// TestRandomSequencesThroughChangesOfTheSchema: between the writes lists, sets and maps become atomic or granular, and fields go and come.
func TestRandomSequencesThroughChangesOfTheSchema(t *testing.T) {
	changed := func(pairs ...string) string {
		text := strings.NewReplacer(pairs...).Replace(widgets)
		if text == widgets {
			t.Fatalf("%q changes nothing", pairs)
		}
		return text
	}
	testSequences(t, newWorld(t, widgets),
		newWorld(t, changed("x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name, proto]", "x-kubernetes-list-type: atomic",
			"tags: {type: array, x-kubernetes-list-type: set", "tags: {type: array, x-kubernetes-list-type: atomic",
			"atom: {type: object, x-kubernetes-map-type: atomic", "atom: {type: object")),
		newWorld(t, changed("labels: {type: object,", "labels: {type: object, x-kubernetes-map-type: atomic,",
			"deep: {type: object,", "deep: {type: object, x-kubernetes-map-type: atomic,",
			"spec: {type: object, properties: {\n", "spec: {type: object, x-kubernetes-map-type: atomic, properties: {\n")),
		newWorld(t, changed("color: {type: string}, replicas: {type: integer}, ", "", "tags: {type: array,", "marks: {type: array,"), "color", "replicas", "tags"),
	)
}

func testSequences(t *testing.T, worlds ...*world) {
	n := *sequences
	if n == 0 {
		if n = 400; testing.Short() {
			n = 50
		}
	}
	for seed := *first; seed < *first+n; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g := gen{rand.New(rand.NewSource(int64(seed)))}
			runSequence(t, g, worlds)
		})
	}
}

func runSequence(t *testing.T, g gen, worlds []*world) {
	var live []byte
	w := worlds[0]
	for range 14 {
		if len(worlds) > 1 && g.Intn(3) == 0 {
			w = worlds[g.Intn(len(worlds))]
			live = w.prune(t, live)
		}
		version := fmt.Sprint(g.one("v1", "v1", "v2"))
		s := w.versions[version]
		manager := fmt.Sprint(g.one("m1", "m2", "kubectl", "", fmt.Sprintf("u%d", g.Intn(14))))
		liveNow := withVersion(t, live, version)
		var next []byte
		switch op := g.Intn(10); {
		case live == nil && op < 5:
			next = s.update(t, nil, w.prune(t, marshal(t, g.widget(version, true))), "", manager)
		case live == nil || op < 5:
			sub := fmt.Sprint(g.one("", "", "status"))
			if live == nil {
				sub = ""
			}
			next = s.apply(t, liveNow, w.prune(t, marshal(t, g.widget(version, false))), sub, manager, g.Intn(2) == 0)
		case op == 7 && g.Intn(2) == 0:
			next = s.update(t, liveNow, upgraded(t, liveNow, manager), "", "upgrader")
		case op < 8:
			o := g.widget(version, g.Intn(4) == 0)
			keepServerMetadata(t, o, liveNow, g)
			next = s.update(t, liveNow, w.prune(t, marshal(t, o)), "", manager)
		default:
			o := clone(t, liveNow)
			o["status"] = g.status(true)
			next = s.update(t, liveNow, marshal(t, o), "status", manager)
		}
		if next != nil {
			live = withUID(t, next)
		}
	}
}

// upgraded is an object as a client writes it that goes over to server-side apply.
func upgraded(t testing.TB, live []byte, manager string) []byte {
	u := toUnstructured(t, live)
	if err := csaupgrade.UpgradeManagedFields(u, sets.New("m1", "m2", "u1", "u2"), manager); err != nil {
		t.Fatal(err)
	}
	return marshal(t, u.Object)
}

// keepServerMetadata gives an update what the server would keep, and sometimes
// the client's own idea of managedFields.
func keepServerMetadata(t testing.TB, o map[string]any, live []byte, g gen) {
	l := clone(t, live)
	m := o["metadata"].(map[string]any)
	m["uid"] = "u"
	was, ok, _ := unstructured.NestedSlice(l, "metadata", "managedFields")
	switch g.Intn(8) {
	case 0:
		m["managedFields"] = []any{}
	case 1:
		m["managedFields"] = []any{map[string]any{}}
	case 2:
		m["managedFields"] = []any{map[string]any{"manager": "x", "operation": "Bogus", "apiVersion": "demo.io/v1", "fieldsType": "FieldsV1"}}
	case 3:
		if ok && len(was) > 1 {
			m["managedFields"] = was[1:]
		}
	case 4, 5:
		if ok {
			m["managedFields"] = was
		}
	}
}

func withVersion(t testing.TB, raw []byte, version string) []byte {
	if raw == nil {
		return nil
	}
	o := clone(t, raw)
	o["apiVersion"] = "demo.io/" + version
	return marshal(t, o)
}

func withUID(t testing.TB, raw []byte) []byte {
	var o map[string]any
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	u := clone(t, raw)
	u["metadata"].(map[string]any)["uid"] = "u"
	return marshal(t, u)
}
