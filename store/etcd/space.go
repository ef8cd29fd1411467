package etcd

// This file guards the embedded server against running out of space, which etcd answers by ending the process.

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/keelson-io/keelson/store"
)

// reserve is what has to stay free on the file system: the segment of the write-ahead log that etcd prepares ahead (64 MiB), a
// step by which the database file grows (16 MiB), and what is under way.
const reserve = 96 << 20

// space says whether there is room for a write. What the file system and the database say is asked again after a
// while, or when much has been written since.
type space struct {
	quota int64
	used  func(settle bool) int64 // bytes of the database in use; settle asks for trouble to be taken
	free  func() (int64, error)   // bytes free on the file system
	log   *slog.Logger            // says when writes begin to be refused, and when they no longer are

	mu    sync.Mutex
	asked time.Time
	left  int64 // bytes that may be written until it is asked again
	err   error
}

const (
	askAfter = 200 * time.Millisecond
	askBytes = 8 << 20
)

func newSpace(dir string, quota int64, used func(settle bool) int64, log *slog.Logger) *space {
	return &space{quota: quota, used: used, free: func() (int64, error) { return freeBytes(dir) }, log: log}
}

// take takes room for a write of so many bytes. Writes of nothing, deletes, are how room is made: they always pass as
// long as the reserve has something for them.
func (s *space) take(bytes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.left -= int64(bytes) + 512; s.left < 0 || now.Sub(s.asked) > askAfter {
		s.asked, s.left = now, askBytes
		before := s.err
		s.err = s.check()
		switch {
		case before == nil && s.err != nil:
			s.log.Error("writes are refused", "error", s.err)
		case before != nil && s.err == nil:
			s.log.Info("writes are taken again")
		}
	}
	if bytes == 0 {
		return nil
	}
	return s.err
}

func (s *space) check() error {
	used := s.used(false)
	if used >= s.quota {
		used = s.used(true)
	}
	if used >= s.quota {
		return fmt.Errorf("%w: the database holds %d MiB, its quota is %d MiB; delete objects or raise the quota",
			store.ErrNoSpace, used>>20, s.quota>>20)
	}
	free, err := s.free()
	if err == nil && free < reserve {
		return fmt.Errorf("%w: %d MiB are free on the file system of the data directory, want %d MiB; make room on it",
			store.ErrNoSpace, free>>20, int64(reserve)>>20)
	}
	return nil // an error says nothing about space
}
