package kind

import (
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file makes views of objects that have just been written, without parsing their bytes again.

// A View is an object in a version, as clients read it: its JSON, and what selectors and lists need of it.
type View = meta.View

// A RendererID identifies what makes views. Views that different renderers made are kept apart.
type RendererID = meta.RendererID

// ViewOf returns the same view as Render, for an object that was just stored in this version. d is
// the object and text its JSON, both with the resource version. before is the view of the replaced
// object, or nil; its labels and fields are shared if they did not change.
func (v *Version) ViewOf(d *jsondoc.Doc, text []byte, before *View) *View {
	root := d.Root()
	labels := root.At("metadata", "labels")
	if before == nil {
		view := &View{JSON: text, Labels: labelsOf(labels)}
		v.setFields(view, root)
		return view
	}
	view := &View{JSON: text, Labels: before.Labels, Fields: before.Fields, FieldKiB: before.FieldKiB}
	if !sameLabels(before.Labels, labels) {
		view.Labels = labelsOf(labels)
	}
	if len(v.SelectableFields) > 0 { // name and namespace never change
		v.setFields(view, root)
	}
	return view
}

// sameLabels reports whether labelsOf(labels) would equal have.
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
