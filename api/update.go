package api

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
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
	obj := meta.Object{Doc: first}
	if err := q.checkNamespace(obj); err != nil {
		return err
	}
	if err := q.checkName(obj); err != nil {
		return err
	}
	return q.change(&change{
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
	})
}

// part is the part of the object that the request may change.
func (q *request) part() schema.Scope {
	switch q.subresource {
	case "status":
		return schema.Status
	case "finalize":
		return kind.Finalize
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
