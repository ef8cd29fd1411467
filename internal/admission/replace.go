package admission

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file replaces the object of a request.

// Replace decodes a JSON text in the request's version and makes it the new object. Like a request
// body, it loses nulls and unknown fields and gets defaults (KEP-2332). Replace reports whether the
// object changed.
func (r *Request) Replace(text []byte) (bool, error) {
	next := jsondoc.Get()
	defer next.Release()
	if _, err := r.Version.Decode(next, text); err != nil {
		return false, err
	}
	if jsondoc.Equal(next.Root(), r.New.Root()) {
		return false, nil
	}
	r.saveOriginal()
	r.Forget()
	_, err := r.Version.Decode(r.New, text)
	return true, err
}

// saveOriginal records, before the first change, what later steps need to compare with.
func (r *Request) saveOriginal() {
	if r.mutated {
		return
	}
	r.mutated = true
	if was := r.New.Root().At("metadata", "managedFields"); was.Exists() {
		r.managed = was.AppendJSON(nil)
	}
}

// ReplaceForeign is Replace for a subresource of another kind: text is of that kind.
func (r *Request) ReplaceForeign(text []byte) (bool, error) {
	was := jsondoc.Get()
	defer was.Release()
	was.SetRoot(was.Import(r.New.Root()))
	r.saveOriginal()
	r.Forget()
	if err := r.Foreign.Take(r.New, text); err != nil {
		return false, err
	}
	return !jsondoc.Equal(was.Root(), r.New.Root()), nil
}

// Mutated reports whether any step replaced the object.
func (r *Request) Mutated() bool { return r.mutated }

// keepManagedFields restores managedFields that a step made invalid.
func (r *Request) keepManagedFields() {
	if !r.mutated || r.New == nil {
		return
	}
	m, err := (meta.Object{Doc: r.New}).ObjectMeta()
	var fields []metav1.ManagedFieldsEntry
	if err == nil {
		fields = m.ManagedFields
		err = managedfields.ValidateManagedFields(fields)
	}
	if err == nil {
		return
	}
	before := jsondoc.Get()
	defer before.Release()
	if jsondoc.Parse(before, r.managed) == nil && before.Root().Kind() == jsondoc.Array {
		r.New.Set(r.New.Import(before.Root()), "metadata", "managedFields")
	} else {
		r.New.Remove("metadata", "managedFields")
	}
	r.Warn(fmt.Sprintf(".metadata.managedFields was in an invalid state after admission; "+
		"this could be caused by an outdated mutating admission controller; please fix your requests: %v", err))
}
