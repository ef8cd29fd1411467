// Package storetest is the test suite of every store.Store.
//
// The function to call: Run, from a test of the implementation. Each test gets an empty store. The
// random tests compare it with Model, a store so simple that it is obviously right.
package storetest

// This file has the tests of single calls and the helpers of all tests.

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/store"
)

// Run runs the suite. open returns an empty store, which the suite closes.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"CRUD", testCRUD},
		{"CompareAndSwap", testCompareAndSwap},
		{"Pages", testPages},
		{"OldRevisions", testOldRevisions},
		{"Compaction", testCompaction},
		{"TooLarge", testTooLarge},
		{"Watch", testWatch},
		{"WatchThenRead", testWatchThenRead},
		{"WatchLean", testWatchLean},
		{"WatchFuture", testWatchFuture},
		{"WatchCompacted", testWatchCompacted},
		{"WatchConcurrent", testWatchConcurrent},
		{"Progress", testProgress},
		{"Revision", testRevision},
		{"Contexts", testContexts},
		{"Close", testClose},
		{"Random", testRandom},
		{"RandomConcurrent", testRandomConcurrent},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			s := &suite{T: t, ctx: ctx, Store: open(t)}
			defer s.Close()
			test.run(s)
		})
	}
}

// suite is a test and its store.
type suite struct {
	*testing.T
	store.Store
	ctx context.Context
}

// must fails the test if err is not nil.
func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// want fails the test unless err is want, in the sense of errors.Is.
func (s *suite) want(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("error: got %v, want %v", err, want)
	}
}

// create creates a key and returns the revision of the write.
func (s *suite) create(key, value string) int64 {
	s.Helper()
	rev, err := s.Create(s.ctx, key, []byte(value))
	s.must(err)
	return rev
}

// update replaces the value of a key that was last written at a revision, and returns the new
// revision.
func (s *suite) update(key, value string, at int64) int64 {
	s.Helper()
	rev, err := s.Update(s.ctx, key, []byte(value), at)
	s.must(err)
	return rev
}

// delete removes a key that was last written at a revision, and returns the revision of the
// removal.
func (s *suite) delete(key string, at int64) int64 {
	s.Helper()
	rev, err := s.Delete(s.ctx, key, at)
	s.must(err)
	return rev
}

// watch opens a watcher that is closed when the test ends.
func (s *suite) watch(prefix string, after int64) store.Watcher {
	s.Helper()
	w, err := s.Watch(s.ctx, prefix, after)
	s.must(err)
	s.Cleanup(w.Close)
	return w
}

// testCRUD creates, reads, updates and deletes a key, and checks the revisions of all steps.
func testCRUD(s *suite) {
	_, err := s.Get(s.ctx, "g/p/a")
	s.want(err, store.ErrNotFound)
	r1 := s.create("g/p/a", "1")
	if r1 < 2 {
		s.Errorf("first revision: got %d, want at least 2, as 0 and 1 mean none", r1)
	}
	_, err = s.Create(s.ctx, "g/p/a", []byte("2"))
	s.want(err, store.ErrExists)
	s.wantItem("g/p/a", "1", r1)
	r2 := s.update("g/p/a", "2", r1)
	if r2 <= r1 {
		s.Errorf("revision of the update: got %d, want more than %d", r2, r1)
	}
	s.wantItem("g/p/a", "2", r2)
	r3 := s.delete("g/p/a", r2)
	if r3 <= r2 {
		s.Errorf("revision of the removal: got %d, want more than %d", r3, r2)
	}
	_, err = s.Get(s.ctx, "g/p/a")
	s.want(err, store.ErrNotFound)
	r4 := s.create("g/p/a", "3")
	s.wantItem("g/p/a", "3", r4)
	s.must(s.Ping(s.ctx))
}

// wantItem checks that a key has a value whose last write was at rev.
func (s *suite) wantItem(key, value string, rev int64) {
	s.Helper()
	it, err := s.Get(s.ctx, key)
	s.must(err)
	if it.Key != key || string(it.Value) != value || it.Rev != rev {
		s.Errorf("item: got %s=%s at %d, want %s=%s at %d", it.Key, it.Value, it.Rev, key, value, rev)
	}
}

