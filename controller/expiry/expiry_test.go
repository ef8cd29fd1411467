package expiry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/store"
	"github.com/keelson-io/keelson/store/mem"
)

// TestExpiry holds that what was there before goes by its own times, what is written goes a while later, and nothing else goes.
func TestExpiry(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	s := mem.New(mem.Options{})
	defer s.Close()
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

	kinds := new(kind.Registry)
	k := &kind.Kind{Plural: "events", Name: "Event", StoragePrefix: "events", Builtin: &kind.Builtin{TTL: time.Minute}}
	v := &kind.Version{Kind: k, Name: "v1"}
	k.All, k.Versions, k.Storage = []*kind.Version{v}, []*kind.Version{v}, v
	kinds.Put(k)
	cached := cache.New(s, cache.Options{})
	defer cached.Close()
	c := &Controller{Kinds: kinds, Cache: cached, Store: s, Logger: slog.Default()}
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	defer func() { stop(); <-done }()

	there := func(key string) bool {
		_, err := s.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	for end := time.Now().Add(time.Minute); there("events/ns/old"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("an old event stays")
		}
	}
	if !there("events/ns/seen-again") || !there("secrets/ns/old") {
		t.Error("too much went")
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
