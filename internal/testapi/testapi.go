// Package testapi runs the API over a store in memory, in the process of a test and without a network:
// for tests of what follows the store and writes through the API.
package testapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/api"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// API is the API of the built-in kinds. All requests are an administrator's.
type API struct {
	testing.TB
	Store   store.Store
	Cache   *cache.Cache
	Kinds   *kind.Registry
	Handler *api.Handler
	Logger  *slog.Logger // for what is tested; it logs nothing
}

// administrator is the user of all requests.
var administrator = &authn.Response{User: &authn.User{Name: "admin", Groups: []string{authn.Masters, authn.Authenticated}}}

// New returns an API that is closed when the test ends. It has the namespace default. It may be used
// in a bubble of synctest.
func New(t testing.TB) *API {
	t.Helper()
	a := &API{TB: t, Store: mem.New(mem.Options{}), Kinds: kind.NewRegistry(builtin.All(nil)...), Logger: slog.New(slog.DiscardHandler)}
	a.Cache = cache.New(a.Store, cache.Options{Logger: a.Logger})
	a.Handler = api.New(api.Config{Objects: objects.New(objects.Config{Kinds: a.Kinds, Store: a.Store, Cache: a.Cache}), Logger: a.Logger,
		Authn: authn.Func(func(*http.Request, []string) (*authn.Response, error) { return administrator, nil })})
	t.Cleanup(func() {
		a.Handler.Stop()
		a.Cache.Close()
		a.Store.Close()
	})
	if err := a.As(objects.ServerManager).EnsureNamespace(context.Background(), "default"); err != nil {
		t.Fatal(err)
	}
	return a
}

// As returns the verbs for the server itself, with a field manager.
func (a *API) As(manager string) objects.Writer {
	return a.Handler.Objects.Writer(objects.Server(), manager)
}

// Kind returns a built-in kind.
func (a *API) Kind(group, plural string) *kind.Kind {
	a.Helper()
	k := a.Kinds.Load().Lookup(group, plural)
	if k == nil {
		a.Fatalf("%s are not served", plural)
	}
	return k
}

// Do sends a request and returns the answer's code and body. A patch is a merge patch.
func (a *API) Do(method, path, body string) (int, string) {
	a.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	w := httptest.NewRecorder()
	a.Handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// Must is Do for a request that has to succeed. It returns the body.
func (a *API) Must(method, path, body string) string {
	a.Helper()
	code, text := a.Do(method, path, body)
	if code >= 300 {
		a.Fatalf("%s %s: got %d %s", method, path, code, text)
	}
	return text
}

// Get reads an object into a Go value. It returns false if there is no such object.
func (a *API) Get(path string, into any) bool {
	a.Helper()
	code, text := a.Do(http.MethodGet, path, "")
	if code == http.StatusNotFound {
		return false
	}
	if code != http.StatusOK {
		a.Fatalf("GET %s: got %d %s", path, code, text)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		a.Fatal(err)
	}
	return true
}

// Exists reports whether there is an object.
func (a *API) Exists(path string) bool {
	a.Helper()
	return a.Get(path, new(any))
}

// Run calls run in a goroutine. It ends run's context and waits for it when the test ends.
func (a *API) Run(run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() { defer close(over); run(ctx) }()
	a.Cleanup(func() { cancel(); <-over })
}

// Request returns the request to create an object, or to update old to it, for tests of admission
// plugins. Defaults are not set.
func (a *API) Request(k *kind.Kind, namespace, text, old string) *admission.Request {
	a.Helper()
	parse := func(text string) *jsondoc.Doc {
		d := new(jsondoc.Doc)
		if _, err := k.Storage.Schema.Decode(d, []byte(text)); err != nil {
			a.Fatal(err)
		}
		return d
	}
	r := &admission.Request{Operation: admission.Create, Version: k.Storage, Namespace: namespace, Name: "o", New: parse(text), User: administrator.User}
	if old != "" {
		r.Operation, r.Old = admission.Update, parse(old)
	}
	return r
}
