package apply

import (
	"testing"

	"github.com/keelson-io/keelson/internal/testfastpath"
)

// TestFastPaths holds that KEELSON_FASTPATHS switches off fast paths in the tests of this package.
func TestFastPaths(t *testing.T) { testfastpath.Check(t) }
