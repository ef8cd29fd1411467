package expiry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkit"
	"github.com/keelson-io/keelson/kind"
)

// events runs a controller for events, which live for a minute, and for blips, which live for no time, and returns whether one is there.
func events(t *testing.T, s store.Store, now func() time.Time) (there func(key string) bool) {
	there, _ = eventsFor(t, s, now, 0)
	return there
}

// eventsFor is events with a lifetime in place of that of the kinds. ended is closed when the controller ends.
func eventsFor(t *testing.T, s store.Store, now func() time.Time, ttl time.Duration) (there func(key string) bool, ended <-chan struct{}) {
	ctx, stop := context.WithCancel(context.Background())
	var all []*kind.Kind
	for plural, ttl := range map[string]time.Duration{"events": time.Minute, "blips": 1} {
		k := &kind.Kind{Plural: plural, Name: plural, StoragePrefix: plural, Behavior: kind.Behavior{Traits: kind.Traits{TTL: ttl}}}
		v := &kind.Version{Kind: k, Name: "v1"}
		k.All, k.Versions, k.Storage = []*kind.Version{v}, []*kind.Version{v}, v
		all = append(all, k)
	}
	kinds := kind.NewRegistry(all...)
	cached := cache.New(s, cache.Options{})
	c := &Controller{Kinds: kinds, Cache: cached, Store: s, Logger: slog.Default(), Now: now, TTL: ttl}
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	t.Cleanup(func() {
		stop()
		<-done
		cached.Close()
		s.Close()
	})
	return func(key string) bool {
		_, err := s.Get(context.Background(), key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}, done
}

// gone waits until an event is not there.
func gone(t *testing.T, there func(key string) bool, key string) {
	t.Helper()
	testkit.Eventually(t, key+" is gone", func() bool { return !there(key) })
}

// TestExpiry holds that what was there before goes by its own times, and nothing else goes.
func TestExpiry(t *testing.T) {
	ctx := t.Context()
	s := mem.New(mem.Options{})
	create := func(key, value string) int64 {
		t.Helper()
		rev, err := s.Create(ctx, key, []byte(value))
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	now := time.Now()
	at := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339) }
	create("events/ns/old", fmt.Sprintf(`{"metadata":{"creationTimestamp":%q}}`, at(-time.Hour)))
	create("events/ns/seen-again", fmt.Sprintf(`{"metadata":{"creationTimestamp":%q},"lastTimestamp":%q}`, at(-time.Hour), at(0)))
	create("secrets/ns/old", fmt.Sprintf(`{"metadata":{"creationTimestamp":%q}}`, at(-time.Hour)))

	there := events(t, s, nil)
	gone(t, there, "events/ns/old")
	if !there("events/ns/seen-again") || !there("secrets/ns/old") {
		t.Error("too much went")
	}
}

// TestLifetimeOfTheServer checks that the controller's own lifetime replaces that of the kinds.
func TestLifetimeOfTheServer(t *testing.T) {
	for _, c := range []struct {
		ttl        time.Duration
		gone, kept []string
	}{
		{2 * time.Hour, []string{"events/ns/3h"}, []string{"events/ns/1h", "events/ns/1s"}},
		{time.Second, []string{"events/ns/3h", "events/ns/1h", "events/ns/1s"}, nil},
		{-1, nil, []string{"events/ns/3h", "events/ns/1h", "events/ns/1s"}},
	} {
		s, now := mem.New(mem.Options{}), time.Now()
		for _, age := range []string{"3h", "1h", "1s"} {
			d, err := time.ParseDuration(age)
			if err != nil {
				t.Fatal(err)
			}
			value := fmt.Appendf(nil, `{"metadata":{"creationTimestamp":%q}}`, now.Add(-d).UTC().Format(time.RFC3339))
			if _, err := s.Create(t.Context(), "events/ns/"+age, value); err != nil {
				t.Fatal(err)
			}
		}
		there, ended := eventsFor(t, s, nil, c.ttl)
		if c.ttl < 0 {
			<-ended // the controller has nothing to do
		}
		for _, key := range c.gone {
			gone(t, there, key)
		}
		for _, key := range c.kept {
			if !there(key) {
				t.Errorf("lifetime %v: %s is gone", c.ttl, key)
			}
		}
	}
}

// TestExpiryOfWritten holds that what is written lives from then on, and what is written again from then on anew.
func TestExpiryOfWritten(t *testing.T) {
	s := mem.New(mem.Options{})
	var clock atomic.Int64 // which goes on by a microsecond whenever somebody looks
	begin := time.Now()
	there := events(t, s, func() time.Time { return begin.Add(time.Duration(clock.Add(1000))) })
	write := func(key string, rev int64) int64 {
		t.Helper()
		var err error
		if rev == 0 {
			rev, err = s.Create(t.Context(), key, []byte(`{}`))
		} else {
			rev, err = s.Update(t.Context(), key, []byte(`{"count":2}`), rev)
		}
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	blips := 0
	settle := func() { // until the controller has dealt with everything before
		t.Helper()
		blips++
		key := fmt.Sprint("blips/", blips)
		write(key, 0)
		gone(t, there, key)
	}
	settle()
	rev := write("events/ns/kept", 0)
	write("events/ns/left", 0)
	settle()
	clock.Add(int64(40 * time.Second))
	write("events/ns/kept", rev)
	settle()
	if !there("events/ns/left") {
		t.Error("an event went before its time")
	}
	clock.Add(int64(21 * time.Second))
	settle()
	if there("events/ns/left") || !there("events/ns/kept") {
		t.Errorf("after a minute: left is there: %t, and what was written again: %t", there("events/ns/left"), there("events/ns/kept"))
	}
	clock.Add(int64(40 * time.Second))
	settle()
	if there("events/ns/kept") {
		t.Error("a minute after it was written again, an event stays")
	}
}

// TestExpireLeavesWhatWasWrittenAgain holds the condition of a deletion.
func TestExpireLeavesWhatWasWrittenAgain(t *testing.T) {
	ctx := context.Background()
	s := mem.New(mem.Options{})
	defer s.Close()
	rev, err := s.Create(ctx, "events/ns/a", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(ctx, "events/ns/a", []byte(`{"a":1}`), rev); err != nil {
		t.Fatal(err)
	}
	c := &Controller{Store: s, revs: map[string]int64{"events/ns/a": rev}}
	if err := c.expire(ctx, "events/ns/a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, "events/ns/a"); err != nil {
		t.Errorf("got %v", err)
	}
}
