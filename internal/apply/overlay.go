package apply

import (
	"fmt"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file merges an apply configuration without recording field managers.

// Overlay merges an apply configuration into live and returns the merged object as JSON. The owners
// of the fields stay as they are. A configuration that sets lists or objects that are atomic is
// refused: it would remove what it does not mention. This is how mutating admission policies apply
// configurations (KEP-3962).
func (m *Manager) Overlay(live *jsondoc.Doc, config []byte) ([]byte, error) {
	c := jsondoc.Get()
	defer c.Release()
	if err := jsondoc.Parse(c, config); err != nil {
		return nil, err
	}
	patch, err := m.typed(node{c.Root()})
	if err != nil {
		return nil, fmt.Errorf("failed to convert patch object to typed object: %w", err)
	}
	if atomics := findAtomics(nil, patch.Schema(), patch.TypeRef(), patch.AsValue()); len(atomics) > 0 {
		return nil, fmt.Errorf("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: %v", strings.Join(atomics, ", "))
	}
	base, err := m.typed(node{live.Root()}, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("failed to convert original object to typed object: %w", err)
	}
	merged, err := base.Merge(patch)
	if err != nil {
		return nil, fmt.Errorf("failed to merge patch: %w", err)
	}
	return value.ToJSON(merged.AsValue())
}

// findAtomics are the paths of a value's atomic parts.
func findAtomics(path fieldpath.Path, s *smd.Schema, t smd.TypeRef, v value.Value) (found []string) {
	a, ok := s.Resolve(t)
	switch {
	case !ok:
	case v.IsMap() && a.Map != nil:
		if a.Map.ElementRelationship == smd.Atomic {
			found = append(found, path.String())
		}
		v.AsMap().Iterate(func(name string, member value.Value) bool {
			if f, ok := a.Map.FindField(name); ok {
				found = append(found, findAtomics(append(path, fieldpath.PathElement{FieldName: &name}), s, f.Type, member)...)
			}
			return true
		})
	case v.IsList() && a.List != nil:
		if a.List.ElementRelationship == smd.Atomic {
			found = append(found, path.String())
		}
		items := v.AsList()
		for i := range items.Length() {
			found = append(found, findAtomics(append(path, fieldpath.PathElement{Index: &i}), s, a.List.ElementType, items.At(i))...)
		}
	}
	return found
}
