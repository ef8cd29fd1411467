package admit

import (
	"math"
	"sync"
)

// This file bounds what the requests of all users hold together, with a share for each of them.

// quota is an amount of something, such as bytes. One user gets at most the share, and of what
// others have left at most the same fraction that the share is of the whole. So a user that gets as
// much as possible leaves something for others.
type quota struct {
	most  int64 // for all users; math.MaxInt64: no bound
	share int64 // for one user; the user "", not known yet, has no such bound

	mu    sync.Mutex
	used  int64
	users map[string]int64
}

// acquire reserves n for a user. It reports whether that much was left. Exempt users always get it.
func (u *quota) acquire(user string, n int64, exempt bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !exempt && !u.fits(user, n) {
		return false
	}
	u.add(user, n)
	return true
}

// fits reports whether n more are left for a user. The lock is held.
func (u *quota) fits(user string, n int64) bool {
	if u.used+n > u.most {
		return false
	}
	if user == "" {
		return true
	}
	has := u.users[user]
	switch {
	case has+n > u.share:
		return false
	case has == 0 || u.most == math.MaxInt64:
		return true // a user that holds nothing may get all that is left
	}
	return float64(has+n)*float64(u.most-u.share) <= float64(u.most-u.used-n)*float64(u.share)
}

// move transfers n from one user to another. It reports whether the other user's share has room for
// it.
func (u *quota) move(from, to string, n int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.add(from, -n)
	if !u.fits(to, n) {
		u.add(from, n)
		return false
	}
	u.add(to, n)
	return true
}

// add counts n as a user's. The lock is held.
func (u *quota) add(user string, n int64) {
	if u.users == nil {
		u.users = map[string]int64{}
	}
	u.used += n
	if u.users[user] += n; u.users[user] == 0 {
		delete(u.users, user)
	}
}

// release returns what a user acquired.
func (u *quota) release(user string, n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.add(user, -n)
}

// held returns the amount that is in use.
func (u *quota) held() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.used
}
