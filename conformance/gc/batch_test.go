package gc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkit"
	"github.com/keelson-io/keelson/server"
	"github.com/keelson-io/keelson/servertest"
)

// This file carries out many plans at once on two servers: one with upstream's collector, one with
// ours.

const (
	restless = time.Minute // a collector that is not at rest by then never is
	callers  = 6           // concurrent requests to each server
)

// side is a server with one of the collectors.
type side struct {
	store  store.Store
	server *servertest.Server
	client *http.Client
	base   string

	mu     sync.Mutex
	marks  int               // how many marks were created
	uids   []map[int]string  // of the objects of each plan, by their index
	labels map[string]string // of the objects, by their uids
}

// kept is a store that stays open when a server stops.
type kept struct{ store.Store }

func (kept) Close() error { return nil }

// batch is plans that are carried out together.
type batch struct {
	t        *testing.T
	plans    []*plan
	theirs   *side
	ours     *side
	upstream *upstream // nil until it runs
	late     bool      // the late kinds are defined
	differ   []string  // for each plan: how the sides differ; empty if they do not
}

// run carries out plans, which are all created while the collectors run, or none of them is. It
// returns for each plan how the sides differ; the empty text if they do not.
func run(t *testing.T, plans []*plan) []string {
	b := &batch{t: t, plans: plans, differ: make([]string, len(plans))}
	b.theirs, b.ours = b.start(), b.start()
	ctx, stop := context.WithCancel(t.Context())
	var ended <-chan struct{}
	collect := func() {
		b.upstream, ended = startUpstream(ctx, t, b.theirs.server.Config)
		b.ours.server.Stop()
		b.ours.serve(t, "garbage-collector-controller")
		testkit.Eventually(b.t, "upstream's collector follows all kinds", func() bool { return b.follows(false) })
	}
	defer func() {
		stop()
		if ended != nil {
			<-ended
		}
		b.theirs.server.Stop()
		b.ours.server.Stop()
	}()
	if plans[0].live {
		collect()
	}
	for step := range allSteps {
		if step == lateStep {
			unknown := [2]string{b.theirs.mark(b.t, &resources[2], &resources[4]), b.ours.mark(b.t, &resources[2], &resources[4])}
			b.define("late.io", "Leaf", "leaves", "Namespaced", "v1")
			b.define("late.io", "Oak", "oaks", "Cluster", "v1")
			b.late = true
			testkit.Eventually(b.t, "upstream's collector follows the late kinds", func() bool { return b.follows(true) })
			b.theirs.gone(b.t, unknown[0])
			b.ours.gone(b.t, unknown[1])
			b.settle(step)
		}
		rounds := 1
		for _, p := range plans {
			rounds = max(rounds, len(p.steps[step]))
		}
		for at := range rounds {
			b.operate(step, at)
			if b.upstream != nil {
				b.settle(step)
			}
		}
		if b.upstream == nil {
			collect()
			b.settle(step)
		}
		if t.Failed() {
			break
		}
	}
	b.compareEvents()
	return b.differ
}

// start starts a server without a collector.
func (b *batch) start() *side {
	s := &side{store: kept{mem.New(mem.Options{})}, labels: map[string]string{}, uids: make([]map[int]string, len(b.plans))}
	for i := range s.uids {
		s.uids[i] = map[int]string{}
	}
	s.serve(b.t)
	s.define(b.t, "demo.io", "Node", "nodes", "Namespaced", "v1", "v1beta1", "-v1alpha1")
	s.define(b.t, "demo.io", "Tree", "trees", "Cluster", "v1", "-v1beta1")
	for _, namespace := range []string{"a", "b"} {
		s.must(b.t, 201, "POST", "/api/v1/namespaces", fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, namespace))
	}
	has := func(of string) string {
		return fmt.Sprintf(`has(%[1]s.metadata.labels) && "%%[1]s" in %[1]s.metadata.labels`, of)
	}
	s.refuse(b.t, keep, "DELETE", "!("+fmt.Sprintf(has("oldObject"), keep)+")")
	s.refuse(b.t, frozen, "UPDATE", "!("+fmt.Sprintf(has("oldObject")+" && "+has("object"), frozen)+")")
	return s
}

