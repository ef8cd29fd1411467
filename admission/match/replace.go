package match

import (
	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/doc"
)

// This file takes an object back from the version that it was shown in.

// Replace makes a JSON text in the target's version the request's new object.
// It reports whether that made a difference.
func (t Target) Replace(r *admission.Request, text []byte) (bool, error) {
	switch {
	case r.Foreign != nil:
		return r.ReplaceForeign(text)
	case !t.Other:
		return r.Replace(text)
	}
	d := doc.Get()
	defer d.Release()
	if _, err := t.Version.Decode(d, text); err != nil { // fills in the defaults of the version that was changed
		return false, err
	}
	own, err := r.Version.Kind.Convert(d.AppendJSON(nil, d.Root().Node), r.Version.Name)
	if err != nil {
		return false, err
	}
	return r.Replace(own)
}
