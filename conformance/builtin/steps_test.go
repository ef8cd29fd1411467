package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file is the matrix: what both servers are asked about each kind.

// without are resources that the matrix is not about: they are not objects, or have a comparison of their own.
var without = map[string]bool{
	"componentstatuses": true, // which nobody writes
	"namespaces":        true, "bindings": true, "apiextensions.k8s.io/customresourcedefinitions": true, "apiregistration.k8s.io/apiservices": true,
	"authentication.k8s.io/tokenreviews": true, "authentication.k8s.io/selfsubjectreviews": true,
	"authorization.k8s.io/subjectaccessreviews": true, "authorization.k8s.io/localsubjectaccessreviews": true,
	"authorization.k8s.io/selfsubjectaccessreviews": true, "authorization.k8s.io/selfsubjectrulesreviews": true,
}

// subject is a kind in a version.
type subject struct {
	group
	metav1.APIResource
	name    string // group/resource
	minimal map[string]any
}

// collection is the path of the objects.
func (s *subject) collection() string {
	if s.Namespaced {
		return s.base() + "/namespaces/default/" + s.Name()
	}
	return s.base() + "/" + s.Name()
}

// Name is the resource.
func (s *subject) Name() string { return s.APIResource.Name }

// named is the name of the nth object.
func (s *subject) named(n int) string {
	if s.name == "networking.k8s.io/ipaddresses" {
		return fmt.Sprintf("10.0.0.20%d", n)
	}
	return fmt.Sprintf("x%d", n)
}

// object is an object of a name, with more members than it has to have.
func (s *subject) object(name string, more ...map[string]any) map[string]any {
	o := clone(s.minimal)
	o["apiVersion"], o["kind"] = s.GroupVersion.String(), s.Kind
	m, _ := o["metadata"].(map[string]any)
	if m == nil {
		m = map[string]any{}
	}
	m["name"] = name
	o["metadata"] = m
	for _, add := range more {
		merge(o, clone(add))
	}
	return o
}

// merge puts members into an object, and into those inside.
func merge(o, more map[string]any) {
	for k, v := range more {
		if inner, ok := o[k].(map[string]any); ok {
			if m, ok := v.(map[string]any); ok {
				merge(inner, m)
				continue
			}
		}
		o[k] = v
	}
}

func clone(o map[string]any) map[string]any {
	out := map[string]any{}
	if err := json.Unmarshal([]byte(print(o)), &out); err != nil {
		panic("BUG: " + err.Error())
	}
	return out
}

type m = map[string]any

// Media types.
const (
	asProtobuf    = "application/vnd.kubernetes.protobuf"
	asTable       = "application/json;as=Table;v=v1;g=meta.k8s.io"
	asPartial     = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	asPartialList = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	mergePatch    = "application/merge-patch+json"
	strategic     = "application/strategic-merge-patch+json"
	jsonPatch     = "application/json-patch+json"
	applyPatch    = "application/apply-patch+yaml"
)

func labels(pairs ...string) m {
	l := m{}
	for i := 0; i < len(pairs); i += 2 {
		l[pairs[i]] = pairs[i+1]
	}
	return m{"metadata": m{"labels": l}}
}

// start asks about what servers make themselves.
func (r *run) start() {
	r.t.Helper()
	see := func(path string) { r.ask(path, "start", &request{method: "GET", path: path}) }
	for _, path := range []string{"namespaces/default", "namespaces/kube-system", "namespaces/default/services/kubernetes", "namespaces/default/endpoints/kubernetes"} {
		see("/api/v1/" + path)
	}
	see("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")
	for _, plural := range []string{"clusterroles", "clusterrolebindings", "roles", "rolebindings"} {
		var list metav1.PartialObjectMetadataList
		r.read(1, "/apis/rbac.authorization.k8s.io/v1/"+plural, &list)
		for _, o := range list.Items {
			path := plural + "/" + o.Name
			if o.Namespace != "" {
				path = "namespaces/" + o.Namespace + "/" + path
			}
			see("/apis/rbac.authorization.k8s.io/v1/" + path)
		}
	}
}

