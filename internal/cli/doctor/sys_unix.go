//go:build unix

package doctor

import (
	"io/fs"
	"syscall"
)

// This file asks the system about owners and permissions of files.

// hasModes is true because files have owners and modes.
const hasModes = true

// checkWritable returns an error if this process may not create files in a directory.
func checkWritable(dir string) error {
	const write, search = 2, 1
	if err := syscall.Access(dir, write|search); err != nil {
		return &fs.PathError{Op: "write", Path: dir, Err: err}
	}
	return nil
}

// ownerOf returns the number of the user who owns a file.
func ownerOf(info fs.FileInfo) (uid int, known bool) {
	if stat, is := info.Sys().(*syscall.Stat_t); is {
		return int(stat.Uid), true
	}
	return 0, false
}
