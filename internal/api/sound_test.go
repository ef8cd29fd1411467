package api

import (
	"context"
	"testing"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file tests which objects are known to be valid, so that a write that
// changes nothing but their metadata does not validate them again.

// soundCRD has a schema to fill in.
func soundCRD(properties, rules string) string {
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sounds.demo.io, uid: 2f1c8bb2-1c1f-4bb5-9f02-0d2f0b6c1a03, generation: 1}
spec:
  group: demo.io
  scope: Cluster
  names: {plural: sounds, singular: sound, kind: Sound, listKind: SoundList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.count, statusReplicasPath: .status.count}}
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-validations: [` + rules + `]
        properties:
          spec: {type: object, properties: {` + properties + `}}
          status: {type: object, properties: {count: {type: integer}}}
`
}

type soundServer struct {
	*testServer
	kind *kind.Kind
}

// sound reports whether an object is known to be valid. One that is must be
// found so.
func (s *soundServer) sound(name string) bool {
	s.t.Helper()
	obj, ok := s.h.Cache.Resource(s.kind.StoragePrefix).Newest(s.kind.Key("", name))
	if !ok {
		s.t.Fatalf("%s is not there", name)
	}
	v := s.kind.Version("v1")
	if view := obj.Known(v); view == nil || !view.KnownValid {
		return false
	}
	d := new(jsondoc.Doc)
	if err := v.Load(d, obj.Raw, obj.Rev); err != nil {
		s.t.Fatal(err)
	}
	if r := v.Validate(context.Background(), d, nil, schema.Whole); len(r.Errors) > 0 || !r.KnownValid {
		s.t.Errorf("%s: taken for valid, found %v", name, r.Errors)
	}
	return true
}

func (s *soundServer) want(sound bool, code int, method, path, body, kind string) {
	s.t.Helper()
	s.must(code, method, "/apis/demo.io/v1/sounds"+path, body, "Content-Type", kind)
	if got := s.sound("a"); got != sound {
		s.t.Errorf("after %s %s %s: sound is %v, want %v", method, path, body, got, sound)
	}
}

const soundBody = `{"apiVersion":"demo.io/v1","kind":"Sound","metadata":{"name":"a","generateName":"g-"},"spec":`

func TestSound(t *testing.T) {
	s := &soundServer{testServer: newTestServer(t)}
	properties := `count: {type: integer, maximum: 9}, x: {type: number}, at: {type: string, format: date-time}`
	s.kind = compile(t, soundCRD(properties, `{rule: "self.metadata.generateName == 'g-' && self.spec.count > 0"}`))
	s.kinds.Put(s.kind)
	s.want(true, 201, "POST", "", soundBody+`{"count":3}}`, "application/json")
	s.want(true, 200, "PATCH", "/a", `{"metadata":{"labels":{"a":"b"}}}`, merge)
	s.want(true, 200, "PATCH", "/a?fieldManager=m", soundBody+`{"count":3}}`, ssa)
	s.want(true, 422, "PATCH", "/a", `{"metadata":{"generateName":"h-"}}`, merge)
	s.want(true, 422, "PATCH", "/a", `{"metadata":{"labels":{"a":"?"}}}`, merge)
	s.want(true, 422, "PATCH", "/a", `{"spec":{"count":10}}`, merge)
	s.want(true, 200, "PATCH", "/a", `{"spec":{"count":4}}`, merge)
	// A number that is no integer before it is printed is one afterwards.
	s.want(false, 200, "PATCH", "/a", `[{"op":"add","path":"/spec/x","value":1.0}]`, jpatch)
	s.want(true, 200, "PATCH", "/a", `{"metadata":{"labels":{"a":"c"}}}`, merge)
	s.want(false, 200, "PATCH", "/a", `{"spec":{"x":1.5}}`, merge)
	s.want(true, 200, "PATCH", "/a", `{"spec":{"x":null}}`, merge)
	// A text that is valid, and that rules cannot read.
	s.want(false, 200, "PATCH", "/a", `{"spec":{"at":"2026-01-31t00:00:00z"}}`, merge)
	s.want(true, 200, "PATCH", "/a", `{"spec":{"at":"2026-01-31T00:00:00Z"}}`, merge)
	// A status that is fine says nothing against the rest of it.
	s.want(true, 200, "PATCH", "/a/status", `{"status":{"count":1}}`, merge)
	s.want(true, 200, "PATCH", "/a", `{"metadata":{"labels":{"a":"d"}}}`, merge)

	// What another schema said does not count; what is forgiven is not sound.
	s.kind = compile(t, soundCRD(`count: {type: integer, maximum: 2}`, ``))
	s.kinds.Put(s.kind)
	if s.sound("a") {
		t.Error("sound by a schema that never saw it")
	}
	s.want(false, 200, "PATCH", "/a", `{"metadata":{"labels":{"a":"e"}}}`, merge)
	s.want(false, 200, "PATCH", "/a", `{"metadata":{"labels":{"a":"f"}}}`, merge)
	s.want(true, 200, "PATCH", "/a", `{"spec":{"count":2}}`, merge)
}

// TestSoundKept: rules that ask what was before are asked at every write, and no others are of what a write leaves as it was: costs
// add up.
func TestSoundKept(t *testing.T) {
	s := &soundServer{testServer: newTestServer(t)}
	s.kind = compile(t, soundCRD(`count: {type: integer, x-kubernetes-validations: [{rule: "self == oldSelf"}, {rule: "self < 9"}]}`, ``))
	s.kinds.Put(s.kind)
	v := s.kind.Version("v1")
	var costs []uint64
	for _, w := range [][4]string{
		{"POST", "", soundBody + `{"count":3}}`, "application/json"},
		{"PATCH", "/a", `{"metadata":{"labels":{"a":"b"}}}`, merge},
		{"PATCH", "/a/status", `{"status":{"count":3}}`, merge},
		{"PATCH", "/a/scale", `{"spec":{"replicas":3}}`, merge},
	} {
		code := 200
		if w[0] == "POST" {
			code = 201
		}
		s.want(true, code, w[0], w[1], w[2], w[3])
		obj, _ := s.h.Cache.Resource(s.kind.StoragePrefix).Newest(s.kind.Key("", "a"))
		costs = append(costs, uint64(obj.Known(v).Spent))
	}
	once, again := costs[0], costs[1]-costs[0]
	if once == 0 || again == 0 || costs[2] != costs[1]+again || costs[3] != costs[2]+again {
		t.Errorf("costs %d", costs)
	}
	s.want(true, 422, "PATCH", "/a", `{"spec":{"count":4}}`, merge)
}

// TestSoundBefore: a rule that asks what was before is asked at every write.
func TestSoundBefore(t *testing.T) {
	s := &soundServer{testServer: newTestServer(t)}
	s.kind = compile(t, soundCRD(`count: {type: integer}`, `{rule: "self.spec.count > oldSelf.spec.count"}`))
	s.kinds.Put(s.kind)
	s.want(true, 201, "POST", "", soundBody+`{"count":3}}`, "application/json")
	s.want(true, 422, "PATCH", "/a", `{"metadata":{"labels":{"a":"b"}}}`, merge)
	s.want(true, 200, "PATCH", "/a", `{"metadata":{"labels":{"a":"b"}},"spec":{"count":4}}`, merge)
}
