package declared

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// This file keeps the values of preserved fields in an annotation of the result, and restores them
// on the way back.
//
// A field is kept only if the way back gives another value for it. A field of list items is kept
// with a hash of the item that the way back gives, so that it returns to the same item after others
// came or went. A kept value is restored only if the object then converts to the one that is being
// converted, or to the same as without the value. Otherwise somebody has changed the object in the
// other version, and the change wins. Clients can write the annotation, too, so a kept value is restored
// only if the object has no error by the schema of its version that it lacks without the value.

// annotationPrefix, followed by the name of a version, is the annotation with the fields that are
// preserved for that version.
const annotationPrefix = "conversion.keelson.io/preserved."

// maxKept is the greatest length of the annotation, in bytes. Kubernetes allows 256 KiB for all
// annotations of an object.
const maxKept = 128 << 10

// maxKeptDepth is the number of levels of the annotation. A value at the limit of JSON decoders would be beyond it in its place, and in the
// answer of the webhook, which then has no object at all.
const maxKeptDepth = 1000

// maxRetries bounds the work of restoring fields one by one, in bytes of objects.
const maxRetries = 16 << 20

// keptField is a preserved field in the annotation.
type keptField struct {
	Field string `json:"field"`
	// Value is the value. It is nil if the field is absent.
	Value json.RawMessage `json:"value,omitempty"`
	// Of has a hash of the item to which the value belongs, if the field is one of list items.
	Of string `json:"of,omitempty"`
}

// keep adds the annotation with the preserved fields that the way back loses to a result.
func (w *way) keep(ctx context.Context, source *jsondoc.Doc, result []byte) ([]byte, error) {
	back, err := w.returned(ctx, result)
	if err != nil {
		return nil, fmt.Errorf("preserved fields: the way back: %w", err)
	}
	defer back.Release()
	var kept []keptField
	for _, p := range w.preserve {
		kept = w.appendLost(ctx, kept, p, source.Root(), back.Root())
	}
	if len(kept) == 0 {
		return result, nil
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return nil, err
	}
	if len(text) > maxKept {
		return nil, fmt.Errorf("the preserved fields take %d bytes, want at most %d: declare large fields under drop", len(text), maxKept)
	}
	if depth(text) > maxKeptDepth {
		return nil, fmt.Errorf("the preserved fields have %d levels, want at most %d: declare deep fields under drop", depth(text), maxKeptDepth)
	}
	return annotated(ctx, result, annotationPrefix+w.source.name, string(text))
}

