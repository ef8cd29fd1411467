//go:build unix

package server

import (
	"errors"
	"os"
	"syscall"
)

// This file keeps a data directory to one server at a time (the lock goes with
// the process, however it ends), and knows the limit on open files.

// errLocked says that another process holds the lock.
var errLocked = errors.New("in use by another process")

// lock takes the lock file, without waiting.
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

// openFiles is how many files the process may open.
func openFiles() int64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil || l.Cur > 1<<32 {
		return 0
	}
	return int64(l.Cur)
}