// surroundings makes what admission plugins look up: the service accounts, which a controller of the cluster makes otherwise, and the
// classes that pods name.
func (r *run) surroundings() {
	r.t.Helper()
	put := func(path, name string, body m) {
		r.t.Helper()
		body["metadata"] = m{"name": name}
		for _, a := range r.ask(path, "surroundings", &request{method: "POST", path: path, body: body}) {
			if a.code != http.StatusCreated {
				r.t.Fatalf("%s %s: %d %s", path, name, a.code, a.body)
			}
		}
	}
	for _, name := range []string{"default", "sa", "n0"} {
		put("/api/v1/namespaces/default/serviceaccounts", name, m{})
	}
	put("/apis/node.k8s.io/v1/runtimeclasses", "n0", m{"handler": "h", "overhead": m{"podFixed": m{"cpu": "1"}}})
	for i, policy := range []string{"PreemptLowerPriority", "Never"} {
		put("/apis/scheduling.k8s.io/v1/priorityclasses", fmt.Sprintf("n%d", i), m{"value": 1 + i, "preemptionPolicy": policy})
	}
}

// kind asks everything about one kind.
func (r *run) kind(s *subject) {
	r.t.Helper()
	x1, x2, x3 := s.named(1), s.named(2), s.named(3)
	all, one := s.collection(), s.collection()+"/"+x1
	ask := func(step, method, path string, body any, types ...string) [2]*answer {
		r.t.Helper()
		q := &request{method: method, path: path, body: body}
		if len(types) > 0 {
			q.kind = types[0]
		}
		return r.ask(s.name, step, q)
	}
	see := func(step, path, accept string) {
		r.t.Helper()
		r.ask(s.name, step, &request{method: "GET", path: path, accept: accept})
	}
	watch := r.watch(s)
	bogus := m{"bogus": 1}
	ask("dry run", "POST", all+"?dryRun=All", s.object(x1))
	ask("strict", "POST", all+"?fieldValidation=Strict&dryRun=All", s.object(x1, bogus))
	ask("warn", "POST", all+"?dryRun=All", s.object(x1, bogus))
	ask("ignore", "POST", all+"?fieldValidation=Ignore&dryRun=All", s.object(x1, bogus))
	ask("bad name", "POST", all+"?dryRun=All", s.object("A_b"))
	ask("no name", "POST", all+"?dryRun=All", s.object(""))
	ask("bad finalizer", "POST", all+"?dryRun=All", s.object(x1, m{"metadata": m{"finalizers": []string{"x"}}}))
	ask("bad labels", "POST", all+"?dryRun=All", s.object(x1, labels("a b", "c d")))
	ask("wrong kind", "POST", all+"?dryRun=All", m{"apiVersion": s.GroupVersion.String(), "kind": "Other", "metadata": m{"name": x1}})
	ask("wrong version", "POST", all+"?dryRun=All", m{"apiVersion": "a.io/v9", "kind": s.Kind, "metadata": m{"name": x1}})
	ask("wrong namespace", "POST", all+"?dryRun=All", s.object(x1, m{"metadata": m{"namespace": "other"}}))
	ask("wrong types", "POST", all+"?dryRun=All", m{"apiVersion": s.GroupVersion.String(), "kind": s.Kind, "metadata": m{"name": 1}})
	ask("empty", "POST", all+"?dryRun=All", m{"apiVersion": s.GroupVersion.String(), "kind": s.Kind, "metadata": m{"name": "x9"}})
	made := ask("create", "POST", all, s.object(x1))
	if made[0].code >= 300 || made[1].code >= 300 {
		return
	}
	for i, spec := range variants[s.name] {
		ask(fmt.Sprintf("variant %d", i), "POST", all+"?dryRun=All", s.object(s.named(8), m{"spec": spec}))
	}
	ask("create again", "POST", all, s.object(x1))
	see("get", one, "")
	see("get as table", one, asTable)
	see("get as partial", one, asPartial)
	see("get as protobuf", one, asProtobuf)
	see("list as protobuf", all+"?fieldSelector=metadata.name%3D"+x1, asProtobuf)
	see("list", all+"?fieldSelector=metadata.name%3D"+x1, "")
	see("list as table", all+"?fieldSelector=metadata.name%3D"+x1, asTable)
	see("list as table with objects", all+"?fieldSelector=metadata.name%3D"+x1+"&includeObject=Object", asTable)
	see("list as partial", all+"?fieldSelector=metadata.name%3D"+x1, asPartialList)
	see("one as a list of metadata", one, asPartialList)
	see("a list as one's metadata", all+"?fieldSelector=metadata.name%3D"+x1, asPartial)
	for _, accept := range []string{"application/*", "APPLICATION/JSON", "text/html, application/yaml;q=0.1", ","} {
		see("get as "+accept, one, accept)
		see("list as "+accept, all+"?fieldSelector=metadata.name%3D"+x1, accept)
	}
	ask("patch of a type that there is not", "PATCH", one, m{}, "text/plain")
	see("list nothing", all+"?labelSelector=none%3Dnone", "")
	see("bad field", all+"?fieldSelector=spec.nothing%3D1", "")
	ask("put another name", "PUT", one, s.object(x2))
	ask("put without version", "PUT", one, s.object(x1, labels("u", "1")))
	ask("put stale", "PUT", one, s.object(x1, labels("u", "1"), m{"metadata": m{"resourceVersion": "1"}}))
	ask("put missing", "PUT", all+"/none?dryRun=All", s.object("none"))
	ask("put another uid", "PUT", one, s.object(x1, m{"metadata": m{"uid": "u"}}))
	ask("merge", "PATCH", one, labels("m", "1"), mergePatch)
	ask("merge no change", "PATCH", one, labels("m", "1"), mergePatch)
	ask("merge unknown", "PATCH", one, bogus, mergePatch)
	ask("merge strict", "PATCH", one+"?fieldValidation=Strict", bogus, mergePatch)
	ask("merge missing", "PATCH", all+"/none", labels("m", "1"), mergePatch)
	ask("strategic", "PATCH", one, m{"metadata": m{"labels": m{"s": "1", "m": nil}, "finalizers": []string{"a.io/b"}}}, strategic)
	ask("strategic directive", "PATCH", one, m{"metadata": m{"labels": m{"$patch": "replace", "r": "1"}}}, strategic)
	ask("strategic of a list", "PATCH", one, m{"metadata": m{"$deleteFromPrimitiveList/finalizers": []string{"a.io/c"}}}, strategic)
	ask("json", "PATCH", one, []m{{"op": "add", "path": "/metadata/annotations", "value": m{"a": "b"}}}, jsonPatch)
	ask("json test", "PATCH", one, []m{{"op": "test", "path": "/metadata/name", "value": "other"}}, jsonPatch)
	ask("patch of no type", "PATCH", one, labels("m", "1"), "application/json")
	ask("apply", "PATCH", one+"?fieldManager=m1", s.object(x1), applyPatch)
	ask("apply force", "PATCH", one+"?fieldManager=m1&force=true", s.object(x1), applyPatch)
	ask("apply again", "PATCH", one+"?fieldManager=m1&force=true", s.object(x1), applyPatch)
	ask("apply other", "PATCH", one+"?fieldManager=m2", s.object(x1, labels("m2", "y")), applyPatch)
	ask("apply unknown", "PATCH", one+"?fieldManager=m1&force=true", s.object(x1, bogus), applyPatch)
	ask("apply new", "PATCH", all+"/"+s.named(7)+"?fieldManager=m1&dryRun=All", s.object(s.named(7)), applyPatch)
	ask("apply without manager", "PATCH", one, s.object(x1), applyPatch)
	r.subresources(s, ask, see)
	ask("patch of a bad finalizer", "PATCH", one+"?dryRun=All", m{"metadata": m{"finalizers": []string{"x", "a b"}}}, mergePatch)
	ask("delete dry run", "DELETE", one+"?dryRun=All", nil)
	ask("delete another uid", "DELETE", one, m{"preconditions": m{"uid": "u"}})
	ask("delete with finalizer", "DELETE", one+"?gracePeriodSeconds=0", nil)
	see("get terminating", one, "")
	see("table terminating", one, asTable)
	ask("patch terminating", "PATCH", one, labels("t", "1"), mergePatch)
	ask("delete again", "DELETE", one, m{"propagationPolicy": "Foreground", "gracePeriodSeconds": 0})
	ask("take finalizers away", "PATCH", one, m{"metadata": m{"finalizers": nil}}, mergePatch)
	see("get gone", one, "")
	ask("create for delete", "POST", all, s.object(x1))
	ask("delete orphans", "DELETE", one, m{"propagationPolicy": "Orphan", "dryRun": []string{"All"}})
	ask("delete foreground", "DELETE", one, m{"propagationPolicy": "Foreground", "dryRun": []string{"All"}})
	ask("delete badly", "DELETE", one, m{"propagationPolicy": "Other"})
	ask("delete collection by bad selector", "DELETE", all+"?labelSelector=%21%21", nil)
	ask("delete", "DELETE", one, m{"gracePeriodSeconds": 0})
	if protected[s.name] {
		see("get protected", one, "")
		ask("take protection away", "PATCH", one, m{"metadata": m{"finalizers": nil}}, mergePatch)
	}
	ask("post to a name", "POST", one, s.object(x1))
	ask("delete missing", "DELETE", one, nil)
	ask("create x3", "POST", all, s.object(x3, labels("c", "1")))
	ask("delete collection", "DELETE", all+"?labelSelector=c%3D1", m{"gracePeriodSeconds": 0})
	see("list after", all+"?labelSelector=c%3D1", "")
	if protected[s.name] {
		ask("take protection of x3 away", "PATCH", all+"/"+x3, m{"metadata": m{"finalizers": nil}}, mergePatch)
	}
	watch()
}

