package api

import (
	"strconv"
	"strings"
	"testing"
)

// This file tests what deletions of namespaces and of definitions say for themselves.

// TestStrictPreconditions holds the words about namespaces that are not the one that is meant.
func TestStrictPreconditions(t *testing.T) {
	s := newTestServer(t)
	const path = "/api/v1/namespaces/doomed"
	created := s.must(201, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"doomed"}}`)
	uid, version := created.text("metadata", "uid"), created.text("metadata", "resourceVersion")
	for _, terminating := range []bool{false, true} {
		for body, want := range map[string]string{
			`{"preconditions":{"uid":"x"}}`:             "Precondition failed: UID in precondition: x, UID in object meta: " + uid,
			`{"preconditions":{"resourceVersion":"1"}}`: "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: " + version,
		} {
			want = `Operation cannot be fulfilled on namespaces "doomed": ` + want
			if a := s.must(409, "DELETE", path, body); a.text("message") != want {
				t.Errorf("terminating %t: got %s, want %s", terminating, a.body, want)
			}
		}
		if terminating {
			break
		}
		version = s.must(200, "DELETE", path, `{"preconditions":{"uid":"`+uid+`","resourceVersion":"`+version+`"}}`).text("metadata", "resourceVersion")
	}
}

// TestPropagationOfNamespaces holds that a namespace whose dependents are not to be orphaned waits for them.
func TestPropagationOfNamespaces(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"owner"}}`)
	for said, want := range map[string]string{
		"orphanDependents=false":       `"finalizers":["foregroundDeletion"]`,
		"orphanDependents=true":        `"finalizers":["orphan"]`,
		"propagationPolicy=Foreground": `"finalizers":["foregroundDeletion"]`,
		"propagationPolicy=Orphan":     `"finalizers":["orphan"]`,
		"propagationPolicy=Background": ``,
	} {
		a := s.call("DELETE", "/api/v1/namespaces/owner?dryRun=All&"+said, "")
		held := strings.Contains(a.body, `"foregroundDeletion"`) || strings.Contains(a.body, `"orphan"`)
		if a.code/100 != 2 || !strings.Contains(a.body, want) || want == "" && held {
			t.Errorf("%s: %s", said, a.body)
		}
	}
}

// TestLostNamespace: what is left of a namespace that was lost can be changed and deleted, and nothing new be created there.
func TestLostNamespace(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"lost"}}`)
	const maps = "/api/v1/namespaces/lost/configmaps"
	s.must(201, "POST", maps, `{"metadata":{"name":"a","finalizers":["demo.io/f"]}}`)
	rev := s.must(200, "GET", "/api/v1/namespaces/lost", "").text("metadata", "resourceVersion")
	n, err := strconv.ParseInt(rev, 10, 64)
	if err == nil {
		_, err = s.store.Delete(t.Context(), "namespaces/lost", n)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.eventually(func() bool { return s.call("GET", "/api/v1/namespaces/lost", "").code == 404 })
	s.must(404, "POST", maps, `{"metadata":{"name":"b"}}`)
	s.must(200, "PUT", maps+"/a", `{"metadata":{"name":"a","finalizers":["demo.io/f"]},"data":{"k":"v"}}`)
	s.must(200, "PATCH", maps+"/a", `{"metadata":{"finalizers":null}}`, "Content-Type", merge)
	s.must(200, "DELETE", maps+"/a", "")
	s.must(201, "POST", "/apis/authorization.k8s.io/v1/namespaces/lost/localsubjectaccessreviews", `{"spec":{"user":"u","resourceAttributes":{"namespace":"lost","verb":"get","resource":"pods"}}}`)
}
