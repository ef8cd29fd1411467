package jsondoc

import "errors"

// This file applies JSON merge patches (RFC 7386) the way Kubernetes does.

// Errors of patching a text that cannot be patched, in the words of
// Kubernetes' library.
var (
	ErrBadDocument = errors.New("Invalid JSON Document")
	ErrBadPatch    = errors.New("Invalid JSON Patch")
)

// MergePatch is target changed by the merge patch. Numbers keep their kind: a
// Float prints so that it reads as one again. A patch that is no JSON, or is
// neither object nor array, is [ErrBadPatch]; one with a number out of range
// is a [*RangeError].
func MergePatch(target, patch []byte) ([]byte, error) {
	t, p := Get(), Get()
	defer t.Release()
	defer p.Release()
	if err := Parse(t, target); err != nil {
		return nil, ErrBadDocument
	}
	if err := Parse(p, patch); err != nil {
		if _, late := errors.AsType[*RangeError](err); late {
			return nil, err
		}
		return nil, ErrBadPatch
	}
	switch {
	case t.root.Kind() == Null:
		return nil, ErrBadDocument
	case p.root.Kind() != Object && p.root.Kind() != Array:
		return nil, ErrBadPatch
	}
	b := make([]byte, 0, len(target)+len(patch))
	if t.root.Kind() == Object && p.root.Kind() == Object {
		return appendMerged(b, t, t.root, p, p.root), nil
	}
	return appendPruned(b, p, p.root), nil
}

// appendMerged appends the map a of document t merged with the map b of the
// patch p.
func appendMerged(out []byte, t *Doc, a Node, p *Doc, b Node) []byte {
	out = append(out, '{')
	open := len(out)
	i, j := 0, 0
	for i < a.Len() || j < b.Len() {
		var keyA, keyB, have, want Node
		if i < a.Len() {
			keyA, have = t.Pair(a, i)
		}
		if j < b.Len() {
			keyB, want = p.Pair(b, j)
		}
		switch {
		case have.Kind() != Absent && (want.Kind() == Absent || t.Str(keyA) < p.Str(keyB)):
			i++
			out = append(t.appendString(comma(out, open), keyA), ':')
			out = t.appendExact(out, have)
			continue
		case have.Kind() == Absent || t.Str(keyA) > p.Str(keyB):
			have = Node{}
		default:
			i++
		}
		j++
		if want.Kind() != Null {
			out = append(p.appendString(comma(out, open), keyB), ':')
			out = appendMergedMember(out, t, have, p, want)
		}
	}
	return append(out, '}')
}

// appendMergedMember appends the member have, maybe Absent, as the member want
// of the patch changes it.
func appendMergedMember(out []byte, t *Doc, have Node, p *Doc, want Node) []byte {
	switch {
	case have.Kind() != Object:
		return appendPruned(out, p, want)
	case want.Kind() == Object:
		return appendMerged(out, t, have, p, want)
	}
	// Upstream does not look for nulls inside an array that replaces an object.
	return p.appendExact(out, want)
}

// appendPruned appends a value of a patch without the members that are null.
func appendPruned(b []byte, d *Doc, n Node) []byte {
	switch n.Kind() {
	case Array:
		b = append(b, '[')
		for i := range n.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendPruned(b, d, d.Item(n, i))
		}
		return append(b, ']')
	case Object:
		b = append(b, '{')
		open := len(b)
		for i := range n.Len() {
			if key, value := d.Pair(n, i); value.Kind() != Null {
				b = append(d.appendString(comma(b, open), key), ':')
				b = appendPruned(b, d, value)
			}
		}
		return append(b, '}')
	}
	return d.appendExact(b, n)
}

// appendExact appends a plain value like AppendJSON, but so that numbers read
// as the kind that they are: the Float 1 prints as 1.0.
func (d *Doc) appendExact(b []byte, n Node) []byte {
	switch n.Kind() {
	case Float:
		from := len(b)
		b = appendFloat(b, n.Float())
		for _, c := range b[from:] {
			if c == '.' || c == 'e' {
				return b
			}
		}
		return append(b, '.', '0')
	case Array:
		b = append(b, '[')
		for i := range n.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = d.appendExact(b, d.Item(n, i))
		}
		return append(b, ']')
	case Object:
		b = append(b, '{')
		for i := range n.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			key, value := d.Pair(n, i)
			b = append(d.appendString(b, key), ':')
			b = d.appendExact(b, value)
		}
		return append(b, '}')
	}
	return d.AppendJSON(b, n)
}
