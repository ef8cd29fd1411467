package cel_test

import (
	"fmt"
	"math/rand/v2"
)

// This file writes random schemas, in which every kind of node occurs.

type schemaWriter struct{ *rand.Rand }

type node = map[string]any

// names are members' names: plain ones, and such as expressions must escape or
// cannot reach.
var names = []string{"a", "b", "c", "k", "s", "l", "m", "o", "namespace", "my-key", "d.x", "a__b", "in", "x/y", "1x", "é", "value", "size", "type"}

// object has a handful of members.
func (w *schemaWriter) object(depth int) node {
	props := node{}
	var required []string
	for range 4 + w.IntN(8) {
		name := names[w.IntN(len(names))]
		props[name] = w.any(depth)
		if w.IntN(4) == 0 {
			required = append(required, name)
		}
	}
	out := node{"type": "object", "properties": props}
	if len(required) > 0 {
		out["required"] = required
	}
	if w.IntN(8) == 0 {
		out["x-kubernetes-preserve-unknown-fields"] = true
	}
	return out
}

// typed is a node of any kind that has a type.
func (w *schemaWriter) typed(depth int) node {
	for {
		if out := w.any(depth); out["type"] != nil || out["x-kubernetes-int-or-string"] != nil {
			return out
		}
	}
}

// any is a node of any kind. What rules see of one without a type inside of a
// list or map is a known difference.
func (w *schemaWriter) any(depth int) node {
	out := w.kind(depth)
	if w.IntN(6) == 0 && out["type"] != nil {
		out["nullable"] = true
	}
	return out
}

func (w *schemaWriter) kind(depth int) node {
	if depth <= 0 {
		return w.scalar()
	}
	switch w.IntN(16) {
	case 0, 1:
		return w.object(depth - 1)
	case 2, 3, 4:
		return w.list(depth - 1)
	case 5, 6:
		out := node{"type": "object", "additionalProperties": w.typed(depth - 1)}
		if w.IntN(2) == 0 {
			out["maxProperties"] = 1 + w.IntN(20)
		}
		return out
	case 7:
		return node{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	case 8:
		return node{"x-kubernetes-preserve-unknown-fields": true}
	case 9:
		out := w.object(depth - 1)
		out["x-kubernetes-embedded-resource"] = true
		return out
	}
	return w.scalar()
}

func (w *schemaWriter) list(depth int) node {
	out := node{"type": "array"}
	if w.IntN(2) == 0 {
		out["maxItems"] = 1 + w.IntN(30)
	}
	switch w.IntN(5) {
	case 0:
		out["items"], out["x-kubernetes-list-type"] = w.scalar(), "set"
	case 1:
		item := w.object(depth)
		keys := []string{"k"}
		props := item["properties"].(node)
		props["k"] = node{"type": "string"}
		if w.IntN(3) == 0 {
			props["my-key"], keys = node{"type": "integer"}, append(keys, "my-key")
		}
		item["required"] = keys
		out["items"], out["x-kubernetes-list-type"], out["x-kubernetes-list-map-keys"] = item, "map", keys
	case 2:
		out["items"], out["x-kubernetes-list-type"] = w.typed(depth), "atomic"
	default:
		out["items"] = w.typed(depth)
	}
	return out
}

func (w *schemaWriter) scalar() node {
	switch w.IntN(13) {
	case 0, 1:
		return node{"type": "integer"}
	case 2:
		return node{"type": "number"}
	case 3:
		return node{"type": "boolean"}
	case 4:
		return node{"type": "string", "format": "byte"}
	case 5:
		return node{"type": "string", "format": "duration"}
	case 6:
		return node{"type": "string", "format": "date"}
	case 7:
		return node{"type": "string", "format": "date-time"}
	case 8:
		return node{"x-kubernetes-int-or-string": true}
	case 9:
		return node{"type": "string", "enum": []string{"a", "bb", "ccc"}}
	case 10:
		return node{"type": "string", "format": []string{"uri", "ipv4", "uuid"}[w.IntN(3)]}
	}
	out := node{"type": "string"}
	if w.IntN(2) == 0 {
		out["maxLength"] = 1 + w.IntN(100)
	}
	if w.IntN(8) == 0 {
		out["default"] = fmt.Sprint("d", w.IntN(3))
	}
	return out
}
