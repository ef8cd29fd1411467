//go:build !linux

package etcd

// This file stands in where it is not known how to allocate blocks without changing the size of a file.

import (
	"errors"
	"os"
)

var errCannotAllocate = errors.New("blocks cannot be allocated on this system")

// allocateBlocks fails: only Linux can reserve blocks without changing the size of a file.
func allocateBlocks(string, int64, int64) error { return errCannotAllocate }

// allocatedBytes returns 0: nothing is known about blocks on this system.
func allocatedBytes(os.FileInfo) int64 { return 0 }
