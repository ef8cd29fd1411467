package api

import (
	"context"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/api/encoding"
)

// TestUnreadableObjects: what cannot be read is deleted by those who may and say that they know; what can be read is not deleted so.
func TestUnreadableObjects(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("good", `"color":"red"`))
	key := s.kinds.Load().Lookup("demo.io", "widgets").Key("default", "bad")
	if _, err := s.store.Create(t.Context(), key, []byte(`{"apiVersion":`)); err != nil {
		t.Fatal(err)
	}
	const unsafe = "?ignoreStoreReadErrorWithClusterBreakingPotential=true"
	s.must(500, "DELETE", widgets+"/bad", "")
	if got := s.must(409, "DELETE", widgets+"/good"+unsafe, ""); !strings.Contains(got.body, "unsafe deletion is not allowed because the object is decodable from storage") {
		t.Errorf("of one that can be read: %s", got.body)
	}
	s.must(404, "DELETE", widgets+"/none"+unsafe, "")
	s.must(422, "DELETE", widgets+unsafe, "")
	s.must(422, "DELETE", widgets+"/bad"+unsafe+"&propagationPolicy=Orphan", "")
	s.must(200, "DELETE", widgets+"/bad"+unsafe+"&dryRun=All", "")
	got := s.must(200, "DELETE", widgets+"/bad"+unsafe, "")
	if want := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"bad","kind":"Widget"}`; !strings.HasPrefix(got.body, want) {
		t.Errorf("got %s", got.body)
	}
	s.must(404, "DELETE", widgets+"/bad", "")
	s.must(200, "GET", widgets+"/good", "")
}

// TestListNamesUnreadableObjects checks the errors of lists in all forms: each names every object of
// the page that cannot be read.
func TestListNamesUnreadableObjects(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("good", `"color":"red"`))
	for _, name := range []string{"bad", "worse"} {
		key := s.kinds.Load().Lookup("demo.io", "widgets").Key("default", name)
		if _, err := s.store.Create(t.Context(), key, []byte(`{"apiVersion":`)); err != nil {
			t.Fatal(err)
		}
	}
	s.must(200, "GET", widgets+"/good", "")
	const bad, worse = "Key: /registry/demo.io/widgets/default/bad,", "Key: /registry/demo.io/widgets/default/worse,"
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	const partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	for _, c := range []struct{ query, accept, without string }{
		{"", "application/json", ""},
		{"", "application/yaml", ""},
		{"", table, ""},
		{"", partial, ""},
		{"?labelSelector=a%3Db", "application/json", ""},
		{"?resourceVersion=0", "application/json", ""},
		{"?limit=1", "application/json", worse},
	} {
		got := s.must(500, "GET", widgets+c.query, "", "Accept", c.accept)
		for _, want := range []string{"StorageReadError", "failed to read one or more widgets.demo.io from the storage: StorageError: corrupt object, Code: 7, " + bad, worse} {
			if strings.Contains(strings.Join(strings.Fields(got.body), " "), want) == (want == c.without) {
				t.Errorf("%s as %s: got %s, want it with %q: %t", c.query, c.accept, got.body, want, want != c.without)
			}
		}
	}
	if got := s.must(500, "GET", widgets+"/bad", ""); !strings.Contains(got.body, `"message":"stored Widget: `) {
		t.Errorf("got %s", got.body)
	}
}

// TestUnreadableObjectsAreForbidden: to delete is not enough.
func TestUnreadableObjectsAreForbidden(t *testing.T) {
	s := newTestServer(t, func(c *setup) {
		c.Authz = authz.Func(func(_ context.Context, a *authz.Attributes) authz.Result {
			if a.Verb == verbUnsafe {
				return authz.Result{Decision: authz.NoOpinion, Reason: "no"}
			}
			return authz.Result{Decision: authz.Allow}
		})
	})
	got := s.must(403, "DELETE", widgets+"/a?ignoreStoreReadErrorWithClusterBreakingPotential=true", "")
	if !strings.Contains(got.body, `not permitted to do \"unsafe-delete-ignore-read-errors\", reason: no`) {
		t.Errorf("got %s", got.body)
	}
}

// TestAnswersThatCannotBeGiven: a write whose answer cannot be given in the form that was asked for was made all the same, once.
func TestAnswersThatCannotBeGiven(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("a", `"color":"red"`))
	for _, op := range []string{`"path":"/metadata/finalizers","value":["a.io/f"]`, `"path":"/metadata/finalizers/-","value":"a.io/g"`} {
		s.must(500, "PATCH", widgets+"/a", `[{"op":"add",`+op+`}]`,
			"Content-Type", encoding.JSONPatch, "Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
	}
	if got := s.must(200, "GET", widgets+"/a", ""); !strings.Contains(got.body, `"finalizers":["a.io/f","a.io/g"]`) {
		t.Errorf("the object is %s", got.body)
	}
}
