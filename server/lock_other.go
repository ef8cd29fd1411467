//go:build !unix

package server

import (
	"errors"
	"os"
)

// This file replaces the lock of a data directory on systems without flock. There, embedded etcd's
// lock on its files is the guard.

var errLocked = errors.New("in use by another process")

// lock only creates the file: this system has no locks that end with the process.
func lock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

// openFiles returns the number of files that the process may open; 0 means unknown.
func openFiles() int64 { return 0 }
