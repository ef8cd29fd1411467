package admission

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/meta"
)

// This file changes the object of a request.

// Replace makes a JSON text, in the request's version, the new object: it is
// decoded like the body of a request, which drops nulls, prunes what the schema
// does not know and fills in defaults (KEP-2332). It reports whether that made
// a difference.
func (r *Request) Replace(text []byte) (bool, error) {
	next := doc.Get()
	defer next.Release()
	if _, err := r.Version.Decode(next, text); err != nil {
		return false, err
	}
	if doc.Equal(next.Root(), r.New.Root()) {
		return false, nil
	}
	r.note()
	_, err := r.Version.Decode(r.New, text)
	return true, err
}

// note keeps what was before the first change.
func (r *Request) note() {
	if r.mutated {
		return
	}
	r.mutated = true
	if was := r.New.Root().At("metadata", "managedFields"); was.Exists() {
		r.managed = was.AppendJSON(nil)
	}
}

// ReplaceForeign is Replace for a subresource that has a kind of its own: text
// is of that kind.
func (r *Request) ReplaceForeign(text []byte) (bool, error) {
	was := doc.Get()
	defer was.Release()
	was.SetRoot(was.Import(r.New.Root()))
	r.note()
	if err := r.Foreign.Take(r.New, text); err != nil {
		return false, err
	}
	return !doc.Equal(was.Root(), r.New.Root()), nil
}

// Mutated reports whether any step replaced the object.
func (r *Request) Mutated() bool { return r.mutated }

// keepManagedFields puts managedFields that became invalid back to what they
// were.
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
	before := doc.Get()
	defer before.Release()
	if doc.Parse(before, r.managed) == nil && before.Root().Kind() == doc.Array {
		r.New.Set(r.New.Import(before.Root()), "metadata", "managedFields")
	} else {
		r.New.Remove("metadata", "managedFields")
	}
	r.Warn(fmt.Sprintf(".metadata.managedFields was in an invalid state after admission; "+
		"this could be caused by an outdated mutating admission controller; please fix your requests: %v", err))
}
