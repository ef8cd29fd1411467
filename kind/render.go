package kind

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// This file decodes stored bytes, and renders what clients read.

// UnreadableError is the error of stored bytes that cannot be decoded. A failed conversion of what
// they decode to is another error.
type UnreadableError struct{ Err error }

// Error returns the text of the cause.
func (e *UnreadableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreadableError) Unwrap() error { return e.Err }

// Load decodes stored bytes into d, in this version. The version in which they were stored prunes
// and defaults them; then they are converted, and get rev as their resource version. Malformed
// metadata is dropped, field by field, so that an object never becomes unreadable.
func (v *Version) Load(d *jsondoc.Doc, raw []byte, rev int64) error {
	return v.load(d, raw, rev, (*schema.Program).DecodeStored)
}

// LoadToRemove is Load for an object that is to be deleted. If its default values are too large, it
// omits them, so that the deletion of the object, its namespace or its definition cannot get stuck.
func (v *Version) LoadToRemove(d *jsondoc.Doc, raw []byte, rev int64) error {
	err := v.Load(d, raw, rev)
	if errors.Is(err, schema.ErrManyDefaults) {
		err = v.load(d, raw, rev, (*schema.Program).DecodeConverted)
	}
	return err
}

// load is Load with the given decoding function.
func (v *Version) load(d *jsondoc.Doc, raw []byte, rev int64, decode decodeFunc) error {
	if load := v.Kind.Behavior.Load; load != nil {
		var err error
		if raw, err = load(v, raw); err != nil {
			return &UnreadableError{err}
		}
	}
	stored, err := v.Kind.storedIn(raw)
	if err != nil {
		return &UnreadableError{err}
	}
	// Bytes in another version are decoded into a temporary document, and converted into d.
	first := d
	if stored != v {
		first = jsondoc.Get()
		defer first.Release()
	}
	if err := stored.loadStored(first, raw, decode); err != nil {
		return &UnreadableError{err}
	}
	if stored != v {
		if err := v.convert(d, first); err != nil {
			return err
		}
	}
	meta.Object{Doc: d}.SetResourceVersion(strconv.FormatInt(rev, 10))
	return nil
}

// decodeFunc is a method of schema.Program that decodes stored bytes.
type decodeFunc func(*schema.Program, *jsondoc.Doc, []byte) (schema.Found, error)

// loadStored decodes bytes that are stored in this version.
func (v *Version) loadStored(d *jsondoc.Doc, raw []byte, decode decodeFunc) error {
	if _, err := decode(v.Schema, d, raw); err != nil {
		return fmt.Errorf("stored %s: %w", v.Kind.Name, err)
	}
	// Kubernetes gives custom resources that were stored without a generation the generation 1.
	if o := (meta.Object{Doc: d}); !v.Kind.Behavior.IsBuiltin && o.Generation() == 0 {
		o.SetGeneration(1)
	}
	return nil
}

// storedIn returns the version in which the bytes are stored.
func (k *Kind) storedIn(raw []byte) (*Version, error) {
	if v := k.byAPIVersion(leadingAPIVersion(raw)); v != nil {
		return v, nil
	}
	d := jsondoc.Get()
	defer d.Release()
	if err := jsondoc.Parse(d, raw); err != nil {
		return nil, fmt.Errorf("stored %s: %w", k.Name, explainUnreadable(raw, err))
	}
	name := d.Root().Get("apiVersion").Text()
	if v := k.byAPIVersion(name); v != nil {
		return v, nil
	}
	o := meta.Object{Doc: d}
	return nil, &missingVersionError{k, strings.Clone(o.Namespace()), strings.Clone(o.Name()), strings.Clone(name)}
}

// missingVersionError is the error of an object that is stored in a version that its kind lacks.
type missingVersionError struct {
	kind            *Kind
	namespace, name string
	apiVersion      string // "" if the object has none
}

// Error names the object, and says what the operator can do.
func (e *missingVersionError) Error() string {
	object := e.name
	if e.namespace != "" {
		object = e.namespace + "/" + e.name
	}
	text := fmt.Sprintf("stored %s %s: got apiVersion %q, want one of the versions of %s.%s", e.kind.Name, object, e.apiVersion, e.kind.Plural, e.kind.Group)
	group, version, _ := strings.Cut(e.apiVersion, "/")
	if e.kind.Behavior.IsBuiltin || group != e.kind.Group || version == "" {
		return text
	}
	return text + ": add " + version + " to spec.versions of the CRD again (served: false is enough) and rewrite the objects, " +
		"for example with a StorageVersionMigration, or delete the object with the option ignoreStoreReadErrorWithClusterBreakingPotential"
}

// IsMissingVersion reports whether err is the error of an object that is stored in a version that
// its kind lacks.
func IsMissingVersion(err error) bool {
	_, ok := errors.AsType[*missingVersionError](err)
	return ok
}

// StoredAPIVersion returns the apiVersion of stored bytes, "" if they have none or are not JSON.
func StoredAPIVersion(raw []byte) string {
	if name := leadingAPIVersion(raw); name != "" {
		return name
	}
	d := jsondoc.Get()
	defer d.Release()
	if jsondoc.Parse(d, raw) != nil {
		return ""
	}
	return strings.Clone(d.Root().Get("apiVersion").Text())
}

