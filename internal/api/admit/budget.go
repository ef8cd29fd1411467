package admit

import (
	"container/list"
	"context"
	"sync"
)

// This file bounds the memory of the answers that are built for all readers together.

// budget counts the bytes that are being built for readers. A reader that does not fit into its
// user's share waits in line behind other readers of the same user. If the share has room but the
// budget has none, the user waits in line behind other users. The cost of one reader does not grow
// with the number of waiting readers.
type budget struct {
	most, share int64

	mu      sync.Mutex
	used    int64
	users   map[string]*readers // users that hold bytes or wait
	blocked list.List           // of *readers: users whose share has room while the budget has none
	waiting int                 // readers
}

// readers are those of one user.
type readers struct {
	used int64
	line list.List     // of *waiter
	turn *list.Element // the place in the budget's blocked; nil if the user is not there
}

// waiter is a reader that has asked for bytes.
type waiter struct {
	budget *budget
	user   string
	n      int64
	line   *list.Element // its place in the user's line
	let    chan struct{} // closed when the reader has its bytes
}

// newBudget returns a budget of most bytes, of which one user gets at most share.
func newBudget(most, share int64) *budget {
	return &budget{most: most, share: share, users: map[string]*readers{}}
}

// acquire waits until a user may have n bytes, and returns the number to pass to release. If ctx ends
// first, acquire returns its error.
func (b *budget) acquire(ctx context.Context, user string, n int64) (int64, error) {
	w := b.ask(user, n)
	if err := w.wait(ctx); err != nil {
		return 0, err
	}
	return w.n, nil
}

// ask puts a reader that wants n bytes in line. The number to pass to release is that of the waiter:
// at most one share, so that the largest object can still be read. If the waiter is not ready, its
// wait must be called.
func (b *budget) ask(user string, n int64) *waiter {
	w := &waiter{budget: b, user: user, n: min(n, b.share), let: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.users[user]
	if u == nil {
		u = &readers{}
		b.users[user] = u
	}
	w.line = u.line.PushBack(w)
	b.waiting++
	if u.line.Len() == 1 {
		b.block(u)
		b.admit()
	}
	return w
}

// isReady reports whether the reader has its bytes.
func (w *waiter) isReady() bool {
	select {
	case <-w.let:
		return true
	default:
		return false
	}
}

// wait waits for the bytes. If ctx ends first, it returns the context's error, and the reader never
// gets them.
func (w *waiter) wait(ctx context.Context) error {
	select {
	case <-w.let:
		return nil
	case <-ctx.Done():
	}
	b := w.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.isReady() {
		return nil // at the last moment
	}
	u := b.users[w.user]
	u.line.Remove(w.line)
	b.waiting--
	b.unblock(u)
	b.block(u) // others may have waited for this one
	b.admit()
	b.forget(w.user, u)
	return ctx.Err()
}

// block puts a user in line. The user's share has room for its next reader. The caller holds the
// lock.
func (b *budget) block(u *readers) {
	if next := u.line.Front(); next != nil && u.turn == nil && u.used+next.Value.(*waiter).n <= b.share {
		u.turn = b.blocked.PushBack(u)
	}
}

// unblock removes a user from the line: its next reader no longer fits, or has gone. The caller
// holds the lock.
func (b *budget) unblock(u *readers) {
	if u.turn == nil {
		return
	}
	if next := u.line.Front(); next == nil || u.used+next.Value.(*waiter).n > b.share {
		b.blocked.Remove(u.turn)
		u.turn = nil
	}
}

// admit lets readers in, one of each user in line in turn, as long as there is room. The lock is
// held.
func (b *budget) admit() {
	for first := b.blocked.Front(); first != nil; first = b.blocked.Front() {
		u := first.Value.(*readers)
		next := u.line.Front()
		w := next.Value.(*waiter)
		if b.used+w.n > b.most {
			return
		}
		u.line.Remove(next)
		b.waiting--
		b.used += w.n
		u.used += w.n
		close(w.let)
		b.blocked.Remove(first)
		u.turn = nil
		b.block(u)
	}
}

// release returns bytes that a user acquired.
func (b *budget) release(user string, n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.users[user]
	b.used -= n
	u.used -= n
	b.block(u)
	b.admit()
	b.forget(user, u)
}

// forget drops a user that holds no bytes and does not wait. The caller holds the lock.
func (b *budget) forget(user string, u *readers) {
	if u.used == 0 && u.line.Len() == 0 {
		delete(b.users, user)
	}
}

// held returns the number of bytes that are in use.
func (b *budget) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// waits returns the number of waiting readers.
func (b *budget) waits() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}
