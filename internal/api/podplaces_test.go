package api

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file tests what places pods and ends them.

const (
	podsPath  = "/api/v1/namespaces/default/pods"
	somePod   = `{"metadata":{"name":"%s","labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i"}]%s}}`
	budgets   = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
	notBound  = `Operation cannot be fulfilled on pods/binding "a": `
	wouldHurt = "Cannot evict pod as it would violate the pod's disruption budget."
)

func (s *testServer) pod(name, more string) answer {
	s.t.Helper()
	return s.must(201, "POST", podsPath, fmt.Sprintf(somePod, name, more))
}

func (s *testServer) bind(code int, name, body, message string) {
	s.t.Helper()
	if a := s.must(code, "POST", podsPath+"/"+name+"/binding", body); a.text("message") != message {
		s.t.Errorf("binding %s to %s: got %q, want %q", name, body, a.text("message"), message)
	}
}

func TestBindings(t *testing.T) {
	s := newTestServer(t)
	s.pod("a", "")
	s.pod("gated", `,"schedulingGates":[{"name":"example.com/wait"}]`)
	s.bind(400, "a", `{"metadata":{"name":"b"},"target":{"name":"n"}}`, "name in URL does not match name in Binding object")
	s.bind(500, "a", `{"metadata":{"name":"a"},"target":{"kind":"Pod"}}`,
		`[target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>", target.name: Required value]`)
	s.bind(404, "none", `{"metadata":{"name":"none"},"target":{"name":"n"}}`, `pods "none" not found`)
	s.bind(409, "gated", `{"metadata":{"name":"gated"},"target":{"name":"n"}}`,
		`Operation cannot be fulfilled on pods/binding "gated": pod gated has non-empty .spec.schedulingGates`)
	if a := s.call("POST", podsPath+"/a/binding", `{"metadata":{"name":"a","uid":"other"},"target":{"name":"n"}}`); a.code != 409 ||
		!strings.HasPrefix(a.text("message"), notBound+"StorageError: invalid object, Code: 4, Key: /registry/pods/default/a") {
		t.Errorf("another uid: got %d %s", a.code, a.body)
	}
	s.must(201, "POST", podsPath+"/a/binding?dryRun=All", `{"metadata":{"name":"a"},"target":{"name":"n"}}`)
	if a := s.must(200, "GET", podsPath+"/a", ""); a.get("spec", "nodeName") != nil {
		t.Errorf("a dry run has bound it: %s", a.body)
	}
	a := s.must(201, "POST", podsPath+"/a/binding", `{"metadata":{"name":"a","annotations":{"k":"v"},"labels":{"zone":"z"}},"target":{"kind":"Node","name":"n"}}`)
	if want := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}`; strings.TrimSpace(a.body) != want {
		t.Errorf("got %s, want %s", a.body, want)
	}
	a = s.must(200, "GET", podsPath+"/a", "")
	if a.text("spec", "nodeName") != "n" || a.text("metadata", "annotations", "k") != "v" || a.text("metadata", "labels", "zone") != "z" ||
		a.text("metadata", "labels", "app") != "x" || !strings.Contains(a.body, `"type":"PodScheduled","status":"True"`) || a.get("metadata", "generation") != 1.0 {
		t.Errorf("got %s", a.body)
	}
	s.bind(409, "a", `{"metadata":{"name":"a"},"target":{"name":"n2"}}`, notBound+`pod a is already assigned to node "n"`)
	s.pod("legacy", "")
	s.must(201, "POST", "/api/v1/namespaces/default/bindings", `{"metadata":{"name":"legacy"},"target":{"name":"n"}}`)
	if a := s.must(200, "GET", podsPath+"/legacy", ""); a.text("spec", "nodeName") != "n" {
		t.Errorf("got %s", a.body)
	}
}

func (s *testServer) evict(code int, name, more, message string) answer {
	s.t.Helper()
	a := s.must(code, "POST", podsPath+"/"+name+"/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"`+name+`"}`+more+`}`)
	if a.text("message") != message {
		s.t.Errorf("eviction of %s: got %q, want %q", name, a.text("message"), message)
	}
	return a
}

