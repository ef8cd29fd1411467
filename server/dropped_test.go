package server

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file drops versions of definitions in which objects are still stored.

// docsVersions returns the versions of the definition of docs, by "name" or "name storage".
func docsVersions(versions ...string) string {
	var all []string
	for _, v := range versions {
		name, storage, _ := strings.Cut(v, " ")
		all = append(all, fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`, name, storage != ""))
	}
	return `"versions":[` + strings.Join(all, ",") + `]`
}

// defineDocs installs the definition of docs with a storage version v1 and another version v2.
func (r *running) defineDocs() {
	r.t.Helper()
	r.must("POST", definitionsPath, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"docs.demo.io"},
		"spec":{"group":"demo.io","scope":"Namespaced","names":{"plural":"docs","kind":"Doc"},`+docsVersions("v1 storage", "v2")+`}}`)
}

// setVersions changes the versions of the definition of docs.
func (r *running) setVersions(versions ...string) (int, string) {
	r.t.Helper()
	return r.call(r.client, "PATCH", definitionsPath+"/docs.demo.io", `{"spec":{`+docsVersions(versions...)+`}}`, "Content-Type", mergePatch)
}

// forgetVersion makes v2 the storage version, and takes v1 off status.storedVersions.
func (r *running) forgetVersion() {
	r.t.Helper()
	if code, text := r.setVersions("v1", "v2 storage"); code != 200 {
		r.t.Fatalf("another storage version: got %d %s", code, text)
	}
	r.must("PATCH", definitionsPath+"/docs.demo.io/status", `{"status":{"storedVersions":["v2"]}}`, "Content-Type", mergePatch)
}

const docsPath = "/apis/demo.io/v2/namespaces/default/docs"

// TestDroppedVersions holds that a version in which objects are stored cannot be dropped, whatever
// status.storedVersions says, and that it can once they are rewritten.
//
// Ledger: dropped-versions.
func TestDroppedVersions(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.defineDocs()
	for i := range 3 {
		r.must("POST", docsPath, fmt.Sprintf(`{"apiVersion":"demo.io/v2","kind":"Doc","metadata":{"name":"d%d"}}`, i))
	}
	r.forgetVersion()
	r.must("POST", docsPath, `{"apiVersion":"demo.io/v2","kind":"Doc","metadata":{"name":"a-new-one"}}`)

	const way = " and could not be read without it; rewrite the objects, for example with a StorageVersionMigration of docs.demo.io, and then remove the version"
	refused := func(what, want string, versions ...string) {
		t.Helper()
		code, text := r.setVersions(versions...)
		if code != 422 || !strings.Contains(text, "spec.versions: Forbidden: must have v1: "+want+way) {
			t.Errorf("%s: got %d %s, want 422 and %q", what, code, text, want+way)
		}
	}
	refused("three objects", "3 objects are still stored as demo.io/v1, such as default/d0,", "v2 storage")
	refused("a new storage version", "3 objects are still stored as demo.io/v1, such as default/d0,", "v2", "v3 storage")
	r.must("PATCH", docsPath+"/d0", `{}`, "Content-Type", mergePatch)
	r.must("DELETE", docsPath+"/d1", "")
	refused("one object", "1 object is still stored as demo.io/v1, such as default/d2,", "v2 storage")
	// A dry run and the old API answer the same.
	for _, q := range []struct{ path, spec string }{
		{definitionsPath + "/docs.demo.io?dryRun=All", docsVersions("v2 storage")},
		{strings.Replace(definitionsPath, "/v1/", "/v1beta1/", 1) + "/docs.demo.io", `"version":"v2","versions":[{"name":"v2","served":true,"storage":true}]`},
	} {
		code, text := r.call(r.client, "PATCH", q.path, `{"spec":{`+q.spec+`}}`, "Content-Type", mergePatch)
		if code != 422 || !strings.Contains(text, "1 object is still stored as demo.io/v1") {
			t.Errorf("%s: got %d %s, want 422", q.path, code, text)
		}
	}
	r.must("GET", docsPath+"/d2", "")
	r.must("PATCH", docsPath+"/d2", `{}`, "Content-Type", mergePatch)
	if code, text := r.setVersions("v2 storage"); code != 200 {
		t.Errorf("all objects rewritten: got %d %s, want 200", code, text)
	}
	r.must("GET", docsPath+"/d2", "")
	// Another version, in which nothing was ever stored.
	for _, versions := range [][]string{{"v2 storage", "v3"}, {"v2 storage"}} {
		if code, text := r.setVersions(versions...); code != 200 {
			t.Errorf("versions %v: got %d %s, want 200", versions, code, text)
		}
	}
}

// TestDroppedVersionsOfReservedGroups holds that objects of built-in kinds are not counted for a
// definition in their group, which is never served.
func TestDroppedVersionsOfReservedGroups(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.must("POST", definitionsPath, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"leases.coordination.k8s.io",
		"annotations":{"api-approved.kubernetes.io":"https://example.org/approved"}},
		"spec":{"group":"coordination.k8s.io","scope":"Namespaced","names":{"plural":"leases","kind":"Lease"},`+docsVersions("v1", "v2 storage")+`}}`)
	r.must("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", `{"metadata":{"name":"l"}}`)
	r.must("PATCH", definitionsPath+"/leases.coordination.k8s.io", `{"spec":{`+docsVersions("v2 storage")+`}}`, "Content-Type", mergePatch)
}

// TestUnreadableVersions holds that reads of an object in a version that its definition has dropped
// name the object and the way out, and that the definition can be deleted.
//
// Ledger: unreadable-instances.
func TestUnreadableVersions(t *testing.T) {
	st := mem.New(mem.Options{})
	r := start(t, Config{Store: st})
	r.defineDocs()
	r.must("POST", docsPath, `{"apiVersion":"demo.io/v2","kind":"Doc","metadata":{"name":"b"}}`)
	r.forgetVersion()
	r.must("PATCH", docsPath+"/b", `{}`, "Content-Type", mergePatch)
	if code, text := r.setVersions("v2 storage"); code != 200 {
		t.Fatalf("got %d %s", code, text)
	}
	// As an older release, or another server, left them.
	for _, name := range []string{"a", "c"} {
		raw := `{"apiVersion":"demo.io/v1","kind":"Doc","metadata":{"name":"` + name + `","namespace":"default","uid":"u-` + name + `","finalizers":["demo.io/f"]}}`
		if _, err := st.Create(t.Context(), "demo.io/docs/default/"+name, []byte(raw)); err != nil {
			t.Fatal(err)
		}
	}
	const want = `stored Doc default/a: got apiVersion \"demo.io/v1\", want one of the versions of docs.demo.io: add v1 to spec.versions of the CRD again ` +
		`(served: false is enough) and rewrite the objects, for example with a StorageVersionMigration, or delete the object with the option ignoreStoreReadErrorWithClusterBreakingPotential`
	for _, q := range []struct{ method, path, body string }{
		{"GET", docsPath + "/a", ""}, {"GET", docsPath, ""}, {"GET", docsPath + "?limit=1", ""}, {"DELETE", docsPath + "/a", ""},
		{"DELETE", docsPath, ""}, {"PATCH", docsPath + "/a", "{}"},
	} {
		if code, text := r.call(r.client, q.method, q.path, q.body, "Content-Type", mergePatch); code != 500 || !strings.Contains(text, want) {
			t.Errorf("%s %s: got %d %s, want 500 %s", q.method, q.path, code, text, want)
		}
	}
	if got := firstEvent(r, docsPath+"?watch=1&fieldSelector=metadata.name%3Da"); !strings.Contains(got, want) {
		t.Errorf("watch: got %s", got)
	}
	// With the version, they are objects like any other.
	if code, text := r.setVersions("v1", "v2 storage"); code != 200 {
		t.Fatalf("got %d %s", code, text)
	}
	if text := r.must("GET", docsPath, ""); strings.Count(text, `"uid":"u-`) != 2 {
		t.Errorf("got %s, want both objects", text)
	}
	if code, text := r.setVersions("v2 storage"); code != 422 || !strings.Contains(text, "2 objects are still stored") {
		t.Fatalf("got %d %s", code, text)
	}
	// One is deleted by the option, the other one goes with the definition.
	r.must("PATCH", docsPath+"/c", `{}`, "Content-Type", mergePatch)
	r.must("PATCH", docsPath+"/a", `{}`, "Content-Type", mergePatch)
	if code, text := r.setVersions("v2 storage"); code != 200 {
		t.Fatalf("got %d %s", code, text)
	}
	for _, name := range []string{"e", "f"} {
		raw := `{"apiVersion":"demo.io/v1","kind":"Doc","metadata":{"name":"` + name + `","namespace":"default","finalizers":["demo.io/f"]}}`
		if _, err := st.Create(t.Context(), "demo.io/docs/default/"+name, []byte(raw)); err != nil {
			t.Fatal(err)
		}
	}
	r.must("DELETE", docsPath+"/e?ignoreStoreReadErrorWithClusterBreakingPotential=true", "")
	for _, name := range []string{"a", "c"} {
		r.must("PATCH", docsPath+"/"+name, `{"metadata":{"finalizers":null}}`, "Content-Type", mergePatch)
	}
	r.must("DELETE", definitionsPath+"/docs.demo.io", "")
	r.gone(definitionsPath + "/docs.demo.io")
	if page, err := st.List(t.Context(), "demo.io/docs/", store.ListOptions{}); err != nil || len(page.Items) > 0 {
		t.Errorf("left behind: %v, %v", page.Items, err)
	}
}

// firstEvent returns the first line of a watch.
func firstEvent(r *running, path string) string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), "GET", "https://"+r.Addr()+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil && line == "" {
		r.t.Fatal(err)
	}
	return line
}
