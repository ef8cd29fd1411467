package offline

import (
	"fmt"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"
)

// TestRemovedKinds compares the table of removed APIs with what Kubernetes' own types say of the
// kinds that are still in its Go modules.
func TestRemovedKinds(t *testing.T) {
	compared := 0
	for gvk, got := range removedKinds {
		object, err := scheme.Scheme.New(gvk)
		if err != nil {
			continue // the module does not have it any more
		}
		ends, ok := object.(interface{ APILifecycleRemoved() (major, minor int) })
		if !ok {
			if gvk.Version != "v1alpha1" { // alpha versions have no ends in the types
				t.Errorf("%v: its type has no end", gvk)
			}
			continue
		}
		major, minor := ends.APILifecycleRemoved()
		if want := fmt.Sprintf("%d.%d", major, minor); got.release != want {
			t.Errorf("%v: got %s, want %s", gvk, got.release, want)
		}
		compared++
	}
	if compared < 20 {
		t.Errorf("compared %d kinds, want at least 20", compared)
	}
}
