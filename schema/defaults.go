package schema

import (
	"fmt"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file prepares default values. Each one is decoded once, with the defaults below it filled
// in, and copied for each use.

// fillDefaults decodes all defaults of the program. Its shapes must be complete.
func (p *program) fillDefaults() error {
	p.consts.Reset(p.shapes)
	return p.root.fillDefaults(p, nil)
}

// fillDefaults decodes the defaults at n and below. It starts at the lowest, because they are part
// of those above. metadata is the node that decodes n if n is an overlay of metadata, otherwise
// nil.
func (n *node) fillDefaults(p *program, metadata *node) error {
	if !n.deepDefaults || n.filled {
		return nil
	}
	n.filled = true
	var failed error
	n.each(func(child *node) {
		in := metadataChild(p, n, metadata, child)
		if metadata != nil && in == nil {
			child.dropDefaults()
			return
		}
		if err := child.fillDefaults(p, in); err != nil && failed == nil {
			failed = err
		}
	})
	if failed != nil || n.defText == nil {
		return failed
	}
	decodeBy := n
	if metadata != nil {
		decodeBy = metadata
	}
	var d jsondoc.Doc
	var x decoder
	_, v, err := x.run(p, decodeBy, &d, n.defText, decodeMode{keepNulls: true, lenient: true})
	if err != nil {
		return fmt.Errorf("%s: default: %w", n.path, err)
	}
	if metadata != nil {
		v = p.applyDefaults(&d, n, v)
	}
	// consts keeps the value; the differences give the size of a copy.
	before := p.consts.Bytes()
	n.def = p.consts.Import(jsondoc.Value{Doc: &d, Node: v})
	n.defSize = p.consts.Bytes() - before
	n.defPrinted = len(d.AppendJSON(nil, v))
	if size := p.consts.Bytes(); size > maxConstants {
		return fmt.Errorf("%s: default: the default values of the schema take more than %d bytes", n.path, maxConstants)
	}
	return nil
}

// Bounds of the default values in one document. In a short text there may be very many objects,
// each of which gets its own copy of a default.
const (
	// maxDefaults bounds the memory of the default values, in bytes. It exceeds maxPrinted, because
	// a value takes more memory than text: a number takes 16 bytes, a typed object 16 bytes for
	// each declared member.
	maxDefaults = 8 << 20
	// maxPrinted bounds the JSON text of the default values, in bytes. It is more than twice the
	// limit of the store for one object, so that no object is refused that could be stored.
	maxPrinted = 4 << 20
)

// maxConstants bounds the default values of one schema, in bytes. A default contains the defaults
// below it, so that nested ones multiply.
const maxConstants = 64 << 20

// ErrManyDefaults is the error for default values that would make an object larger than the store
// accepts.
var ErrManyDefaults = fmt.Errorf("default values make the object larger than %d bytes", maxPrinted)

// fill returns a copy of the default of n. If the bounds are exceeded, it returns null, and
// decoding fails at the end.
func (x *decoder) fill(n *node) jsondoc.Node {
	x.added += n.defSize
	x.printed += n.defPrinted
	if x.overfull() {
		return jsondoc.NullNode
	}
	return x.p.copyDefault(x.d, n)
}

// overfull reports whether the default values exceed a bound.
func (x *decoder) overfull() bool { return x.added > maxDefaults || x.printed > maxPrinted }

// dropDefaults removes the defaults at n and below. n overlays a field that ObjectMeta does not
// have.
func (n *node) dropDefaults() {
	n.defText, n.deepDefaults = nil, false
	n.each((*node).dropDefaults)
}

// metadataChild returns the node that decodes child, a child of n, if it is an overlay of metadata.
// It is nil outside of metadata, and for fields that ObjectMeta does not have.
func metadataChild(p *program, n, metadata, child *node) *node {
	if metadata == nil {
		if n.resource && n.prop("metadata") == child {
			return p.meta
		}
		return nil
	}
	switch child {
	case n.items:
		return metadata.items
	case n.additional:
		return metadata.additional
	}
	for _, prop := range n.props {
		if prop.node == child {
			if known := metadata.child(prop.name); known != nil || !metadata.keep {
				return known
			}
		}
	}
	return child
}

// copyDefault copies the default of n into d.
func (p *program) copyDefault(d *jsondoc.Doc, n *node) jsondoc.Node {
	switch n.def.Kind() {
	case jsondoc.String:
		return d.NewString(p.consts.Str(n.def))
	case jsondoc.Array, jsondoc.Object:
		return d.Import(jsondoc.Value{Doc: p.consts, Node: n.def})
	}
	return n.def
}

// fillMeta returns the decoded metadata v with the defaults of overlay.
func (x *decoder) fillMeta(overlay *node, v jsondoc.Node) jsondoc.Node {
	if x.overfull() {
		return v
	}
	before := x.d.Bytes()
	v = x.p.applyDefaults(x.d, overlay, v)
	x.added += x.d.Bytes() - before
	return v
}

// applyDefaults returns the decoded metadata x with the defaults of overlay n.
func (p *program) applyDefaults(d *jsondoc.Doc, n *node, x jsondoc.Node) jsondoc.Node {
	if !n.deepDefaults {
		return x
	}
	switch x.Kind() {
	case jsondoc.Array:
		if n.items == nil {
			return x
		}
		items := make([]jsondoc.Node, x.Len())
		for i := range items {
			items[i] = p.applyDefaults(d, n.items, d.Item(x, i))
		}
		return d.NewArray(items)
	case jsondoc.Object:
		var pairs []jsondoc.Node
		for name, v := range (jsondoc.Value{Doc: d, Node: x}).Members() {
			node := v.Node
			if child := n.child(name); child != nil {
				node = p.applyDefaults(d, child, node)
			}
			pairs = append(pairs, d.NewString(name), node)
		}
		for _, prop := range n.props {
			if prop.node.defText != nil && n.member(d, x, prop.name, prop.slot).Kind() == jsondoc.Absent {
				pairs = append(pairs, d.NewString(prop.name), p.copyDefault(d, prop.node))
			}
		}
		pairs, _ = d.SortPairs(pairs)
		return d.ImportAs(jsondoc.Value{Doc: d, Node: d.NewMap(pairs)}, n.slotShape)
	}
	return x
}
