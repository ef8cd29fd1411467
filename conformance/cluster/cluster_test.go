package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

const (
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	gadgets     = "/apis/demo.example.org/v1/namespaces/default/gadgets"

	writers    = 8               // clients that read and write
	keysAtOnce = 4               // objects that they contend for
	epoch      = 2 * time.Second // after which there are other objects, so that no history gets too long to be checked
)

const gadgetDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.demo.example.org"},
"spec":{"group":"demo.example.org","scope":"Namespaced","names":{"plural":"gadgets","singular":"gadget","kind":"Gadget"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",
"properties":{"spec":{"type":"object","properties":{"value":{"type":"integer"}}}}}}}]}}`

// client is one of many that read and write. It goes on with the next server when one does not answer.
type client struct {
	id       int
	rng      *rand.Rand
	cluster  *cluster
	history  *history
	at       int
	versions map[string]string // of objects that it read, by key
	values   *atomic.Int64
}

func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		key := fmt.Sprintf("g%d-%d", time.Since(c.history.began)/epoch, c.rng.IntN(keysAtOnce))
		verbs := []string{"get", "get", "get", "create", "patch", "patch", "put", "put", "put", "delete"}
		in := operation{key: key, verb: verbs[c.rng.IntN(len(verbs))]}
		if in.version = c.versions[key]; in.verb == "put" && in.version == "" {
			in.verb = "get"
		}
		if in.verb != "put" {
			in.version = ""
		}
		if in.verb != "get" && in.verb != "delete" {
			in.value = int(c.values.Add(1))
		}
		at := time.Now()
		out := c.ask(ctx, in)
		c.history.add(c.id, at, in, out)
		if out.version != "" {
			c.versions[key] = out.version
		}
		if out.unknown {
			c.at++
			pause(ctx, 20*time.Millisecond)
		}
	}
}

// ask carries an operation out.
func (c *client) ask(ctx context.Context, in operation) outcome {
	r := c.cluster.replicas[(c.id+c.at)%len(c.cluster.replicas)]
	path := gadgets + "/" + in.key
	body := fmt.Sprintf(`{"apiVersion":"demo.example.org/v1","kind":"Gadget","metadata":{"name":%q,"resourceVersion":%q},"spec":{"value":%d}}`, in.key, in.version, in.value)
	method := map[string]string{"get": "GET", "create": "POST", "put": "PUT", "patch": "PATCH", "delete": "DELETE"}[in.verb]
	switch in.verb {
	case "create":
		path = gadgets
	case "patch":
		body = fmt.Sprintf(`{"spec":{"value":%d}}`, in.value)
	case "get", "delete":
		body = ""
	}
	code, answer, err := r.do(context.WithoutCancel(ctx), method, path, body)
	if err != nil || code >= 500 || code == http.StatusTooManyRequests {
		return outcome{unknown: true}
	}
	var g gadget
	if err := json.Unmarshal(answer, &g); err != nil || code >= 400 && g.Details.Name != in.key {
		c.cluster.t.Errorf("%s: %s %s: %d %s", r.name, method, path, code, answer) // for one, 404 of a kind that is not served yet
	}
	out := outcome{code: code, value: g.Spec.Value}
	if code < 300 && in.verb != "delete" {
		out.version = g.Metadata.ResourceVersion
	}
	return out
}

// Ledger: watch-history.
func TestKillAnyProcess(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := startCluster(t)
	start := c.define()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var watchers []*watcher
	var watching sync.WaitGroup
	for i := range 6 {
		w := &watcher{name: fmt.Sprintf("watcher %d", i), replicas: c.replicas, at: i, last: start}
		watchers = append(watchers, w)
		watching.Go(func() { w.run(ctx) })
	}
	stores := c.informers(ctx)

	h := &history{began: time.Now()}
	busy, rest := context.WithTimeout(ctx, *load)
	defer rest()
	var working sync.WaitGroup
	var values atomic.Int64
	for i := range writers {
		cl := &client{id: i, rng: rand.New(rand.NewPCG(seed, uint64(i))), cluster: c, history: h, versions: map[string]string{}, values: &values}
		working.Go(func() { cl.run(busy) })
	}
	c.harass(busy, rand.New(rand.NewPCG(seed, 1000)))
	working.Wait()
	for _, r := range c.replicas {
		r.waitReady(30 * time.Second)
	}

	final, version := c.readAll(h)
	c.caughtUp(watchers, version)
	c.informersAgree(stores, final)
	stop()
	watching.Wait()
	t.Logf("%d operations, %d of them without an answer, %d processes killed, %d objects left", len(h.all), h.unknown, c.kills, len(final))
	all := h.resolved(watchers[0].changes)
	switch result := porcupine.CheckOperationsTimeout(gadgetModel, all, remaining(t)); result {
	case porcupine.Ok:
	case porcupine.Unknown:
		t.Error("not decided in the time that the test has: whether the history is linearizable")
	default:
		t.Error("the history is not linearizable")
		explain(t, all)
	}
	c.checkWatches(watchers, h, start)
}

// remaining is the time that the test has left, but for a minute to end in; without a limit (0), all that it takes.
func remaining(t *testing.T) time.Duration {
	end, limited := t.Deadline()
	if !limited {
		return 0
	}
	return max(time.Until(end)-time.Minute, time.Second)
}

// define creates the definition and returns the version to watch from, when all servers serve its objects.
func (c *cluster) define() int64 {
	c.t.Helper()
	if code, b, err := c.replicas[0].do(context.Background(), "POST", definitions, gadgetDefinition); err != nil || code != http.StatusCreated {
		c.t.Fatalf("definition: %d %s %v", code, b, err)
	}
	var list gadget
	for _, r := range c.replicas {
		c.until(r.name+" serves gadgets", func() bool {
			code, b, err := r.do(context.Background(), "GET", gadgets, "")
			return err == nil && code == http.StatusOK && json.Unmarshal(b, &list) == nil
		})
	}
	version, err := strconv.ParseInt(list.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		c.t.Fatal(err)
	}
	return version
}

// informerPatience is how long an informer may take to be back: client-go pauses for up to half a minute between its tries, at most twice
// that with what chance adds.
const informerPatience = 90 * time.Second

func (c *cluster) until(what string, ok func() bool, but ...func() string) {
	c.t.Helper()
	c.untilWithin(30*time.Second, what, ok, but...)
}

func (c *cluster) untilWithin(limit time.Duration, what string, ok func() bool, but ...func() string) {
	c.t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			for _, text := range but {
				c.t.Log(text())
			}
			c.t.Fatalf("not after %v: %s", limit, what)
		}
	}
}

// readAll reads every object that was ever named, at each server in turn, which is part of the history, and compares it with the
// servers' lists. It returns the objects' versions, and that of the lists.
func (c *cluster) readAll(h *history) (map[string]string, int64) {
	c.t.Helper()
	keys := map[string]bool{}
	for _, op := range h.all {
		keys[op.Input.(operation).key] = true
	}
	final := map[string]string{}
	i := 0
	for key := range keys {
		reader := &client{id: writers, cluster: c, at: i, history: h}
		i++
		at := time.Now()
		var out outcome
		c.until("an answer about "+key, func() bool {
			at = time.Now()
			out = reader.ask(context.Background(), operation{key: key, verb: "get"})
			return !out.unknown
		})
		h.add(reader.id, at, operation{key: key, verb: "get"}, out)
		if out.code == http.StatusOK {
			final[key] = out.version
		}
	}
	var version int64
	for _, r := range c.replicas {
		code, b, err := r.do(context.Background(), "GET", gadgets, "")
		var list struct {
			Metadata struct{ ResourceVersion string }
			Items    []gadget
		}
		if err != nil || code != http.StatusOK || json.Unmarshal(b, &list) != nil {
			c.t.Fatalf("%s: list: %d, %v", r.name, code, err)
		}
		have := map[string]string{}
		for _, g := range list.Items {
			have[g.Metadata.Name] = g.Metadata.ResourceVersion
		}
		if fmt.Sprint(have) != fmt.Sprint(final) {
			c.t.Errorf("%s: the list has\n%v, single reads had\n%v", r.name, have, final)
		}
		if version, err = strconv.ParseInt(list.Metadata.ResourceVersion, 10, 64); err != nil {
			c.t.Fatal(err)
		}
	}
	return final, version
}

// caughtUp waits until all watchers have everything: one more object is written, for the last change to be one that they see.
func (c *cluster) caughtUp(watchers []*watcher, version int64) {
	c.t.Helper()
	last := &client{id: writers + 1, cluster: c, history: &history{began: time.Now()}, values: &atomic.Int64{}}
	out := last.ask(context.Background(), operation{key: "last", verb: "create"})
	end, err := strconv.ParseInt(out.version, 10, 64)
	if err != nil || end <= version {
		c.t.Fatalf("the last write: %+v, want a version after %d", out, version)
	}
	for _, w := range watchers {
		c.until(w.name+" is told of the last write", func() bool { return w.reached(end) }, func() string { return fmt.Sprintf("%s, want %d", w, end) })
	}
}

// informers are client-go's, one for each server, which they stay with.
func (c *cluster) informers(ctx context.Context) []cache.SharedIndexInformer {
	c.t.Helper()
	var all []cache.SharedIndexInformer
	for _, r := range c.replicas {
		d, err := dynamic.NewForConfig(r.config)
		if err != nil {
			c.t.Fatal(err)
		}
		resource := schema.GroupVersionResource{Group: "demo.example.org", Version: "v1", Resource: "gadgets"}
		i := dynamicinformer.NewFilteredDynamicInformer(d, resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
		go i.RunWithContext(ctx)
		all = append(all, i)
	}
	return all
}

// informersAgree waits until informers hold what was read in the end.
func (c *cluster) informersAgree(informers []cache.SharedIndexInformer, final map[string]string) {
	c.t.Helper()
	for i, informer := range informers {
		have := map[string]string{}
		c.untilWithin(informerPatience, fmt.Sprintf("the informer of server %d agrees", i), func() bool {
			clear(have)
			for _, o := range informer.GetStore().List() {
				if u := o.(*unstructured.Unstructured); u.GetName() != "last" {
					have[u.GetName()] = u.GetResourceVersion()
				}
			}
			return fmt.Sprint(have) == fmt.Sprint(final)
		}, func() string { return fmt.Sprintf("it has %v, want %v", have, final) })
	}
}

// checkWatches holds that every watcher saw the same changes, each once and in order, and among them each write that was acknowledged.
func (c *cluster) checkWatches(watchers []*watcher, h *history, start int64) {
	c.t.Helper()
	first := watchers[0].changes
	byVersion := map[int64]change{}
	for _, e := range first {
		byVersion[e.version] = e
	}
	for _, w := range watchers {
		for _, text := range w.expired {
			c.t.Errorf("%s: %s", w.name, text)
		}
		before := start
		for _, e := range w.changes {
			if e.version <= before {
				c.t.Errorf("%s: %+v after version %d", w.name, e, before)
			}
			before = e.version
		}
		if !slices.Equal(w.changes, first) {
			c.t.Errorf("%s saw %d changes, %s %d, which are not the same: %s", w.name, len(w.changes), watchers[0].name, len(first), differing(w, watchers[0]))
		}
	}
	writes := 0
	for _, op := range h.all {
		in, out := op.Input.(operation), op.Output.(outcome)
		if out.unknown || out.version == "" || in.verb == "get" {
			continue
		}
		writes++
		version, _ := strconv.ParseInt(out.version, 10, 64)
		if e := byVersion[version]; e.key != in.key || e.value != in.value {
			c.t.Errorf("%+v was acknowledged with version %s; watches say %+v", in, out.version, e)
		}
	}
	resumed := 0
	for _, w := range watchers {
		resumed += w.resumed
	}
	c.t.Logf("%d writes acknowledged, %d changes seen by each of %d watchers, which went on %d times", writes, len(first), len(watchers), resumed)
	if writes == 0 || len(first) < writes {
		c.t.Error("nothing was tested")
	}
}

// differing says which changes one watcher saw and another one did not, and when each of them went on elsewhere about then.
func differing(a, b *watcher) string {
	var out strings.Builder
	for _, pair := range [][2]*watcher{{a, b}, {b, a}} {
		seen := map[change]bool{}
		for _, e := range pair[1].changes {
			seen[e] = true
		}
		for i, e := range pair[0].changes {
			if !seen[e] && out.Len() < 4000 {
				fmt.Fprintf(&out, "\n%s saw %+v (the %dth), %s did not, and went on at: %s", pair[0].name, e, i, pair[1].name, pair[1].wentOn(e.version))
			}
		}
	}
	return out.String()
}

// explain prints of two objects whose histories make no sense how far they do, and what comes then.
func explain(t *testing.T, all []porcupine.Operation) {
	t.Helper()
	shown := 0
	for _, part := range byKey(all) {
		result, info := porcupine.CheckOperationsVerbose(gadgetModel, part, 30*time.Second)
		if shown == 2 || result != porcupine.Illegal {
			continue
		}
		shown++
		var best []porcupine.Operation
		for _, order := range info.PartialLinearizationsOperations()[0] {
			if len(order) > len(best) {
				best = order
			}
		}
		in := map[porcupine.Operation]bool{}
		for _, op := range best {
			in[op] = true
		}
		rest := slices.DeleteFunc(slices.Clone(part), func(op porcupine.Operation) bool { return in[op] })
		slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
		t.Logf("these are in order:\n%sand then these are not:\n%s", describe(best[max(0, len(best)-12):]), describe(rest[:min(12, len(rest))]))
	}
}

func describe(ops []porcupine.Operation) string {
	var b strings.Builder
	for _, op := range ops {
		fmt.Fprintf(&b, "%10.3f–%10.3f ms  %s\n", float64(op.Call)/1e6, float64(op.Return)/1e6, gadgetModel.DescribeOperation(op.Input, op.Output))
	}
	return b.String()
}
