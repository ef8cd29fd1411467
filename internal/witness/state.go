package witness

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file defines the states of a search: an object as the server would store it, and the object
// that it replaces. States do not change; an edit makes a new one.

// tree is a JSON value: nil, bool, int64, float64, string, []any or map[string]any. Trees are shared
// between states and never changed.
type tree = any

// state is a pair of objects, pruned and with defaults.
type state struct {
	new, old       tree // old is nil on create
	newDoc, oldDoc *jsondoc.Doc
	key            string // identifies the state
	// renamed has the names that keys of maps got in this state and those before it, by the place
	// with the former name. Expressions that are half solved still refer to that.
	renamed map[string]string
}

// current returns the place of a key that may have another name now.
func (st *state) current(at ref) ref {
	for range len(st.renamed) {
		name, ok := st.renamed[at.id()]
		if !ok {
			break
		}
		at = at.parent().child(name)
	}
	return at
}

// id identifies the place.
func (r ref) id() string {
	if r.old {
		return "-" + r.String()
	}
	return "+" + r.String()
}

// ref refers to a place in one of the objects of a state.
type ref struct {
	old  bool
	path []any // names of members and indexes of items
}

// child returns the place one step below.
func (r ref) child(step any) ref {
	return ref{old: r.old, path: append(r.path[:len(r.path):len(r.path)], step)}
}

// parent returns the place above. r must not be the root.
func (r ref) parent() ref { return ref{old: r.old, path: r.path[:len(r.path)-1]} }

// String returns the path as text, such as .spec.rules[0].
func (r ref) String() string { return pathText(r.path) }

// pathText returns a path as text. The root is the empty text.
func pathText(path []any) string {
	var b strings.Builder
	for _, step := range path {
		switch step := step.(type) {
		case int:
			b.WriteString("[" + strconv.Itoa(step) + "]")
		case string:
			if plainName(step) {
				b.WriteString("." + step)
			} else {
				b.WriteString("[" + strconv.Quote(step) + "]")
			}
		}
	}
	return b.String()
}

// plainName reports whether a member's name needs no quotes in a path.
func plainName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// make returns the state of two trees, which are pruned and defaulted. old may be nil. ok is false
// if a tree cannot be decoded, or the run has no steps left.
func (r *run) make(new, old tree) (st *state, ok bool) {
	if r.stopped() {
		return nil, false
	}
	r.steps++
	st = newState(r.s, new, old)
	if st != nil {
		r.bytes += len(st.key)
	}
	return st, st != nil
}

// newState decodes two trees into a state. It returns nil if a tree cannot be decoded.
func newState(s *Search, new, old tree) *state {
	st := &state{}
	var newText, oldText []byte
	if st.new, st.newDoc, newText = s.normalize(new); st.newDoc == nil {
		return nil
	}
	if old != nil {
		if st.old, st.oldDoc, oldText = s.normalize(old); st.oldDoc == nil {
			return nil
		}
	}
	st.key = string(newText) + "\n" + string(oldText)
	return st
}

// maxObject is the greatest size of an object in bytes.
const maxObject = 256 << 10

// normalize decodes a tree as the server would. The document is nil if that fails.
func (s *Search) normalize(t tree) (tree, *jsondoc.Doc, []byte) {
	text, err := json.Marshal(t)
	if err != nil || len(text) > maxObject {
		return nil, nil, nil
	}
	d := new(jsondoc.Doc)
	if _, err := s.all.Decode(d, text); err != nil {
		return nil, nil, nil
	}
	return d.Root().Interface(), d, d.Root().AppendJSON(nil)
}

// tree returns the object that a reference is into.
func (st *state) tree(old bool) tree {
	if old {
		return st.old
	}
	return st.new
}

// get returns the tree at a place. ok is false if it is absent.
func (st *state) get(at ref) (t tree, ok bool) {
	return treeAt(st.tree(at.old), st.current(at).path)
}

// treeAt returns the part of a tree at a path. ok is false if it is absent.
func treeAt(t tree, path []any) (part tree, ok bool) {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, isMap := t.(map[string]any)
			if t, ok = m[step]; !isMap || !ok {
				return nil, false
			}
		case int:
			list, isList := t.([]any)
			if !isList || step < 0 || step >= len(list) {
				return nil, false
			}
			t = list[step]
		}
	}
	return t, true
}

// value returns the value of the document at a place, absent if there is none.
func (st *state) value(at ref) jsondoc.Value {
	d := st.newDoc
	if at.old {
		d = st.oldDoc
	}
	if d == nil {
		return jsondoc.Value{}
	}
	v := d.Root()
	for _, step := range st.current(at).path {
		switch step := step.(type) {
		case string:
			if v.Kind() != jsondoc.Object {
				return jsondoc.Value{}
			}
			v = v.Get(step)
		case int:
			if v.Kind() != jsondoc.Array || step < 0 || step >= v.Len() {
				return jsondoc.Value{}
			}
			v = v.Item(step)
		}
		if !v.Exists() {
			return v
		}
	}
	return v
}

