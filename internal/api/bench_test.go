package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/flow"
	"github.com/keelson-io/keelson/internal/flow/bootstrap"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/kind"

	"github.com/keelson-io/keelson/internal/authn"
)

// This file measures requests without a network: what the API itself costs.

// sink is a ResponseWriter that keeps nothing.
type sink struct {
	header http.Header
	code   int
	n      int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(code int)        { s.code = code }
func (s *sink) Write(b []byte) (int, error) { s.n += len(b); return len(b), nil }

// benchFlow returns priority and fairness as every server has it.
func benchFlow() *flow.Controller {
	f := flow.New(flow.Config{Seats: DefaultReads + DefaultWrites})
	f.Configure(bootstrap.Levels(false), bootstrap.Schemas(false))
	return f
}

// newBench returns a handler with n widgets.
func newBench(b *testing.B, n int) *Handler {
	st := mem.New(mem.Options{})
	kinds := kind.NewRegistry(builtin.All(nil)...)
	kinds.Put(compile(b, widgetCRD))
	c := setup{Config: Config{Authn: authn.Func(testUser), Flow: benchFlow()}, objectsConfig: objectsConfig{Kinds: kinds, Store: st, Cache: cache.New(st, cache.Options{})}}
	h := c.open()
	b.Cleanup(func() { h.Stop(); h.Cache.Close(); st.Close() })
	if err := h.Objects.Writer(objects.Server(), objects.ServerManager).EnsureNamespace(context.Background(), "default"); err != nil {
		b.Fatal(err)
	}
	for i := range n {
		h.do(b, 201, "POST", widgets, benchWidget(fmt.Sprintf("w%d", i)))
	}
	return h
}

func benchWidget(name string) string {
	return widget(name, `"color":"blue","replicas":3,"items":[{"name":"a","v":"`+strings.Repeat("x", 200)+`"},{"name":"b","v":"`+strings.Repeat("y", 200)+`"}]`)
}

func (h *Handler) do(b *testing.B, code int, method, path, body string, headers ...string) int {
	r, err := http.NewRequest(method, path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := &sink{header: http.Header{}}
	h.ServeHTTP(w, r)
	if w.code != code {
		b.Fatalf("%s %s: got %d", method, path, w.code)
	}
	return w.n
}

func BenchmarkGet(b *testing.B) {
	h := newBench(b, 100)
	b.ReportAllocs()
	for b.Loop() {
		h.do(b, 200, "GET", widgets+"/w50", "")
	}
}

func BenchmarkList(b *testing.B) {
	h := newBench(b, 2000)
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(h.do(b, 200, "GET", widgets, "")))
	}
}

func BenchmarkCreate(b *testing.B) {
	h := newBench(b, 0)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		h.do(b, 201, "POST", widgets, benchWidget(fmt.Sprintf("n%d", i)))
	}
}

func BenchmarkPatch(b *testing.B) {
	h := newBench(b, 1)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		h.do(b, 200, "PATCH", widgets+"/w0", fmt.Sprintf(`{"spec":{"color":"c%d"}}`, i), "Content-Type", merge)
	}
}

func BenchmarkApply(b *testing.B) {
	h := newBench(b, 0)
	b.ReportAllocs()
	i := 0
	path := widgets + "/a?fieldManager=m"
	h.do(b, 201, "PATCH", path, "apiVersion: demo.io/v1\nkind: Widget\nmetadata: {name: a}\nspec: {color: c}", "Content-Type", ssa)
	for b.Loop() {
		i++
		h.do(b, 200, "PATCH", path, fmt.Sprintf("apiVersion: demo.io/v1\nkind: Widget\nmetadata: {name: a}\nspec: {color: c%d}", i), "Content-Type", ssa)
	}
}

// BenchmarkPatchMetadata patches an annotation: the rest of the object is left alone.
func BenchmarkPatchMetadata(b *testing.B) {
	h := newBench(b, 1)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		h.do(b, 200, "PATCH", widgets+"/w0", fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, i), "Content-Type", merge)
	}
}

// BenchmarkApplyAgain applies what is there already, as somebody else each time.
func BenchmarkApplyAgain(b *testing.B) {
	h := newBench(b, 1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		path := fmt.Sprintf("%s/w0?force=true&fieldManager=m%d", widgets, i%4)
		h.do(b, 200, "PATCH", path, benchWidget("w0"), "Content-Type", ssa)
	}
}

// BenchmarkApplyChanged applies an object of which one label differs each time.
func BenchmarkApplyChanged(b *testing.B) {
	h := newBench(b, 1)
	b.ReportAllocs()
	path := widgets + "/w0?force=true&fieldManager=m"
	for i := 0; b.Loop(); i++ {
		body := strings.Replace(benchWidget("w0"), `"metadata":{`, fmt.Sprintf(`"metadata":{"labels":{"app":"x","pass":"%d"},`, i), 1)
		h.do(b, 200, "PATCH", path, body, "Content-Type", ssa)
	}
}
