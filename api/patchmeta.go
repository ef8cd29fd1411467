package api

import (
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/meta"
)

// This file applies merge patches of nothing but metadata: labels, annotations,
// finalizers, owners. The rest of the object is not printed, patched and read
// again.

// ofMetadata reports whether a text is a merge patch that names nothing but
// metadata.
func ofMetadata(patch []byte) bool {
	d := doc.Get()
	defer d.Release()
	if doc.Parse(d, patch) != nil {
		return false
	}
	for name, v := range d.Root().Members() {
		if name != "metadata" || v.Kind() != doc.Object {
			return false
		}
	}
	return d.Root().Len() == 1
}

// patchMetadata makes next what live is after a patch for which ofMetadata
// holds. ok is false if that takes the whole object to say: next is of no use
// then.
func (q *request) patchMetadata(next, live *doc.Doc, patch []byte) (ok bool) {
	o := meta.Object{Doc: live}
	if q.kind.Builtin != nil || o.Kind() == "" || live.MayHaveFloats() {
		return false // decoding it again may make something else of it
	}
	b := buffer()
	defer recycle(b)
	*b = append(*b, '{')
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		v := live.Root().Get(name)
		if !v.Exists() {
			return false
		}
		if len(*b) > 1 {
			*b = append(*b, ',')
		}
		*b = append(append(append(*b, '"'), name...), '"', ':')
		*b = v.AppendJSON(*b)
	}
	*b = append(*b, '}')
	patched, err := doc.MergePatch(*b, patch)
	if err != nil {
		return false
	}
	head := doc.Get()
	defer head.Release()
	if found, err := q.v.Decode(head, patched); err != nil || found != 0 {
		return false
	}
	next.CopyOf(live)
	next.Set(next.Import(head.Root().Get("metadata")), "metadata")
	return true
}
