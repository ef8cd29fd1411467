package apply

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file reads and writes metadata.managedFields.

// managed is decoded managedFields. Managers are named by their identifiers.
type managed struct {
	sets  fieldpath.ManagedFields
	times map[string]*metav1.Time
}

// newManaged returns managedFields with room for n managers.
func newManaged(n int) *managed {
	return &managed{sets: make(fieldpath.ManagedFields, n), times: make(map[string]*metav1.Time, n)}
}

// identifier returns the text by which managers are distinguished. A manager that applies is the
// same one in every version.
func identifier(e *metav1.ManagedFieldsEntry) string {
	id := metav1.ManagedFieldsEntry{
		Manager: e.Manager, Operation: e.Operation, APIVersion: e.APIVersion, Subresource: e.Subresource,
	}
	if e.Operation == metav1.ManagedFieldsOperationApply {
		id.APIVersion = ""
	}
	b, err := json.Marshal(&id)
	if err != nil {
		panic("BUG: a manager's identifier does not encode: " + err.Error())
	}
	return string(b)
}

// identify returns the identifier of the manager that writes through m with o.
func (m *Manager) identify(o *Options, op metav1.ManagedFieldsOperationType) string {
	return identifier(&metav1.ManagedFieldsEntry{
		Manager: cmp.Or(o.Manager, "unknown"), Operation: op,
		APIVersion: string(m.version), Subresource: o.Subresource,
	})
}

// managedFieldsOf is metadata.managedFields of d.
func managedFieldsOf(d *jsondoc.Doc) jsondoc.Value {
	if d == nil {
		return jsondoc.Value{}
	}
	return d.Root().At("metadata", "managedFields")
}

// isReset reports whether a client asks to forget all managers: an empty list,
// or a list of one empty entry.
func isReset(v jsondoc.Value) bool {
	if v.Kind() != jsondoc.Array {
		return false
	}
	return v.Len() == 0 || v.Len() == 1 && v.Item(0).Kind() == jsondoc.Object && isZeroEntry(v.Item(0))
}

// isZeroEntry reports whether every field of the entry is empty.
func isZeroEntry(v jsondoc.Value) bool {
	for name, f := range v.Members() {
		switch {
		case f.Kind() == jsondoc.Null:
		case f.Kind() == jsondoc.String && f.Text() == "" && name != "time":
		default:
			return false
		}
	}
	return true
}

// decodeManaged decodes managedFields. It is an error if an entry makes no
// sense; then none of them can be trusted.
func decodeManaged(v jsondoc.Value) (*managed, error) {
	out := newManaged(v.Len())
	if v.Kind() != jsondoc.Array {
		return out, nil
	}
	for i := range v.Len() {
		e, err := decodeEntry(v.Item(i), i)
		if err != nil {
			return nil, err
		}
		set := &fieldpath.Set{}
		if f := v.Item(i).Get("fieldsV1"); f.Kind() == jsondoc.Object {
			if err := readFields(f, set); err != nil {
				return nil, fmt.Errorf("entry %d of managedFields: %w", i, err)
			}
		}
		id := identifier(&e)
		out.sets[id] = fieldpath.NewVersionedSet(set, fieldpath.APIVersion(e.APIVersion), e.Operation == metav1.ManagedFieldsOperationApply)
		out.times[id] = e.Time
	}
	return out, nil
}

// decodeEntry decodes and checks everything but the fields.
func decodeEntry(v jsondoc.Value, i int) (e metav1.ManagedFieldsEntry, err error) {
	e.Manager = clone(v.Get("manager"))
	e.Operation = metav1.ManagedFieldsOperationType(clone(v.Get("operation")))
	e.APIVersion = clone(v.Get("apiVersion"))
	e.Subresource = clone(v.Get("subresource"))
	e.FieldsType = clone(v.Get("fieldsType"))
	switch {
	case e.Operation != metav1.ManagedFieldsOperationApply && e.Operation != metav1.ManagedFieldsOperationUpdate:
		return e, fmt.Errorf("operation must be `Apply` or `Update`")
	case e.APIVersion == "":
		return e, fmt.Errorf("apiVersion must not be empty")
	case e.FieldsType == "":
		return e, fmt.Errorf("missing fieldsType in managed fields entry %d", i)
	case e.FieldsType != "FieldsV1":
		return e, fmt.Errorf("invalid fieldsType %q in managed fields entry %d", e.FieldsType, i)
	}
	if t := v.Get("time"); t.Kind() == jsondoc.String {
		at, err := time.Parse(time.RFC3339, t.Text())
		if err != nil {
			return e, fmt.Errorf("time in managed fields entry %d: %w", i, err)
		}
		e.Time = &metav1.Time{Time: at}
	}
	return e, nil
}

