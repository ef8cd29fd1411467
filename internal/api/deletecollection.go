package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/api/encoding"
)

// This file deletes all objects that a list selects.

// deleteCollection deletes the objects that the selectors select.
func (q *request) deleteCollection() error {
	var err error
	if q.accept, err = q.negotiate(); err != nil {
		return err
	}
	o, f, err := q.selection()
	if err != nil {
		return err
	}
	d, err := q.deleteOptions()
	if err != nil {
		return err
	}
	if d.Unreadable {
		return notForCollections()
	}
	if o.Limit == 0 && o.ResourceVersionMatch == "" && o.Continue == "" && o.ResourceVersion != "" && o.ResourceVersion != "0" {
		o.ResourceVersionMatch = string(metav1.ResourceVersionMatchExact) // as of a list that comes in pages, which this one does upstream
	}
	// The objects of one moment: those that are created meanwhile stay.
	p, err := q.page(o, f)
	if err != nil {
		return err
	}
	if q.accept.Form == encoding.Partial {
		return q.notList() // before anything is deleted
	}
	warnings, err := q.h.Objects.DeleteCollection(q.ctx, q.caller(), q.ref(), d, p.each)
	q.warn(warnings...)
	if err != nil {
		return err
	}
	return q.sendList(p)
}
