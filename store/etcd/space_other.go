//go:build !linux && !darwin

package etcd

// This file replaces the check of free space on other systems: only the quota is guarded.

import "math"

func freeBytes(string) (int64, error) { return math.MaxInt64, nil }
