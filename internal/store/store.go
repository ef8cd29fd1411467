// Package store stores bytes under keys, with revisions. It separates Keelson from the database.
//
// A Store is a key space with one counter, the revision. Every successful write increments it and
// gives the key the new revision. An Item carries the revision of its last write, which is
// sufficient for optimistic concurrency. Old states can be read (List with Rev) and replayed (Watch
// after a revision) until they are compacted.
//
// Keys are slash-separated without a leading slash, "<group>/<plural>/[<namespace>/]<name>". An
// implementation may add a prefix of its own, which callers never see. List and Watch compare a
// prefix byte by byte: end it with a slash to match whole path segments; "" matches everything.
//
// Invariants of every implementation, checked by package storetest:
//   - An acknowledged write is on disk (or, for internal/store/mem, as safe as memory is) and visible to
//     everybody.
//   - Revisions of acknowledged writes strictly increase in the order of the writes.
//   - A Watcher delivers each change of its prefix after its start exactly once, in the order of
//     revisions.
//   - Every read that begins after a Watcher has delivered a change sees that change.
//   - Values are shared, not copied: never modify a slice that was passed to a Store or came from
//     one.
//
// The methods to call: Get, List, Create, Update, Delete and Watch of a Store made by etcd.Open or
// mem.New.
package store

// This file declares Store, its types and its errors.

import (
	"context"
	"errors"
	"fmt"
)

// Store is the key space. Its methods may be called from any number of goroutines.
type Store interface {
	// Get reads one key after all acknowledged writes; ErrNotFound.
	Get(ctx context.Context, key string) (Item, error)
	// List reads the keys with a prefix in ascending order, all at one revision; ErrCompacted,
	// ErrFuture.
	List(ctx context.Context, prefix string, o ListOptions) (Page, error)
	// Create writes a key that must not exist; ErrExists.
	Create(ctx context.Context, key string, value []byte) (rev int64, err error)
	// Update replaces the value of a key whose last write was at rev; otherwise *Changed.
	Update(ctx context.Context, key string, value []byte, rev int64) (int64, error)
	// Delete removes a key whose last write was at rev; otherwise *Changed. It returns the revision
	// of the removal.
	Delete(ctx context.Context, key string, rev int64) (int64, error)
	// Revision returns a revision that is not older than any write, by any process, acknowledged
	// before the call.
	Revision(ctx context.Context) (int64, error)
	// Watch delivers the changes under prefix with a revision greater than after, which may be in
	// the future. If some of them were compacted, Watch or the first Next returns ErrCompacted.
	Watch(ctx context.Context, prefix string, after int64) (Watcher, error)
	// RequestProgress makes open watchers without changes return a Batch with the current Rev soon.
	RequestProgress(ctx context.Context) error
	// Compact removes the states older than rev; ErrCompacted if they have been removed already,
	// ErrFuture.
	Compact(ctx context.Context, rev int64) error
	// Ping reports whether the store can answer.
	Ping(ctx context.Context) error
	// Close ends watchers with ErrClosed and frees everything. Other calls return ErrClosed
	// afterwards.
	Close() error
}

// LeanWatcher is a Store that can watch without the replaced values, for callers that know them:
// etcd needs a read for each change, and a cluster twice the bytes.
type LeanWatcher interface {
	// WatchLean is Watch without Prev and PrevRev in its events.
	WatchLean(ctx context.Context, prefix string, after int64) (Watcher, error)
}

// Holder is a Store that several processes may share, and that knows which of them are running.
type Holder interface {
	// Hold writes a key that other processes can see. It disappears when the Store is closed, or
	// within seconds after the process ended without closing it. If the key disappears for another
	// reason, call Hold again. For a Store that no other process can use, Hold does nothing.
	Hold(ctx context.Context, key string, value []byte) error
}

// Sealer is a Store that encrypts values at rest.
type Sealer interface {
	// WritesAs returns the Sealed of a value of the key if it were written now. A value that is sealed otherwise is to be written
	// again, even if a change leaves it as it is.
	WritesAs(key string) string
}

