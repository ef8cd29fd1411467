package structural

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math"
	"sync"
	"weak"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// This file shares equal nodes: definitions repeat each other, and themselves
// in their versions, and thousands of them have to fit into memory.

// digest is a cryptographic hash of a node, its children included: whoever
// writes definitions must not be able to pass one schema off as another.
type digest [16]byte

// Nodes is a table of the nodes that its Parse returned and that are still in
// use. Nodes never change, so a schema cannot tell who else uses its nodes. The
// zero value is an empty table. It is safe for concurrent use.
type Nodes struct {
	mu    sync.Mutex
	nodes map[digest]weak.Pointer[Schema]
	sweep int // size at which the entries of dead nodes are looked for
}

// minSweep is the least size at which looking for dead entries is worth it.
const minSweep = 1 << 12

// intern returns the node that equals s and was there first, or s. The children
// of s must be interned.
func (t *Nodes) intern(s *Schema) *Schema {
	s.sum = s.digest()
	key := s.sum
	t.mu.Lock()
	defer t.mu.Unlock()
	if first := t.nodes[key].Value(); first != nil {
		return first
	}
	if t.nodes == nil {
		t.nodes, t.sweep = map[digest]weak.Pointer[Schema]{}, minSweep
	}
	if len(t.nodes) >= t.sweep {
		for key, node := range t.nodes {
			if node.Value() == nil {
				delete(t.nodes, key)
			}
		}
		t.sweep = max(minSweep, 2*len(t.nodes))
	}
	t.nodes[key] = weak.Make(s)
	return s
}

// hasher writes what distinguishes nodes, every part with its length.
type hasher struct{ buf []byte }

func (s *Schema) digest() digest {
	h := hasher{make([]byte, 0, 512)}
	h.text(s.Type, s.Format, s.Title, s.Description, s.ListType, s.MapType, string(s.Default), string(s.Example))
	h.flags(s.Nullable, s.IntOrString, s.Embedded, s.Preserve, s.Default != nil, s.Example != nil,
		s.AdditionalAllows != nil, s.AdditionalAllows != nil && *s.AdditionalAllows)
	h.texts(s.ListMapKeys)
	h.texts(s.Names)
	for _, name := range s.Names {
		h.child(s.Properties[name])
	}
	h.child(s.Items)
	h.child(s.Additional)
	h.docs(s.ExternalDocs)
	h.rules(s.Rules)
	h.flags(s.Values != nil)
	if s.Values != nil {
		h.values(s.Values)
	}
	sum := sha256.Sum256(h.buf)
	return digest(sum[:len(digest{})])
}

func (h *hasher) text(all ...string) {
	for _, s := range all {
		h.buf = binary.AppendUvarint(h.buf, uint64(len(s)))
		h.buf = append(h.buf, s...)
	}
}

func (h *hasher) texts(list []string) {
	h.length(len(list), list == nil)
	h.text(list...)
}

// length tells a list that is absent from one that is empty.
func (h *hasher) length(n int, absent bool) {
	h.flags(absent)
	h.buf = binary.AppendUvarint(h.buf, uint64(n))
}

func (h *hasher) flags(all ...bool) {
	for _, f := range all {
		b := byte(0)
		if f {
			b = 1
		}
		h.buf = append(h.buf, b)
	}
}

// child stands for an interned node. Nodes that are equal are the same by now,
// but an address may be used again after its node is gone, so it is the node's
// own digest that counts.
func (h *hasher) child(s *Schema) {
	h.flags(s != nil)
	if s != nil {
		h.buf = append(h.buf, s.sum[:]...)
	}
}

func (h *hasher) docs(d *apiextv1.ExternalDocumentation) {
	h.flags(d != nil)
	if d != nil {
		h.text(d.Description, d.URL)
	}
}

func (h *hasher) rules(list []apiextv1.ValidationRule) {
	h.length(len(list), list == nil)
	if len(list) > 0 {
		text, err := json.Marshal(list)
		if err != nil {
			panic("BUG: rules that cannot be written: " + err.Error()) // strings and booleans only
		}
		h.text(string(text))
	}
}

func (h *hasher) number(f *float64) {
	h.flags(f != nil)
	if f != nil {
		h.buf = binary.LittleEndian.AppendUint64(h.buf, math.Float64bits(*f))
	}
}

func (h *hasher) integer(i *int64) {
	h.flags(i != nil)
	if i != nil {
		h.buf = binary.LittleEndian.AppendUint64(h.buf, uint64(*i))
	}
}

func (h *hasher) values(v *Values) {
	for _, f := range []*float64{v.Maximum, v.Minimum, v.MultipleOf} {
		h.number(f)
	}
	for _, i := range []*int64{v.MaxLength, v.MinLength, v.MaxItems, v.MinItems, v.MaxProperties, v.MinProperties} {
		h.integer(i)
	}
	h.flags(v.ExclusiveMaximum, v.ExclusiveMinimum, v.UniqueItems)
	h.text(v.Pattern)
	h.length(len(v.Enum), v.Enum == nil)
	for _, raw := range v.Enum {
		h.text(string(raw))
	}
	h.texts(v.Required)
	for _, list := range [][]*Nested{v.AllOf, v.AnyOf, v.OneOf} {
		h.length(len(list), list == nil)
		for _, n := range list {
			h.nested(n)
		}
	}
	h.nested(v.Not)
}

func (h *hasher) nested(n *Nested) {
	h.flags(n != nil)
	if n == nil {
		return
	}
	h.values(&n.Values)
	h.text(n.Format, n.Type)
	h.flags(n.Docs)
	h.nested(n.Items)
	h.nested(n.Additional)
	h.texts(n.Names)
	for _, name := range n.Names {
		h.nested(n.Properties[name])
	}
	h.rules(n.Rules)
	h.texts(n.Forbidden)
}
