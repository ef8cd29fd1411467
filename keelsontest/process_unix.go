//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package keelsontest

// This file has what differs on Unix: the lock of a build, and the signal that ends a server.

import (
	"os"
	"syscall"
)

// lockFile locks a file until unlock is called or the process ends. It waits for other holders.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return func() { f.Close() }, nil
}

// askToEnd makes a server end by itself.
func askToEnd(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
