package apply

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file is the fast way of Update: it walks both documents to find the difference, and changes
// the tries of managedFields as they stand in the live document. Cases with special rules (see
// walk.go) are left to SMD.

// updateDirect is Update; it reports whether it could. If it could not, it has
// changed nothing but the arena of new.
func (m *Manager) updateDirect(live, new *jsondoc.Doc, o *Options) bool {
	if live == nil {
		return m.createDirect(new, o)
	}
	if m.nested(o) {
		return false
	}
	was := managedFieldsOf(live)
	if sent := managedFieldsOf(new); o.Subresource == "" && sent.Exists() && !jsondoc.Equal(sent, was) {
		return false
	}
	entries, ok := m.entriesOf(was)
	if !ok || live.Root().Get("apiVersion").Text() != string(m.version) {
		return false
	}
	if len(entries) == 0 {
		if uidOf(live) == "" || was.Exists() {
			return false
		}
		new.Remove("metadata", "managedFields")
		return true
	}
	w := newWalker(new)
	defer w.release()
	f, ok := w.compareObjects(m, live, o)
	if !ok {
		return false
	}
	if f.isEmpty() {
		new.Set(new.Import(was), "metadata", "managedFields")
		return true
	}
	entries, ok = m.handOver(w, entries, f, o)
	if !ok {
		return false
	}
	w.write(entries)
	return true
}

// createDirect gives a new object's fields to the one who creates it.
func (m *Manager) createDirect(new *jsondoc.Doc, o *Options) bool {
	if managedFieldsOf(new).Exists() || new.Root().Kind() != jsondoc.Object {
		return false
	}
	w := newWalker(new)
	defer w.release()
	if m.empty != nil {
		return m.createFrom(w, o)
	}
	reset := m.reset[o.Subresource]
	mark := len(w.stack)
	at := 0
	for name, v := range new.Root().Members() {
		var t *typ
		if t, at = m.rootType().field(name, at); t == nil {
			return false
		}
		n, ok := w.all(t, v)
		if !ok {
			return false
		}
		if name == "metadata" {
			n = w.stripMetadata(n)
		}
		if name != "apiVersion" && name != "kind" && !slices.Contains(reset, name) && n.Kind() != jsondoc.Absent {
			w.stack = append(w.stack, w.field(name), n)
		}
	}
	fields := w.close(mark)
	if fields.Kind() == jsondoc.Absent {
		return true
	}
	w.write([]entry{m.newEntry(o, fields)})
	return true
}

// createFrom is createDirect where some members are always there.
func (m *Manager) createFrom(w *walker, o *Options) bool {
	f, ok := w.compareObjects(m, m.empty, o)
	if !ok {
		return false
	}
	entries, ok := m.handOver(w, nil, f, o)
	if !ok {
		return false
	}
	w.write(entries)
	return true
}

// nested reports whether an endpoint resets a part of a member only, which the
// fast ways do not.
func (m *Manager) nested(o *Options) bool {
	return slices.ContainsFunc(m.reset[o.Subresource], func(name string) bool { return strings.Contains(name, ".") })
}

// rootType returns the type of the object's own members.
func (m *Manager) rootType() *mapType { return m.own.root.object }

// compareObjects compares the live object with the new one as far as the
// endpoint may change it.
func (w *walker) compareObjects(m *Manager, live *jsondoc.Doc, o *Options) (diff, bool) {
	t := m.rootType()
	reset := m.reset[o.Subresource]
	before, after := live.Root(), w.d.Root()
	if before.Kind() != jsondoc.Object || after.Kind() != jsondoc.Object || t == nil || t.atomic {
		return diff{}, false
	}
	c := collector{w: w}
	at := 0
	for name, v := range jsondoc.Both(before, after) {
		var mt *typ
		if mt, at = t.field(name, at); mt == nil {
			return diff{}, false
		}
		lv, nv := v[0], v[1]
		if o.KnownValid && name != "metadata" && jsondoc.Equal(lv, nv) {
			continue
		}
		if slices.Contains(reset, name) {
			if lv.Exists() && !w.valid(mt, lv) || nv.Exists() && !w.valid(mt, nv) {
				return diff{}, false
			}
			continue
		}
		if name == "metadata" && lv.Kind() == jsondoc.Object && nv.Kind() == jsondoc.Object {
			if !c.metadata(mt, lv, nv) {
				return diff{}, false
			}
			continue
		}
		if !c.member(mt, name, lv, nv) {
			return diff{}, false
		}
	}
	return c.close(false)
}

// metadata compares the metadata of two objects but for managedFields.
func (c *collector) metadata(t *typ, live, new jsondoc.Value) bool {
	inner := collector{w: c.w}
	at := 0
	for name, v := range jsondoc.Both(live, new) {
		if name == "managedFields" {
			continue
		}
		var mt *typ
		if mt, at = t.object.field(name, at); mt == nil || !inner.member(mt, name, v[0], v[1]) {
			return false
		}
	}
	f, ok := inner.close(false)
	if f.changed.Kind() != jsondoc.Absent {
		c.changed = append(c.changed, c.w.field("metadata"), f.changed)
	}
	if f.removed.Kind() != jsondoc.Absent {
		c.removed = append(c.removed, c.w.field("metadata"), f.removed)
	}
	return ok
}

