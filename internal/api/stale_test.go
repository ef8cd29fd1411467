package api

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/store"
)

// This file is a server whose cache hears of writes late, as on a busy machine.

// late is a store whose watchers are told of changes some time after they
// happened.
type late struct {
	store.Store
	by time.Duration
}

func (s late) Watch(ctx context.Context, prefix string, after int64) (store.Watcher, error) {
	w, err := s.Store.Watch(ctx, prefix, after)
	return lateWatcher{w, s.by}, err
}

type lateWatcher struct {
	store.Watcher
	by time.Duration
}

func (w lateWatcher) Next(ctx context.Context) (store.Batch, error) {
	b, err := w.Watcher.Next(ctx)
	if err == nil && len(b.Events) > 0 {
		time.Sleep(w.by)
	}
	return b, err
}

// TestDryRunSeesWrites: a dry run starts from what is stored, although no
// compare-and-swap tells it when that has changed. Somebody else writes here,
// so that the server has only its watch to know of it.
func TestDryRunSeesWrites(t *testing.T) {
	s := newTestServer(t, func(c *setup) {
		c.Cache = cache.New(late{c.Store, 200 * time.Millisecond}, cache.Options{})
		t.Cleanup(c.Cache.Close)
	})
	s.must(201, "POST", widgets, widget("a", `"color":"red"`))
	s.must(200, "GET", widgets+"/a", "") // the cache is at the state from which the next writes start
	key := s.kinds.Load().Lookup("demo.io", "widgets").Key("default", "a")
	now, err := s.store.Get(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range []struct{ method, body string }{
		{"PATCH", `{"metadata":{"labels":{"l":"1"}}}`},
		{"DELETE", `{"preconditions":{"resourceVersion":"`},
	} {
		if now.Rev, err = s.store.Update(context.Background(), key, now.Value, now.Rev); err != nil {
			t.Fatal(err)
		}
		rev := strconv.FormatInt(now.Rev, 10)
		if row.method == "DELETE" {
			s.must(200, "DELETE", widgets+"/a?dryRun=All", row.body+rev+`"}}`)
			continue
		}
		if got := s.must(200, row.method, widgets+"/a?dryRun=All", row.body, "Content-Type", merge).text("metadata", "resourceVersion"); got != rev {
			t.Errorf("row %d: dry run on resource version %s, stored is %s", i, got, rev)
		}
	}
}

// TestGoneIsNotReferredTo: a token that is bound to an object is not believed from when the object's deletion is answered, although the
// cache hears of it later.
func TestGoneIsNotReferredTo(t *testing.T) {
	s := newTestServer(t, func(c *setup) {
		c.Cache = cache.New(late{c.Store, 200 * time.Millisecond}, cache.Options{})
		t.Cleanup(c.Cache.Close)
	})
	for _, plural := range []string{"secrets", "serviceaccounts"} {
		path := "/api/v1/namespaces/default/" + plural
		name := map[string]string{"secrets": "Secret", "serviceaccounts": "ServiceAccount"}[plural]
		for end, finalizers := range map[string]string{"DELETE": "", "PATCH": `"finalizers":["demo.io/f"],`} {
			s.must(201, "POST", path, `{"apiVersion":"v1","kind":"`+name+`","metadata":{`+finalizers+`"name":"a"}}`)
			if _, err := s.h.Objects.TokenReference(t.Context(), plural, "default", "a"); err != nil {
				t.Fatalf("%s: %v", plural, err)
			}
			s.must(200, "GET", path+"/a", "") // the cache knows it now
			s.must(200, "DELETE", path+"/a", "")
			if end == "PATCH" {
				s.must(200, "PATCH", path+"/a", `{"metadata":{"finalizers":null}}`, "Content-Type", merge)
			}
			if o, err := s.h.Objects.TokenReference(t.Context(), plural, "default", "a"); err == nil {
				t.Errorf("%s, gone by %s: got %+v", plural, end, o)
			}
		}
	}
}
