package server

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file holds what becomes of objects when the versions of their definition change: which one
// they are stored in, whose defaults they have, when a webhook is asked, and what it may not touch.

// definitionPath is where definitions are.
const definitionPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// translator is a conversion webhook that notes what it is asked for, and meddles with the
// metadata.
type translator struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string // "v1>v2 a,b": from, to, names
}

// startTranslator starts one. It sets spec.by to the version that it converts from.
func startTranslator(t *testing.T) *translator {
	tr := new(translator)
	tr.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var review map[string]any
		if err := json.NewDecoder(q.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		request := review["request"].(map[string]any)
		from, names := "", []string(nil)
		for _, o := range request["objects"].([]any) {
			o := o.(map[string]any)
			from = strings.TrimPrefix(o["apiVersion"].(string), "demo.io/")
			o["apiVersion"] = request["desiredAPIVersion"]
			if spec, ok := o["spec"].(map[string]any); ok {
				spec["by"] = from
			}
			m := o["metadata"].(map[string]any)
			names = append(names, m["name"].(string))
			m["labels"] = map[string]any{"its": "own"}
			m["finalizers"], m["generation"], m["creationTimestamp"] = []string{"demo.io/held"}, 77, "2001-01-01T00:00:00Z"
			m["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}}
			delete(m, "managedFields")
		}
		tr.mu.Lock()
		tr.calls = append(tr.calls, from+">"+strings.TrimPrefix(request["desiredAPIVersion"].(string), "demo.io/")+" "+strings.Join(names, ","))
		tr.mu.Unlock()
		review["response"] = map[string]any{"uid": request["uid"], "result": map[string]any{"status": "Success"}, "convertedObjects": request["objects"]}
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(tr.Close)
	return tr
}

// asked returns what was asked since it was called last.
func (tr *translator) asked() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	calls := tr.calls
	tr.calls = nil
	slices.Sort(calls)
	return calls
}

// conversion returns the part of a definition that names the webhook.
func (tr *translator) conversion() string {
	return fmt.Sprintf(`{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%q}}}`,
		tr.URL, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tr.Certificate().Raw})))
}

// partVersion returns a version of the definition of parts, with a default that tells which it is.
func partVersion(name string, served, storage bool, more string) string {
	return fmt.Sprintf(`{"name":%q,"served":%t,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
		"size":{"type":"integer"},"by":{"type":"string"},"mark":{"type":"string","default":"of %s"}%s}}}}}}`, name, served, storage, name, more)
}

