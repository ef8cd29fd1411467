// Package testkit holds what the tests of many packages need.
//
// [Eventually] waits for a condition, without a sleep that decides a test. [Here] says where the row
// of a table stands.
package testkit

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// Patience is how long Eventually waits before it gives up. A test that passes does not wait so
// long, however loaded the machine is.
const Patience = 2 * time.Minute

// The pauses between two looks at a condition grow from the first to the last.
const (
	firstPause = time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// Eventually waits until holds returns true. If it does not within Patience, the test fails at once
// with a text that begins with "still not: " and that says what did not happen.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	EventuallySay(t, func() (string, bool) { return what, holds() })
}

// EventuallySay is Eventually for a condition that says itself what is missing: the text of the last
// look is in the message of the failure.
func EventuallySay(t testing.TB, look func() (missing string, holds bool)) {
	t.Helper()
	pause := firstPause
	for began := time.Now(); ; time.Sleep(pause) {
		missing, holds := look()
		if holds {
			return
		}
		if time.Since(began) > Patience {
			t.Fatalf("still not: %s", missing)
		}
		pause = min(pause*5/4, lastPause)
	}
}

// Position is where a row of a table stands.
type Position string

// Here returns the position of its caller, as file:line. Rows of tables hold it, so that a failure
// names the row's line:
//
//	{at: testkit.Here(), text: "1 +", want: "unexpected end"},
func Here() Position {
	_, file, line, _ := runtime.Caller(1)
	return Position(fmt.Sprintf("%s:%d", filepath.Base(file), line))
}

// Heap returns the bytes of the heap that are in use, after a collection.
func Heap() int64 {
	runtime.GC() // what has a finalizer or a cleanup goes in the second one
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
