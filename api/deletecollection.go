package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/status"
)

// This file deletes all objects that a list selects.

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
	p, err := q.page(o, f)
	if err != nil {
		return err
	}
	if q.accept.form == formPartial {
		return q.notList() // before anything is deleted
	}
	for _, obj := range p.objects {
		one := *q
		one.namespace, one.name = splitKey(q.kind, obj.Key)
		if _, err := one.remove(d); err != nil && status.From(err).Reason != metav1.StatusReasonNotFound {
			return err
		}
	}
	return q.sendList(p)
}
