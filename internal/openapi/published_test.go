package openapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/kind"
)

// This file tests the documents of built-in kinds.

func builtins() *kind.Registry {
	return kind.NewRegistry(builtin.All(nil)...)
}

func fetch(t *testing.T, h *Handler, path, accept string) []byte {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: code %d: %s", path, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

var refs = regexp.MustCompile(`"\$ref":"([^"]*)"`)

func TestBuiltinDocuments(t *testing.T) {
	kinds := builtins()
	h := New(kinds.Load)
	seen := map[string]bool{}
	for k := range kinds.Load().All() {
		for _, v := range k.Versions {
			key := keyOf(v)
			if seen[key] {
				continue
			}
			seen[key] = true
			text := fetch(t, h, "/openapi/v3/"+key, typeJSON)
			var d struct {
				Paths      map[string]json.RawMessage
				Components struct{ Schemas map[string]json.RawMessage }
			}
			if err := json.Unmarshal(text, &d); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
			if len(d.Paths) == 0 {
				t.Errorf("%s: no paths", key)
			}
			for _, ref := range refs.FindAllSubmatch(text, -1) {
				if name, ok := strings.CutPrefix(string(ref[1]), refsV3); !ok || d.Components.Schemas[name] == nil {
					t.Errorf("%s: nothing at %s", key, ref[1])
				}
			}
			if len(fetch(t, h, "/openapi/v3/"+key, typeProtoV3)) == 0 {
				t.Errorf("%s: protobuf is empty", key)
			}
		}
	}
}

func TestBuiltinDocumentV2(t *testing.T) {
	kinds := builtins()
	h := New(kinds.Load)
	text := fetch(t, h, "/openapi/v2", typeJSON)
	var d struct {
		Parameters  map[string]any
		Definitions map[string]struct {
			Description string
			GVK         []map[string]string `json:"x-kubernetes-group-version-kind"`
			Properties  map[string]map[string]any
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	for _, ref := range refs.FindAllSubmatch(text, -1) {
		if name, ok := strings.CutPrefix(string(ref[1]), "#/parameters/"); ok && d.Parameters[name] != nil {
			continue
		}
		if name, ok := strings.CutPrefix(string(ref[1]), refsV2); !ok || d.Definitions[name].Description == "" && d.Definitions[name].Properties == nil {
			t.Errorf("nothing at %s", ref[1])
		}
	}
	pod := d.Definitions["io.k8s.api.core.v1.Pod"]
	if pod.Description == "" || len(pod.GVK) != 1 || pod.GVK[0]["kind"] != "Pod" {
		t.Errorf("pod: %+v", pod)
	}
	if p := d.Definitions["io.k8s.api.core.v1.PodSpec"].Properties["containers"]; p["x-kubernetes-patch-merge-key"] != "name" {
		t.Errorf("containers: %v", p)
	}
	if p := d.Definitions["io.k8s.api.core.v1.ServicePort"].Properties["targetPort"]; p["$ref"] == nil || p["description"] == nil || p["allOf"] != nil {
		t.Errorf("targetPort: %v", p)
	}
	if len(fetch(t, h, "/openapi/v2", typeProtoV2)) == 0 {
		t.Error("protobuf is empty")
	}
}