// Item is a key with its value.
type Item struct {
	Key   string
	Value []byte
	Rev   int64 // of the last write of the key
	// Sealed names what the value was encrypted with at rest, "" for nothing. See Sealer.
	Sealed string
}

// ListOptions select a part of a list, and its revision.
type ListOptions struct {
	From  string // first key, inclusive; "" or a key before the prefix means from the start of the prefix
	Limit int64  // the largest number of items; 0 means all
	Rev   int64  // at this revision; 0 means the newest, as for Get
}

// Page is a list or a part of one.
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
	Sealed  string // what Value was encrypted with at rest, as in Item
	Deleted bool
	Created bool
}

// Batch is what a Watcher delivers in one call.
type Batch struct {
	Events []Event // in the order of revisions; may be empty
	Rev    int64   // all changes up to and including this revision have been delivered
}

// Watcher delivers changes. Its methods must not be called from several goroutines at once, except
// Close.
type Watcher interface {
	// Next waits for the next batch, which belongs to the caller. Except for the context's error,
	// errors are final: ErrCompacted means that changes were lost, ErrClosed that the watcher or
	// the store was closed.
	Next(ctx context.Context) (Batch, error)
	Close()
}

// MaxValue is the largest value in bytes: a request body of 3 MiB, and room for what defaulting
// adds.
const MaxValue = 7 << 20

// DamagedPrefix begins the value that a Store returns in place of one that is damaged on disk. The
// reason comes after it. No value that is written begins with it.
const DamagedPrefix = "keelson:damaged:"

// Damaged returns the value in place of a damaged one, so that a reader of one key gets the reason,
// and a reader of many keys gets all others.
func Damaged(key string) []byte {
	return fmt.Appendf(nil, "%sthe stored bytes of key %q are damaged, their checksum is wrong: restore a snapshot, or delete the object with the option ignoreStoreReadErrorWithClusterBreakingPotential", DamagedPrefix, key)
}

// Errors that callers distinguish. They may be wrapped; use errors.Is.
var (
	ErrNotFound  = errors.New("key not found")
	ErrExists    = errors.New("key exists already")
	ErrCompacted = errors.New("revision has been compacted")
	ErrFuture    = errors.New("revision is in the future") // always a *FutureError
	ErrClosed    = errors.New("store is closed")
	ErrNoSpace   = errors.New("no space left for writing; reads still work")
	ErrTooLarge  = errors.New("value is too large to store")
	// ErrDiskFull is the ErrNoSpace of a full file system.
	ErrDiskFull = fmt.Errorf("%w: the disk is full", ErrNoSpace)
	// ErrNoMemory is the ErrNoSpace of a server whose memory has no room for more objects.
	ErrNoMemory = fmt.Errorf("%w: the memory is full", ErrNoSpace)
	// ErrUnavailable means that the store cannot answer now, or that it is unknown whether a write
	// happened.
	ErrUnavailable = errors.New("store is unavailable")
)

// Changed is the error of a compare-and-swap that found the key in another state.
type Changed struct {
	Current Item // zero if Gone
	Gone    bool // the key does not exist
}

// Error tells the two cases apart: the key is gone, or it has another value.
func (e *Changed) Error() string {
	if e.Gone {
		return "key was deleted meanwhile"
	}
	return fmt.Sprintf("key %s was changed meanwhile, at revision %d", e.Current.Key, e.Current.Rev)
}

// FutureError is the error for a revision that has not been reached; errors.Is(err, ErrFuture)
// holds for it.
type FutureError struct {
	Wanted, Current int64
}

// Error returns ErrFuture's text with both revisions.
func (e *FutureError) Error() string {
	return fmt.Sprintf("%v: got %d, newest is %d", ErrFuture, e.Wanted, e.Current)
}

// Is makes a FutureError an ErrFuture.
func (e *FutureError) Is(target error) bool { return target == ErrFuture }
