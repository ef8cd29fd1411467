package etcd

// This file turns failures of the embedded server's files into errors.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/keelson-io/keelson/internal/store"
)

// startError returns the error of a store that cannot be opened: missing permissions, a full disk,
// or damage.
func startError(dir, file string, err error) error {
	var damaged *store.DamagedError
	var inUse *inUseError
	var unusable *unusableError
	switch {
	case errors.As(err, &damaged), errors.As(err, &inUse), errors.As(err, &unusable), errors.Is(err, store.ErrDiskFull), errors.Is(err, errNotReady),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case isDiskFull(err):
		return fmt.Errorf("%w: %s: %w; make room on its file system", store.ErrDiskFull, dir, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s: %w; the server runs as user %d, who has to be able to read and write everything in the directory", dir, err, os.Getuid())
	}
	return &store.DamagedError{Dir: dir, File: file, Err: err}
}

// isDiskFull reports whether err means that a file system, or a user's quota of it, is full.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// diskFull returns the error for a file system with too little room. The argument what completes
// the sentence: why the room is needed.
func diskFull(dir string, free, want int64, what string) error {
	return fmt.Errorf("%w: %d MiB are free on the file system of %s, want %d MiB %s; make room on it", store.ErrDiskFull, free>>20, dir, want>>20, what)
}

// errNotReady is the error of a start that did not end in time.
var errNotReady = errors.New("not ready")

// guard calls a function and turns its panic into an error. A damaged file can also make etcd and
// its database read beyond mapped memory. debug.SetPanicOnFault, which holds for one goroutine,
// turns that fault into a panic.
func guard(f func() error) (err error) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case error:
			err = cause
		default:
			err = fmt.Errorf("%v", cause)
		}
	}()
	return f()
}
