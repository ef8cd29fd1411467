package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file feeds a keeper from a store in memory, by a clock that moves only while everybody waits.

// book is a Keeper that writes down what there is, by kind/namespace/name.
type book struct {
	mu     sync.Mutex // each source has a goroutine
	has    map[string]string
	resets int
	gate   chan struct{} // closed: Change goes on; nil: always
}

func (b *book) Reset(kind string, objects []Object) error {
	b.mu.Lock()
	b.resets++
	maps.DeleteFunc(b.has, func(id, _ string) bool { return strings.HasPrefix(id, kind+" ") })
	b.mu.Unlock()
	return b.put(kind, objects)
}

func (b *book) Change(kind string, objects []Object) error {
	if b.gate != nil {
		<-b.gate
	}
	return b.put(kind, objects)
}

func (b *book) put(kind string, objects []Object) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range objects {
		if id := fmt.Sprintf("%s %s/%s", kind, o.Namespace, o.Name); o.JSON == nil {
			delete(b.has, id)
		} else {
			b.has[id] = string(o.JSON)
		}
	}
	return errors.New("a keeper's error ends nothing")
}

func (b *book) text() string {
	var all []string
	for id, text := range b.has {
		all = append(all, id+"="+text)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// upper renders stored text that is not JSON; "broken" cannot be rendered.
type upper struct{}

// Render implements cache.Renderer.
func (upper) Render(raw []byte, _ int64) (*meta.View, error) {
	if string(raw) == "broken" {
		return nil, errors.New("it is broken")
	}
	return &meta.View{JSON: []byte(strings.ToUpper(string(raw)))}, nil
}

// Identity implements cache.Renderer.
func (upper) Identity() *meta.RendererID { return &upperID }

var upperID meta.RendererID

type rig struct {
	*testing.T
	store store.Store
	cache *cache.Cache
	feed  *Feed
	book  *book
}

func inBubble(t *testing.T, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Options{})
		defer s.Close()
		c := cache.New(s, cache.Options{})
		defer c.Close()
		b := &book{has: map[string]string{}}
		f := &Feed{Keeper: b, Logger: slog.New(slog.DiscardHandler), Sources: []Source{
			{Kind: "Role", Objects: c.Resource("g/roles"), Renderer: upper{}},
			{Kind: "ClusterRole", Objects: c.Resource("g/clusterroles"), Renderer: upper{}},
		}}
		test(&rig{t, s, c, f, b})
	})
}

func (r *rig) put(key, text string) int64 {
	r.Helper()
	rev, err := r.store.Create(r.Context(), key, []byte(text))
	if err != nil {
		r.Fatal(err)
	}
	return rev
}

func (r *rig) want(text string) {
	r.Helper()
	synctest.Wait()
	if got := r.book.text(); got != text {
		r.Errorf("got %s, want %s", got, text)
	}
}

// run feeds until the function that it returns is called.
func (r *rig) run() (stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	over := make(chan struct{})
	go func() { defer close(over); r.feed.Run(ctx) }()
	synctest.Wait()
	return func() { cancel(); <-over }
}

func TestSyncShowsEverything(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.put("g/roles/n/a", `{}`)
		r.put("g/clusterroles/b", `{}`)
		r.put("g/clusterroles/c", `text`)
		r.put("g/others/d", `{}`)
		if err := r.feed.Sync(r.Context()); err != nil {
			r.Fatal(err)
		}
		r.want("ClusterRole /b={} ClusterRole /c=TEXT Role n/a={}")
		// Sync shows the state of its time, as often as it is called.
		r.put("g/roles/n/e", `{}`)
		if err := r.feed.Sync(r.Context()); err != nil {
			r.Fatal(err)
		}
		r.want("ClusterRole /b={} ClusterRole /c=TEXT Role n/a={} Role n/e={}")
	})
}

func TestRunShowsChanges(t *testing.T) {
	inBubble(t, func(r *rig) {
		rev := r.put("g/roles/n/a", `{}`)
		if err := r.feed.Sync(r.Context()); err != nil {
			r.Fatal(err)
		}
		defer r.run()()
		r.put("g/clusterroles/b", `{}`)
		if _, err := r.store.Delete(r.Context(), "g/roles/n/a", rev); err != nil {
			r.Fatal(err)
		}
		r.want("ClusterRole /b={}")
		if r.book.resets != 2 {
			r.Errorf("listed %d times, want once for each source", r.book.resets)
		}
	})
}

// TestUnreadableObjectsAreGone checks that an object that cannot be read grants nothing any more.
func TestUnreadableObjectsAreGone(t *testing.T) {
	inBubble(t, func(r *rig) {
		rev := r.put("g/roles/n/a", `{}`)
		r.put("g/roles/n/b", `broken`)
		if err := r.feed.Sync(r.Context()); err != nil {
			r.Fatal(err)
		}
		r.want("Role n/a={}")
		defer r.run()()
		if _, err := r.store.Update(r.Context(), "g/roles/n/a", []byte("broken"), rev); err != nil {
			r.Fatal(err)
		}
		r.want("")
	})
}

func TestWaitReturnsWhenTheKeeperKnows(t *testing.T) {
	inBubble(t, func(r *rig) {
		roles := r.feed.Sources[0].Objects
		rev := r.put("g/roles/n/a", `{}`)
		r.feed.Wait(r.Context(), roles, rev+100) // nothing is followed yet
		if err := r.feed.Sync(r.Context()); err != nil {
			r.Fatal(err)
		}
		r.feed.Wait(r.Context(), roles, rev+100)
		stop := r.run()
		r.book.gate = make(chan struct{})
		rev = r.put("g/roles/n/b", `{}`)
		synctest.Wait()
		waits := map[string]func(){
			"Wait":    func() { r.feed.Wait(r.Context(), roles, rev) },
			"CatchUp": func() { r.feed.CatchUp(r.Context()) },
		}
		over := make(chan string, len(waits))
		for name, wait := range waits {
			go func() { wait(); over <- name }()
		}
		synctest.Wait()
		if len(over) > 0 {
			r.Errorf("%s did not wait for the keeper", <-over)
		}
		r.feed.Wait(r.Context(), r.cache.Resource("g/others"), rev+100) // of no source
		close(r.book.gate)
		for range waits {
			<-over
		}
		r.want("Role n/a={} Role n/b={}")
		go func() { r.feed.Wait(r.Context(), roles, rev+100); over <- "late" }()
		synctest.Wait()
		stop()
		<-over // it ends with Run
	})
}

func TestGetIsAsNewAsTheStore(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.put("g/roles/n/a", `{}`)
		r.put("g/roles/n/b", `broken`)
		for _, test := range []struct {
			kind, namespace, name string
			found, fails          bool
		}{
			{"Role", "n", "a", true, false},
			{"Role", "n", "b", false, true},
			{"Role", "n", "c", false, false},
			{"Role", "m", "a", false, false},
			{"ClusterRole", "", "a", false, false},
			{"Other", "n", "a", false, false},
		} {
			o, found, err := r.feed.Get(r.Context(), test.kind, test.namespace, test.name)
			if found != test.found || (err != nil) != test.fails || found && string(o.JSON) != "{}" {
				r.Errorf("%s %s/%s: got %s, %v, %v", test.kind, test.namespace, test.name, o.JSON, found, err)
			}
		}
		r.put("g/roles/n/c", `{}`)
		if _, found, err := r.feed.Get(r.Context(), "Role", "n", "c"); !found || err != nil {
			r.Errorf("what was just written: got %v, %v", found, err)
		}
	})
}