// stripMetadata returns the trie of metadata without what nobody owns.
func (w *walker) stripMetadata(n jsondoc.Node) jsondoc.Node {
	mark := len(w.stack)
	for i := range n.Len() {
		key, v := w.d.Pair(n, i)
		name := w.d.Str(key)
		if name == "." {
			continue
		}
		if _, ok := slices.BinarySearch(unownedMetadata, strings.TrimPrefix(name, "f:")); !ok {
			w.stack = append(w.stack, key, v)
		}
	}
	return w.close(mark)
}

// strip returns a trie of changes without what nobody owns.
func (w *walker) strip(n jsondoc.Node) jsondoc.Node {
	mark := len(w.stack)
	for i := range n.Len() {
		key, v := w.d.Pair(n, i)
		switch w.d.Str(key) {
		case "f:apiVersion", "f:kind":
			continue
		case "f:metadata":
			if v = w.stripMetadata(v); v.Kind() == jsondoc.Absent {
				continue
			}
		}
		w.stack = append(w.stack, key, v)
	}
	return w.close(mark)
}

// entry is an entry of managedFields: its texts, and its fields in one of the
// two documents.
type entry struct {
	manager, operation, subresource, time string
	seconds                               int64
	fields                                jsondoc.Value
}

// entriesOf reads the entries of the live object; ok is false if any of them is
// not one of this version that makes sense.
func (m *Manager) entriesOf(v jsondoc.Value) ([]entry, bool) {
	if !v.Exists() {
		return nil, true
	}
	if v.Kind() != jsondoc.Array || v.Len() >= maxUpdaters {
		return nil, false
	}
	out := make([]entry, 0, v.Len()+1)
	for _, item := range v.Items() {
		e := entry{
			manager: item.Get("manager").Text(), operation: item.Get("operation").Text(),
			subresource: item.Get("subresource").Text(), time: item.Get("time").Text(),
			fields: item.Get("fieldsV1"),
		}
		plain := (e.operation == "Apply" || e.operation == "Update") && e.fields.Kind() == jsondoc.Object &&
			item.Get("apiVersion").Text() == string(m.version) && item.Get("fieldsType").Text() == "FieldsV1"
		if !plain || !reconciled(e.fields, m.own.root, false) {
			return nil, false
		}
		if e.time != "" {
			t, err := time.Parse(time.RFC3339, e.time)
			if err != nil || !strings.HasSuffix(e.time, "Z") || len(e.time) != len("2006-01-02T15:04:05Z") {
				return nil, false
			}
			e.seconds = t.Unix()
		}
		if slices.ContainsFunc(out, func(have entry) bool { return have.is(&e) }) {
			return nil, false
		}
		out = append(out, e)
	}
	return out, true
}

// is reports whether two entries are of the same manager.
func (e *entry) is(o *entry) bool {
	return e.manager == o.manager && e.operation == o.operation && e.subresource == o.subresource
}

// newEntry returns an entry of the writer with some fields, at the time of the write.
func (m *Manager) newEntry(o *Options, fields jsondoc.Node) entry {
	now := o.now()
	return entry{
		manager: cmp.Or(o.Manager, "unknown"), operation: "Update", subresource: o.Subresource,
		time: now.Format(time.RFC3339), seconds: now.Unix(), fields: jsondoc.Value{Node: fields},
	}
}

// handOver makes the writer the owner of the changed fields, and removes these and the removed
// fields from the entries of all others.
func (m *Manager) handOver(w *walker, entries []entry, f diff, o *Options) ([]entry, bool) {
	out := entries[:0]
	for _, e := range entries {
		fields := e.fields
		for _, gone := range []jsondoc.Node{f.changed, f.removed} {
			if gone.Kind() != jsondoc.Absent && fields.Exists() && w.meets(fields, gone) {
				fields = jsondoc.Value{Doc: w.d, Node: w.subtract(fields, gone)}
			}
		}
		if e.fields = fields; fields.Exists() {
			out = append(out, e)
		}
	}
	mine := w.strip(f.changed)
	if mine.Kind() == jsondoc.Absent {
		return out, true
	}
	me := m.newEntry(o, mine)
	me.fields.Doc = w.d
	for i := range out {
		if out[i].is(&me) {
			me.fields.Node = w.union(out[i].fields, mine)
			out[i] = me
			return out, true
		}
	}
	return append(out, me), true
}

// write makes entries the managedFields of the new document.
func (w *walker) write(entries []entry) {
	if len(entries) == 0 {
		w.d.Remove("metadata", "managedFields")
		return
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(strings.Compare(a.operation, b.operation), cmp.Compare(a.seconds, b.seconds),
			strings.Compare(a.manager, b.manager), strings.Compare(a.subresource, b.subresource))
	})
	version := w.d.NewString(w.d.Root().Get("apiVersion").Text())
	kind := w.d.NewString("FieldsV1")
	items := make([]jsondoc.Node, len(entries))
	for i := range entries {
		e := &entries[i]
		fields := e.fields.Node
		if e.fields.Doc != nil && e.fields.Doc != w.d {
			fields = w.d.Import(e.fields)
		}
		pairs := make([]jsondoc.Node, 0, 14)
		text := func(key, s string) { pairs = append(pairs, w.d.NewString(key), w.d.NewString(s)) }
		pairs = append(pairs, w.d.NewString("apiVersion"), version, w.d.NewString("fieldsType"), kind, w.d.NewString("fieldsV1"), fields)
		if e.manager != "" {
			text("manager", e.manager)
		}
		text("operation", e.operation)
		if e.subresource != "" {
			text("subresource", e.subresource)
		}
		if e.time != "" {
			text("time", e.time)
		}
		items[i] = w.d.NewMap(pairs)
	}
	w.d.Set(w.d.NewArray(items), "metadata", "managedFields")
}
