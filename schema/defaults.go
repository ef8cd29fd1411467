package schema

import (
	"fmt"

	"github.com/keelson-io/keelson/doc"
)

// This file prepares default values: each is decoded once, pruned, with the
// defaults below it filled in, and from then on copied.

// fillDefaults decodes all defaults. Shapes must be complete.
func (p *Program) fillDefaults() error {
	p.consts.Reset(p.shapes)
	return p.root.fillDefaults(p, nil)
}

// fillDefaults decodes the defaults at and below n, the lowest first: they are
// part of those above. resource is the resource whose metadata n is in.
func (n *node) fillDefaults(p *Program, metadata *node) error {
	if !n.deepDefaults {
		return nil
	}
	var failed error
	n.each(func(child *node) {
		in := metadataChild(p, n, metadata, child)
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
	var d doc.Doc
	var x decoder
	_, v, err := x.run(p, decodeBy, &d, n.defText, decodeMode{keepNulls: true, lenient: true})
	if err != nil {
		return fmt.Errorf("%s: default: %w", n.path, err)
	}
	if metadata != nil {
		p.applyDefaults(&d, n, v)
	}
	n.def = p.consts.Import(doc.Value{Doc: &d, Node: v})
	return nil
}

// metadataChild is the node that decodes child, a child of n, if that is an
// overlay; nil if it decodes itself.
func metadataChild(p *Program, n, metadata, child *node) *node {
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
			if known := metadata.child(prop.name); known != nil {
				return known
			}
		}
	}
	return child
}

// copyDefault copies the default of n into d.
func (p *Program) copyDefault(d *doc.Doc, n *node) doc.Node {
	switch n.def.Kind() {
	case doc.String:
		return d.NewString(p.consts.Str(n.def))
	case doc.Array, doc.Object:
		return d.Import(doc.Value{Doc: p.consts, Node: n.def})
	}
	return n.def
}

// applyDefaults fills in the defaults below overlay n in the decoded metadata x.
func (p *Program) applyDefaults(d *doc.Doc, n *node, x doc.Node) {
	if !n.deepDefaults {
		return
	}
	switch x.Kind() {
	case doc.Array:
		for i := range x.Len() {
			if n.items != nil {
				p.applyDefaults(d, n.items, d.Item(x, i))
			}
		}
	case doc.Object:
		shaped := x.ShapeIndex() != 0 && x.ShapeIndex() == n.slotShape
		for _, prop := range n.props {
			if shaped && prop.slot >= 0 && prop.node.defText != nil && d.Slot(x, prop.slot).Kind() == doc.Absent {
				d.SetSlot(x, prop.slot, p.copyDefault(d, prop.node))
			}
			p.applyDefaults(d, prop.node, n.member(d, x, prop.name, prop.slot))
		}
		if n.additional != nil && x.ShapeIndex() == 0 {
			for i := range x.Len() {
				_, v := d.Pair(x, i)
				p.applyDefaults(d, n.additional, v)
			}
		}
	}
}