// protected are kinds whose objects get a finalizer, which a controller of the cluster takes away.
var protected = map[string]bool{"persistentvolumes": true, "persistentvolumeclaims": true}

// variants are specs that some kinds are created with, besides.
var variants = map[string][]m{
	"pods": {
		{"automountServiceAccountToken": true}, {"automountServiceAccountToken": nil}, {"serviceAccountName": "none"}, {"priorityClassName": "n1"}, {"priorityClassName": "none"},
		{"priorityClassName": "system-node-critical"}, {"priority": 5}, {"runtimeClassName": "n0"}, {"runtimeClassName": "none"}, {"overhead": m{"cpu": "1"}}, {"nodeName": "none"},
	},
	"services": {
		{"clusterIP": "None", "selector": m{"a": "b"}}, {"clusterIP": "None"}, {"clusterIP": "10.0.0.9"}, {"type": "ExternalName", "externalName": "a.io", "ports": nil},
	},
}

// subresources asks about those parts of objects that are read and written.
func (r *run) subresources(s *subject, ask func(step, method, path string, body any, types ...string) [2]*answer, see func(step, path, accept string)) {
	r.t.Helper()
	for _, sub := range s.resources {
		name, ok := strings.CutPrefix(sub.Name, s.Name()+"/")
		if !ok || !slices.Contains(sub.Verbs, "get") {
			continue
		}
		x1 := s.named(1)
		path := s.collection() + "/" + x1 + "/" + name
		see(name+" get", path, "")
		see(name+" get as table", path, asTable)
		ask(name+" merge", "PATCH", path, labels("st", "1"), mergePatch)
		ask(name+" strategic", "PATCH", path, labels("st", "2"), strategic)
		ask(name+" put", "PUT", path, s.object(x1, labels("st", "3")))
		ask(name+" apply", "PATCH", path+"?fieldManager=m3&force=true", s.object(x1, labels("st", "4")), applyPatch)
		ask(name+" unknown", "PATCH", path, m{"status": m{"bogus": 1}, "spec": m{"bogus": 1}}, mergePatch)
		r.metadata(s.name, s.collection()+"/"+x1, name, slices.Contains(sub.Verbs, "patch"))
		if name == "scale" {
			ask(name+" replicas", "PATCH", path, m{"spec": m{"replicas": 3}}, mergePatch)
			ask(name+" negative", "PATCH", path, m{"spec": m{"replicas": -3}}, mergePatch)
			r.ask(s.name, name+" as protobuf", &request{method: "GET", path: path, accept: asProtobuf})
		}
	}
}

