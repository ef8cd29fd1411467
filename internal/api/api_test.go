package api

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/kind"
)

// This file is the server that the tests of this package talk to: everything
// but TLS and etcd, in one process.

const widgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.demo.io, uid: 6f1c8bb2-1c1f-4bb5-9f02-0d2f0b6c1a01, generation: 1}
spec:
  group: demo.io
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    selectableFields: [{jsonPath: .spec.color}]
    schema:
      openAPIV3Schema: &schema
        type: object
        properties:
          spec:
            type: object
            properties:
              color: {type: string, default: red}
              replicas: {type: integer, maximum: 100}
              items:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, v: {type: string}}}
          status: {type: object, properties: {replicas: {type: integer}, selector: {type: string}, phase: {type: string}}}
  - name: v1beta1
    served: true
    storage: false
    deprecated: true
    schema: {openAPIV3Schema: *schema}
`

const gadgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.demo.io, uid: 6f1c8bb2-1c1f-4bb5-9f02-0d2f0b6c1a02, generation: 1}
spec:
  group: demo.io
  scope: Cluster
  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// testServer is a running Handler.
type testServer struct {
	t     *testing.T
	h     *Handler
	url   string
	store store.Store
	kinds *kind.Registry
}

// compile makes an established Kind of a definition.
func compile(t testing.TB, text string) *kind.Kind {
	t.Helper()
	var definition apiextv1.CustomResourceDefinition
	if err := yaml.Unmarshal([]byte(text), &definition); err != nil {
		t.Fatal(err)
	}
	crd.Default(&definition)
	definition.Status.AcceptedNames = definition.Spec.Names
	definition.Status.Conditions = []apiextv1.CustomResourceDefinitionCondition{
		{Type: apiextv1.NamesAccepted, Status: apiextv1.ConditionTrue}, {Type: apiextv1.Established, Status: apiextv1.ConditionTrue}}
	k, err := crd.Compile(&definition)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// testUser believes whoever a request says it is from; who says nothing is the
// administrator.
func testUser(r *http.Request, _ []string) (*authn.Response, error) {
	if name := r.Header.Get("Test-User"); name != "" {
		return &authn.Response{User: &authn.User{Name: name, Groups: []string{authn.Authenticated}}}, nil
	}
	return &authn.Response{User: &authn.User{Name: "admin", Groups: []string{authn.Masters, authn.Authenticated}}}, nil
}

// objectsConfig is the configuration of the verbs under a name of its own.
type objectsConfig = objects.Config

// setup is what a Handler and the verbs below it are made of.
type setup struct {
	Config
	objectsConfig
}

func (c *setup) open() *Handler {
	c.Objects = objects.New(c.objectsConfig)
	return New(c.Config)
}

func newTestServer(t *testing.T, change ...func(*setup)) *testServer {
	t.Helper()
	s := &testServer{t: t, store: mem.New(mem.Options{}), kinds: kind.NewRegistry(builtin.All(nil)...)}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	cached := cache.New(s.store, cache.Options{Logger: quiet})
	s.kinds.Put(compile(t, widgetCRD))
	s.kinds.Put(compile(t, gadgetCRD))
	c := setup{Config: Config{Authn: authn.Func(testUser), Logger: quiet}, objectsConfig: objectsConfig{Kinds: s.kinds, Store: s.store, Cache: cached}}
	for _, f := range change {
		f(&c)
	}
	s.h = c.open()
	server := httptest.NewServer(s.h)
	s.url = server.URL
	t.Cleanup(func() {
		s.h.Stop()
		server.Close()
		cached.Close()
		s.store.Close()
	})
	for _, name := range []string{"default", "kube-system"} {
		if err := s.h.Objects.Writer(objects.Server(), objects.ServerManager).EnsureNamespace(context.Background(), name); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// answer is what came back.
type answer struct {
	code   int
	header http.Header
	body   string
}

// call sends a request. headers are pairs.
func (s *testServer) call(method, path, body string, headers ...string) answer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("User-Agent", "tester/1.0")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// must is call for requests that must end in a code.
func (s *testServer) must(code int, method, path, body string, headers ...string) answer {
	s.t.Helper()
	a := s.call(method, path, body, headers...)
	if a.code != code {
		s.t.Fatalf("%s %s: got %d, want %d: %s", method, path, a.code, code, a.body)
	}
	return a
}

// get is a value in a JSON answer, by its path.
func (a answer) get(path ...string) any {
	var v any
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		return nil
	}
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[p]
	}
	return v
}

func (a answer) text(path ...string) string {
	s, _ := a.get(path...).(string)
	return s
}

// where is the line of a table's row.
func where() int {
	_, _, line, _ := runtime.Caller(1)
	return line
}

const (
	widgets = "/apis/demo.io/v1/namespaces/default/widgets"
	gadgets = "/apis/demo.io/v1/gadgets"
	merge   = "application/merge-patch+json"
	jpatch  = "application/json-patch+json"
	ssa     = "application/apply-patch+yaml"
)

// widget is a body.
func widget(name, spec string) string {
	return `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"` + name + `"},"spec":{` + spec + `}}`
}
