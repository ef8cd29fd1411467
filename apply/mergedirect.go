package apply

import (
	"slices"
	"strings"

	"github.com/keelson-io/keelson/doc"
)

// This file is the fast way of Apply, for patches that add and change fields
// which nobody else owns, or that are taken by force, and give up none: most
// patches there are. Conflicts, removals and whatever is not plain go the way
// of SMD.

// applyDirect is apply; ok is false if it could not.
func (m *Manager) applyDirect(live, config *doc.Doc, o *Options) (out []byte, ok bool) {
	entries, ok := m.entriesOf(managedFieldsOf(live))
	if !ok || live != nil && (len(entries) == 0 || live.Root().Get("apiVersion").Text() != string(m.version)) {
		return nil, false
	}
	if o.Manager == kubectlName && (hasLastApplied(m.liveValue(live)) || hasLastApplied(node{config.Root()})) {
		return nil, false
	}
	d := doc.Get()
	defer d.Release()
	if live != nil {
		d.Reset(live.Shapes())
	}
	g := merger{walker: newWalker(d)}
	root, ok := g.object(m, live, config)
	if !ok {
		return nil, false
	}
	fields, ok := g.configFields(m, config, o)
	if !ok {
		return nil, false
	}
	d.SetRoot(root)
	me := m.newEntry(o, fields)
	me.operation, me.fields.Doc = "Apply", d
	if entries, ok = g.give(m, entries, me, o); !ok {
		return nil, false
	}
	g.write(entries)
	return d.Root().AppendJSON(nil), true
}

// merger merges into the document of its walker.
type merger struct {
	*walker
	changed doc.Node // what merging added or modified
}

// object merges the whole object.
func (g *merger) object(m *Manager, live, config *doc.Doc) (doc.Node, bool) {
	t := m.rootType()
	if t == nil || t.atomic {
		return doc.Node{}, false
	}
	var before doc.Value
	if live == nil {
		n, ok := g.all(m.own.root, config.Root())
		if !ok {
			return n, false
		}
		g.changed = n
		return g.d.Import(config.Root()), true
	}
	before = live.Root()
	if before.Kind() != doc.Object {
		return doc.Node{}, false
	}
	n, changed, ok := g.members(t, before, config.Root(), true)
	g.changed = changed
	return n, ok
}

// members merges two objects. The managedFields of metadata are left out.
func (g *merger) members(t *mapType, live, config doc.Value, root bool) (n, changed doc.Node, ok bool) {
	var merged, differ []doc.Node
	at := 0
	for name := range memberNames(live, config) {
		var mt *typ
		if mt, at = t.field(name, at); mt == nil {
			return n, changed, false
		}
		lv, cv := live.Get(name), config.Get(name)
		var v, c doc.Node
		if root && name == "metadata" && lv.Kind() == doc.Object && cv.Kind() == doc.Object {
			v, c, ok = g.metadata(mt.object, lv, cv)
		} else {
			v, c, ok = g.merge(mt, lv, cv)
		}
		if !ok {
			return n, changed, false
		}
		merged = append(merged, g.d.NewString(name), v)
		if c.Kind() != doc.Absent {
			differ = append(differ, g.field(name), c)
		}
	}
	if len(differ) > 0 {
		changed = g.d.NewMap(differ)
	}
	return g.d.NewMap(merged), changed, true
}

// metadata merges the metadata of objects.
func (g *merger) metadata(t *mapType, live, config doc.Value) (n, changed doc.Node, ok bool) {
	if live.Get("managedFields").Exists() {
		live = withoutMember(live, "managedFields")
	}
	return g.members(t, live, config, false)
}

// withoutMember is a map of the members of an object but for one.
func withoutMember(v doc.Value, except string) doc.Value {
	d := new(doc.Doc)
	d.Reset(v.Doc.Shapes())
	var pairs []doc.Node
	for name, member := range v.Members() {
		if name != except {
			pairs = append(pairs, d.NewString(name), d.Import(member))
		}
	}
	return doc.Value{Doc: d, Node: d.NewMap(pairs)}
}

// merge merges two values, one of which may be missing.
func (g *merger) merge(t *typ, live, config doc.Value) (n, changed doc.Node, ok bool) {
	switch lk, ck := live.Kind(), config.Kind(); {
	case ck == doc.Absent:
		return g.d.Import(live), changed, g.valid(t, live)
	case ck == doc.Null || lk == doc.Null:
		return n, changed, false
	case lk == doc.Absent:
		changed, ok = g.all(t, config)
		return g.d.Import(config), changed, ok
	case lk == doc.Object && ck == doc.Object && t.object != nil && !t.object.atomic:
		return g.members(t.object, live, config, false)
	case lk == doc.Array && ck == doc.Array && t.list != nil && t.list.granul:
		return g.items(t.list, live, config)
	case (lk == doc.Object) != (ck == doc.Object) || (lk == doc.Array) != (ck == doc.Array):
		return n, changed, false
	}
	if !g.valid(t, live) || !g.valid(t, config) {
		return n, changed, false
	}
	if doc.Equal(live, config) {
		return g.d.Import(live), changed, true
	}
	if equalNumbers(live, config) {
		return n, changed, false // equal, and yet not the same
	}
	return g.d.Import(config), g.leaf, true
}

