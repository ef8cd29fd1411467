//go:build linux || darwin

package etcd

// This file asks the file system for its free space, where that is known how.

import "syscall"

// freeBytes returns how many bytes a process without privileges can still write to the file system.
func freeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
