package keelsontest

// This file ends servers with the test binary that started them.

import (
	"os/exec"
	"runtime"
	"syscall"
)

// keepThread keeps the goroutine's thread for as long as the goroutine lives.
func keepThread() { runtime.LockOSThread() }

// endWithParent makes the kernel end the process when the thread that starts it ends.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