// watch watches a kind; what it returns ends and compares the watch.
func (r *run) watch(s *subject) func() {
	r.t.Helper()
	q := &request{method: "GET", path: s.collection() + "?watch=1&fieldSelector=metadata.name%3D" + s.named(1)}
	var mu sync.Mutex
	var got [2]*answer
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	began := make(chan struct{}, 2)
	for side, p := range r.peers {
		got[side] = &answer{}
		wg.Go(func() {
			hr, err := p.build(ctx, q)
			if err != nil {
				panic("BUG: " + err.Error())
			}
			resp, err := p.Do(hr)
			if err != nil {
				got[side].body = []byte(err.Error())
				began <- struct{}{}
				return
			}
			defer resp.Body.Close()
			got[side].code, got[side].header = resp.StatusCode, maps.Clone(resp.Header)
			began <- struct{}{}
			for buf := make([]byte, 64<<10); ; {
				n, err := resp.Body.Read(buf)
				mu.Lock()
				got[side].body = append(got[side].body, buf[:n]...)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	<-began
	<-began
	events := func() (n [2]int) {
		mu.Lock()
		defer mu.Unlock()
		for side := range got {
			n[side] = strings.Count(string(got[side].body), "\n")
		}
		return n
	}
	return func() {
		r.t.Helper()
		r.requests++
		// The last event of both is that of the last deletion: a server that sends more, or fewer, is waited for a little.
		last := events()
		for quiet, end := time.Now(), time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			now := events()
			if now != last {
				last, quiet = now, time.Now()
			}
			if wait := time.Since(quiet); now[0] == now[1] && wait > 60*time.Millisecond || wait > time.Second {
				break
			}
		}
		cancel()
		wg.Wait()
		if r.records == nil {
			r.compare(s.name, "watch", q, got)
		}
	}
}
