package objects

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/mergepatch"
)

// withoutPanic calls a function of upstream's library for strategic merge patches. The library
// panics if the value of a directive has the wrong type, as in {"$retainKeys":[{}]}. Such a patch
// is the client's mistake. A broken invariant of our own code (BUG) still panics.
func withoutPanic[T any](merge func() (T, error)) (out T, err error) {
	defer func() {
		p := recover()
		// The library panics with runtime errors and with texts of its own.
		text, _ := p.(string)
		if invariant, broken := strings.CutPrefix(text, "BUG: "); broken {
			panic("BUG: " + invariant)
		}
		if p != nil {
			// Clients get 400: the patch is malformed.
			err = mergepatch.ErrUnsupportedStrategicMergePatchFormat
		}
	}()
	return merge()
}
