package api

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/apply"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/status"
)

// This file replaces objects, and their parts that are subresources.

func (q *request) update() error {
	body, o, err := q.wholeObject(meta.ParseUpdateOptions)
	if err != nil {
		return err
	}
	first := doc.Get()
	defer first.Release()
	if err := q.decode(first, body, o.FieldValidation); err != nil {
		return err
	}
	q.recordObject(first)
	obj := meta.Object{Doc: first}
	if err := q.checkNamespace(obj); err != nil {
		return err
	}
	if err := q.checkName(obj); err != nil {
		return err
	}
	q.warn(meta.DedupOwners(obj, "")...)
	c := &change{
		options:   o,
		scope:     q.part(),
		versioned: true,
		track:     q.updates(o),
		build: func(next, _ *doc.Doc, _ *cache.Object) error {
			if _, err := q.v.Decode(next, body.json); err != nil {
				return err
			}
			return q.checkNamespace(meta.Object{Doc: next})
		},
	}
	if b := q.kind.Builtin; b != nil && b.CreateOnUpdate && q.subresource == "" {
		c.missing = func() error { return q.updateNew(first, o) }
	}
	return q.change(c)
}

// updateNew creates the object that an update describes and that does not exist.
func (q *request) updateNew(d *doc.Doc, o *meta.WriteOptions) error {
	if rv := (meta.Object{Doc: d}).ResourceVersion(); rv != "" && rv != "0" {
		return status.NotFound(q.kind.GroupResource(), q.name)
	}
	d.Remove("metadata", "resourceVersion")
	create := *q.attributes()
	create.Verb = "create"
	if err := q.allowed(&create); err != nil {
		return err
	}
	return q.createDoc(d, o, func(m *apply.Manager, _, next *doc.Doc) error { return m.Update(nil, next, q.writer(o)) })
}

// part is the part of the object that the request may change.
func (q *request) part() schema.Scope {
	if q.subresource == "status" {
		return schema.Status
	}
	if sub := q.kind.Builtin.Subresource(q.subresource); sub != nil {
		return sub.Scope
	}
	return schema.Whole
}

// unversioned refuses an update that does not say what it replaces.
func unversioned(q *request) error {
	gr := q.kind.GroupResource()
	return status.Invalid(kschema.GroupKind{Group: gr.Group, Kind: gr.Resource}, q.name, field.ErrorList{
		field.Invalid(field.NewPath("metadata").Child("resourceVersion"), 0, "must be specified for an update"),
	})
}
