package etcd

// This file prevents the embedded server from running out of space, to which etcd reacts by ending
// the process.

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/keelson-io/keelson/internal/store"
)

// reserve is what writes need: the segment of the write-ahead log that etcd prepares ahead (64
// MiB), and room for the database to grow. The blocks that are reserved for the database count like
// free ones.
const reserve = 96 << 20

// deleteReserve is the space that deletes need: they make the database file grow before they
// free anything in it.
const deleteReserve = 24 << 20

// space decides whether there is room for a write. It reads the sizes of the file system and the
// database again after a while, or after many bytes.
type space struct {
	quota int64
	used  func(commitFirst bool) int64 // bytes of the database in use; commitFirst makes the answer exact
	free  func() (int64, error)        // bytes free on the file system
	ahead *databaseBlocks              // what is reserved for the database; nil if nothing is
	done  func() int64                 // number of commits of the database
	log   *slog.Logger                 // logs when writes begin and cease to be refused

	mu    sync.Mutex
	asked time.Time
	left  int64 // bytes that may be written before the sizes are read again
	way   underWay
	err   error // refuses writes
	full  error // refuses everything, including deletes
}

const (
	askAfter = 200 * time.Millisecond
	askBytes = 4 << 20
)

// newSpace returns the guard of the free space: of the database below quota, and of the file system
// of dir.
func newSpace(dir string, quota int64, used func(commitFirst bool) int64, log *slog.Logger) *space {
	return &space{quota: quota, used: used, free: func() (int64, error) { return freeBytes(dir) }, done: func() int64 { return 0 }, log: log}
}

// begin reserves blocks for the first writes.
func (s *space) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
}

// hasRoom reports whether there is room for writes on the file system.
func (s *space) hasRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	free, ahead := s.look()
	return free+ahead >= reserve
}

// isShort reports whether writes are refused, so that history is worth more as room.
func (s *space) isShort() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// look returns how many bytes are free on the file system, and how many more are reserved for the
// database. It reserves more if that is due.
func (s *space) look() (free, ahead int64) {
	free, err := s.free()
	if err != nil {
		return math.MaxInt64 / 2, 0 // an error does not mean that space is short
	}
	ahead, allocated := s.ahead.reserve(free, 2*s.way.bytes(time.Now(), s.done()))
	if allocated {
		if free, err = s.free(); err != nil {
			return math.MaxInt64 / 2, 0
		}
	}
	return free, ahead
}

// reserve reserves room for a write. 0 bytes mean a delete, which is allowed as long as
// deleteReserve is free. Below that, nothing may be written, because etcd does not survive a failed
// write.
func (s *space) reserve(bytes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.way.recent += int64(bytes) + 512
	if s.left -= int64(bytes) + 512; s.left < 0 || now.Sub(s.asked) > askAfter {
		s.asked, s.left = now, askBytes
		before := s.err
		s.err, s.full = s.check()
		switch {
		case before == nil && s.err != nil:
			s.log.Error("writes are refused", "error", s.err)
		case before != nil && s.err == nil:
			s.log.Info("writes are accepted again")
		}
	}
	if bytes == 0 {
		return s.full
	}
	return s.err
}

// check returns why writes must be refused, and why even deletes must be.
func (s *space) check() (writes, all error) {
	used := s.used(false)
	if used >= s.quota {
		used = s.used(true)
	}
	free, ahead := s.look()
	have := fmt.Sprintf("%d MiB are free on the file system of the data directory, want", free>>20)
	if ahead > 0 {
		have = fmt.Sprintf("%d MiB are free on the file system of the data directory, and %d MiB are reserved on it for the database, together want", free>>20, ahead>>20)
	}
	if !roomForDeletes(free, ahead) {
		all = fmt.Errorf("%w: %s %d MiB, and %d MiB for deletes; make room on it",
			store.ErrDiskFull, have, int64(reserve)>>20, int64(deleteReserve)>>20)
	}
	switch {
	case all != nil:
		return all, all
	case used >= s.quota:
		return fmt.Errorf("%w: the database holds %d MiB, its quota is %d MiB; delete objects or raise the quota",
			store.ErrNoSpace, used>>20, s.quota>>20), nil
	case free+ahead < reserve:
		return fmt.Errorf("%w: %s %d MiB; make room on it", store.ErrDiskFull, have, int64(reserve)>>20), nil
	}
	return nil, nil
}

// roomForDeletes reports whether deletes may be written. Some of the free space is left even if the
// reserved blocks would do, because etcd has more files than the database.
func roomForDeletes(free, ahead int64) bool { return free >= restFree && free+ahead >= deleteReserve }

// underWay counts the bytes that the database may not have committed yet. It commits every 100 ms
// if there is something to commit.
type underWay struct {
	recent, before  int64 // bytes since and before the turn
	turned          time.Time
	commitsAtTurned int64
}

const (
	turnAfter = 300 * time.Millisecond
	turnIdle  = 5 * time.Second // if nothing is committed, because nothing is written
)

// bytes returns how many bytes may not be committed, given the number of commits until now.
func (u *underWay) bytes(now time.Time, commits int64) int64 {
	if age := now.Sub(u.turned); age > turnAfter && commits > u.commitsAtTurned || age > turnIdle {
		u.before, u.recent = u.recent, 0
		u.turned, u.commitsAtTurned = now, commits
	}
	return u.before + u.recent
}