// serve starts a server of the objects of s with controllers.
func (s *side) serve(t *testing.T, controllers ...string) {
	s.server = servertest.Start(t, servertest.Controllers(controllers...), servertest.Configure(func(c *server.Config) { c.Store = s.store }))
	var err error
	if s.client, err = rest.HTTPClientFor(s.server.Config); err != nil {
		t.Fatal(err)
	}
	s.base = s.server.Config.Host
}

// refuse installs a policy that refuses an operation on objects, and waits until it holds.
func (s *side) refuse(t *testing.T, name, operation, expression string) {
	s.must(t, 201, "POST", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", fmt.Sprintf(
		`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":%[1]q},"spec":{"validations":[{"expression":%[2]q}],
		"matchConstraints":{"resourceRules":[{"operations":[%[3]q],"apiGroups":["","demo.io","late.io","rbac.authorization.k8s.io"],"apiVersions":["*"],
		"resources":["nodes","trees","configmaps","clusterroles","leaves","oaks"]}]}}}`, name, expression, operation))
	s.must(t, 201, "POST", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", fmt.Sprintf(
		`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":%[1]q},"spec":{"policyName":%[1]q,"validationActions":["Deny"]}}`, name))
	probe := "/api/v1/namespaces/a/configmaps/probe-" + name
	s.must(t, 201, "POST", "/api/v1/namespaces/a/configmaps", fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"probe-%[1]s","labels":{"%[1]s":""}}}`, name))
	testkit.Eventually(t, "the policy "+name+" refuses", func() bool {
		method, body := "DELETE", ""
		if operation == "UPDATE" {
			method, body = "PATCH", `{"data":{"x":"y"}}`
		}
		code, _ := s.do(t, method, probe+"?dryRun=All", body)
		return code == 422
	})
}

// define defines a kind on both sides; a minus sign marks versions that are not served.
func (b *batch) define(group, kind, plural, scope string, versions ...string) {
	b.theirs.define(b.t, group, kind, plural, scope, versions...)
	b.ours.define(b.t, group, kind, plural, scope, versions...)
}

func (s *side) define(t *testing.T, group, kind, plural, scope string, versions ...string) {
	var list []string
	for i, v := range versions {
		name, unserved := strings.CutPrefix(v, "-")
		list = append(list, fmt.Sprintf(`{"name":%q,"served":%t,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object"}}}`, name, !unserved, i == 0))
	}
	s.must(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.%[2]s"},"spec":{"group":%[2]q,"scope":%[3]q,"names":{"plural":%[1]q,"kind":%[4]q},"versions":[%[5]s]}}`,
		plural, group, scope, kind, strings.Join(list, ",")))
	testkit.Eventually(t, plural+" are served", func() bool {
		code, _ := s.do(t, "GET", "/apis/"+group+"/"+versions[0]+"/"+plural, "")
		return code == 200
	})
}

func (b *batch) follows(late bool) bool {
	return !slices.ContainsFunc(resources, func(r resource) bool {
		return r.late == late && !b.upstream.follows(r.group, r.version, r.plural)
	})
}

func (s *side) must(t *testing.T, want int, method, path, body string) []byte {
	t.Helper()
	code, answer := s.do(t, method, path, body)
	if code != want {
		t.Fatalf("%s %s: got %d, want %d: %s", method, path, code, want, answer)
	}
	return answer
}

