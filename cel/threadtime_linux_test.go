package cel

import (
	"syscall"
	"testing"
	"time"
)

// threadTime returns the processor time of the thread.
func threadTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	const thread = 1 // RUSAGE_THREAD
	if err := syscall.Getrusage(thread, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