// testCompareAndSwap checks that writes with a wrong revision fail, change nothing, and return the
// current item.
func testCompareAndSwap(s *suite) {
	r1 := s.create("g/p/a", "1")
	r2 := s.update("g/p/a", "2", r1)
	calls := map[string]func(key string, rev int64) error{
		"Update": func(key string, rev int64) error {
			_, err := s.Update(s.ctx, key, []byte("x"), rev)
			return err
		},
		"Delete": func(key string, rev int64) error {
			_, err := s.Delete(s.ctx, key, rev)
			return err
		},
	}
	for name, call := range calls {
		for _, rev := range []int64{0, r1, r2 + 1, r2 + 100} {
			var changed *store.Changed
			if err := call("g/p/a", rev); !errors.As(err, &changed) {
				s.Fatalf("%s at %d: got %v, want Changed", name, rev, err)
			}
			if c := changed.Current; changed.Gone || c.Key != "g/p/a" || string(c.Value) != "2" || c.Rev != r2 {
				s.Errorf("%s at %d: got current state %+v", name, rev, changed)
			}
		}
		for _, rev := range []int64{0, r1} {
			var changed *store.Changed
			if err := call("g/p/none", rev); !errors.As(err, &changed) || !changed.Gone {
				s.Errorf("%s of a missing key at %d: got %v, want Changed, gone", name, rev, err)
			}
		}
	}
	rev, err := s.Revision(s.ctx)
	s.must(err)
	if rev != r2 {
		s.Errorf("refused writes moved the revision: got %d, want %d", rev, r2)
	}
	s.wantItem("g/p/a", "2", r2)
}

// testPages lists prefixes with limits and start keys, and checks the keys and whether more follow.
func testPages(s *suite) {
	var keys []string
	for i := range 10 {
		keys = append(keys, fmt.Sprintf("g/p/%d", i))
		s.create(keys[i], "v")
	}
	s.create("g/p.other/a", "v")
	s.create("g/q/a", "v")
	rev, err := s.Revision(s.ctx)
	s.must(err)
	for _, test := range []struct {
		prefix string
		o      store.ListOptions
		want   []string
		more   bool
	}{
		{"g/p/", store.ListOptions{}, keys, false},
		{"g/p/", store.ListOptions{Limit: 3}, keys[:3], true},
		{"g/p/", store.ListOptions{Limit: 10}, keys, false},
		{"g/p/", store.ListOptions{Limit: 3, From: "g/p/2\x00"}, keys[3:6], true},
		{"g/p/", store.ListOptions{From: "g/p/7"}, keys[7:], false},
		{"g/p/", store.ListOptions{From: "a"}, keys, false},
		{"g/p/", store.ListOptions{From: "g/p/9\x00", Limit: 1}, nil, false},
		{"g/p/", store.ListOptions{From: "z"}, nil, false},
		{"g/p/4", store.ListOptions{}, keys[4:5], false},
		{"h/", store.ListOptions{}, nil, false},
		{"g/q", store.ListOptions{}, []string{"g/q/a"}, false},
	} {
		p, err := s.List(s.ctx, test.prefix, test.o)
		s.must(err)
		var got []string
		for _, it := range p.Items {
			got = append(got, it.Key)
		}
		if fmt.Sprint(got) != fmt.Sprint(test.want) || p.More != test.more || p.Rev != rev {
			s.Errorf("List(%q, %+v): got %v, more %v, at %d; want %v, more %v, at %d",
				test.prefix, test.o, got, p.More, p.Rev, test.want, test.more, rev)
		}
	}
}

// testOldRevisions lists the state at each earlier revision, and at one in the future.
func testOldRevisions(s *suite) {
	r1 := s.create("g/p/a", "1")
	r2 := s.create("g/p/b", "1")
	r3 := s.update("g/p/a", "2", r1)
	r4 := s.delete("g/p/b", r2)
	r5 := s.create("g/p/b", "2")
	for _, test := range []struct {
		rev  int64
		want string
	}{
		{r1, "a=1@0"}, {r2, "a=1@0 b=1@1"}, {r3, "a=2@2 b=1@1"}, {r4, "a=2@2"}, {r5, "a=2@2 b=2@4"}, {0, "a=2@2 b=2@4"},
	} {
		p, err := s.List(s.ctx, "g/p/", store.ListOptions{Rev: test.rev})
		s.must(err)
		got := ""
		for _, it := range p.Items {
			got += fmt.Sprintf(" %s=%s@%d", it.Key[4:], it.Value, it.Rev-r1)
		}
		if got != " "+test.want {
			s.Errorf("at %d: got%s, want %s", test.rev, got, test.want)
		}
		if test.rev != 0 && p.Rev != test.rev {
			s.Errorf("page at %d: got revision %d", test.rev, p.Rev)
		}
	}
	_, err := s.List(s.ctx, "g/p/", store.ListOptions{Rev: r5 + 7})
	var future *store.FutureError
	if !errors.As(err, &future) || future.Wanted != r5+7 || future.Current != r5 || !errors.Is(err, store.ErrFuture) {
		s.Errorf("list of the future: got %v, want FutureError{%d, %d}", err, r5+7, r5)
	}
}

