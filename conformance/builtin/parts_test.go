package builtin

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file is the comparison of writes of metadata through subresources: access to the status of an object must not give more access
// to its metadata than upstream's strategies do.

// owner is a list with an owner reference.
func owner(name string) []m {
	return []m{{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": "00000000-0000-0000-0000-00000000000" + name}}
}

// metadataWrites are the members of metadata that requests try to set through a subresource, or to take away.
var metadataWrites = []struct {
	name string
	m
}{
	{"annotations", m{"annotations": m{"sub": "1"}}}, {"no annotations", m{"annotations": nil}},
	{"labels", m{"labels": m{"sub": "1"}}}, {"no labels", m{"labels": nil}},
	{"finalizers", m{"finalizers": []string{"a.io/b", "a.io/sub"}}}, {"no finalizers", m{"finalizers": nil}},
	{"owner", m{"ownerReferences": owner("2")}}, {"malformed owner", m{"ownerReferences": []m{{"kind": "X"}}}}, {"no owner", m{"ownerReferences": nil}},
	{"managed fields", m{"managedFields": []m{}}}, {"empty managed fields", m{"managedFields": []m{{}}}}, {"no managed fields", m{"managedFields": nil}},
	{"generation", m{"generation": 99}}, {"deletion", m{"deletionTimestamp": "2030-01-01T00:00:00Z"}}, {"grace", m{"deletionGracePeriodSeconds": 5}},
	{"creation", m{"creationTimestamp": "2001-01-01T00:00:00Z"}}, {"generated name", m{"generateName": "g-"}}, {"link", m{"selfLink": "/x"}},
	{"uid", m{"uid": "00000000-0000-0000-0000-000000000009"}}, {"version", m{"resourceVersion": "1"}},
}

// allMetadata are the members that an update may set at the same time.
func allMetadata() m {
	all := m{}
	for _, w := range metadataWrites {
		switch w.name {
		case "annotations", "labels", "finalizers", "owner", "generation", "deletion", "grace", "generated name", "link":
			merge(all, clone(w.m))
		}
	}
	return all
}

// metadata asks what becomes of metadata that is sent to a subresource of an object. The object gets an owner before and loses it after.
func (r *run) metadata(of, one, sub string, canPatch bool) {
	r.t.Helper()
	ask := func(step, method, path string, body any, kind string) {
		r.t.Helper()
		r.ask(of, sub+" metadata: "+step, &request{method: method, path: path, body: body, kind: kind})
	}
	ask("own", "PATCH", one, m{"metadata": m{"ownerReferences": owner("1"), "annotations": m{"own": "1"}}}, mergePatch)
	path := one + "/" + sub
	if canPatch {
		for _, w := range metadataWrites {
			ask(w.name, "PATCH", path+"?dryRun=All", m{"metadata": w.m}, mergePatch)
		}
		ask("all", "PATCH", path+"?dryRun=All", m{"metadata": allMetadata()}, mergePatch)
		ask("strategic", "PATCH", path+"?dryRun=All", m{"metadata": m{"finalizers": []string{"a.io/sub"}, "ownerReferences": owner("2")}}, strategic)
	}
	// An update has all that one server answers for the object or for the part.
	read := one
	if canPatch {
		read = path
	}
	var live [2]m
	for side := range live {
		r.read(side, read, &live[side])
	}
	put := func(step string, change func(o m)) {
		r.t.Helper()
		var got [2]*answer
		q := &request{method: "PUT", path: path + "?dryRun=All"}
		r.requests++
		for side, p := range r.peers {
			o := clone(live[side])
			if meta, ok := o["metadata"].(m); ok {
				delete(meta, "resourceVersion")
			}
			change(o)
			q = &request{method: "PUT", path: path + "?dryRun=All", body: o}
			got[side] = p.ask(q)
		}
		r.judge(of, sub+" metadata: "+step, q, got)
	}
	put("put all", func(o m) { merge(o, m{"metadata": allMetadata()}) })
	put("put none", func(o m) {
		old := o["metadata"].(m)
		o["metadata"] = m{"name": old["name"]}
		if ns, ok := old["namespace"]; ok {
			o["metadata"].(m)["namespace"] = ns
		}
	})
	if canPatch {
		o := m{"apiVersion": live[0]["apiVersion"], "kind": live[0]["kind"], "metadata": allMetadata()}
		if sub != "scale" {
			ask("apply", "PATCH", path+"?dryRun=All&fieldManager=m4&force=true", o, applyPatch)
		}
	}
	ask("disown", "PATCH", one, m{"metadata": m{"ownerReferences": nil, "annotations": m{"own": nil}}}, mergePatch)
}

// partsOf asks about the subresources of kinds that the matrix leaves out: namespaces, definitions and custom resources.
func (r *run) partsOf() {
	r.t.Helper()
	const definitions, things = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/parts.example.com/v1/namespaces/default/things"
	create := func(of, path string, body m) {
		r.t.Helper()
		for _, a := range r.ask(of, "parts create", &request{method: "POST", path: path, body: body}) {
			if a.code != http.StatusCreated {
				r.t.Fatalf("%s: %d %s", path, a.code, a.body)
			}
		}
	}
	create("namespaces", "/api/v1/namespaces", m{"apiVersion": "v1", "kind": "Namespace", "metadata": m{"name": "parts", "finalizers": []string{"a.io/b"}}})
	r.metadata("namespaces", "/api/v1/namespaces/parts", "status", true)
	r.metadata("namespaces", "/api/v1/namespaces/parts", "finalize", false)
	schema := m{"type": "object", "properties": m{
		"spec":   m{"type": "object", "properties": m{"replicas": m{"type": "integer"}}},
		"status": m{"type": "object", "properties": m{"replicas": m{"type": "integer"}}},
	}}
	definition := m{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": m{"name": "things.parts.example.com"}, "spec": m{
		"group": "parts.example.com", "scope": "Namespaced", "names": m{"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
		"versions": []m{{"name": "v1", "served": true, "storage": true, "schema": m{"openAPIV3Schema": schema},
			"subresources": m{"status": m{}, "scale": m{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}}},
	}}
	for _, p := range r.peers { // the conditions come at different times
		if a := p.ask(&request{method: "POST", path: definitions, body: definition}); a.code != http.StatusCreated {
			r.t.Fatalf("%s: the definition: %d %s", p.name, a.code, a.body)
		}
		for end := time.Now().Add(patience); p.ask(&request{method: "GET", path: things}).code != http.StatusOK; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				r.t.Fatalf("%s does not serve a definition", p.name)
			}
		}
	}
	r.metadata("apiextensions.k8s.io/customresourcedefinitions", definitions+"/things.parts.example.com", "status", true)
	create("things", things, m{"apiVersion": "parts.example.com/v1", "kind": "Thing", "metadata": m{"name": "x1", "finalizers": []string{"a.io/b"}}, "spec": m{"replicas": 1}})
	for _, sub := range []string{"status", "scale"} {
		r.metadata("things", things+"/x1", sub, true)
	}
}

// TestMetadataWrites holds that the comparison tries every member of metadata that a request can have.
func TestMetadataWrites(t *testing.T) {
	tried := m{"name": true, "namespace": true}
	for _, w := range metadataWrites {
		for member := range w.m {
			tried[member] = true
		}
	}
	of := reflect.TypeFor[metav1.ObjectMeta]()
	for i := range of.NumField() {
		if member, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); tried[member] == nil {
			t.Errorf("no request tries metadata.%s", member)
		}
	}
}
