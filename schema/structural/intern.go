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

// This file shares equal nodes. Definitions repeat parts of each other, and of their own versions,
// and thousands of them have to fit into memory.

// digest is a cryptographic hash of a node and its children: no author of a definition may be able
// to make two different schemas equal.
type digest [16]byte

// Nodes is a table of the nodes that its Parse returned and that are still in use. Nodes do not
// change, so that schemas can share them. The zero value is an empty table. It is safe for
// concurrent use.
type Nodes struct {
	mu    sync.Mutex
	nodes map[digest]weak.Pointer[Schema]
	sweep int // the number of entries at which those of freed nodes are removed
}

// minSweep is the least number of entries at which freed nodes are worth removing.
const minSweep = 1 << 12

// intern returns the node in the table that equals s, or s after adding it. The children of s must
// be interned.
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

// hasher collects what distinguishes nodes, each part with its length.
type hasher struct{ buf []byte }

// digest computes the hash of s.
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

// text adds strings.
func (h *hasher) text(all ...string) {
	for _, s := range all {
		h.buf = binary.AppendUvarint(h.buf, uint64(len(s)))
		h.buf = append(h.buf, s...)
	}
}

// texts adds a list of strings.
func (h *hasher) texts(list []string) {
	h.length(len(list), list == nil)
	h.text(list...)
}

// length distinguishes a missing list from an empty one.
func (h *hasher) length(n int, absent bool) {
	h.flags(absent)
	h.buf = binary.AppendUvarint(h.buf, uint64(n))
}

// flags adds booleans.
func (h *hasher) flags(all ...bool) {
	for _, f := range all {
		b := byte(0)
		if f {
			b = 1
		}
		h.buf = append(h.buf, b)
	}
}

// child adds an interned node. Equal nodes are the same pointer, but an address may be used again
// after a node is freed. Therefore the digest of the node is added.
func (h *hasher) child(s *Schema) {
	h.flags(s != nil)
	if s != nil {
		h.buf = append(h.buf, s.sum[:]...)
	}
}

// docs adds externalDocs.
func (h *hasher) docs(d *apiextv1.ExternalDocumentation) {
	h.flags(d != nil)
	if d != nil {
		h.text(d.Description, d.URL)
	}
}

// rules adds rules as JSON, which has all their fields.
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

// number adds a number, which may be missing.
func (h *hasher) number(f *float64) {
	h.flags(f != nil)
	if f != nil {
		h.buf = binary.LittleEndian.AppendUint64(h.buf, math.Float64bits(*f))
	}
}

// integer adds an integer, which may be missing.
func (h *hasher) integer(i *int64) {
	h.flags(i != nil)
	if i != nil {
		h.buf = binary.LittleEndian.AppendUint64(h.buf, uint64(*i))
	}
}

// values adds restrictions.
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

// nested adds a schema below a junctor, which is not interned.
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
