// Package selection selects objects by place, labels and fields.
package selection

import (
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/selector"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/kind"
)

// Filter is what a list or watch selects.
type Filter struct {
	Prefix string // of the keys, with a slash at the end; or the whole key if One
	One    bool   // Prefix is the key of the one object that may match

	Expansion *Expansion // counts what is looked at; nil: nobody counts

	version *kind.Version
	labels  labels.Selector
	fields  fields.Selector
}

// Place is the place of a request.
type Place struct {
	Version   *kind.Version
	Namespace string // "" for all of them
	Name      string // of the one object that is watched by its path, else ""
}

// New returns the filter of a place and of the selectors of its list.
func New(at Place, o *meta.ListOptions) (*Filter, error) {
	k := at.Version.Kind
	f := &Filter{version: at.Version, Prefix: k.StoragePrefix + "/"}
	if at.Namespace != "" {
		f.Prefix += at.Namespace + "/"
	}
	if o.Labels != nil && !o.Labels.Empty() {
		f.labels = selector.Label(o.Labels)
	}
	name := at.Name
	if o.Fields != nil && !o.Fields.Empty() {
		f.fields = selector.Field(o.Fields)
		for _, r := range o.Fields.Requirements() {
			if !selectable(at.Version, r.Field) {
				return nil, notSelectable(at.Version, r.Field)
			}
		}
		if ns, ok := o.Fields.RequiresExactMatch("metadata.namespace"); ok && k.Namespaced && at.Namespace == "" && isSegment(ns) {
			f.Prefix += ns + "/"
		}
		if n, ok := o.Fields.RequiresExactMatch("metadata.name"); ok && name == "" && isSegment(n) {
			name = n
		}
	}
	if name != "" && (!k.Namespaced || strings.Count(f.Prefix, "/") > strings.Count(k.StoragePrefix, "/")+1) {
		f.Prefix += name
		f.One = true
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

// Selects reports whether not everything in the place matches.
func (f *Filter) Selects() bool { return f.One || f.labels != nil || f.fields != nil }

// Matches reports whether an object in the place is selected.
func (f *Filter) Matches(obj *cache.Object) (bool, error) {
	if f.One && obj.Key != f.Prefix {
		return false, nil
	}
	if f.labels == nil && f.fields == nil {
		return true, nil
	}
	view, err := obj.View(f.version)
	if err == nil && f.Expansion != nil {
		err = f.Expansion.Add(obj, view)
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
	namespace, name := objects.SplitKey(f.version.Kind, obj.Key)
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
