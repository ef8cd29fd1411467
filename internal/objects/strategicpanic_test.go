package objects

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/util/mergepatch"
)

// TestWithoutPanic checks that panics of the library become errors, and that those of our own code stay panics.
func TestWithoutPanic(t *testing.T) {
	merge := func(p any) (panicked any, err error) {
		defer func() { panicked = recover() }()
		_, err = withoutPanic(func() (map[string]any, error) { panic(p) })
		return nil, err
	}
	if p, err := merge(errors.New("interface conversion")); !errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat) || p != nil {
		t.Errorf("the library's panic: got %v, panic %v", err, p)
	}
	if p, err := merge("BUG: a broken invariant"); p != "BUG: a broken invariant" {
		t.Errorf("our own panic: got %v, panic %v", err, p)
	}
}
