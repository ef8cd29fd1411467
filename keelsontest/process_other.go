//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package keelsontest

// This file has what differs on Windows and other systems without signals and locks: a lock is a file
// that is removed, and a server is killed.

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// staleAfter is the age at which the lock of a build is that of a process that was killed. No build
// takes so long.
const staleAfter = 10 * time.Minute

// lockFile creates a file that must not exist, and removes it in unlock. It waits for other holders.
func lockFile(path string) (unlock func(), err error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			return func() { f.Close(); os.Remove(path) }, nil
		}
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > staleAfter {
			os.Remove(path)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// askToEnd reports that a server cannot be asked.
func askToEnd(*os.Process) error { return errors.ErrUnsupported }