// with returns a tree in which the part at path is v. Containers on the way are copied. Missing ones
// are made by fill, which gets their path.
func with(t tree, path []any, v tree, fill func(path []any) tree) tree {
	return withAt(t, nil, path, v, fill)
}

// withAt is with for the part of a tree at the path before.
func withAt(t tree, before, path []any, v tree, fill func(path []any) tree) tree {
	if len(path) == 0 {
		return v
	}
	below := append(before[:len(before):len(before)], path[0])
	next := func(old tree, exists bool) tree {
		if !exists && len(path) > 1 {
			old = fill(below)
		}
		return withAt(old, below, path[1:], v, fill)
	}
	switch step := path[0].(type) {
	case string:
		m, _ := t.(map[string]any)
		old, exists := m[step]
		out := maps.Clone(m)
		if out == nil {
			out = map[string]any{}
		}
		out[step] = next(old, exists && old != nil)
		return out
	case int:
		list, _ := t.([]any)
		out := slices.Clone(list)
		for len(out) <= step {
			out = append(out, fill(append(before[:len(before):len(before)], len(out))))
		}
		out[step] = next(out[step], step < len(list))
		return out
	}
	panic("BUG: a step of a path is neither a name nor an index")
}

// without returns a tree in which the part at path is absent. The items after an item move up.
func without(t tree, path []any) tree {
	switch step := path[0].(type) {
	case string:
		m, _ := t.(map[string]any)
		child, ok := m[step]
		if !ok {
			return t
		}
		out := maps.Clone(m)
		if len(path) == 1 {
			delete(out, step)
		} else {
			out[step] = without(child, path[1:])
		}
		return out
	case int:
		list, _ := t.([]any)
		if step < 0 || step >= len(list) {
			return t
		}
		if len(path) == 1 {
			return slices.Delete(slices.Clone(list), step, step+1)
		}
		out := slices.Clone(list)
		out[step] = without(list[step], path[1:])
		return out
	}
	panic("BUG: a step of a path is neither a name nor an index")
}

// edit returns a state in which one of the trees of st is replaced.
func (r *run) edit(st *state, old bool, t tree) (*state, bool) {
	new, was := t, st.old
	if old {
		new, was = st.new, t
	}
	next, ok := r.make(new, was)
	if ok {
		next.renamed = st.renamed
	}
	return next, ok
}

// put returns a state in which the place has the value v. Missing objects on the way get their
// required members. ok is false if v cannot be there.
func (r *run) put(st *state, at ref, v tree) (*state, bool) {
	at = st.current(at)
	if at.old && st.old == nil {
		return nil, false
	}
	t := with(st.tree(at.old), at.path, v, func(path []any) tree { return r.s.minimal(r.s.schemaAt(path), 0) })
	next, ok := r.edit(st, at.old, t)
	if !ok || next.key == st.key {
		return nil, false
	}
	if _, ok := next.get(at); !ok && v != nil {
		return nil, false // pruned
	}
	return next, true
}

// remove returns a state in which the place is absent. ok is false if it was, or stays.
func (r *run) remove(st *state, at ref) (*state, bool) {
	at = st.current(at)
	if _, ok := st.get(at); !ok || len(at.path) == 0 {
		return nil, false
	}
	next, ok := r.edit(st, at.old, without(st.tree(at.old), at.path))
	if !ok || next.key == st.key {
		return nil, false
	}
	return next, true
}

// schemaAt returns the schema of a place, nil if there is none.
func (s *Search) schemaAt(path []any) *structural.Schema {
	n, resource := s.schema, s.o.Resource
	for i, step := range path {
		if n == nil {
			return nil
		}
		if name, ok := step.(string); ok && (resource || n.Embedded) && n.Properties[name] == nil {
			switch name {
			case "apiVersion", "kind":
				n, resource = stringSchema, false
				continue
			case "metadata":
				n, resource = metaSchema, false
				continue
			}
		}
		resource = false
		switch step := step.(type) {
		case int:
			n = n.Items
		case string:
			child := n.Properties[step]
			if child == nil {
				child = n.Additional
			} else if step == "metadata" && i == 0 && s.o.Resource && child.Properties == nil {
				child = metaSchema
			}
			n = child
		}
	}
	return n
}

var (
	stringSchema = &structural.Schema{Type: "string"}
	metaSchema   = &structural.Schema{Type: "object", Names: []string{"generateName", "name"},
		Properties: map[string]*structural.Schema{"generateName": stringSchema, "name": stringSchema}}
)

// typeAt returns the type by which rules see a place, nil if there is none.
func (s *Search) typeAt(path []any) *cel.Type {
	t := s.rootType
	for _, step := range path {
		if t == nil {
			return nil
		}
		name, isName := step.(string)
		if t.Fields == nil || !isName {
			t = t.Elem
			continue
		}
		var child *cel.Type
		for i := range t.Fields {
			if t.Fields[i].Name == name {
				child = t.Fields[i].Type
			}
		}
		t = child
	}
	return t
}

// exists reports whether a value is present and not null.
func exists(v jsondoc.Value) bool { return v.Exists() && v.Kind() != jsondoc.Null }
