//go:build !linux && !darwin

package etcd

// This file stands in where nobody asked the file system yet: only the quota is guarded.

import "math"

func freeBytes(string) (int64, error) { return math.MaxInt64, nil }
