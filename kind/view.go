package kind

import (
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
)

// This file makes views of what has just been written.

// ViewOf is what Render makes of a stored object, for one that has just been stored in this version: d is the object and text what
// it was printed as, both with its resource version.
func (v *Version) ViewOf(d *doc.Doc, text []byte) *cache.View {
	root := d.Root()
	return &cache.View{JSON: text, Labels: labelsOf(root.At("metadata", "labels")), Fields: v.fieldsOf(root)}
}
