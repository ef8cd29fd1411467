package e2e

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// converter is a conversion webhook: spec.size in v1 is spec.length in v2.
type converter struct {
	*httptest.Server
	calls, objects atomic.Int64
	broken         atomic.Bool
}

func newConverter(t *testing.T) *converter {
	t.Helper()
	c := &converter{}
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID               string           `json:"uid"`
				DesiredAPIVersion string           `json:"desiredAPIVersion"`
				Objects           []map[string]any `json:"objects"`
			} `json:"request"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Errorf("conversion review: %v", err)
		}
		c.calls.Add(1)
		c.objects.Add(int64(len(review.Request.Objects)))
		result := map[string]any{"status": "Success"}
		if c.broken.Load() {
			result = map[string]any{"status": "Failure", "message": "out of order"}
		}
		for _, o := range review.Request.Objects {
			o["apiVersion"] = review.Request.DesiredAPIVersion
			spec, _ := o["spec"].(map[string]any)
			for _, p := range [][2]string{{"size", "length"}, {"length", "size"}} {
				if v, ok := spec[p[0]]; ok {
					delete(spec, p[0])
					spec[p[1]] = v
					break
				}
			}
			o["metadata"].(map[string]any)["finalizers"] = []string{"not/yours"}
		}
		json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
			"response": map[string]any{"uid": review.Request.UID, "result": result, "convertedObjects": review.Request.Objects},
		})
	}))
	t.Cleanup(c.Close)
	return c
}

// definition is a definition of two versions; v1 is stored.
func (c *converter) definition() []byte {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw})
	version := func(name, field string, storage bool) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%v,"selectableFields":[{"jsonPath":".spec.%s"}],
			"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{%q:{"type":"integer"}}}}}}}`, name, storage, field, field)
	}
	return []byte(fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"boards.demo.example.org"},
		"spec":{"group":"demo.example.org","scope":"Namespaced","names":{"plural":"boards","singular":"board","kind":"Board"},
		"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%q}}},
		"versions":[%s,%s]}}`, c.URL, base64.StdEncoding.EncodeToString(ca), version("v1", "size", true), version("v2", "length", false)))
}

// TestConversionWebhook holds that objects come in the version asked for, that a list asks the webhook once for all its objects,
// and never again for what it has converted.
// Ledger: reconverted-lists.
func TestConversionWebhook(t *testing.T) {
	s, hook := startServer(t), newConverter(t)
	s.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", hook.definition())
	const v1, v2 = "/apis/demo.example.org/v1/namespaces/default/boards", "/apis/demo.example.org/v2/namespaces/default/boards"
	eventually(t, "boards", func() bool {
		code, _, err := s.try("GET", v2, nil)
		return err == nil && code == 200
	})
	for i := range 10 {
		s.do(t, 201, "POST", v1, []byte(fmt.Sprintf(`{"apiVersion":"demo.example.org/v1","kind":"Board","metadata":{"name":"b%d"},"spec":{"size":%d}}`, i, i%2)))
	}
	if n := hook.calls.Load(); n != 0 {
		t.Errorf("%d calls although nobody asked for another version", n)
	}
	for range 3 {
		b := string(s.do(t, 200, "GET", v2, nil))
		if strings.Count(b, `"length"`) < 10 || strings.Contains(b, "not/yours") {
			t.Errorf("got %s", b)
		}
	}
	if b := string(s.do(t, 200, "GET", v2+"?fieldSelector=spec.length%3D1", nil)); strings.Count(b, `"length":1`) < 5 || strings.Contains(b, `"length":0`) {
		t.Errorf("selected by a field of v2: %s", b)
	}
	if calls, objects := hook.calls.Load(), hook.objects.Load(); calls != 1 || objects != 10 {
		t.Errorf("%d calls for %d objects, want one for ten", calls, objects)
	}
	b := s.do(t, 201, "POST", v2, []byte(`{"apiVersion":"demo.example.org/v2","kind":"Board","metadata":{"name":"new"},"spec":{"length":7}}`))
	if !strings.Contains(string(b), `"length":7`) {
		t.Errorf("created in v2: %s", b)
	}
	if b := string(s.do(t, 200, "GET", v1+"/new", nil)); !strings.Contains(b, `"size":7`) || !strings.Contains(b, `"demo.example.org/v1"`) {
		t.Errorf("read in v1: %s", b)
	}
	hook.broken.Store(true)
	s.do(t, 201, "POST", v1, []byte(`{"apiVersion":"demo.example.org/v1","kind":"Board","metadata":{"name":"last"},"spec":{"size":1}}`))
	want := "conversion webhook for demo.example.org/v1, Kind=Board failed: out of order"
	if b := string(s.do(t, 500, "GET", v2, nil)); !strings.Contains(b, want) {
		t.Errorf("got %s, want in it %q", b, want)
	}
	hook.broken.Store(false)
	s.do(t, 200, "GET", v2, nil) // a failure is not remembered
}

// TestApplyThroughWebhook holds that an applier may go from one version to another: what it applied in the first is converted for
// the comparison, and what converts keeps which object it is.
func TestApplyThroughWebhook(t *testing.T) {
	s, hook := startServer(t), newConverter(t)
	s.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", hook.definition())
	apply := func(code int, version, spec string) string {
		path := "/apis/demo.example.org/" + version + "/namespaces/default/boards/b?fieldManager=m"
		body := fmt.Sprintf(`{"apiVersion":"demo.example.org/%s","kind":"Board","metadata":{"name":"b"},"spec":%s}`, version, spec)
		return string(s.do(t, code, "PATCH", path, []byte(body), applyPatch...))
	}
	eventually(t, "boards", func() bool {
		code, _, err := s.try("GET", "/apis/demo.example.org/v2/boards", nil)
		return err == nil && code == 200
	})
	apply(201, "v1", `{"size":1}`)
	if b := apply(200, "v2", `{"length":2}`); !strings.Contains(b, `"spec":{"length":2}`) {
		t.Errorf("applied in v2: %s", b)
	}
	if b := apply(200, "v1", `{}`); strings.Contains(b, `"size"`) {
		t.Errorf("what is not applied any more is there: %s", b)
	}
}
