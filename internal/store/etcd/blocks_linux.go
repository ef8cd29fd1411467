package etcd

// This file allocates blocks of a file without changing its size, as Linux does it.

import (
	"errors"
	"os"
	"syscall"
)

var errCannotAllocate = errors.New("blocks cannot be allocated on this system")

const keepSize = 1 // FALLOC_FL_KEEP_SIZE

// allocateBlocks makes sure that a part of a file has blocks, also beyond its end. What the file holds stays as it is.
func allocateBlocks(path string, offset, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if err := syscall.Fallocate(int(f.Fd()), keepSize, offset, size); err != syscall.EINTR {
			return err
		}
	}
}

// allocatedBytes returns how many bytes of the disk a file occupies.
func allocatedBytes(info os.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return 0
}