// clone returns a string that outlives the document.
func clone(v jsondoc.Value) string { return string([]byte(v.Text())) }

// readFields adds the members of a FieldsV1 trie to set. It adds them in the order of the set, because anything else takes
// quadratic time: the texts of numbers have another order than the numbers.
func readFields(v jsondoc.Value, set *fieldpath.Set) error {
	type element struct {
		path  fieldpath.PathElement
		below jsondoc.Value
	}
	elements := make([]element, 0, v.Len())
	sorted := true
	for key, child := range v.Members() {
		if key == "." {
			continue
		}
		pe, err := fieldpath.DeserializePathElement(string([]byte(key)))
		if err == fieldpath.ErrUnknownPathElementType {
			continue // a later version of the format: not ours to keep
		}
		if err != nil {
			return err
		}
		sorted = sorted && (len(elements) == 0 || elements[len(elements)-1].path.Compare(pe) < 0)
		elements = append(elements, element{pe, child})
	}
	if !sorted {
		slices.SortStableFunc(elements, func(a, b element) int { return a.path.Compare(b.path) })
	}
	for _, e := range elements {
		member, children := shapeOf(e.below)
		if member {
			set.Members.Insert(e.path)
		}
		if children {
			if err := readFields(e.below, set.Children.Descend(e.path)); err != nil {
				return err
			}
		}
	}
	return nil
}

// shapeOf reports whether a node of a trie is itself a member of the set, and whether the node has
// children.
func shapeOf(v jsondoc.Value) (member, children bool) {
	for key := range v.Members() {
		switch {
		case key == ".":
			member = true
		case len(key) >= 2 && key[1] == ':' && (key[0] == 'f' || key[0] == 'k' || key[0] == 'v' || key[0] == 'i'):
			children = true
		}
	}
	return member || !children, children
}

// entries returns the entries of m as they are written, in order.
func (m *managed) entries() ([]metav1.ManagedFieldsEntry, error) {
	out := make([]metav1.ManagedFieldsEntry, 0, len(m.sets))
	for _, id := range slices.Sorted(maps.Keys(m.sets)) {
		vs := m.sets[id]
		var e metav1.ManagedFieldsEntry
		if err := json.Unmarshal([]byte(id), &e); err != nil {
			return nil, fmt.Errorf("identifier %s of a manager: %w", id, err)
		}
		e.APIVersion = string(vs.APIVersion())
		if vs.Applied() {
			e.Operation = metav1.ManagedFieldsOperationApply
		}
		e.FieldsType = "FieldsV1"
		e.Time = m.times[id]
		raw, err := vs.Set().ToJSON()
		if err != nil {
			return nil, fmt.Errorf("fields of manager %s: %w", id, err)
		}
		e.FieldsV1 = metav1.NewFieldsV1(string(raw))
		out = append(out, e)
	}
	slices.SortStableFunc(out, compareEntries)
	return out, nil
}

// compareEntries orders entries by operation, time, manager, version and
// subresource.
func compareEntries(a, b metav1.ManagedFieldsEntry) int {
	return cmp.Or(
		cmp.Compare(a.Operation, b.Operation),
		cmp.Compare(seconds(a.Time), seconds(b.Time)),
		cmp.Compare(a.Manager, b.Manager),
		cmp.Compare(a.APIVersion, b.APIVersion),
		cmp.Compare(a.Subresource, b.Subresource),
	)
}

// seconds returns the Unix time, 0 for none.
func seconds(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}

// writeManaged makes entries the managedFields of d; none removes them.
func writeManaged(d *jsondoc.Doc, entries []metav1.ManagedFieldsEntry) error {
	if len(entries) == 0 {
		d.Remove("metadata", "managedFields")
		return nil
	}
	raw, err := json.Marshal(entries)
	if err != nil {
		return fmt.Errorf("managedFields: %w", err)
	}
	tmp := jsondoc.Get()
	defer tmp.Release()
	if err := jsondoc.Parse(tmp, raw); err != nil {
		return fmt.Errorf("managedFields: %w", err)
	}
	d.Set(d.Import(tmp.Root()), "metadata", "managedFields")
	return nil
}
