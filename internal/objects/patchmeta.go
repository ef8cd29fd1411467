package objects

import (
	"github.com/keelson-io/keelson/internal/buffer"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file applies merge patches of nothing but metadata: labels, annotations,
// finalizers, owners. The rest of the object is not printed, patched and read
// again.

// ofMetadata reports whether a text is a merge patch that names nothing but
// metadata, and of that anything but managedFields.
func ofMetadata(patch []byte) bool {
	d := jsondoc.Get()
	defer d.Release()
	if jsondoc.Parse(d, patch) != nil {
		return false
	}
	for name, v := range d.Root().Members() {
		if name != "metadata" || v.Kind() != jsondoc.Object || v.Get("managedFields").Exists() {
			return false
		}
	}
	return d.Root().Len() == 1
}

// patchMetadata makes next what live is after a patch for which ofMetadata holds, without its
// managedFields: an update without them keeps those of live. ok is false if the whole object is
// needed for that: next cannot be used then.
func (r *Ref) patchMetadata(next, live *jsondoc.Doc, patch []byte) (ok bool) {
	o := meta.Object{Doc: live}
	if !r.behavior().FollowsSchema() || o.Kind() == "" || live.MayHaveFloats() {
		return false // decoding it again may make something else of it
	}
	// The patch is applied to a small object: the head of live. All the rest is copied as it is.
	b := buffer.Get()
	defer buffer.Put(b)
	if *b, ok = appendHead(*b, live.Root()); !ok {
		return false
	}
	patched, err := jsondoc.MergePatch(*b, patch)
	if err != nil {
		return false
	}
	head := jsondoc.Get()
	defer head.Release()
	// Errors and dropped fields are reported by the plain path, with the whole object.
	if found, err := r.Version.Decode(head, patched); err != nil || found != 0 {
		return false
	}
	// The copy shares live's nodes, so that its cost does not depend on the size of the object.
	next.CopyOf(live)
	next.Set(next.Import(head.Root().Get("metadata")), "metadata")
	return true
}

// appendHead appends apiVersion, kind and metadata without managedFields. ok is false if the object
// lacks one of them.
func appendHead(b []byte, root jsondoc.Value) (_ []byte, ok bool) {
	version, kind, metadata := root.Get("apiVersion"), root.Get("kind"), root.Get("metadata")
	if !version.Exists() || !kind.Exists() || metadata.Kind() != jsondoc.Object {
		return b, false
	}
	b = version.AppendJSON(append(b, `{"apiVersion":`...))
	b = kind.AppendJSON(append(b, `,"kind":`...))
	b = append(b, `,"metadata":{`...)
	sep := false
	for name, v := range metadata.Members() {
		// They are often larger than the rest, and a patch of them is not for this path.
		if name == "managedFields" {
			continue
		}
		if sep {
			b = append(b, ',')
		}
		sep = true
		b = append(jsondoc.AppendQuoted(b, name), ':')
		b = v.AppendJSON(b)
	}
	return append(b, "}}"...), true
}
