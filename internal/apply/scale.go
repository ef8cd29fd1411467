package apply

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file follows writes through the scale subresource. There the object is a
// Scale, whose entries are made from those of the parent: who owns the parent's
// replicas owns the Scale's. Afterwards the parent's entries are made from the
// Scale's. The mapping, oddities included, is upstream's own.

const scaleVersion = "autoscaling/v1"

// scaleReplicas is where a Scale has its replicas.
var scaleReplicas = fieldpath.NewSet(fieldpath.MakePathOrDie("spec", "replicas"))

// replicasPath parses a path of names, such as ".spec.replicas".
func replicasPath(path string) fieldpath.Path {
	if path == "" {
		return nil
	}
	var out fieldpath.Path
	for _, name := range strings.Split(strings.TrimPrefix(path, "."), ".") {
		out = append(out, fieldpath.FieldNameElement(name))
	}
	return out
}

// ScaleEntries returns the managedFields of the Scale of an object.
func (m *Manager) ScaleEntries(live *jsondoc.Doc) ([]metav1.ManagedFieldsEntry, error) {
	parent, err := typedEntries(managedFieldsOf(live))
	if err != nil {
		return nil, nil // the write that follows leaves them as they are
	}
	return managedfields.NewScaleHandler(parent, m.gvk.GroupVersion(), m.replicas).ToSubresource()
}

// UpdateScale sets metadata.managedFields of new, which is live with the
// replicas that a client of the scale subresource wrote.
func (m *Manager) UpdateScale(live, new *jsondoc.Doc, o Options) error {
	parent, err := typedEntries(managedFieldsOf(live))
	if err != nil {
		keepManaged(live, new)
		return nil
	}
	o.Subresource = "scale"
	handler := managedfields.NewScaleHandler(parent, m.gvk.GroupVersion(), m.replicas)
	scale, err := handler.ToSubresource()
	if err != nil {
		return fmt.Errorf("managedFields of the scale subresource: %w", err)
	}
	if scale, err = m.updateScale(scale, live, new, &o); err != nil {
		return fmt.Errorf("managedFields of the scale subresource: %w", err)
	}
	entries, err := handler.ToParent(scale)
	if err != nil {
		return fmt.Errorf("managedFields of the scale subresource: %w", err)
	}
	return writeManaged(new, entries)
}

// updateScale is Update for a Scale.
func (m *Manager) updateScale(entries []metav1.ManagedFieldsEntry, live, new *jsondoc.Doc, o *Options) ([]metav1.ManagedFieldsEntry, error) {
	had, have := m.replicasOf(live), m.replicasOf(new)
	if len(entries) == 0 || jsondoc.Equal(had, have) {
		return entries, nil
	}
	if have.Int() == 0 {
		return nil, nil // a Scale has no such field, so that nobody owns it
	}
	id := identifier(&metav1.ManagedFieldsEntry{
		Manager: cmp.Or(o.Manager, "unknown"), Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: scaleVersion, Subresource: o.Subresource,
	})
	mf := newManaged(1)
	mf.sets[id] = fieldpath.NewVersionedSet(scaleReplicas, scaleVersion, false)
	mf.times[id] = &metav1.Time{Time: o.now()}
	return mf.entries() // the others owned nothing but the replicas
}

// replicasOf is what an object has for the replicas of its Scale.
func (m *Manager) replicasOf(d *jsondoc.Doc) jsondoc.Value {
	v := d.Root()
	for _, pe := range m.replicas[string(m.version)] {
		v = v.Get(*pe.FieldName)
	}
	return v
}

// typedEntries are the entries of managedFields in their Go form.
func typedEntries(v jsondoc.Value) ([]metav1.ManagedFieldsEntry, error) {
	if v.Kind() != jsondoc.Array {
		return nil, nil
	}
	mf, err := decodeManaged(v)
	if err != nil {
		return nil, err
	}
	return mf.entries()
}

// scaleManager keeps the managedFields of Scales, as objects of their own.
var scaleManager = sync.OnceValues(func() (*Manager, error) {
	number := &structural.Schema{Type: "integer", Format: "int32"}
	object := func(properties map[string]*structural.Schema, names ...string) *structural.Schema {
		return &structural.Schema{Type: "object", Properties: properties, Names: names}
	}
	s := object(map[string]*structural.Schema{
		"spec":   object(map[string]*structural.Schema{"replicas": number}, "replicas"),
		"status": object(map[string]*structural.Schema{"replicas": number, "selector": {Type: "string"}}, "replicas", "selector"),
	}, "spec", "status")
	return New(Config{Group: "autoscaling", Kind: "Scale", Version: "v1", Versions: []Version{{Name: "v1", Schema: s}}})
})

// ApplyScale merges an apply patch into scale, which is the JSON of live's Scale, and returns the merged one. It sets
// metadata.managedFields of new, which is live with nothing changed yet. The errors are those of [Manager.Apply].
func (m *Manager) ApplyScale(live, new *jsondoc.Doc, scale, patch []byte, o Options) ([]byte, error) {
	parent, err := typedEntries(managedFieldsOf(live))
	if err != nil {
		return nil, fmt.Errorf("failed to decode managed fields: %w", err)
	}
	handler := managedfields.NewScaleHandler(parent, m.gvk.GroupVersion(), m.replicas)
	entries, err := handler.ToSubresource()
	if err != nil {
		return nil, fmt.Errorf("managedFields of the scale subresource: %w", err)
	}
	before, after := jsondoc.Get(), jsondoc.Get()
	defer before.Release()
	defer after.Release()
	if err := jsondoc.Parse(before, scale); err != nil {
		return nil, err
	}
	if err := writeManaged(before, entries); err != nil {
		return nil, err
	}
	s, err := scaleManager()
	if err != nil {
		return nil, err
	}
	o.Subresource = "scale"
	merged, err := s.Apply(before, patch, o)
	if err != nil {
		return nil, err
	}
	if err := jsondoc.Parse(after, merged); err != nil {
		return nil, err
	}
	if entries, err = typedEntries(managedFieldsOf(after)); err != nil {
		return nil, err
	}
	if entries, err = handler.ToParent(entries); err != nil {
		return nil, fmt.Errorf("managedFields of the scale subresource: %w", err)
	}
	return merged, writeManaged(new, entries)
}
