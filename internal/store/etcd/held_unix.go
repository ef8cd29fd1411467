//go:build linux || darwin

package etcd

// This file checks whether another process has the database open: etcd would wait for it without
// end.

import (
	"os"
	"syscall"
)

// heldByOther reports whether another process holds the lock of a file. It does not keep the lock.
func heldByOther(f *os.File) bool {
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == syscall.EWOULDBLOCK {
		return true
	}
	syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	return false
}