func (s *testServer) status(path, text string) {
	s.t.Helper()
	s.must(200, "PATCH", path+"/status", `{"status":`+text+`}`, "Content-Type", merge)
}

// TestEvictions: a pod that does not run is evicted at once, one that does if the budget that counts it allows that.
func TestEvictions(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", budgets, `{"metadata":{"name":"b"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"x"}}}}`)
	running := func(name string) {
		t.Helper()
		s.pod(name, "")
		s.status(podsPath+"/"+name, `{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`)
	}
	gone := func(name string, want bool) {
		t.Helper()
		if a := s.call("GET", podsPath+"/"+name, ""); (a.code == 404) != want {
			t.Errorf("pod %s: got %d, want it gone: %v", name, a.code, want)
		}
	}
	s.evict(404, "none", "", `pods "none" not found`)
	s.pod("pending", "")
	s.must(400, "POST", podsPath+"/pending/eviction", `{"metadata":{"name":"other"}}`)
	// The subresource takes policy/v1beta1, too, which no longer serves anything else.
	s.must(201, "POST", podsPath+"/pending/eviction", `{"apiVersion":"policy/v1beta1","kind":"Eviction","metadata":{"name":"pending"},"deleteOptions":{"dryRun":["All"]}}`)
	if a := s.must(400, "POST", podsPath+"/pending/eviction?fieldValidation=Strict", `{"apiVersion":"policy/v1beta1","kind":"Eviction","metadata":{"name":"pending"},"x":1}`); a.text("message") !=
		`Eviction in version "v1beta1" cannot be handled as a Eviction: strict decoding error: unknown field "x"` {
		t.Errorf("v1beta1 with an unknown field: %s", a.body)
	}
	if a := s.must(400, "POST", podsPath+"/pending/eviction", `{"apiVersion":"policy/v2","kind":"Eviction","metadata":{"name":"pending"}}`); !strings.Contains(a.text("message"), "policy/v2") {
		t.Errorf("v2: %s", a.body)
	}
	s.evict(409, "pending", `,"deleteOptions":{"preconditions":{"uid":"other"}}`, `Operation cannot be fulfilled on Pod "pending": the UID in the precondition (other) does not match `+
		`the UID in record (`+s.must(200, "GET", podsPath+"/pending", "").text("metadata", "uid")+`). The object might have been deleted and then recreated`)
	s.evict(201, "pending", `,"deleteOptions":{"dryRun":["All"]}`, "")
	gone("pending", false)
	if a := s.evict(201, "pending", "", ""); strings.TrimSpace(a.body) != `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}` {
		t.Errorf("got %s", a.body)
	}
	gone("pending", true)

	running("a")
	cause := func(a answer, want string) {
		t.Helper()
		if !strings.Contains(a.body, `"causes":[{"reason":"DisruptionBudget","message":"`+want+`"}]`) {
			t.Errorf("got %s, want the cause %q", a.body, want)
		}
	}
	a := s.evict(429, "a", "", wouldHurt)
	cause(a, "The disruption budget b is still being processed by the server.")
	if a.header.Get("Retry-After") != "10" {
		t.Errorf("Retry-After is %q, want 10", a.header.Get("Retry-After"))
	}
	s.status(budgets+"/b", `{"observedGeneration":1,"disruptionsAllowed":0,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1}`)
	cause(s.evict(429, "a", "", wouldHurt), "The disruption budget b needs 1 healthy pods and has 1 currently")
	s.status(budgets+"/b", `{"disruptionsAllowed":1}`)
	s.must(201, "POST", podsPath+"/a/eviction?dryRun=All", `{"metadata":{"name":"a"}}`)
	if b := s.must(200, "GET", budgets+"/b", ""); b.get("status", "disruptionsAllowed") != 1.0 {
		t.Errorf("a dry run has spent a disruption: %s", b.body)
	}
	s.evict(201, "a", "", "")
	gone("a", true)
	b := s.must(200, "GET", budgets+"/b", "")
	if b.get("status", "disruptionsAllowed") != 0.0 || b.text("status", "disruptedPods", "a") == "" || !strings.Contains(b.body, `"reason":"InsufficientPods"`) {
		t.Errorf("the budget: %s", b.body)
	}

	// A pod that is not ready is no loss while enough others are.
	s.pod("ill", "")
	s.status(podsPath+"/ill", `{"phase":"Running"}`)
	s.evict(201, "ill", "", "")
	gone("ill", true)
	s.must(201, "POST", budgets, `{"metadata":{"name":"b2"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"x"}}}}`)
	running("c")
	s.evict(500, "c", "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
	gone("c", false)
}

// TestEvictionOfBoundPod: a pod on a node is marked, says why, and lives on, whatever else is written to it, until its node deletes it.
func TestEvictionOfBoundPod(t *testing.T) {
	s := newTestServer(t)
	s.pod("a", `,"nodeName":"n"`)
	s.status(podsPath+"/a", `{"phase":"Running"}`)
	s.evict(201, "a", `,"deleteOptions":{"gracePeriodSeconds":5}`, "")
	a := s.must(200, "GET", podsPath+"/a", "")
	if a.get("metadata", "deletionGracePeriodSeconds") != 5.0 || !strings.Contains(a.body, `"type":"DisruptionTarget","status":"True"`) {
		t.Errorf("got %s", a.body)
	}
	s.status(podsPath+"/a", `{"message":"ending"}`)
	s.must(200, "GET", podsPath+"/a", "")
	s.must(200, "DELETE", podsPath+"/a", `{"gracePeriodSeconds":0}`)
	s.must(404, "GET", podsPath+"/a", "")
}

// TestDeletedPodsAreSeenToEnd: watchers learn of each deletion of a pod by a deletionTimestamp, also
// if the pod has no time left.
func TestDeletedPodsAreSeenToEnd(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", "/api/v1/nodes", `{"metadata":{"name":"n"}}`)
	for _, r := range []struct {
		line    int
		node    string
		options []string // of one delete after the other
		grace   []int64  // of the MODIFIED events
	}{
		{where(), "", []string{``}, []int64{0}},
		{where(), "", []string{`{"gracePeriodSeconds":30}`}, []int64{0}},
		{where(), `,"nodeName":"n"`, []string{`{"gracePeriodSeconds":0}`}, []int64{0}},
		{where(), `,"nodeName":"n"`, []string{``, `{"gracePeriodSeconds":0}`}, []int64{30, 0}},
		{where(), `,"nodeName":"n"`, []string{`{"gracePeriodSeconds":-5}`, `{"gracePeriodSeconds":0}`}, []int64{1, 0}},
		{where(), `,"nodeName":"n"`, []string{`{"gracePeriodSeconds":3000}`, `{"gracePeriodSeconds":1000}`, `{"gracePeriodSeconds":0}`}, []int64{3000, 1000, 0}},
	} {
		made := s.pod("a", r.node)
		for _, o := range r.options {
			s.must(200, "DELETE", podsPath+"/a", o)
		}
		s.must(404, "GET", podsPath+"/a", "")
		events := s.watch(podsPath + "?watch=1&resourceVersion=" + made.text("metadata", "resourceVersion"))
		var before *metav1.Time
		for i := range len(r.grace) + 1 {
			want, at := "MODIFIED", min(i, len(r.grace)-1)
			if i == len(r.grace) {
				want = "DELETED"
			}
			e := <-events
			m := &e.Object.Metadata
			if e.Type != want || m.DeletionTimestamp == nil || m.DeletionGracePeriodSeconds == nil || *m.DeletionGracePeriodSeconds != r.grace[at] || m.Generation != 2 {
				t.Errorf("line %d: event %d: got %+v, want %s, grace %d s, generation 2", r.line, i, e, want, r.grace[at])
				continue
			}
			if before != nil && m.DeletionTimestamp.After(before.Time) {
				t.Errorf("line %d: event %d: the period ends at %v, want it not later than %v", r.line, i, m.DeletionTimestamp, before)
			}
			before = m.DeletionTimestamp
		}
	}
}
