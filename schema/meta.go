package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file decodes the metadata of resources. Upstream decodes it into the Go type ObjectMeta and
// encodes that again, which drops empty fields, rewrites time stamps and refuses wrong types. Here
// only metadata that this would change is converted in that way; other metadata is decoded like any
// value.

// metadata decodes the metadata of a resource. overlay is the node of the schema of metadata, nil
// if the definition has none.
func (x *decoder) metadata(n, overlay *node) (jsondoc.Node, error) {
	before, mode := x.s.Offset(), x.mode
	x.mode.keepNulls = true // ObjectMeta drops or converts them
	v, err := x.value(x.p.meta)
	x.mode = mode
	if err != nil {
		return jsondoc.Node{}, err
	}
	if !x.p.cleanMeta(x.d, v) {
		if v, err = x.convertMeta(n, overlay, before); err != nil {
			return jsondoc.Node{}, err
		}
	}
	if overlay != nil && overlay.deepDefaults && !x.mode.noDefaults {
		v = x.fillMeta(overlay, v)
	}
	return v, nil
}

// convertMeta converts the metadata that was just decoded by way of ObjectMeta. Its text starts at
// offset before.
func (x *decoder) convertMeta(n, overlay *node, before int) (jsondoc.Node, error) {
	var raw jsondoc.Doc
	if err := jsondoc.Parse(&raw, x.s.Source()[before:x.s.Offset()]); err != nil {
		// The error is a number out of range, which the scanner reports at the end.
		return jsondoc.NullNode, nil
	}
	if n != x.p.root && raw.Root().Kind() == jsondoc.Null && overlay != nil && !overlay.nullable && !x.mode.keepNulls {
		return jsondoc.NullNode, nil // dropped or replaced by a default like other nulls
	}
	if n != x.p.root && overlay != nil && !x.mode.keepNulls {
		raw.SetRoot(overlay.withoutNulls(&raw, raw.Root().Node))
	}
	text, err := coerceMeta(raw.Root(), x.mode.lenient)
	if err != nil {
		if n == x.p.root {
			return jsondoc.Node{}, err
		}
		if x.mode.lenient {
			return x.d.Import(raw.Root()), nil
		}
		bad := field.Invalid(nil, raw.Root().Interface(), err.Error())
		bad.Field = ""                              // the path is the metadata itself
		return jsondoc.Node{}, &malformed{err: bad} // the path is that of the metadata itself
	}
	var clean jsondoc.Doc
	y := decoder{}
	if _, v, err := y.run(x.p, x.p.meta, &clean, text, decodeMode{keepNulls: true}); err == nil {
		return x.d.Import(jsondoc.Value{Doc: &clean, Node: v}), nil
	}
	panic("BUG: metadata written by the json library does not decode")
}

// withoutNulls returns x, the metadata of an embedded resource, without the nulls that overlay n
// does not allow. Upstream drops them before it decodes into ObjectMeta.
func (n *node) withoutNulls(d *jsondoc.Doc, x jsondoc.Node) jsondoc.Node {
	switch {
	case x.Kind() == jsondoc.Array && n.items != nil:
		items := make([]jsondoc.Node, x.Len())
		for i := range items {
			items[i] = n.items.withoutNulls(d, d.Item(x, i))
		}
		return d.NewArray(items)
	case x.Kind() == jsondoc.Object:
		var pairs []jsondoc.Node
		for i := range x.Len() {
			key, v := d.Pair(x, i)
			if child := n.child(d.Str(key)); child != nil {
				if v.Kind() == jsondoc.Null && !child.nullable && child.defText == nil {
					continue
				}
				v = child.withoutNulls(d, v)
			}
			pairs = append(pairs, key, v)
		}
		return d.NewMap(pairs)
	}
	return x
}

// coerceMeta returns metadata as ObjectMeta encodes it. If lenient, it omits fields that ObjectMeta
// cannot decode.
func coerceMeta(v jsondoc.Value, lenient bool) ([]byte, error) {
	var meta metav1.ObjectMeta
	err := utiljson.Unmarshal(v.AppendJSON(nil), &meta)
	switch {
	case err == nil:
	case !lenient:
		return nil, err
	case v.Kind() != jsondoc.Object:
		return nil, fmt.Errorf("invalid metadata: expected object, got %T", v.Interface())
	default:
		meta = metav1.ObjectMeta{}
		// Each member is tried by itself, so that one malformed field does not lose the others.
		var test metav1.ObjectMeta
		for name, member := range v.Members() {
			one := append(jsondoc.AppendQuoted([]byte("{"), name), ':')
			one = append(member.AppendJSON(one), '}')
			if utiljson.Unmarshal(one, &test) == nil {
				if err := utiljson.Unmarshal(one, &meta); err != nil {
					return nil, err
				}
			}
		}
	}
	return json.Marshal(&meta)
}

