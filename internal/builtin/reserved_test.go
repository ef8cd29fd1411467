package builtin

import (
	"testing"

	"github.com/keelson-io/keelson/kind"
)

// TestGroupsAreReserved checks that a client is warned about a definition in the group of any built-in kind, which takes the group to
// be in the list of package kind.
func TestGroupsAreReserved(t *testing.T) {
	none := new(kind.Registry)
	for _, k := range All(nil) {
		if refusal := none.Refuses("foos."+k.Group, k.Group, "foos"); refusal == nil || refusal.Reason != "GroupReserved" {
			t.Errorf("group %q: got %+v, want that it is reserved without its kinds, too", k.Group, refusal)
		}
	}
}
