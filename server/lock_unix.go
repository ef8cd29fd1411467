//go:build unix

package server

import (
	"errors"
	"os"
	"syscall"
)

// This file locks a data directory, so that one server at a time uses it, and reads the limit on
// open files. The kernel releases the lock when the process ends, in whatever way.

// errLocked means that another process holds the lock.
var errLocked = errors.New("in use by another process")

// lock acquires the lock file without waiting.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return f, nil
}

// openFiles returns the number of files that the process may open.
func openFiles() int64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil || l.Cur > 1<<32 {
		return 0
	}
	return int64(l.Cur)
}
