package servertest

import "testing"

// TestPathsWithoutDefinitions reports a folder that has no CRD: it is a mistyped path, or the CRDs were not generated.
func TestPathsWithoutDefinitions(t *testing.T) {
	dir := t.TempDir()
	if _, err := readCRDs([]string{"testdata", dir}); err == nil || err.Error() != dir+": no CustomResourceDefinition in it" {
		t.Errorf("got %v", err)
	}
}
