package api

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// This file tests that what writers hand to the cache is what it would have
// made itself.

const partsCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: parts.demo.io, uid: 6f1c8bb2-1c1f-4bb5-9f02-0d2f0b6c1a03, generation: 1}
spec:
  group: demo.io
  scope: Cluster
  names: {plural: parts, singular: part, kind: Part, listKind: PartList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    selectableFields: [{jsonPath: .spec.color}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            default: {}
            properties:
              color: {type: string, default: red}
              note: {type: string, nullable: true}
              replicas: {type: integer}
              template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
          status:
            type: object
            default: {phase: new}
            properties: {phase: {type: string, default: new}, replicas: {type: integer, default: 0}}
  - name: v2
    served: true
    storage: false
    schema:
      openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {color: {type: string}, size: {type: integer, default: 3}}}}}
`

func TestHandedOver(t *testing.T) {
	s := newTestServer(t)
	k := compile(t, partsCRD)
	s.kinds.Put(k)
	v := k.Version("v1")
	const path, v2 = "/apis/demo.io/v1/parts", "/apis/demo.io/v2/parts"
	part := func(more string) string {
		return `{"apiVersion":"demo.io/v1","kind":"Part","metadata":{"name":"a","labels":{"x":"1","y":""},"annotations":{"z":"<&>"}}` + more + `}`
	}
	for i, c := range []struct {
		code                     int
		method, path, body, kind string
	}{
		{201, "POST", path, part(`,"status":{"phase":"sent"},"spec":{"note":null,"x":1}`), "application/json"},
		{200, "PATCH", path + "/a", `{"metadata":{"annotations":{"a":"b"}}}`, merge},
		{200, "PATCH", path + "/a", `[{"op":"add","path":"/spec/color","value":"gr\u00fcn"}]`, jpatch},
		{200, "PATCH", path + "/a/status", `{"status":{"phase":"old"},"metadata":{"labels":null}}`, merge},
		{200, "PATCH", path + "/a/scale", `{"spec":{"replicas":4}}`, merge},
		{200, "PATCH", path + "/a?fieldManager=m&force=true", part(`,"spec":{"color":"blue","template":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"z":"1"}},"spec":{"n":1.0}}}`), ssa},
		{200, "PATCH", path + "/a/status", `{"status":null}`, merge},
		{200, "PUT", path + "/a", part(`,"spec":{"color":"white"}`), "application/json"},
		{200, "PATCH", v2 + "/a", `{"spec":{"size":5}}`, merge},
		{200, "PATCH", path + "/a", `{"metadata":{"finalizers":["demo.io/f"]}}`, merge},
		{200, "DELETE", path + "/a", ``, ""},
		{200, "PATCH", path + "/a", `{"metadata":{"labels":{"late":"yes"}}}`, merge},
		{200, "PATCH", path + "/a", `{"metadata":{"finalizers":null}}`, merge},
		{201, "PATCH", path + "/b?fieldManager=m", `{"apiVersion":"demo.io/v1","kind":"Part","metadata":{"name":"b"},"spec":{"color":"blue"}}`, ssa},
	} {
		what := fmt.Sprintf("%d: %s %s", i, c.method, c.path)
		if c.method == "PUT" {
			rv := s.must(200, "GET", path+"/a", "").text("metadata", "resourceVersion")
			c.body = `{"apiVersion":"demo.io/v1","kind":"Part","metadata":{"name":"a","resourceVersion":"` + rv + `"},"spec":{"color":"white"}}`
		}
		a := s.must(c.code, c.method, c.path, c.body, "Content-Type", c.kind)
		name := a.text("metadata", "name")
		if name == "" || a.get("metadata", "deletionTimestamp") != nil && a.get("metadata", "finalizers") == nil {
			continue // it is gone
		}
		read := s.must(200, "GET", path+"/"+name, "")
		if c.path == path || c.path == path+"/"+name {
			if c.method != "DELETE" && a.body != read.body {
				t.Errorf("%s: answered\n%swhile a read answers\n%s", what, a.body, read.body)
			}
		}
		obj, ok := s.h.Cache.Resource(k.StoragePrefix).Get(k.Key("", name))
		if !ok {
			t.Fatalf("%s: not in the cache", what)
		}
		got, err := obj.View(v)
		if err != nil {
			t.Fatal(err)
		}
		want, err := v.Render(obj.Raw, obj.Rev)
		if err != nil {
			t.Fatal(err)
		}
		if string(got.JSON) != string(want.JSON) || !reflect.DeepEqual(got.Labels, want.Labels) ||
			got.Fields(".spec.color") != want.Fields(".spec.color") {
			t.Errorf("%s: got view\n%s, want\n%s", what, got.JSON, want.JSON)
		}
	}
}

// TestOwnWrites patches an object again and again: a patch starts from the one
// before, also if the cache has not been told of it yet.
func TestOwnWrites(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("a", ""))
	began := time.Now()
	for i := range 50 {
		s.must(200, "PATCH", widgets+"/a", fmt.Sprintf(`{"spec":{"replicas":%d}}`, i), "Content-Type", merge)
	}
	got := s.must(200, "GET", widgets+"/a", "")
	if g := got.get("metadata", "generation"); g != 51.0 {
		t.Errorf("generation after 50 patches in %v: got %v, want 51", time.Since(began), g)
	}
}
