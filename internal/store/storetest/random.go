package storetest

// This file has tests with random operations.

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/keelson-io/keelson/internal/store"
)

// Model is the simplest store: it keeps every state as a map.
type Model struct {
	States map[int64]map[string]store.Item
	Rev    int64
}

// NewModel returns a model that is empty at a revision.
func NewModel(rev int64) *Model {
	return &Model{map[int64]map[string]store.Item{rev: {}}, rev}
}

// Apply makes the change of an event.
func (m *Model) Apply(e store.Event) error {
	if e.Rev <= m.Rev {
		return fmt.Errorf("event at %d: got it after %d", e.Rev, m.Rev)
	}
	state := maps.Clone(m.States[m.Rev])
	old, exists := state[e.Key]
	if exists == e.Created {
		return fmt.Errorf("event at %d: created is %v, but that the key exists is %v", e.Rev, e.Created, exists)
	}
	if exists && (string(old.Value) != string(e.Prev) || old.Rev != e.PrevRev) {
		return fmt.Errorf("event at %d: got previous %s at %d, want %s at %d", e.Rev, e.Prev, e.PrevRev, old.Value, old.Rev)
	}
	if e.Deleted {
		delete(state, e.Key)
	} else {
		state[e.Key] = store.Item{Key: e.Key, Value: e.Value, Rev: e.Rev}
	}
	m.States[e.Rev], m.Rev = state, e.Rev
	return nil
}

// Check compares a page with the model's state at its revision.
func (m *Model) Check(prefix string, p store.Page) error {
	var want []store.Item
	for _, key := range slices.Sorted(maps.Keys(m.States[p.Rev])) {
		if strings.HasPrefix(key, prefix) {
			want = append(want, m.States[p.Rev][key])
		}
	}
	same := slices.EqualFunc(p.Items, want, func(a, b store.Item) bool {
		return a.Key == b.Key && a.Rev == b.Rev && string(a.Value) == string(b.Value)
	})
	if !same {
		return fmt.Errorf("list of %q at %d: got %v, want %v", prefix, p.Rev, p.Items, want)
	}
	return nil
}

// testRandom performs operations whose results a model predicts, and compares new and old states,
// and the watch.
func testRandom(s *suite) {
	seed := uint64(time.Now().UnixNano())
	s.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	start, err := s.Revision(s.ctx)
	s.must(err)
	m := NewModel(start)
	revs := []int64{start}
	for n := range 400 {
		key := fmt.Sprintf("g/%c/%d", 'p'+rune(rnd.IntN(2)), rnd.IntN(12))
		value := fmt.Append(nil, n)
		old, exists := m.States[m.Rev][key]
		e := store.Event{Key: key, Value: value, Prev: old.Value, PrevRev: old.Rev, Created: !exists}
		switch at := old.Rev; rnd.IntN(6) {
		case 0, 1:
			e.Rev, err = s.Create(s.ctx, key, value)
			s.wantIf(exists, err, store.ErrExists)
		case 2, 3:
			e.Rev, err = s.Update(s.ctx, key, value, at)
			s.wantChanged(!exists, err)
		case 4:
			e.Deleted, e.Value = true, nil
			e.Rev, err = s.Delete(s.ctx, key, at)
			s.wantChanged(!exists, err)
		case 5:
			_, err = s.Update(s.ctx, key, value, at-1)
			s.wantChanged(true, err)
		}
		if err == nil {
			s.must(m.Apply(e))
			revs = append(revs, e.Rev)
		}
		o := store.ListOptions{Rev: revs[rnd.IntN(len(revs))]}
		if rnd.IntN(2) == 0 {
			o.Rev = 0
		}
		prefix := []string{"g/", "g/p/", "g/q/1"}[rnd.IntN(3)]
		p, err := s.List(s.ctx, prefix, o)
		s.must(err)
		s.must(m.Check(prefix, p))
	}
	replay := NewModel(start)
	for _, e := range s.read(s.watch("g/", start), m.Rev) {
		s.must(replay.Apply(e))
	}
	p, err := s.List(s.ctx, "g/", store.ListOptions{})
	s.must(err)
	s.must(replay.Check("g/", p))
}

// wantIf checks that err is want if refuse is set, otherwise that it is nil.
func (s *suite) wantIf(refuse bool, err, want error) {
	s.Helper()
	if refuse {
		s.want(err, want)
	} else {
		s.must(err)
	}
}

// wantChanged checks that err is a *store.Changed if refuse is set, otherwise that it is nil.
func (s *suite) wantChanged(refuse bool, err error) {
	s.Helper()
	var changed *store.Changed
	if errors.As(err, &changed) != refuse {
		s.Fatalf("got %v, want it refused as changed: %v", err, refuse)
	}
}

// testRandomConcurrent lets writers race for few keys. The watch must deliver a history that
// contains every acknowledged write.
func testRandomConcurrent(s *suite) {
	start, err := s.Revision(s.ctx)
	s.must(err)
	var mu sync.Mutex
	acked := map[int64]string{}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 7))
			for n := range 60 {
				key, value := fmt.Sprintf("g/p/%d", rnd.IntN(4)), fmt.Sprintf("%d.%d", i, n)
				rev, err := s.race(rnd, key, value)
				var changed *store.Changed
				switch {
				case err == nil:
					mu.Lock()
					acked[rev] = key
					mu.Unlock()
				case errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrNotFound) || errors.As(err, &changed):
				default:
					s.Error(err)
				}
			}
		})
	}
	wg.Wait()
	end, err := s.Revision(s.ctx)
	s.must(err)
	m := NewModel(start)
	for _, e := range s.read(s.watch("g/", start), end) {
		s.must(m.Apply(e))
		if acked[e.Rev] != e.Key {
			s.Errorf("event at %d for %s: the write acknowledged there was of %q", e.Rev, e.Key, acked[e.Rev])
		}
		delete(acked, e.Rev)
	}
	if len(acked) > 0 {
		s.Errorf("acknowledged writes without an event: %v", acked)
	}
	p, err := s.List(s.ctx, "g/", store.ListOptions{})
	s.must(err)
	s.must(m.Check("g/", p))
}

// race reads a key and then changes it in some way.
func (s *suite) race(rnd *rand.Rand, key, value string) (int64, error) {
	it, err := s.Get(s.ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return s.Create(s.ctx, key, []byte(value))
	}
	if err != nil {
		return 0, err
	}
	if rnd.IntN(3) == 0 {
		return s.Delete(s.ctx, key, it.Rev)
	}
	return s.Update(s.ctx, key, []byte(value), it.Rev)
}