// parts creates or changes the definition of parts, and waits until requests follow it.
func (r *running) parts(conversion string, versions ...string) {
	r.t.Helper()
	spec := `{"spec":{"group":"demo.io","scope":"Namespaced","names":{"plural":"parts","kind":"Part"},"versions":[` + strings.Join(versions, ",") + `],"conversion":` + conversion + `}`
	var text string
	if code, _ := r.call(r.client, "GET", definitionPath+"/parts.demo.io", ""); code == 404 {
		text = r.must("POST", definitionPath, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"parts.demo.io"},`+spec[1:]+`}`)
	} else {
		text = r.must("PATCH", definitionPath+"/parts.demo.io", spec+"}", "Content-Type", "application/merge-patch+json")
	}
	generation := int64(r.part(text).Metadata.Generation)
	r.until("parts are served as they are defined", func() bool {
		k := r.kinds.Load().Lookup("demo.io", "parts")
		return k != nil && k.Generation == generation
	})
}

// part is what is looked at of a part.
type part struct {
	APIVersion string
	Metadata   struct {
		Name, ResourceVersion, CreationTimestamp string
		Generation                               int
		Labels                                   map[string]string
		Finalizers                               []string
		OwnerReferences, ManagedFields           []any
	}
	Spec map[string]any
}

func (r *running) part(text string) (p part) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		r.t.Fatalf("%v: %s", err, text)
	}
	return p
}

const (
	partsV1 = "/apis/demo.io/v1/namespaces/default/parts"
	partsV2 = "/apis/demo.io/v2/namespaces/default/parts"
	noWords = `{"strategy":"None","webhook":null}`
)

// TestStoredVersions holds that objects keep their stored version until they are written again,
// that the definition lists these versions, and that webhooks convert only objects in another
// version.
func TestStoredVersions(t *testing.T) {
	st := mem.New(mem.Options{})
	r := start(t, Config{Store: st})
	tr := startTranslator(t)
	post := func(path, version, name string) {
		r.must("POST", path, `{"apiVersion":"demo.io/`+version+`","kind":"Part","metadata":{"name":"`+name+`"},"spec":{"size":1}}`)
	}
	stored := func(name string) string {
		t.Helper()
		item, err := st.Get(t.Context(), "demo.io/parts/default/"+name)
		if err != nil {
			t.Fatal(err)
		}
		return r.part(string(item.Value)).APIVersion
	}
	versions := func(want string) {
		t.Helper()
		var crd struct {
			Status struct{ StoredVersions []string }
		}
		text := r.must("GET", definitionPath+"/parts.demo.io", "")
		if err := json.Unmarshal([]byte(text), &crd); err != nil || strings.Join(crd.Status.StoredVersions, " ") != want {
			t.Errorf("stored versions: got %q, want %s (%v)", crd.Status.StoredVersions, want, err)
		}
	}
	asked := func(what string, want ...string) {
		t.Helper()
		if got := tr.asked(); !slices.Equal(got, want) {
			t.Errorf("%s: the webhook was asked for %q, want %q", what, got, want)
		}
	}
	r.parts(tr.conversion(), partVersion("v1", true, true, ""), partVersion("v2", true, false, ""))
	versions("v1")
	post(partsV1, "v1", "a")
	post(partsV1, "v1", "b")
	asked("objects of the stored version are created")
	r.parts(tr.conversion(), partVersion("v1", true, false, ""), partVersion("v2", true, true, ""))
	versions("v1 v2")
	post(partsV2, "v2", "c")
	r.must("GET", partsV2+"/c", "")
	asked("an object of the newly stored version is created and read")
	r.must("GET", partsV2, "")
	asked("a list in v2", "v1>v2 a,b")
	r.must("GET", partsV1, "")
	asked("a list in v1", "v2>v1 c")
	if a, c := stored("a"), stored("c"); a != "demo.io/v1" || c != "demo.io/v2" {
		t.Errorf("stored in %s and %s", a, c)
	}
	// A write that changes nothing moves an object, once.
	touch := func() string {
		return r.part(r.must("PATCH", partsV2+"/a", `{"metadata":{"annotations":null}}`, "Content-Type", "application/merge-patch+json")).Metadata.ResourceVersion
	}
	before := r.part(r.must("GET", partsV2+"/a", "")).Metadata.ResourceVersion
	moved := touch()
	if again := touch(); before == moved || again != moved || stored("a") != "demo.io/v2" {
		t.Errorf("versions %s, %s, %s, stored in %s: want one write to move the object", before, moved, again, stored("a"))
	}
	// Nobody forgets what there may be; what may be there cannot be dropped.
	r.parts(tr.conversion(), partVersion("v1", true, true, ""), partVersion("v2", true, false, ""))
	versions("v1 v2")
	if code, text := r.call(r.client, "PATCH", definitionPath+"/parts.demo.io", `{"spec":{"conversion":`+noWords+`,"versions":[`+partVersion("v1", true, true, "")+`]}}`,
		"Content-Type", "application/merge-patch+json"); code != 422 || !strings.Contains(text, `status.storedVersions[1]: Invalid value: \"v2\": missing from spec.versions`) {
		t.Errorf("a version that may be stored is dropped: got %d %s", code, text)
	}
	// A version that is neither served nor stored is nobody's concern.
	r.parts(tr.conversion(), partVersion("v1", true, true, ""), partVersion("v2", true, false, ""), partVersion("v3", false, false, ""))
	tr.asked()
	post(partsV1, "v1", "d")
	r.must("PATCH", partsV1+"/d", `{"spec":{"size":2}}`, "Content-Type", "application/merge-patch+json")
	asked("a version that nobody can ask for")
}

// TestConvertedMetadata holds that webhooks change only labels and annotations of the metadata, on
// reads and writes.
func TestConvertedMetadata(t *testing.T) {
	st := mem.New(mem.Options{})
	r := start(t, Config{Store: st})
	tr := startTranslator(t)
	r.parts(tr.conversion(), partVersion("v1", true, true, ""), partVersion("v2", true, false, ""))
	made := r.part(r.must("POST", partsV1, `{"apiVersion":"demo.io/v1","kind":"Part","metadata":{"name":"a","labels":{"mine":"1"}},"spec":{"size":1}}`))
	check := func(what string, p part, labels string) {
		t.Helper()
		m := p.Metadata
		if m.Generation == 77 || m.CreationTimestamp != made.Metadata.CreationTimestamp || len(m.Finalizers) != 0 || len(m.OwnerReferences) != 0 || len(m.ManagedFields) == 0 {
			t.Errorf("%s: the webhook has got at it: %+v", what, m)
		}
		if got := fmt.Sprint(m.Labels); got != labels {
			t.Errorf("%s: got labels %s, want %s", what, got, labels)
		}
	}
	check("read", r.part(r.must("GET", partsV2+"/a", "")), "map[its:own]")
	check("written", r.part(r.must("PATCH", partsV2+"/a", `{"spec":{"size":2}}`, "Content-Type", "application/merge-patch+json")), "map[its:own]")
	item, err := st.Get(t.Context(), "demo.io/parts/default/a")
	if err != nil {
		t.Fatal(err)
	}
	check("stored", r.part(string(item.Value)), "map[its:own]")
	if r.must("DELETE", partsV1+"/a", ""); len(tr.asked()) == 0 {
		t.Error("the webhook was not asked")
	}
}

