package api

import (
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file replaces objects, and their parts that are subresources.

// update replaces one object, or creates it where the kind allows that.
func (q *request) update() error {
	body, o, err := q.wholeObject(meta.ParseUpdateOptions)
	if err != nil {
		return err
	}
	d := jsondoc.Get()
	defer d.Release()
	if err := q.decode(d, body, o.FieldValidation); err != nil {
		return err
	}
	q.recordObject(d)
	out, err := q.h.Objects.Update(q.ctx, q.caller(), q.ref(), d, body, o)
	return q.answer(&out, o, err)
}
