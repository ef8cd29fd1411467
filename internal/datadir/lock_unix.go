//go:build unix

package datadir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// This file locks a data directory, so that one server at a time uses it, and reads the limit on
// open files. The kernel releases the lock when the process ends, in whatever way.

// ErrLocked means that another process holds the lock.
var ErrLocked = errors.New("in use by another process")

// Lock acquires the lock of a data directory without waiting. Closing the file releases it.
func Lock(dir string) (*os.File, error) {
	path := lockFile(dir)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return f, nil
}

// IsLocked reports whether a process holds the lock of a data directory. It creates no file. It
// tries a shared lock and releases it at once: a server that starts within these microseconds is
// refused.
func IsLocked(dir string) (bool, error) {
	path := lockFile(dir)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() // releases the lock
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return false, nil
}

// OpenFiles returns the number of files that the process may open; 0 means no limit, or unknown.
func OpenFiles() int64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil || l.Cur > 1<<32 {
		return 0
	}
	return int64(l.Cur)
}