// items merges two lists of the same items in the same order.
func (g *merger) items(l *listType, live, config doc.Value) (n, changed doc.Node, ok bool) {
	if live.Len() != config.Len() {
		return n, changed, false
	}
	keys, ok := g.itemKeys(l, live)
	if !ok {
		return n, changed, false
	}
	merged := make([]doc.Node, len(keys))
	var differ []doc.Node
	for i, key := range keys {
		same, ok := g.item(l, config.Item(i))
		if !ok || g.d.Str(same) != g.d.Str(key) {
			return n, changed, false
		}
		var c doc.Node
		if merged[i], c, ok = g.merge(l.elem, live.Item(i), config.Item(i)); !ok {
			return n, changed, false
		}
		if c.Kind() != doc.Absent {
			differ = append(differ, key, c)
		}
	}
	if len(differ) > 0 {
		g.d.SortPairs(differ)
		changed = g.d.NewMap(differ)
	}
	return g.d.NewArray(merged), changed, true
}

// configFields is the trie of the fields that a config names; Absent if it
// names none that anybody owns.
func (g *merger) configFields(m *Manager, config *doc.Doc, o *Options) (doc.Node, bool) {
	reset := m.reset[o.Subresource]
	mark := len(g.stack)
	at := 0
	for name, v := range config.Root().Members() {
		var t *typ
		if t, at = m.rootType().field(name, at); t == nil {
			return doc.Node{}, false
		}
		n, ok := g.fields(t, v, !m.rootType().declares(name))
		if !ok {
			return doc.Node{}, false
		}
		if name == "metadata" {
			n = g.stripMetadata(n)
		}
		if name != "apiVersion" && name != "kind" && !slices.Contains(reset, name) && n.Kind() != doc.Absent {
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

// fields is the trie of the fields that a value names: its leaves, and what
// stands in maps and lists of no fixed members. member says that the value is
// itself one of the latter.
func (g *merger) fields(t *typ, v doc.Value, member bool) (doc.Node, bool) {
	mark := len(g.stack)
	switch k := v.Kind(); {
	case k == doc.Null:
		return doc.Node{}, false
	case k == doc.Array && t.list != nil && t.list.granul:
		if member {
			g.stack = append(g.stack, g.dot, g.leaf)
		}
		for _, item := range v.Items() {
			key, ok := g.item(t.list, item)
			if !ok {
				return doc.Node{}, false
			}
			n, ok := g.fields(t.list.elem, item, true)
			if !ok {
				return doc.Node{}, false
			}
			g.stack = append(g.stack, key, n)
		}
		return g.closeFields(mark, member)
	case k == doc.Object && t.object != nil && !t.object.atomic && v.Len() > 0:
		if member {
			g.stack = append(g.stack, g.dot, g.leaf)
		}
		at := 0
		for name, inner := range v.Members() {
			var mt *typ
			if mt, at = t.object.field(name, at); mt == nil {
				return doc.Node{}, false
			}
			n, ok := g.fields(mt, inner, !t.object.declares(name))
			if !ok {
				return doc.Node{}, false
			}
			if n.Kind() != doc.Absent {
				g.stack = append(g.stack, g.field(name), n)
			}
		}
		return g.closeFields(mark, member)
	}
	return g.leaf, g.valid(t, v)
}

// closeFields is close for the trie of a value; one that is a member and has
// nothing below is a leaf.
func (g *merger) closeFields(mark int, member bool) (doc.Node, bool) {
	if member && len(g.stack) == mark+2 {
		g.stack = g.stack[:mark]
		return g.leaf, true
	}
	return g.closeSorted(mark)
}

// give makes me one of the entries if nobody else has what changes, or it may
// be taken from them, and me gives up nothing.
func (g *merger) give(m *Manager, entries []entry, me entry, o *Options) ([]entry, bool) {
	changed := g.withoutReset(m, o)
	out := make([]entry, 0, len(entries)+1)
	had := entry{}
	for _, e := range entries {
		if e.is(&me) {
			had = e
			continue
		}
		if changed.Kind() != doc.Absent && g.meets(e.fields, changed) {
			if !o.Force {
				return nil, false
			}
			e.fields = doc.Value{Doc: g.d, Node: g.subtract(e.fields, changed)}
		}
		if e.fields.Exists() {
			out = append(out, e)
		}
	}
	if had.fields.Exists() && !g.covers(me.fields.Node, had.fields) {
		return nil, false
	}
	if g.changed.Kind() == doc.Absent {
		me.time, me.seconds = had.time, had.seconds
	}
	if me.fields.Exists() {
		out = append(out, me)
	}
	return out, true
}

// withoutReset is what changed but for the reset fields.
func (g *merger) withoutReset(m *Manager, o *Options) doc.Node {
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
func (g *merger) covers(a doc.Node, b doc.Value) bool {
	for name, v := range b.Members() {
		if name == "." {
			continue
		}
		below := g.d.Member(a, name)
		if below.Kind() == doc.Absent || isMember(v) && !isMember(doc.Value{Doc: g.d, Node: below}) || !g.covers(below, v) {
			return false
		}
	}
	return true
}
