package crdsource

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// definition is a definition with a name.
const definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s.example.com}\n"

// TestURL reads a URL, and refuses what is not one file of bounded size over https.
func TestURL(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/crds.yaml", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, definition+"---\n"+definition, "a", "b") })
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<!DOCTYPE html><html></html>") })
	mux.HandleFunc("/empty", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a: [") })
	mux.HandleFunc("/downgrade", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL, http.StatusFound) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/crds.yaml", http.StatusFound) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for chunk := make([]byte, 1<<20); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	s := httptest.NewTLSServer(mux)
	defer s.Close()
	r := &Reader{Client: s.Client()}
	for path, want := range map[string]string{
		"/crds.yaml": "", "/moved": "",
		"/none":      "not found (404): check the path and the revision in the URL",
		"/page":      "got HTML, want YAML or JSON: name the raw file",
		"/empty":     "empty, want YAML or JSON with CustomResourceDefinitions",
		"/broken":    "did not find",
		"/downgrade": "which is not https",
		"/endless":   "got more than 67108864 bytes",
	} {
		docs, err := r.Read(t.Context(), s.URL+path)
		switch {
		case want == "" && (err != nil || len(docs) != 2):
			t.Errorf("%s: got %d documents and %v, want 2", path, len(docs), err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Read(ended, s.URL+"/crds.yaml"); err == nil {
		t.Error("a context that has ended: got no error")
	}
}

// TestCluster lists the definitions of a server in pages, and passes on its refusals.
func TestCluster(t *testing.T) {
	refuse := false
	pages := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/apis/apiextensions.k8s.io/v1/customresourcedefinitions" {
			t.Errorf("got %s %s", r.Method, r.URL)
		}
		if refuse {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","message":"customresourcedefinitions is forbidden: User \"jane\" cannot list them"}`)
			return
		}
		pages++
		next := map[string]string{"": "1", "1": "2", "2": ""}[r.URL.Query().Get("continue")]
		fmt.Fprintf(w, `{"metadata":{"continue":%q},"items":[{"metadata":{"name":"c%d.example.com","uid":"u"},"spec":{},"status":{"a":1}}]}`, next, pages)
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "config")
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"a": {Server: s.URL}}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"a": {}},
		Contexts: map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}},
	}
	if err := clientcmd.WriteToFile(config, file); err != nil {
		t.Fatal(err)
	}
	docs, err := Cluster(t.Context(), file, "a")
	if err != nil || len(docs) != 3 || pages != 3 {
		t.Fatalf("got %d documents in %d pages and %v, want 3 in 3", len(docs), pages, err)
	}
	const want = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"c1.example.com"},"spec":{}}`
	if got := string(docs[0].JSON); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	refuse = true
	if _, err := Cluster(t.Context(), file, "a"); err == nil || !strings.Contains(err.Error(), `User "jane" cannot list them`) {
		t.Errorf("a refusal: got %v", err)
	}
}

// TestHostileSchemas holds that a catalogue's schema of great depth is refused, and that other files
// are not taken for schemas.
func TestHostileSchemas(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("deep.json", strings.Repeat(`{"type":"array","items":`, 5000)+"{}"+strings.Repeat("}", 5000))
	write("other.json", `{"a": 1}`)
	write("list.json", `[1]`)
	c, err := (&Reader{}).Catalogue(dir + "/{{.ResourceKind}}.json")
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{"Deep": "deeper than 200 levels", "Other": "neither a JSON schema", "List": "want a JSON schema"} {
		if _, err := c.Find(t.Context(), schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", kind, err, want)
		}
	}
}