func (s *side) do(t *testing.T, method, path, body string) (int, []byte) {
	req, err := http.NewRequest(method, s.base+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	req.Header.Set("Content-Type", "application/json")
	switch method {
	case "PATCH":
		req.Header.Set("Content-Type", "application/merge-patch+json")
	case "GET":
		req.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, answer
}

// operate carries out one operation of a step of each plan on both sides.
func (b *batch) operate(step, at int) {
	codes := [2][]string{make([]string, len(b.plans)), make([]string, len(b.plans))}
	var group sync.WaitGroup
	for n, s := range []*side{b.theirs, b.ours} {
		next := make(chan int)
		group.Go(func() {
			defer close(next)
			for slot := range b.plans {
				if b.differ[slot] == "" {
					next <- slot
				}
			}
		})
		for range callers {
			group.Go(func() {
				for slot := range next {
					p := b.plans[slot]
					if ops := p.steps[step]; at < len(ops) {
						codes[n][slot] = fmt.Sprintf("%s %s: %d\n", ops[at].verb, p.label(ops[at].object), s.operate(b.t, p, slot, &ops[at]))
					}
				}
			})
		}
	}
	group.Wait()
	for slot := range b.plans {
		if codes[0][slot] != codes[1][slot] && b.differ[slot] == "" {
			b.differ[slot] = fmt.Sprintf("step %d has other results\nupstream:\n%sours:\n%s", step, codes[0][slot], codes[1][slot])
		}
	}
}

// operate carries out an operation, and returns the status code.
func (s *side) operate(t *testing.T, p *plan, slot int, op *operation) int {
	o := &p.objects[op.object]
	collection := o.kind.path(o.namespace)
	path := collection + "/" + nameIn(slot, o.name)
	var patch any
	switch op.verb {
	case "create":
		meta := metav1.ObjectMeta{Name: nameIn(slot, o.name), Namespace: o.namespace, Finalizers: o.finalizers, OwnerReferences: s.owners(slot, o.owners)}
		if o.label != "" {
			meta.Labels = map[string]string{o.label: ""}
		}
		object := struct {
			metav1.TypeMeta
			metav1.ObjectMeta `json:"metadata"`
		}{metav1.TypeMeta{APIVersion: o.kind.apiVersion(), Kind: o.kind.kind}, meta}
		code, answer := s.do(t, "POST", collection, encode(object))
		var created struct{ Metadata metav1.ObjectMeta }
		if code == 201 && json.Unmarshal(answer, &created) == nil {
			s.mu.Lock()
			s.uids[slot][op.object] = string(created.Metadata.UID)
			s.labels[string(created.Metadata.UID)] = fmt.Sprintf("#%d", op.object)
			s.mu.Unlock()
		}
		return code
	case "delete":
		options := metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}}
		if op.policy != "" {
			options.PropagationPolicy = &op.policy
		}
		code, _ := s.do(t, "DELETE", path, encode(options))
		return code
	case "owners":
		patch = map[string]any{"ownerReferences": s.owners(slot, op.owners)}
	case "finalizers":
		patch = map[string]any{"finalizers": op.finalizers}
	case "free":
		patch = map[string]any{"labels": nil}
	}
	code, _ := s.do(t, "PATCH", path, encode(map[string]any{"metadata": patch}))
	return code
}

