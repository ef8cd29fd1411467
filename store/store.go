// Package store keeps bytes under keys, with revisions: it is the seam between Keelson and what makes data durable.
//
// A Store is a key space with one counter, the revision. Every successful write adds one to it and stamps the key it wrote;
// an Item carries the revision of its last write, which is all that optimistic concurrency needs. Old states stay readable
// (List with Rev) and replayable (Watch after a revision) until they are compacted away.
//
// Keys are slash-separated without a leading slash, "<group>/<plural>/[<namespace>/]<name>"; an implementation may keep them
// under a prefix of its own, which no caller ever sees. A prefix given to List or Watch is compared byte by byte: end it with a
// slash when whole path segments are meant; "" means everything.
//
// Invariants that every implementation keeps, checked by package storetest:
//   - An acknowledged write is on disk (or, for store/mem, as safe as memory is) and visible to everybody.
//   - Revisions of acknowledged writes strictly increase in the order of the writes.
//   - A Watcher delivers each change of its prefix after its start exactly once, in the order of revisions.
//   - What a Watcher has delivered is seen by every read that begins afterwards.
//   - Values are shared, not copied: nobody may change a slice that went into a Store or came out of one.
//
// The functions to call: Get, List, Create, Update, Delete and Watch of a Store made by etcd.Open or mem.New.
package store

// This file declares Store, the types that pass through it and its errors.

import (
	"context"
	"errors"
	"fmt"
)

// Store is the key space. Its methods may be called from any number of goroutines.
type Store interface {
	// Get reads one key, as new as every write acknowledged before the call; ErrNotFound.
	Get(ctx context.Context, key string) (Item, error)
	// List reads the keys with a prefix in ascending order, all as of one revision; ErrCompacted, ErrFuture.
	List(ctx context.Context, prefix string, o ListOptions) (Page, error)
	// Create writes a key that must not exist; ErrExists.
	Create(ctx context.Context, key string, value []byte) (rev int64, err error)
	// Update replaces the value of a key that was last written at rev; *Changed if it was not.
	Update(ctx context.Context, key string, value []byte, rev int64) (int64, error)
	// Delete removes a key that was last written at rev; *Changed if it was not. It returns the revision of the removal.
	Delete(ctx context.Context, key string, rev int64) (int64, error)
	// Revision returns a revision not older than any write acknowledged before the call, by anyone.
	Revision(ctx context.Context) (int64, error)
	// Watch delivers the changes under prefix with a revision greater than after (which may lie in the future). If they
	// are not kept any more, Watch or the first Next returns ErrCompacted.
	Watch(ctx context.Context, prefix string, after int64) (Watcher, error)
	// RequestProgress makes open watchers that have nothing to deliver return a Batch with a fresh Rev soon.
	RequestProgress(ctx context.Context) error
	// Compact forgets the states older than rev; ErrCompacted if that has been done already, ErrFuture.
	Compact(ctx context.Context, rev int64) error
	// Ping reports whether the store can answer.
	Ping(ctx context.Context) error
	// Close ends watchers with ErrClosed and frees everything. Other calls return ErrClosed afterwards.
	Close() error
}

// LeanWatcher is a Store that can watch without saying what changes replaced, for those who know that already: it costs etcd a
// read for each change, and a cluster twice the bytes.
type LeanWatcher interface {
	// WatchLean is Watch with events whose Prev and PrevRev are not set.
	WatchLean(ctx context.Context, prefix string, after int64) (Watcher, error)
}

// Holder is a Store that several processes may share and that knows which of them are there.
type Holder interface {
	// Hold writes a key for the other processes to see. It goes when the Store is closed, or within seconds of the end of a process
	// that did not close it. If it goes otherwise, it is to be held again. Where no other process can use the store, there is nobody
	// to tell, and nothing is written.
	Hold(ctx context.Context, key string, value []byte) error
}

// Item is a key with its value.
type Item struct {
	Key   string
	Value []byte
	Rev   int64 // of the last write of the key
}

// ListOptions says what part of a list is wanted, and of what time.
type ListOptions struct {
	From  string // first key, inclusive; "" or a key before the prefix means from the start of the prefix
	Limit int64  // at most so many items; 0 means all
	Rev   int64  // as of this revision; 0 means the newest, as Get does
}

// Page is (a part of) a list.
type Page struct {
	Items []Item
	Rev   int64 // the revision the page was read at
	More  bool  // there are keys after the last item
}

// Event is one change of one key.
type Event struct {
	Key     string
	Value   []byte // nil if Deleted
	Prev    []byte // the value before; nil if Created, or if the store no longer has it
	Rev     int64  // of the change
	PrevRev int64  // of the value before
	Deleted bool
	Created bool
}

// Batch is what a Watcher delivers at once.
type Batch struct {
	Events []Event // in the order of revisions; may be empty
	Rev    int64   // every change up to and including this revision has been delivered
}

// Watcher delivers changes. Its methods must not be called from several goroutines at once, except Close.
type Watcher interface {
	// Next waits for the next batch, which belongs to the caller. Apart from the context's error, an error is final:
	// ErrCompacted means that changes were lost, ErrClosed that the watcher or the store was closed.
	Next(ctx context.Context) (Batch, error)
	Close()
}

// MaxValue is how long a value may be: the 3 MiB that a request body may have, and room for what defaulting adds.
const MaxValue = 7 << 20

// Errors that callers tell apart. They may be wrapped; use errors.Is.
var (
	ErrNotFound  = errors.New("key not found")
	ErrExists    = errors.New("key exists already")
	ErrCompacted = errors.New("revision has been compacted")
	ErrFuture    = errors.New("revision is in the future") // always a *FutureError
	ErrClosed    = errors.New("store is closed")
	ErrNoSpace   = errors.New("no space left for writing; reads still work")
	ErrTooLarge  = errors.New("value is too large to store")
	// ErrUnavailable means that the store cannot answer now, or that it is not known whether a write took place.
	ErrUnavailable = errors.New("store is unavailable")
)

// Changed says that a compare-and-swap found the key in another state.
type Changed struct {
	Current Item // zero if Gone
	Gone    bool // the key does not exist
}

func (e *Changed) Error() string {
	if e.Gone {
		return "key was deleted meanwhile"
	}
	return fmt.Sprintf("key %s was changed meanwhile, at revision %d", e.Current.Key, e.Current.Rev)
}

// FutureError says that a revision has not been reached yet; errors.Is(err, ErrFuture) holds for it.
type FutureError struct {
	Wanted, Current int64
}

func (e *FutureError) Error() string {
	return fmt.Sprintf("%v: got %d, newest is %d", ErrFuture, e.Wanted, e.Current)
}

// Is makes a FutureError an ErrFuture.
func (e *FutureError) Is(target error) bool { return target == ErrFuture }