// leadingAPIVersion returns the apiVersion if it is the first member, or the second after kind;
// otherwise "". Documents and Go types print objects in this order, so that parsing is rarely
// needed.
func leadingAPIVersion(raw []byte) string {
	rest, ok := bytes.CutPrefix(raw, []byte(`{"apiVersion":"`))
	if !ok {
		if rest, ok = bytes.CutPrefix(raw, []byte(`{"kind":"`)); ok {
			_, rest, _ = bytes.Cut(rest, []byte(`"`))
			rest, ok = bytes.CutPrefix(rest, []byte(`,"apiVersion":"`))
		}
	}
	if end := bytes.IndexByte(rest, '"'); ok && end >= 0 {
		return string(rest[:end])
	}
	return ""
}

// explainUnreadable replaces err, the error of bytes that are not JSON, by one that names their
// form: Kubernetes may have stored them in a form that this server cannot read.
func explainUnreadable(raw []byte, err error) error {
	damaged, isDamaged := bytes.CutPrefix(raw, []byte("keelson:damaged:")) // store.DamagedPrefix
	switch {
	case isDamaged:
		return errors.New(string(damaged))
	case bytes.HasPrefix(raw, []byte("k8s:enc:")):
		return errors.New("identity transformer tried to read encrypted data")
	case bytes.HasPrefix(raw, []byte("\xd9\xd9\xf7")):
		return errors.New("it is stored as CBOR, which is not read")
	}
	return err
}

// byAPIVersion returns the version whose apiVersion is name, nil if there is none.
func (k *Kind) byAPIVersion(name string) *Version {
	for _, v := range k.All {
		if v.isAPIVersion(name) {
			return v
		}
	}
	return nil
}

// Identity implements cache.Renderer. It identifies the views of this version.
func (v *Version) Identity() *RendererID { return &v.identity }

// Waits implements cache.Waiter: Render may wait for a webhook.
func (v *Version) Waits() bool { return v.Kind.Conversion != nil }

// Render returns the view of stored bytes. It implements cache.Renderer.
func (v *Version) Render(raw []byte, rev int64) (*View, error) {
	if v.Kind.Conversion != nil {
		return v.Kind.rendering.do(v, raw, func() (*View, error) { return v.render(raw, rev) })
	}
	return v.render(raw, rev)
}

// render is Render without the merging of simultaneous calls.
func (v *Version) render(raw []byte, rev int64) (*View, error) {
	d := jsondoc.Get()
	defer d.Release()
	if err := v.Load(d, raw, rev); err != nil {
		return nil, err
	}
	return v.view(d, len(raw)), nil
}

// view returns the view of an object. size is an estimate of the length of its JSON in bytes.
func (v *Version) view(d *jsondoc.Doc, size int) *View {
	root := d.Root()
	view := &View{
		JSON:   v.AppendJSON(make([]byte, 0, size+40), d),
		Labels: labelsOf(root.At("metadata", "labels")),
	}
	// Views live long, so that unused capacity is worth a copy.
	if cap(view.JSON) > 2*len(view.JSON) {
		view.JSON = bytes.Clone(view.JSON)
	}
	v.setFields(view, root)
	return view
}

// labelsOf copies labels. All texts share one string, to save allocations.
func labelsOf(labels jsondoc.Value) meta.Labels {
	n := labels.Len()
	if labels.Kind() != jsondoc.Object || n == 0 {
		return nil
	}
	var b strings.Builder
	out := make(meta.Labels, 0, n)
	for key, value := range labels.Members() {
		b.WriteString(key)
		b.WriteString(value.Text())
	}
	all := b.String()
	for key, value := range labels.Members() {
		k, v := len(key), len(value.Text())
		out = append(out, meta.Label{Key: all[:k], Value: all[k : k+v]})
		all = all[k+v:]
	}
	return out
}

// setFields stores the values of selectable fields in the view.
func (v *Version) setFields(view *View, root jsondoc.Value) {
	var held int
	view.Fields, held = fieldsOf(v.SelectableFields, root)
	view.FieldKiB = uint16(min(held>>10, math.MaxUint16))
}

// fieldsOf returns a function that returns the value of a field by its label, and the bytes of
// memory that the values take. The function must not refer to the version, because a view may
// outlive it.
func fieldsOf(fields []Selectable, root jsondoc.Value) (value func(string) string, held int) {
	metadata := root.Get("metadata")
	name := strings.Clone(metadata.Get("name").Text())
	namespace := strings.Clone(metadata.Get("namespace").Text())
	var values []string
	for i := range fields {
		f := &fields[i]
		if f.Value != nil {
			values = append(values, strings.Clone(f.Value(root)))
		} else {
			values = append(values, fieldText(root.At(f.Path...)))
		}
		held += len(values[i])
	}
	return func(path string) string {
		switch path {
		case "metadata.name":
			return name
		case "metadata.namespace":
			return namespace
		}
		for i := range values {
			if fields[i].Label == path {
				return values[i]
			}
		}
		return ""
	}, held
}

// fieldText returns a value as field selectors compare it.
func fieldText(v jsondoc.Value) string {
	switch v.Kind() {
	case jsondoc.String:
		return strings.Clone(v.Text())
	case jsondoc.Int:
		return strconv.FormatInt(v.Int(), 10)
	case jsondoc.Bool:
		return strconv.FormatBool(v.Bool())
	case jsondoc.Absent, jsondoc.Null:
		return ""
	}
	return fmt.Sprint(v.Interface())
}
