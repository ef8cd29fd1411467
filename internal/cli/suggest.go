// This file suggests names like a misspelled one.

package cli

import (
	"strings"

	"github.com/keelson-io/keelson/internal/nearest"
	"github.com/keelson-io/keelson/internal/source"
	"github.com/keelson-io/keelson/kind"
)

// likeField returns the path of the field that an unknown field probably stands for; "" if none is
// like it.
func likeField(v *kind.Version, path string) string {
	steps := source.Split(path)
	if len(steps) == 0 || v.Schema == nil {
		return ""
	}
	s := v.Schema.Source()
	for _, step := range steps[:len(steps)-1] {
		switch {
		case s == nil:
			return ""
		case s.Items != nil:
			s = s.Items
		case s.Properties[step] != nil:
			s = s.Properties[step]
		default:
			s = s.Additional
		}
	}
	if s == nil {
		return ""
	}
	last := steps[len(steps)-1]
	like := nearest.Name(last, s.Names)
	if like == "" {
		return ""
	}
	return strings.TrimSuffix(path, last) + like
}