// TestDefaultsOfStoredVersion holds that a write applies the defaults of the request's version, a
// read those of the stored version, and that a changed schema prunes and defaults objects stored
// before.
func TestDefaultsOfStoredVersion(t *testing.T) {
	st := mem.New(mem.Options{})
	r := start(t, Config{Store: st})
	extra := `,"extra":{"type":"string"}`
	r.parts(noWords, partVersion("v1", true, true, extra), partVersion("v2", true, false, extra))
	mark := func(what, text, want string) {
		t.Helper()
		if p := r.part(text); p.Spec["mark"] != want {
			t.Errorf("%s: got %v, want %q", what, p.Spec, want)
		}
	}
	mark("created in v2", r.must("POST", partsV2, `{"apiVersion":"demo.io/v2","kind":"Part","metadata":{"name":"a"},"spec":{"extra":"x"}}`), "of v2")
	for name, path := range map[string]string{"v1": partsV1, "v2": partsV2} {
		mark("read in "+name, r.must("GET", path+"/a", ""), "of v2")
	}
	// Stored without the field: as something that was there before the schema had a default.
	if _, err := st.Create(t.Context(), "demo.io/parts/default/bare", []byte(`{"apiVersion":"demo.io/v1","kind":"Part","metadata":{"name":"bare","namespace":"default","uid":"b"},"spec":{"extra":"x","gone":1}}`)); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"v1": partsV1, "v2": partsV2} {
		text := r.must("GET", path+"/bare", "")
		mark("bare, read in "+name, text, "of v1")
		if strings.Contains(text, "gone") || !strings.Contains(text, `"extra":"x"`) {
			t.Errorf("bare, read in %s: got %s", name, text)
		}
	}
	// The stored version has another default from now on, and a field less.
	changed := strings.Replace(partVersion("v1", true, true, ""), "of v1", "of v1, changed", 1)
	r.parts(noWords, changed, partVersion("v2", true, false, extra))
	for name, path := range map[string]string{"v1": partsV1, "v2": partsV2} {
		text := r.must("GET", path+"/bare", "")
		mark("bare under another schema, read in "+name, text, "of v1, changed")
		if strings.Contains(text, "extra") {
			t.Errorf("bare under another schema, read in %s: not pruned by the version that it is stored in: %s", name, text)
		}
		if text := r.must("GET", path, ""); strings.Count(text, "of v1, changed") != 1 || strings.Contains(text, `"extra"`) {
			t.Errorf("listed in %s: %s", name, text)
		}
		mark("a, which has a value of its own", r.must("GET", path+"/a", ""), "of v2")
	}
}

// TestBundlesThatAreNone holds that a definition is not established if its webhook's bundle has no
// certificates.
func TestBundlesThatAreNone(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	condition := func(name string) string {
		var crd struct {
			Status struct {
				Conditions []struct{ Type, Status, Reason string }
			}
		}
		if err := json.Unmarshal([]byte(r.must("GET", definitionPath+"/"+name, "")), &crd); err != nil {
			t.Fatal(err)
		}
		for _, c := range crd.Status.Conditions {
			if c.Type == "Established" {
				return c.Status + " " + c.Reason
			}
		}
		return ""
	}
	for i, row := range []struct{ bundle, want string }{
		{"not a certificate", "False InvalidCABundle"},
		{" \n", "False InvalidCABundle"},
		{"", "True InitialNamesAccepted"},
	} {
		plural := fmt.Sprintf("bundles%d", i)
		name := plural + ".demo.io"
		r.must("POST", definitionPath, fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":%q},
			"spec":{"group":"demo.io","scope":"Cluster","names":{"plural":%q,"kind":"Bundle%d"},"versions":[%s],
			"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/","caBundle":%q}}}}}`,
			name, plural, i, partVersion("v1", true, true, ""), base64.StdEncoding.EncodeToString([]byte(row.bundle))))
		r.until(fmt.Sprintf("bundle %q is %s", row.bundle, row.want), func() bool { return condition(name) == row.want })
		served := func() bool {
			code, _ := r.call(r.client, "GET", "/apis/demo.io/v1/"+plural, "")
			return code == 200
		}
		if strings.HasPrefix(row.want, "True") {
			r.until(plural+" are served", served)
		} else if served() {
			t.Errorf("bundle %q: served", row.bundle)
		}
	}
}
