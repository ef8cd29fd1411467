//go:build !js

package manifest

// This file has the flag that opens a FIFO without waiting.

import "syscall"

const nonblock = syscall.O_NONBLOCK