// owners returns references with the uids of this side.
func (s *side) owners(slot int, list []reference) []metav1.OwnerReference {
	out := []metav1.OwnerReference{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range list {
		o := metav1.OwnerReference{APIVersion: r.apiVersion, Kind: r.kind, Name: nameIn(slot, r.name)}
		uid := r.uid
		if r.of >= 0 {
			if uid = s.uids[slot][r.of]; uid == "" {
				uid = fmt.Sprintf("not-created-%d", r.of)
			}
		}
		if r.of < 0 || s.uids[slot][r.of] == "" {
			uid = nameIn(slot, uid)
		}
		o.UID = types.UID(uid)
		if r.block != "" {
			block := r.block == "true"
			o.BlockOwnerDeletion = &block
		}
		out = append(out, o)
	}
	return out
}

// nameIn returns the name in the cluster of an object of a plan.
func nameIn(slot int, name string) string { return fmt.Sprintf("g%d-%s", slot, name) }

// slotOf returns the plan of a name, and the name in it.
func slotOf(name string) (slot int, short string, ok bool) {
	prefix, short, ok := strings.Cut(name, "-")
	if !ok || !strings.HasPrefix(prefix, "g") {
		return 0, "", false
	}
	slot, err := strconv.Atoi(prefix[1:])
	return slot, short, err == nil
}

func (r *resource) path(namespace string) string {
	path := "/apis/" + r.group + "/" + r.version
	if r.group == "" {
		path = "/api/" + r.version
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + r.plural
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// settle waits until both collectors are at rest, and compares the sides.
func (b *batch) settle(step int) {
	began := time.Now()
	var theirs, ours []string
	for range 3 { // what ours tries again by itself may take longer than a mark
		b.rest()
		if theirs, ours = b.theirs.state(b), b.ours.state(b); slices.Equal(theirs, ours) {
			break
		}
	}
	for slot := range b.plans {
		if b.differ[slot] == "" && theirs[slot] != ours[slot] {
			when := fmt.Sprintf("after step %d\n", step)
			if step == 0 && !b.plans[slot].live {
				when = atStart
			}
			b.differ[slot] = fmt.Sprintf("%supstream:\n%sours:\n%s", when, theirs[slot], ours[slot])
			if *trace {
				b.t.Logf("%s%s", b.plans[slot], b.differ[slot])
			}
		}
	}
	if *trace {
		b.t.Logf("step %d: compared after %s", step, time.Since(began))
	}
}

// rest waits until neither collector has anything to do.
func (b *batch) rest() {
	var marked []*resource
	for i := range resources {
		if r := &resources[i]; !r.late || b.late {
			marked = append(marked, r)
		}
	}
	var group sync.WaitGroup
	// Upstream has a queue of changes for each resource, and tries again what has failed. It looks at the dependents of an owner when the
	// owner begins to wait for them, and not when they are created or changed: it is told to look at everything again.
	group.Go(func() {
		b.theirs.rest(b.t, marked, 2, b.upstream.lookAgain, func() {
			// The queues never empty while dependents disagree about an owner that is absent.
			for deadline := time.Now().Add(time.Second); b.upstream.queued.Load() > 0 && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(2 * orphanRetry)
		})
	})
	group.Go(func() { b.ours.rest(b.t, marked[:1], 3, func() {}, func() {}) })
	group.Wait()
}

// rest waits until a collector deletes marks, and does nothing else, several times in turn: then it has done all it wants to do.
func (s *side) rest(t *testing.T, marked []*resource, turns int, before, after func()) {
	began := time.Now()
	for calm := 0; calm < turns; {
		if time.Since(began) > restless {
			t.Error("a collector is not at rest")
			return
		}
		revision := s.revision(t)
		before()
		var paths []string
		for _, r := range marked {
			paths = append(paths, s.mark(t, r, r))
		}
		for _, path := range paths {
			s.gone(t, path)
		}
		after()
		if calm++; s.revision(t) != revision+2*int64(len(paths)) {
			calm = 0
		}
	}
}

// mark creates an object with an owner that never was, which the collector deletes. It returns the path.
func (s *side) mark(t *testing.T, r, owner *resource) string {
	s.marks++
	name, namespace := fmt.Sprintf("mark-%d", s.marks), ""
	if r.namespaced {
		namespace = "a"
	}
	code, answer := s.do(t, "POST", r.path(namespace), fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":"never","uid":%[3]q}]}}`,
		r.apiVersion(), r.kind, name, owner.apiVersion(), owner.kind))
	if code != 201 {
		t.Errorf("a mark of %s is not created: %s", r.plural, answer)
	}
	return r.path(namespace) + "/" + name
}

// gone waits until an object is deleted.
func (s *side) gone(t *testing.T, path string) {
	for deadline := time.Now().Add(restless); ; time.Sleep(time.Millisecond) {
		switch code, _ := s.do(t, "GET", path, ""); {
		case code == 404:
			return
		case time.Now().After(deadline):
			t.Errorf("%s is not deleted", path)
			return
		}
	}
}

func (s *side) revision(t *testing.T) int64 {
	rev, err := s.store.Revision(t.Context())
	if err != nil {
		t.Error(err)
	}
	return rev
}

// list calls fn with all objects of the plans.
func (s *side) list(b *batch, fn func(r *resource, slot int, name string, m *metav1.ObjectMeta)) {
	for i := range resources {
		r := &resources[i]
		if r.late && !b.late {
			continue
		}
		var list struct {
			Items []struct{ Metadata metav1.ObjectMeta }
		}
		if err := json.Unmarshal(s.must(b.t, 200, "GET", r.path(""), ""), &list); err != nil {
			b.t.Fatal(err)
		}
		for j := range list.Items {
			if slot, name, ok := slotOf(list.Items[j].Metadata.Name); ok {
				fn(r, slot, name, &list.Items[j].Metadata)
			}
		}
	}
}

// state renders the objects of each plan.
func (s *side) state(b *batch) []string {
	lines := make([][]string, len(b.plans))
	s.list(b, func(r *resource, slot int, name string, m *metav1.ObjectMeta) {
		var line strings.Builder
		fmt.Fprintf(&line, "  %s %s %s/%s", s.label(string(m.UID)), r.kind, m.Namespace, name)
		if m.DeletionTimestamp != nil {
			line.WriteString(" deleting")
		}
		fmt.Fprintf(&line, " %v", m.Finalizers)
		for _, o := range m.OwnerReferences {
			block := ""
			if o.BlockOwnerDeletion != nil {
				block = fmt.Sprint(*o.BlockOwnerDeletion)
			}
			fmt.Fprintf(&line, "\n      owner %s %s %s %s block=%s", o.APIVersion, o.Kind, o.Name, s.label(string(o.UID)), block)
		}
		line.WriteByte('\n')
		lines[slot] = append(lines[slot], line.String())
	})
	out := make([]string, len(b.plans))
	for slot := range lines {
		sort.Strings(lines[slot])
		out[slot] = strings.Join(lines[slot], "")
	}
	return out
}

// label returns the name of an object by its uid, or the uid.
func (s *side) label(uid string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.labels[uid]; l != "" {
		return l
	}
	return uid
}

// compareEvents compares the warnings of both collectors.
func (b *batch) compareEvents() {
	var theirs, ours []string
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		theirs, ours = b.theirs.events(b), b.ours.events(b)
		if slices.Equal(theirs, ours) || time.Now().After(deadline) {
			break
		}
	}
	for slot := range b.plans {
		if b.differ[slot] == "" && theirs[slot] != ours[slot] {
			b.differ[slot] = fmt.Sprintf("%s\nupstream:\n%sours:\n%s", otherEvents, theirs[slot], ours[slot])
		}
	}
}

const (
	otherEvents = "other events"
	// A collector looks at what it finds when it starts in any order. Upstream's may remove the finalizer of an owner whose dependents are to
	// be orphaned before it knows the dependents, and deletes them then.
	atStart = "at the start\n"
)

func (s *side) events(b *batch) []string {
	lines := make([]map[string]bool, len(b.plans))
	req, _ := http.NewRequest("GET", s.base+"/api/v1/events", nil)
	resp, err := s.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	var list corev1.EventList
	var text bytes.Buffer
	if _, err = text.ReadFrom(resp.Body); err == nil {
		err = json.Unmarshal(text.Bytes(), &list)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range list.Items {
		e := &list.Items[i]
		slot, short, ok := slotOf(e.InvolvedObject.Name)
		if !ok {
			continue
		}
		message := e.Message
		if _, uid, ok := strings.Cut(message, "uid: "); ok {
			uid, _, _ = strings.Cut(uid, "]")
			message = strings.Replace(message, uid, s.label(uid), 1)
		}
		if lines[slot] == nil {
			lines[slot] = map[string]bool{}
		}
		lines[slot][fmt.Sprintf("  %s %s in %q, about %s %s %s %s/%s: %s\n", e.Type, e.Reason, e.Namespace, s.label(string(e.InvolvedObject.UID)),
			e.InvolvedObject.APIVersion, e.InvolvedObject.Kind, e.InvolvedObject.Namespace, short, message)] = true
	}
	out := make([]string, len(b.plans))
	for slot := range lines {
		var all []string
		for line := range lines[slot] {
			all = append(all, line)
		}
		sort.Strings(all)
		out[slot] = strings.Join(all, "")
	}
	return out
}
