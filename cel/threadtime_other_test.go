//go:build !linux

package cel

import (
	"testing"
	"time"
)

// begun is when the tests began.
var begun = time.Now()

// threadTime returns the time since the tests began: other systems do not know that of a thread.
func threadTime(*testing.T) time.Duration { return time.Since(begun) }
