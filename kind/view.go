package kind

import (
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/meta"
)

// This file makes views of what has just been written.

// ViewOf is what Render makes of a stored object, for one that has just been stored in this version: d is the object and text what
// it was printed as, both with its resource version. before is the view of what it replaces, or nil: what is the same in both is shared.
func (v *Version) ViewOf(d *jsondoc.Doc, text []byte, before *meta.View) *meta.View {
	root := d.Root()
	labels := root.At("metadata", "labels")
	if before == nil {
		view := &meta.View{JSON: text, Labels: labelsOf(labels)}
		v.setFields(view, root)
		return view
	}
	view := &meta.View{JSON: text, Labels: before.Labels, Fields: before.Fields, FieldKiB: before.FieldKiB}
	if !sameLabels(before.Labels, labels) {
		view.Labels = labelsOf(labels)
	}
	if len(v.SelectableFields) > 0 { // beside the name and the namespace, which stay
		v.setFields(view, root)
	}
	return view
}

// sameLabels reports whether labelsOf would make these labels.
func sameLabels(have meta.Labels, labels jsondoc.Value) bool {
	if labels.Kind() != jsondoc.Object || labels.Len() != len(have) {
		return len(have) == 0 && labels.Kind() != jsondoc.Object
	}
	i := 0
	for key, value := range labels.Members() {
		if have[i].Key != key || have[i].Value != value.Text() {
			return false
		}
		i++
	}
	return true
}