// testCompaction checks which revisions can be listed after a compaction.
func testCompaction(s *suite) {
	r1 := s.create("g/p/a", "1")
	r2 := s.update("g/p/a", "2", r1)
	r3 := s.update("g/p/a", "3", r2)
	s.must(s.Compact(s.ctx, r2))
	_, err := s.List(s.ctx, "g/p/", store.ListOptions{Rev: r1})
	s.want(err, store.ErrCompacted)
	for _, rev := range []int64{r2, r3} {
		_, err := s.List(s.ctx, "g/p/", store.ListOptions{Rev: rev})
		s.must(err)
	}
	s.want(s.Compact(s.ctx, r1), store.ErrCompacted)
	s.want(s.Compact(s.ctx, r2), store.ErrCompacted)
	s.want(s.Compact(s.ctx, r3+1), store.ErrFuture)
	s.wantItem("g/p/a", "3", r3)
	s.must(s.Compact(s.ctx, r3))
	s.wantItem("g/p/a", "3", r3)
}

// testTooLarge writes a value of 3 MiB and more, and values of a byte more than store.MaxValue.
func testTooLarge(s *suite) {
	r1, err := s.Create(s.ctx, "g/p/a", make([]byte, 3<<20+1<<10))
	s.must(err)
	_, err = s.Update(s.ctx, "g/p/a", make([]byte, store.MaxValue+1), r1)
	s.want(err, store.ErrTooLarge)
	_, err = s.Create(s.ctx, "g/p/b", make([]byte, store.MaxValue+1))
	s.want(err, store.ErrTooLarge)
	it, err := s.Get(s.ctx, "g/p/a")
	s.must(err)
	if len(it.Value) != 3<<20+1<<10 {
		s.Errorf("length of the value: got %d", len(it.Value))
	}
}

// testRevision checks that Revision is never older than an acknowledged write.
func testRevision(s *suite) {
	for i := range 20 {
		rev := s.create(fmt.Sprintf("g/p/%d", i), "v")
		got, err := s.Revision(s.ctx)
		s.must(err)
		if got < rev {
			s.Fatalf("revision after an acknowledged write: got %d, want at least %d", got, rev)
		}
	}
}

// testContexts calls methods with a context that has ended. They fail, and do not end the watcher.
func testContexts(s *suite) {
	r1 := s.create("g/p/a", "1")
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err := s.Get(ctx, "g/p/a")
	s.want(err, context.Canceled)
	_, err = s.Create(ctx, "g/p/b", nil)
	s.want(err, context.Canceled)
	_, err = s.Update(ctx, "g/p/a", nil, r1)
	s.want(err, context.Canceled)
	_, err = s.List(ctx, "g/p/", store.ListOptions{})
	s.want(err, context.Canceled)
	w := s.watch("", r1)
	_, err = w.Next(ctx)
	s.want(err, context.Canceled)
	// The watcher outlives the context of one call.
	r2 := s.create("g/p/c", "1")
	if got := s.read(w, r2); len(got) != 1 || got[0].Rev != r2 {
		s.Errorf("events after a cancelled Next: got %v", got)
	}
}

// testClose checks that Close of a watcher or the store ends waiting calls, and that later calls fail.
func testClose(s *suite) {
	rev := s.create("g/p/a", "1")
	w, closed := s.watch("", rev), s.watch("", rev)
	errs := make(chan error, 2)
	go func() { _, err := closed.Next(s.ctx); errs <- err }()
	time.Sleep(10 * time.Millisecond)
	closed.Close()
	s.want(<-errs, store.ErrClosed)
	go func() { _, err := w.Next(s.ctx); errs <- err }()
	time.Sleep(10 * time.Millisecond)
	s.must(s.Close())
	s.want(<-errs, store.ErrClosed)
	_, err := s.Get(s.ctx, "g/p/a")
	s.want(err, store.ErrClosed)
	_, err = s.Create(s.ctx, "g/p/b", nil)
	s.want(err, store.ErrClosed)
	_, err = s.Watch(s.ctx, "", 0)
	s.want(err, store.ErrClosed)
	s.want(s.Ping(s.ctx), store.ErrClosed)
	s.must(s.Close())
}
