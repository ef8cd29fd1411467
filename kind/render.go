package kind

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
)

// This file turns stored bytes into what is served.

// Load decodes stored bytes into d, in this version: pruned and defaulted by
// the version they were stored in, converted, with the resource version set.
// Malformed metadata is dropped, field by field.
func (v *Version) Load(d *jsondoc.Doc, raw []byte, rev int64) error {
	return v.load(d, raw, rev, (*schema.Program).DecodeStored)
}

// LoadToRemove is Load for an object that is to be deleted. If its default values are too large, it
// is loaded without them: neither the object nor its namespace or definition may be stuck.
func (v *Version) LoadToRemove(d *jsondoc.Doc, raw []byte, rev int64) error {
	err := v.Load(d, raw, rev)
	if errors.Is(err, schema.ErrManyDefaults) {
		err = v.load(d, raw, rev, (*schema.Program).DecodeConverted)
	}
	return err
}

// load is Load with a given function that decodes stored bytes.
func (v *Version) load(d *jsondoc.Doc, raw []byte, rev int64, decode decodeFunc) error {
	if load := v.Kind.Behavior.Load; load != nil {
		var err error
		if raw, err = load(v, raw); err != nil {
			return err
		}
	}
	stored, err := v.Kind.storedIn(raw)
	if err != nil {
		return err
	}
	first := d
	if stored != v {
		first = jsondoc.Get()
		defer first.Release()
	}
	if err := stored.loadStored(first, raw, decode); err != nil {
		return err
	}
	if stored != v {
		if err := v.convert(d, first); err != nil {
			return err
		}
	}
	meta.Object{Doc: d}.SetResourceVersion(strconv.FormatInt(rev, 10))
	return nil
}

// decodeFunc is a method of a program that decodes stored bytes.
type decodeFunc func(*schema.Program, *jsondoc.Doc, []byte) (schema.Found, error)

// loadStored decodes bytes that are stored in this version.
func (v *Version) loadStored(d *jsondoc.Doc, raw []byte, decode decodeFunc) error {
	if _, err := decode(v.Schema, d, raw); err != nil {
		return fmt.Errorf("stored %s: %w", v.Kind.Name, err)
	}
	if o := (meta.Object{Doc: d}); !v.Kind.Behavior.IsBuiltin && o.Generation() == 0 {
		o.SetGeneration(1)
	}
	return nil
}

// storedIn is the version that stored bytes are in.
func (k *Kind) storedIn(raw []byte) (*Version, error) {
	if v := k.byAPIVersion(leadingAPIVersion(raw)); v != nil {
		return v, nil
	}
	d := jsondoc.Get()
	defer d.Release()
	if err := jsondoc.Parse(d, raw); err != nil {
		return nil, fmt.Errorf("stored %s: %w", k.Name, foreign(raw, err))
	}
	name := d.Root().Get("apiVersion").Text()
	if v := k.byAPIVersion(name); v != nil {
		return v, nil
	}
	return nil, fmt.Errorf("stored %s: got apiVersion %q, want one of the definition's versions", k.Name, name)
}

// leadingAPIVersion is the apiVersion of an object whose text begins with it, or
// with its kind and then with it: documents and Go types print like that.
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

// foreign is the error of bytes that are no JSON, in the words for what they
// are: Kubernetes can store what is not read here.
func foreign(raw []byte, err error) error {
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

func (k *Kind) byAPIVersion(name string) *Version {
	for _, v := range k.All {
		if v.isAPIVersion(name) {
			return v
		}
	}
	return nil
}

// Identity implements cache.Renderer.
func (v *Version) Identity() *meta.RendererID { return &v.identity }

// Waits implements cache.Waiter: a webhook may have to be called.
func (v *Version) Waits() bool { return v.Kind.Conversion != nil }

// Render makes what is served from what is stored. It implements
// cache.Renderer.
func (v *Version) Render(raw []byte, rev int64) (*meta.View, error) {
	if v.Kind.Conversion != nil {
		return v.Kind.rendering.do(v, raw, func() (*meta.View, error) { return v.render(raw, rev) })
	}
	return v.render(raw, rev)
}

func (v *Version) render(raw []byte, rev int64) (*meta.View, error) {
	d := jsondoc.Get()
	defer d.Release()
	if err := v.Load(d, raw, rev); err != nil {
		return nil, err
	}
	return v.view(d, len(raw)), nil
}

// view prints an object, which is about size bytes long, for readers.
func (v *Version) view(d *jsondoc.Doc, size int) *meta.View {
	root := d.Root()
	view := &meta.View{
		JSON:   d.AppendJSON(make([]byte, 0, size+40), root.Node),
		Labels: labelsOf(root.At("metadata", "labels")),
	}
	if cap(view.JSON) > 2*len(view.JSON) {
		view.JSON = bytes.Clone(view.JSON)
	}
	v.setFields(view, root)
	return view
}

// labelsOf copies labels, all in one string.
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

// setFields remembers the values that field selectors may ask for.
func (v *Version) setFields(view *meta.View, root jsondoc.Value) {
	var held int
	view.Fields, held = fieldsOf(v.SelectableFields, root)
	view.FieldKiB = uint16(min(held>>10, math.MaxUint16))
}

// fieldsOf returns a function that returns the values of fields, and the number of bytes that it
// holds. It must not refer to the version: a view outlives it.
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

// fieldText is a value as field selectors compare it.
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
