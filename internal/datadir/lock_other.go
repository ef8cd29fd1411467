//go:build !unix

package datadir

import (
	"errors"
	"os"
)

// This file replaces the lock of a data directory on systems without flock. There, embedded etcd's
// lock on its files is the guard.

// ErrLocked means that another process holds the lock.
var ErrLocked = errors.New("in use by another process")

// Lock only creates the file: this system has no locks that end with the process.
func Lock(dir string) (*os.File, error) {
	return os.OpenFile(lockFile(dir), os.O_CREATE|os.O_RDWR, 0o600)
}

// IsLocked returns errors.ErrUnsupported.
func IsLocked(string) (bool, error) { return false, errors.ErrUnsupported }

// OpenFiles returns 0: the limit is unknown.
func OpenFiles() int64 { return 0 }
