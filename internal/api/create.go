package api

import (
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file creates objects.

// create creates the object in the body.
func (q *request) create() error {
	body, o, err := q.wholeObject(meta.ParseCreateOptions)
	if err != nil {
		return err
	}
	d := jsondoc.Get()
	defer d.Release()
	if err := q.decode(d, body, o.FieldValidation); err != nil {
		return err
	}
	q.recordObject(d)
	out, err := q.h.Objects.Create(q.ctx, q.caller(), q.ref(), d, o)
	return q.answer(&out, o, err)
}
