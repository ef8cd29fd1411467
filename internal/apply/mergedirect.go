package apply

import (
	"slices"
	"strings"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file is the fast way of Apply, for most patches: those that set fields which nobody else
// owns, or that are forced, and that give up no fields. Conflicts, removals and cases with special
// rules (see walk.go) are left to SMD.

// applyDirect makes d the merged object and prints it without its managedFields; ok is false if it could not: d is of no use then.
func (m *Manager) applyDirect(live, config, d *jsondoc.Doc, o *Options) (out []byte, ok bool) {
	entries, ok := m.patchable(live, config, o)
	if !ok {
		return nil, false
	}
	if live != nil {
		d.Reset(live.Shapes())
	}
	g := merger{walker: newWalker(d), sound: o.KnownValid}
	defer g.release()
	root, ok := g.object(m, live, config)
	if !ok {
		return nil, false
	}
	d.SetRoot(root)
	out = d.Root().AppendJSON(make([]byte, 0, d.Bytes()/2))
	fields, ok := g.configFields(m, config, o)
	if !ok {
		return nil, false
	}
	me := m.newEntry(o, fields)
	me.operation, me.fields.Doc = "Apply", g.d
	if entries, ok = g.setEntry(m, entries, me, o); ok {
		g.write(entries)
	}
	return out, ok
}

// patchable reads the managedFields of live. It reports false if they, or the way in which live was
// changed so far, need SMD.
func (m *Manager) patchable(live, config *jsondoc.Doc, o *Options) ([]entry, bool) {
	if m.nested(o) {
		return nil, false
	}
	entries, ok := m.entriesOf(managedFieldsOf(live))
	if !ok || live != nil && (len(entries) == 0 || live.Root().Get("apiVersion").Text() != string(m.version)) {
		return nil, false
	}
	if o.Manager == kubectlName && (hasLastApplied(m.liveValue(live)) || hasLastApplied(node{config.Root()})) {
		return nil, false
	}
	return entries, true
}

// merger merges into the document of its walker.
type merger struct {
	*walker
	sound   bool         // the live object is known to fit its schema
	changed jsondoc.Node // what merging added or modified
}

// object merges the whole object.
func (g *merger) object(m *Manager, live, config *jsondoc.Doc) (jsondoc.Node, bool) {
	t := m.rootType()
	if t == nil || t.atomic {
		return jsondoc.Node{}, false
	}
	var before jsondoc.Value
	if live == nil {
		n, ok := g.all(m.own.root, config.Root())
		if !ok {
			return n, false
		}
		g.changed = n
		return g.d.Import(config.Root()), true
	}
	before = live.Root()
	if before.Kind() != jsondoc.Object {
		return jsondoc.Node{}, false
	}
	n, changed, ok := g.members(t, before, config.Root(), wholeObject)
	g.changed = changed
	return n, ok
}

// part selects the members that the function members merges.
type part uint8

const (
	anyPart part = iota
	wholeObject
	itsMetadata // whose managedFields are left out
)

// members merges two objects.
func (g *merger) members(t *mapType, live, config jsondoc.Value, of part) (n, changed jsondoc.Node, ok bool) {
	mark, differ := len(g.stack), []jsondoc.Node(nil)
	at := 0
	for name, v := range jsondoc.Both(live, config) {
		if of == itsMetadata && name == "managedFields" {
			if v[1].Exists() {
				return n, changed, false
			}
			continue
		}
		var mt *typ
		if mt, at = t.field(name, at); mt == nil {
			return n, changed, false
		}
		var merged, c jsondoc.Node
		if of == wholeObject && name == "metadata" && v[0].Kind() == jsondoc.Object && v[1].Kind() == jsondoc.Object {
			merged, c, ok = g.members(mt.object, v[0], v[1], itsMetadata)
		} else {
			merged, c, ok = g.merge(mt, v[0], v[1])
		}
		if !ok {
			return n, changed, false
		}
		g.stack = append(g.stack, g.d.NewString(name), merged)
		if c.Kind() != jsondoc.Absent {
			differ = append(differ, g.field(name), c)
		}
	}
	if len(differ) > 0 {
		changed = g.d.NewMap(differ)
	}
	n = g.d.NewMap(g.stack[mark:])
	g.stack = g.stack[:mark]
	return n, changed, true
}

// merge merges two values, one of which may be missing.
func (g *merger) merge(t *typ, live, config jsondoc.Value) (n, changed jsondoc.Node, ok bool) {
	switch lk, ck := live.Kind(), config.Kind(); {
	case ck == jsondoc.Absent:
		return g.d.Import(live), changed, g.sound || g.valid(t, live)
	case ck == jsondoc.Null || lk == jsondoc.Null:
		return n, changed, false
	case lk == jsondoc.Absent:
		changed, ok = g.all(t, config)
		return g.d.Import(config), changed, ok
	case lk == jsondoc.Object && ck == jsondoc.Object && t.object != nil && !t.object.atomic:
		return g.members(t.object, live, config, anyPart)
	case lk == jsondoc.Array && ck == jsondoc.Array && t.list != nil && t.list.granul:
		return g.items(t.list, live, config)
	case (lk == jsondoc.Object) != (ck == jsondoc.Object) || (lk == jsondoc.Array) != (ck == jsondoc.Array):
		return n, changed, false
	}
	same := jsondoc.Equal(live, config)
	if !g.sound && !g.valid(t, live) || !(g.sound && same) && !g.valid(t, config) {
		return n, changed, false
	}
	if same {
		return g.d.Import(live), changed, true
	}
	if equalNumbers(live, config) {
		return n, changed, false // equal, and yet not the same
	}
	return g.d.Import(config), g.leaf, true
}

// items merges two lists of the same items in the same order.
func (g *merger) items(l *listType, live, config jsondoc.Value) (n, changed jsondoc.Node, ok bool) {
	if live.Len() != config.Len() {
		return n, changed, false
	}
	keys, ok := g.itemKeys(l, live)
	if !ok {
		return n, changed, false
	}
	mark, differ := len(g.stack), []jsondoc.Node(nil)
	for i, key := range keys.keys {
		same, ok := g.item(l, config.Item(i))
		if !ok || g.d.Str(same) != g.d.Str(key) {
			return n, changed, false
		}
		merged, c, ok := g.merge(l.elem, live.Item(i), config.Item(i))
		if !ok {
			return n, changed, false
		}
		g.stack = append(g.stack, merged)
		if c.Kind() != jsondoc.Absent {
			differ = append(differ, key, c)
		}
	}
	if len(differ) > 0 {
		g.d.SortPairs(differ)
		changed = g.d.NewMap(differ)
	}
	n = g.d.NewArray(g.stack[mark:])
	g.stack = g.stack[:mark]
	return n, changed, true
}

// configFields returns the trie of the fields that a config names; Absent if it
// names none that anybody owns.
func (g *merger) configFields(m *Manager, config *jsondoc.Doc, o *Options) (jsondoc.Node, bool) {
	reset := m.reset[o.Subresource]
	mark := len(g.stack)
	at := 0
	for name, v := range config.Root().Members() {
		var t *typ
		if t, at = m.rootType().field(name, at); t == nil {
			return jsondoc.Node{}, false
		}
		n, ok := g.fields(t, v, !m.rootType().declares(name))
		if !ok {
			return jsondoc.Node{}, false
		}
		if name == "metadata" {
			n = g.stripMetadata(n)
		}
		if name != "apiVersion" && name != "kind" && !slices.Contains(reset, name) && n.Kind() != jsondoc.Absent {
			g.stack = append(g.stack, g.field(name), n)
		}
	}
	return g.close(mark), true
}

// declares reports whether a member is a declared one.
func (m *mapType) declares(name string) bool {
	_, ok := slices.BinarySearch(m.names, name)
	return ok
}

// fields returns the trie of the fields that a value sets: its leaves, and the members of maps and
// lists whose members are not declared. member is set if the value is itself such a member.
func (g *merger) fields(t *typ, v jsondoc.Value, member bool) (jsondoc.Node, bool) {
	mark := len(g.stack)
	switch k := v.Kind(); {
	case k == jsondoc.Null:
		return jsondoc.Node{}, false
	case k == jsondoc.Array && t.list != nil && t.list.granul:
		if member {
			g.stack = append(g.stack, g.dot, g.leaf)
		}
		for _, item := range v.Items() {
			key, ok := g.item(t.list, item)
			if !ok {
				return jsondoc.Node{}, false
			}
			n, ok := g.fields(t.list.elem, item, true)
			if !ok {
				return jsondoc.Node{}, false
			}
			g.stack = append(g.stack, key, n)
		}
		return g.closeFields(mark, member)
	case k == jsondoc.Object && t.object != nil && !t.object.atomic && v.Len() > 0:
		if member {
			g.stack = append(g.stack, g.dot, g.leaf)
		}
		at := 0
		for name, inner := range v.Members() {
			var mt *typ
			if mt, at = t.object.field(name, at); mt == nil {
				return jsondoc.Node{}, false
			}
			n, ok := g.fields(mt, inner, !t.object.declares(name))
			if !ok {
				return jsondoc.Node{}, false
			}
			if n.Kind() != jsondoc.Absent {
				g.stack = append(g.stack, g.field(name), n)
			}
		}
		return g.closeFields(mark, member)
	}
	return g.leaf, g.valid(t, v)
}

// closeFields is close for the trie of a value; one that is a member and has
// nothing below is a leaf.
func (g *merger) closeFields(mark int, member bool) (jsondoc.Node, bool) {
	if member && len(g.stack) == mark+2 {
		g.stack = g.stack[:mark]
		return g.leaf, true
	}
	return g.closeSorted(mark)
}

// setEntry makes me one of the entries. It fails if me loses fields that it had, or if another
// manager has a changed field and the options do not force the change.
func (g *merger) setEntry(m *Manager, entries []entry, me entry, o *Options) ([]entry, bool) {
	changed := g.withoutReset(m, o)
	out := make([]entry, 0, len(entries)+1)
	had := entry{}
	for _, e := range entries {
		if e.is(&me) {
			had = e
			continue
		}
		if changed.Kind() != jsondoc.Absent && g.meets(e.fields, changed) {
			if !o.Force {
				return nil, false
			}
			e.fields = jsondoc.Value{Doc: g.d, Node: g.subtract(e.fields, changed)}
		}
		if e.fields.Exists() {
			out = append(out, e)
		}
	}
	if had.fields.Exists() && !g.covers(me.fields.Node, had.fields) {
		return nil, false
	}
	if g.changed.Kind() == jsondoc.Absent {
		me.time, me.seconds = had.time, had.seconds
	}
	if me.fields.Exists() {
		out = append(out, me)
	}
	return out, true
}

// withoutReset returns the changed fields without the reset fields.
func (g *merger) withoutReset(m *Manager, o *Options) jsondoc.Node {
	mark := len(g.stack)
	for i := range g.changed.Len() {
		key, v := g.d.Pair(g.changed, i)
		if !slices.Contains(m.reset[o.Subresource], strings.TrimPrefix(g.d.Str(key), "f:")) {
			g.stack = append(g.stack, key, v)
		}
	}
	return g.close(mark)
}

// covers reports whether the trie a, of the new document, has all members of b.
func (g *merger) covers(a jsondoc.Node, b jsondoc.Value) bool {
	for name, v := range b.Members() {
		if name == "." {
			continue
		}
		below := g.d.Member(a, name)
		if below.Kind() == jsondoc.Absent || isMember(v) && !isMember(jsondoc.Value{Doc: g.d, Node: below}) || !g.covers(below, v) {
			return false
		}
	}
	return true
}
