package api

import (
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/internal/selector"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/objects"
	"github.com/keelson-io/keelson/status"
)

// This file selects objects by place, labels and fields.

// filter is what a list or watch selects.
type filter struct {
	v      *kind.Version
	prefix string // of the keys, with a slash at the end; or the whole key if one
	one    bool   // prefix is the key of the one object that may match
	labels labels.Selector
	fields fields.Selector

	expansion *expansion // counts what is looked at; nil: nobody counts
}

// selection is what the request's parameters and its place select.
func (q *request) selection() (*meta.ListOptions, *filter, error) {
	o, err := meta.ParseListOptions(q.query)
	if err != nil {
		return nil, nil, err
	}
	f, err := q.newFilter(o)
	return o, f, err
}

// newFilter makes the filter of the request's place and selectors.
func (q *request) newFilter(o *meta.ListOptions) (*filter, error) {
	f := &filter{v: q.v, prefix: q.kind.StoragePrefix + "/"}
	if q.namespace != "" {
		f.prefix += q.namespace + "/"
	}
	if o.Labels != nil && !o.Labels.Empty() {
		f.labels = selector.Label(o.Labels)
	}
	name := ""
	if !q.selected {
		name = q.name // watch of one object by its path
	}
	if o.Fields != nil && !o.Fields.Empty() {
		f.fields = selector.Field(o.Fields)
		for _, r := range o.Fields.Requirements() {
			if !selectable(q.v, r.Field) {
				return nil, notSelectable(q.v, r.Field)
			}
		}
		if ns, ok := o.Fields.RequiresExactMatch("metadata.namespace"); ok && q.kind.Namespaced && q.namespace == "" && isSegment(ns) {
			f.prefix += ns + "/"
		}
		if n, ok := o.Fields.RequiresExactMatch("metadata.name"); ok && name == "" && isSegment(n) {
			name = n
		}
	}
	if name != "" && (!q.kind.Namespaced || strings.Count(f.prefix, "/") > strings.Count(q.kind.StoragePrefix, "/")+1) {
		f.prefix += name
		f.one = true
	}
	return f, nil
}

// isSegment reports whether a name can be a part of a key.
func isSegment(name string) bool { return name != "" && !strings.Contains(name, "/") }

// notSelectable returns the error for a field that selectors may not name, in the words of the kind.
func notSelectable(v *kind.Version, field string) error {
	switch k := v.Kind; {
	case k.Behavior.HasRoutes() && len(v.SelectableFields) == 0:
		return status.BadRequest(`%q is not a known field selector: only "metadata.name", "metadata.namespace"`, field)
	case k.Group == "batch":
		return status.BadRequest("field label %q not supported for %s", field, k.Name)
	case k.Group == "resource.k8s.io":
		return status.BadRequest("field label not supported for %s: %s", v.GVK(), field)
	}
	return status.BadRequest("field label not supported: %s", field)
}

// selectable reports whether field selectors of a version may name a field.
func selectable(v *kind.Version, label string) bool {
	if label == "metadata.name" || label == "metadata.namespace" && v.Kind.Namespaced {
		return true
	}
	for _, s := range v.SelectableFields {
		if s.Label == label {
			return true
		}
	}
	return false
}

// selects reports whether not everything in the place matches.
func (f *filter) selects() bool { return f.one || f.labels != nil || f.fields != nil }

// matches reports whether an object in the place is selected.
func (f *filter) matches(obj *cache.Object) (bool, error) {
	if f.one && obj.Key != f.prefix {
		return false, nil
	}
	if f.labels == nil && f.fields == nil {
		return true, nil
	}
	view, err := obj.View(f.v)
	if err == nil && f.expansion != nil {
		err = f.expansion.add(obj, view)
	}
	if err != nil {
		return false, err
	}
	if f.labels != nil && !f.labels.Matches(view.Labels) {
		return false, nil
	}
	if f.fields == nil {
		return true, nil
	}
	namespace, name := objects.SplitKey(f.v.Kind, obj.Key)
	return f.fields.Matches(fieldValues{view: view, namespace: namespace, name: name}), nil
}

// fieldValues are an object's values for field selectors.
type fieldValues struct {
	view            *meta.View
	namespace, name string
}

// Has implements fields.Fields.
func (v fieldValues) Has(string) bool { return true }

// Get implements fields.Fields.
func (v fieldValues) Get(label string) string {
	switch label {
	case "metadata.name":
		return v.name
	case "metadata.namespace":
		return v.namespace
	}
	if v.view.Fields == nil {
		return ""
	}
	return v.view.Fields(label)
}