// cleanMeta reports whether the conversion to ObjectMeta would not change v. It may return false if
// it would not.
func (p *program) cleanMeta(d *jsondoc.Doc, v jsondoc.Node) bool {
	if v.Kind() != jsondoc.Object || v.ShapeIndex() != p.meta.shape {
		return false
	}
	for i, name := range p.meta.slots.Names {
		m := d.Slot(v, i)
		if m.Kind() == jsondoc.Absent {
			continue
		}
		ok := false
		switch name {
		case "labels", "annotations":
			ok = m.Kind() == jsondoc.Object && m.Len() > 0 && allTexts(d, m)
		case "finalizers":
			ok = m.Kind() == jsondoc.Array && m.Len() > 0
			for j := 0; ok && j < m.Len(); j++ {
				ok = d.Item(m, j).Kind() == jsondoc.String
			}
		case "ownerReferences", "managedFields":
			ok = m.Kind() == jsondoc.Array && m.Len() > 0
			item := p.meta.bySlot[i].items
			for j := 0; ok && j < m.Len(); j++ {
				ok = cleanEntry(d, item, d.Item(m, j), name == "ownerReferences")
			}
		case "creationTimestamp", "deletionTimestamp":
			ok = cleanStamp(d, m)
		case "generation":
			ok = m.Kind() == jsondoc.Int && m.Int() != 0
		case "deletionGracePeriodSeconds":
			ok = m.Kind() == jsondoc.Int
		default:
			ok = m.Kind() == jsondoc.String && m.Len() > 0
		}
		if !ok {
			return false
		}
	}
	return true
}

// allTexts reports whether all members are strings.
func allTexts(d *jsondoc.Doc, m jsondoc.Node) bool {
	for i := range m.Len() {
		if _, v := d.Pair(m, i); v.Kind() != jsondoc.String {
			return false
		}
	}
	return true
}

// cleanEntry is cleanMeta for an owner reference or an entry of managedFields.
func cleanEntry(d *jsondoc.Doc, n *node, x jsondoc.Node, owner bool) bool {
	if x.Kind() != jsondoc.Object || x.ShapeIndex() != n.shape {
		return false
	}
	for i, name := range n.slots.Names {
		m := d.Slot(x, i)
		ok := false
		switch name {
		case "controller", "blockOwnerDeletion":
			ok = m.Kind() == jsondoc.Absent || m.Kind() == jsondoc.Bool
		case "fieldsV1":
			ok = m.Kind() == jsondoc.Absent || m.Kind() == jsondoc.Object
		case "time":
			ok = m.Kind() == jsondoc.Absent || cleanStamp(d, m)
		default:
			if owner {
				ok = m.Kind() == jsondoc.String
			} else {
				ok = m.Kind() == jsondoc.Absent || m.Kind() == jsondoc.String && m.Len() > 0
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

// cleanStamp reports whether m is a time stamp in the form that metav1.Time writes.
func cleanStamp(d *jsondoc.Doc, m jsondoc.Node) bool {
	const layout = "2006-01-02T15:04:05Z"
	if m.Kind() != jsondoc.String || m.Len() != len(layout) {
		return false
	}
	s := d.Str(m)
	if s[len(s)-1] != 'Z' || strings.HasPrefix(s, "0001-01-01T") {
		return false
	}
	if isStamp(s) {
		return true
	}
	_, err := time.Parse(layout, s)
	return err == nil
}

// malformed is the error of an embedded resource. Its path is built while the error unwinds.
type malformed struct {
	err   *field.Error
	steps []func(*field.Path) *field.Path // innermost first
}

func (m *malformed) Error() string { return m.err.Error() }

// below records a step of the path to the resource.
func (m *malformed) below(step func(*field.Path) *field.Path) { m.steps = append(m.steps, step) }

// located returns the error with its path.
func (m *malformed) located() error {
	var path *field.Path
	for i := len(m.steps) - 1; i >= 0; i-- {
		path = m.steps[i](path)
	}
	e := *m.err
	if e.Field != "" {
		path = path.Child(e.Field)
	}
	e.Field = path.String()
	return &e
}

// underMember, underKey and underIndex record the step to a child that failed, and return the
// error.
func underMember(err error, name string) error {
	if m, ok := err.(*malformed); ok {
		m.below(func(p *field.Path) *field.Path { return p.Child(name) })
	}
	return err
}

func underKey(err error, key string) error {
	if m, ok := err.(*malformed); ok {
		m.below(func(p *field.Path) *field.Path { return p.Key(key) })
	}
	return err
}

func underIndex(err error, i int) error {
	if m, ok := err.(*malformed); ok {
		m.below(func(p *field.Path) *field.Path { return p.Index(i) })
	}
	return err
}
