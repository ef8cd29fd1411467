package kind

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/meta"
)

// This file turns stored bytes into what is served.

// Load decodes stored bytes into d, in this version: pruned and defaulted by
// the version they were stored in, converted, with the resource version set.
// Malformed metadata is dropped, field by field.
func (v *Version) Load(d *doc.Doc, raw []byte, rev int64) error {
	if b := v.Kind.Builtin; b != nil && b.Load != nil {
		var err error
		if raw, err = b.Load(v, raw); err != nil {
			return err
		}
	}
	stored, err := v.Kind.storedIn(raw)
	if err != nil {
		return err
	}
	first := d
	if stored != v {
		first = doc.Get()
		defer first.Release()
	}
	if err := stored.loadStored(first, raw); err != nil {
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

// loadStored decodes bytes that are stored in this version.
func (v *Version) loadStored(d *doc.Doc, raw []byte) error {
	if _, err := v.Schema.DecodeStored(d, raw); err != nil {
		return fmt.Errorf("stored %s: %w", v.Kind.Name, err)
	}
	if o := (meta.Object{Doc: d}); v.Kind.Builtin == nil && o.Generation() == 0 {
		o.SetGeneration(1)
	}
	return nil
}

// storedIn is the version that stored bytes are in.
func (k *Kind) storedIn(raw []byte) (*Version, error) {
	if v := k.byAPIVersion(leadingAPIVersion(raw)); v != nil {
		return v, nil
	}
	d := doc.Get()
	defer d.Release()
	if err := doc.Parse(d, raw); err != nil {
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
	switch {
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

// Render makes what is served from what is stored. It implements
// [cache.Renderer].
func (v *Version) Render(raw []byte, rev int64) (*cache.View, error) {
	if v.Kind.Conversion != nil {
		return v.Kind.rendering.do(v, raw, func() (*cache.View, error) { return v.render(raw, rev) })
	}
	return v.render(raw, rev)
}

func (v *Version) render(raw []byte, rev int64) (*cache.View, error) {
	d := doc.Get()
	defer d.Release()
	if err := v.Load(d, raw, rev); err != nil {
		return nil, err
	}
	return v.view(d, len(raw)), nil
}

// view prints an object, which is about size bytes long, for readers.
func (v *Version) view(d *doc.Doc, size int) *cache.View {
	root := d.Root()
	return &cache.View{
		JSON:   d.AppendJSON(make([]byte, 0, size+40), root.Node),
		Labels: labelsOf(root.At("metadata", "labels")),
		Fields: v.fieldsOf(root),
	}
}

// labelsOf copies labels, all in one string.
func labelsOf(labels doc.Value) cache.Labels {
	n := labels.Len()
	if labels.Kind() != doc.Object || n == 0 {
		return nil
	}
	var b strings.Builder
	out := make(cache.Labels, 0, n)
	for key, value := range labels.Members() {
		b.WriteString(key)
		b.WriteString(value.Text())
	}
	all := b.String()
	for key, value := range labels.Members() {
		k, v := len(key), len(value.Text())
		out = append(out, cache.Label{Key: all[:k], Value: all[k : k+v]})
		all = all[k+v:]
	}
	return out
}

// fieldsOf remembers the values that field selectors may ask for.
func (v *Version) fieldsOf(root doc.Value) func(string) string {
	metadata := root.Get("metadata")
	name := strings.Clone(metadata.Get("name").Text())
	namespace := strings.Clone(metadata.Get("namespace").Text())
	var values []string
	for i := range v.SelectableFields {
		f := &v.SelectableFields[i]
		if f.Value != nil {
			values = append(values, strings.Clone(f.Value(root)))
		} else {
			values = append(values, fieldText(root.At(f.Path...)))
		}
	}
	return func(path string) string {
		switch path {
		case "metadata.name":
			return name
		case "metadata.namespace":
			return namespace
		}
		for i := range values {
			if v.SelectableFields[i].Label == path {
				return values[i]
			}
		}
		return ""
	}
}

// fieldText is a value as field selectors compare it.
func fieldText(v doc.Value) string {
	switch v.Kind() {
	case doc.String:
		return strings.Clone(v.Text())
	case doc.Int:
		return strconv.FormatInt(v.Int(), 10)
	case doc.Bool:
		return strconv.FormatBool(v.Bool())
	case doc.Absent, doc.Null:
		return ""
	}
	return fmt.Sprint(v.Interface())
}
