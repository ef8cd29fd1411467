package match

import (
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file converts a changed object from the version of a target back to that of the request.

// Replace decodes a JSON text in the target's version and makes it the request's new object. It
// reports whether the object changed.
func (t Target) Replace(r *admission.Request, text []byte) (bool, error) {
	switch {
	case r.Foreign != nil:
		return r.ReplaceForeign(text)
	case !t.Other:
		return r.Replace(text)
	}
	d := jsondoc.Get()
	defer d.Release()
	if _, err := t.Version.Decode(d, text); err != nil { // fills in the defaults of the target's version
		return false, err
	}
	own, err := r.Version.Kind.Convert(d.AppendJSON(nil, d.Root().Node), r.Version.Name)
	if err != nil {
		return false, err
	}
	return r.Replace(own)
}
