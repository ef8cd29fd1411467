package jsondoc

import (
	"slices"
	"strings"
	"unsafe"
)

// This file is the plain decoder: no schema, objects are maps.

// Parse resets d and decodes src into it, without a schema. After an error d
// is empty.
func Parse(d *Doc, src []byte) error {
	d.Reset(nil)
	s := d.Scan(src)
	root, err := s.Value()
	if err == nil {
		err = s.End()
	}
	if err != nil {
		d.Reset(nil)
		return err
	}
	d.root = root
	return nil
}

// Value consumes one value, objects as maps. Of members with one key the last
// stays.
func (s *Scanner) Value() (Node, error) {
	switch kindOf[s.space()] {
	case Null:
		return NullNode, s.Null()
	case Bool:
		return s.Bool()
	case Int:
		return s.Number()
	case String:
		if s.skip {
			return NullNode, s.skipString()
		}
		return s.String()
	case Array:
		return s.array()
	case Object:
		return s.object()
	}
	return Node{}, s.fail()
}

func (s *Scanner) array() (Node, error) {
	if err := s.ArrayStart(); err != nil {
		return Node{}, err
	}
	base := len(s.d.stack)
	for first := true; ; first = false {
		more, err := s.More(first)
		if err != nil {
			return Node{}, err
		}
		if !more {
			break
		}
		item, err := s.Value()
		if err != nil {
			return Node{}, err
		}
		s.d.stack = append(s.d.stack, item)
	}
	n := s.d.NewArray(s.d.stack[base:])
	s.d.stack = s.d.stack[:base]
	return n, nil
}

func (s *Scanner) object() (Node, error) {
	if err := s.ObjectStart(); err != nil {
		return Node{}, err
	}
	d, base, sorted := s.d, len(s.d.stack), true
	var last Node
	for first := true; ; first = false {
		key, more, err := s.Key(first)
		if err != nil {
			return Node{}, err
		}
		if !more {
			break
		}
		sorted = sorted && (first || d.Str(last) < d.Str(key))
		last = key
		value, err := s.Value()
		if err != nil {
			return Node{}, err
		}
		d.stack = append(d.stack, key, value)
	}
	pairs := d.stack[base:]
	if !sorted {
		var dup bool
		pairs, dup = d.SortPairs(pairs)
		s.dup = s.dup || dup
	}
	n := d.NewMap(pairs)
	d.stack = d.stack[:base]
	return n, nil
}

type pair struct{ key, value Node }

// SortPairs sorts pairs (key node, value node, key node, …) by key, in place.
// Of equal keys the last stays. It returns the pairs that are left and whether
// any were dropped.
func (d *Doc) SortPairs(pairs []Node) (sorted []Node, duplicates bool) {
	if len(pairs) < 4 {
		return pairs, false
	}
	ps := unsafe.Slice((*pair)(unsafe.Pointer(&pairs[0])), len(pairs)/2)
	if len(ps) <= 12 {
		d.insertionSort(ps)
	} else {
		d.sort(ps)
	}
	w := 0
	for i := range ps {
		if i+1 < len(ps) && d.Str(ps[i].key) == d.Str(ps[i+1].key) {
			continue
		}
		ps[w] = ps[i]
		w++
	}
	return pairs[:2*w], w < len(ps)
}

// insertionSort sorts few pairs, equal keys in their order.
func (d *Doc) insertionSort(ps []pair) {
	for i := 1; i < len(ps); i++ {
		p, name := ps[i], d.Str(ps[i].key)
		j := i
		for ; j > 0 && name < d.Str(ps[j-1].key); j-- {
			ps[j] = ps[j-1]
		}
		ps[j] = p
	}
}

// sort sorts pairs, equal keys in their order, in n log n at worst.
func (d *Doc) sort(ps []pair) {
	// A key's offset fits 32 bits, so its place goes above them: that makes the
	// order total, and a sort that is not stable will do.
	const offset = 1<<32 - 1
	for i := range ps {
		ps[i].key.bits |= uint64(i) << 32
	}
	str := func(n Node) string {
		n.bits &= offset
		return d.Str(n)
	}
	slices.SortFunc(ps, func(a, b pair) int {
		if c := strings.Compare(str(a.key), str(b.key)); c != 0 {
			return c
		}
		return int(a.key.bits>>32) - int(b.key.bits>>32)
	})
	for i := range ps {
		ps[i].key.bits &= offset
	}
}

// Skip consumes one value without keeping it, checked like any other; it notes
// duplicate keys.
func (s *Scanner) Skip() error {
	// Decoding and forgetting costs little more than checking only, and finds
	// duplicate keys the same way.
	nodes, text := len(s.d.nodes), len(s.d.text)
	s.skip = true
	_, err := s.Value()
	s.skip = false
	s.d.nodes, s.d.text = s.d.nodes[:nodes], s.d.text[:text]
	return err
}