// returned converts a result back, without preserved fields, and reads it.
func (w *way) returned(ctx context.Context, result []byte) (*jsondoc.Doc, error) {
	d := jsondoc.Get()
	defer d.Release()
	if _, err := w.result.program.DecodeConverted(d, result); err != nil {
		return nil, err
	}
	text, err := w.back().plain(ctx, d)
	if err != nil {
		return nil, err
	}
	out := jsondoc.Get()
	if _, err := w.source.program.DecodeConverted(out, text); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// appendLost appends the values of a field that differ between an object and its round trip.
func (w *way) appendLost(ctx context.Context, kept []keptField, p path, was, is jsondoc.Value) []keptField {
	list, rest := p.cut()
	if len(list) == 0 {
		return appendValue(kept, p, "", valueAt(was, p), valueAt(is, p))
	}
	a, b := valueAt(was, list[:len(list)-1]), valueAt(is, list[:len(list)-1])
	for i, item := range a.Items() {
		if i >= b.Len() {
			break // the list itself is lost, not a field of its items
		}
		if was, is := valueAt(item, rest), valueAt(b.Item(i), rest); !jsondoc.Equal(was, is) {
			kept = appendValue(kept, p, hash(ctx, b.Item(i), w.preservedIn(list)), was, is)
		}
	}
	return kept
}

// appendValue appends a value, if the round trip has another one.
func appendValue(kept []keptField, p path, of string, was, is jsondoc.Value) []keptField {
	if jsondoc.Equal(was, is) {
		return kept
	}
	out := keptField{Field: p.String(), Of: of}
	if was.Exists() {
		out.Value = was.AppendJSON(nil)
	}
	return append(kept, out)
}

// valueAt returns the value at a path without [*].
func valueAt(v jsondoc.Value, p path) jsondoc.Value {
	for _, e := range p {
		v = selected(v, e)
	}
	return v
}

// preservedIn returns the preserved fields of the items of a list, from the item.
func (d *direction) preservedIn(list path) (out []path) {
	for _, p := range d.preserve {
		if of, rest := p.cut(); of.equal(list) {
			out = append(out, rest)
		}
	}
	return out
}

// hash returns a text by which an item is recognized, whatever its preserved fields are.
func hash(ctx context.Context, item jsondoc.Value, preserved []path) string {
	mem := getWork(ctx)
	defer mem.release()
	n := mem.new(item)
	for _, p := range preserved {
		mem.detach(n, p)
	}
	sum := sha256.Sum256(n.appendJSON(nil))
	return hex.EncodeToString(sum[:9])
}

// annotated adds an annotation to an object.
func annotated(ctx context.Context, object []byte, name, value string) ([]byte, error) {
	mem := getWork(ctx)
	defer mem.release()
	root, err := mem.parse(object)
	if err != nil {
		return nil, err
	}
	if err := mem.attach(root, path{{name: "metadata"}, {name: "annotations"}, {name: name}}, mem.text(value)); err != nil {
		return nil, err
	}
	return root.appendJSON(nil), nil
}

// restore puts the kept values into a result, as far as they agree with the source and are valid there. It ignores the others.
func (w *way) restore(ctx context.Context, source *jsondoc.Doc, text string, result []byte) ([]byte, error) {
	var kept []keptField
	if len(text) > maxKept || depth([]byte(text)) > maxKeptDepth || json.Unmarshal([]byte(text), &kept) != nil {
		return result, nil
	}
	back := w.back()
	var allowed []keptField
	for _, k := range kept {
		for _, p := range back.preserve {
			if p.String() == k.Field {
				allowed = append(allowed, k)
				break
			}
		}
	}
	if len(allowed) == 0 {
		return result, nil
	}
	result, err := w.pruned(result)
	if err != nil {
		return nil, err
	}
	want, err := w.seen(ctx, result)
	if err != nil {
		return nil, err
	}
	exact := w.unannotated(ctx, source)
	try := func(to []byte, fields []keptField) ([]byte, bool) {
		next, err := back.put(ctx, to, fields)
		if err != nil {
			return nil, false
		}
		if next, err = w.pruned(next); err != nil {
			return nil, false
		}
		got, err := w.seen(ctx, next)
		return next, err == nil && (bytes.Equal(got, want) || bytes.Equal(got, exact)) && w.result.accepts(ctx, next, to)
	}
	if next, ok := try(result, allowed); ok || ctx.Err() != nil {
		return next, ctx.Err()
	}
	// One change should not keep the other fields from returning. A field is tried with all its items
	// at once, and only as long as the work is small.
	for i, p := range back.preserve {
		if i*len(result) > maxRetries {
			break
		}
		var fields []keptField
		for _, k := range allowed {
			if k.Field == p.String() {
				fields = append(fields, k)
			}
		}
		if next, ok := try(result, fields); ok && len(fields) > 0 {
			result = next
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// depth returns the number of levels of a JSON text.
func depth(text []byte) int {
	deepest, level, inString := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			level++
			deepest = max(deepest, level)
		case c == ']' || c == '}':
			level--
		}
	}
	return deepest
}

// pruned returns a result as its reader sees it: hashes of items are those of pruned items.
func (w *way) pruned(result []byte) ([]byte, error) {
	d := jsondoc.Get()
	defer d.Release()
	if _, err := w.result.program.DecodeConverted(d, result); err != nil {
		return nil, err
	}
	return d.AppendJSON(nil, d.Root().Node), nil
}

// accepts reports whether an object has no error that the same object had not before a change. Readers get it without defaults, and an update
// adds them: it must be valid in both forms.
func (v *version) accepts(ctx context.Context, object, before []byte) bool {
	for _, decode := range []decoding{v.program.DecodeConverted, v.program.Decode} {
		errs := v.errors(ctx, decode, object)
		if len(errs) == 0 {
			continue
		}
		for message := range v.errors(ctx, decode, before) {
			delete(errs, message)
		}
		if len(errs) > 0 {
			return false
		}
	}
	return true
}

// decoding is one of the methods of schema.Program that read an object.
type decoding func(*jsondoc.Doc, []byte) (schema.Found, error)

// errors returns the errors of an object by the schema of v.
func (v *version) errors(ctx context.Context, decode decoding, object []byte) map[string]bool {
	d := jsondoc.Get()
	defer d.Release()
	if _, err := decode(d, object); err != nil {
		return map[string]bool{err.Error(): true}
	}
	out := map[string]bool{}
	for _, err := range v.program.Validate(ctx, d, nil, schema.Whole).Errors {
		out[err.Error()] = true
	}
	return out
}

// detachKept removes the annotations with the preserved fields of both versions of a direction.
func (w *way) detachKept(mem *work, root *node) {
	for _, v := range []*version{w.result, w.source} {
		mem.detach(root, path{{name: "metadata"}, {name: "annotations"}, {name: annotationPrefix + v.name}})
	}
}

// unannotated returns the source without the annotations that the way back does not give it.
func (w *way) unannotated(ctx context.Context, source *jsondoc.Doc) []byte {
	mem := getWork(ctx)
	defer mem.release()
	root := mem.new(source.Root())
	w.detachKept(mem, root)
	return root.appendJSON(nil)
}

// seen returns a result as the source's version sees it.
func (w *way) seen(ctx context.Context, result []byte) ([]byte, error) {
	d, err := w.returned(ctx, result)
	if err != nil {
		return nil, err
	}
	defer d.Release()
	return d.AppendJSON(nil, d.Root().Node), nil
}

// put writes kept values into an object.
func (d *direction) put(ctx context.Context, object []byte, fields []keptField) ([]byte, error) {
	mem := getWork(ctx)
	defer mem.release()
	source, err := mem.parse(object)
	if err != nil {
		return nil, err
	}
	root := mem.new(source.value)
	lists := map[string]map[string][]*node{} // the items of a list by hash
	used := map[string]int{}                 // the number of items that got a field, by hash and field
	for _, k := range fields {
		p, err := parsePath(k.Field)
		if err != nil {
			return nil, err
		}
		list, rest := p.cut()
		at := root
		if len(list) > 0 {
			items := lists[list.String()]
			if items == nil {
				if items, err = d.itemsOf(mem, root, source.value, list); err != nil {
					return nil, err
				}
				lists[list.String()] = items
			}
			key := k.Of + " " + k.Field
			if used[key] >= len(items[k.Of]) {
				continue // the item is gone
			}
			at = items[k.Of][used[key]]
			used[key]++
		}
		if k.Value == nil {
			mem.detach(at, rest)
			continue
		}
		v, err := mem.parse(k.Value)
		if err != nil {
			return nil, err
		}
		if err := mem.attach(at, rest, v); err != nil {
			return nil, err
		}
	}
	return root.appendJSON(nil), nil
}

// itemsOf returns the items of a list by their hashes, which are those of the object before any
// field was put into it.
func (d *direction) itemsOf(mem *work, root *node, object jsondoc.Value, list path) (map[string][]*node, error) {
	before, preserved := valueAt(object, list[:len(list)-1]), d.preservedIn(list)
	out := map[string][]*node{}
	i := 0
	err := mem.items(root, list, func(n *node) error {
		of := hash(mem.ctx, before.Item(i), preserved)
		out[of] = append(out[of], n)
		i++
		return nil
	})
	return out, err
}
