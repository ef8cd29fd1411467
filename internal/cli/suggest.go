// This file suggests names like a misspelled one.

package cli

import (
	"strings"

	"github.com/keelson-io/keelson/internal/source"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/lint"
)

// likeField returns the path of the field that an unknown field probably stands for; "" if none is
// like it.
func likeField(v *kind.Version, path string) string {
	like := lint.LikeField(v, path)
	if like == "" {
		return ""
	}
	steps := source.Split(path)
	return strings.TrimSuffix(path, steps[len(steps)-1]) + like
}
