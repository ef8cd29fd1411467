package declared

import (
	"context"
	"fmt"
	"strings"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file converts objects.

// MaxObject is the greatest length of an object, before and after its conversion, in bytes.
const MaxObject = 16 << 20

// way is one direction of a spoke.
type way struct {
	*spoke
	source, result *version
	*direction
	forward bool // to the hub
}

// back returns the opposite direction.
func (w *way) back() *way {
	out := &way{spoke: w.spoke, source: w.result, result: w.source, forward: !w.forward, direction: &w.spoke.fromHub}
	if out.forward {
		out.direction = &w.spoke.toHub
	}
	return out
}

// Versions returns the names of the versions, the hub first.
func (c *Converter) Versions() []string {
	out := []string{c.hub.name}
	for _, s := range c.spokes {
		out = append(out, s.name)
	}
	return out
}

// Name returns the name of the definition.
func (c *Converter) Name() string { return c.name }

// Convert converts objects, as JSON, to the version that apiVersion names. Objects that are in it
// already stay as they are. The results are not pruned: reading them with the schema of their version
// does that. If an object cannot be converted, there is no result.
func (c *Converter) Convert(ctx context.Context, apiVersion string, objects [][]byte) ([][]byte, error) {
	out := make([][]byte, len(objects))
	for i, object := range objects {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		converted, err := c.one(ctx, apiVersion, object)
		if err != nil && len(objects) > 1 {
			err = fmt.Errorf("object %d: %w", i, err)
		}
		if err != nil {
			return nil, err
		}
		out[i] = converted
	}
	return out, nil
}

// one converts an object.
func (c *Converter) one(ctx context.Context, apiVersion string, object []byte) ([]byte, error) {
	if len(object) > MaxObject {
		return nil, fmt.Errorf("conversion to %s: the object has %d bytes, want at most %d", apiVersion, len(object), MaxObject)
	}
	from, kind := heading(object)
	if kind != c.kind {
		return nil, fmt.Errorf("conversion to %s: got kind %q, want %s", apiVersion, kind, c.kind)
	}
	ways, err := c.route(from, apiVersion)
	if err != nil {
		return nil, err
	}
	for _, w := range ways {
		if object, err = w.convert(ctx, object); err != nil {
			return nil, fmt.Errorf("conversion of %s from %s to %s: %w", c.kind, w.source.name, w.result.name, err)
		}
	}
	return object, nil
}

// heading returns the apiVersion and kind of an object, "" if they are missing. It reads no further
// than both.
func heading(object []byte) (apiVersion, kind string) {
	d := jsondoc.Get()
	defer d.Release()
	s := d.Scan(object)
	if k, err := s.Kind(); err != nil || k != jsondoc.Object || s.ObjectStart() != nil {
		return "", ""
	}
	for first := true; ; first = false {
		key, more, err := s.Key(first)
		if err != nil || !more || apiVersion != "" && kind != "" {
			return apiVersion, kind
		}
		name := d.Str(key)
		if k, err := s.Kind(); err != nil || k != jsondoc.String || name != "apiVersion" && name != "kind" {
			if s.Skip() != nil {
				return apiVersion, kind
			}
			continue
		}
		value, err := s.String()
		if err != nil {
			return apiVersion, kind
		}
		if name == "kind" {
			kind = strings.Clone(d.Str(value))
		} else {
			apiVersion = strings.Clone(d.Str(value))
		}
	}
}

// route returns the directions that lead from one version to another one.
func (c *Converter) route(from, to string) ([]*way, error) {
	for _, name := range []string{from, to} {
		group, _, _ := strings.Cut(name, "/")
		if group != c.group || c.spoke(name) == nil && name != c.hub.apiVersion {
			return nil, fmt.Errorf("conversion from %q to %q: want versions of %s: %s", from, to, c.group, strings.Join(c.Versions(), ", "))
		}
	}
	if from == to {
		return nil, nil
	}
	var out []*way
	if s := c.spoke(from); s != nil {
		out = append(out, &way{s, s.version, c.hub, &s.toHub, true})
	}
	if s := c.spoke(to); s != nil {
		out = append(out, &way{s, c.hub, s.version, &s.fromHub, false})
	}
	return out, nil
}

// spoke returns the spoke with an apiVersion, nil if there is none.
func (c *Converter) spoke(apiVersion string) *spoke {
	for _, s := range c.spokes {
		if s.apiVersion == apiVersion {
			return s
		}
	}
	return nil
}

// convert converts an object in one direction, with the fields that are preserved.
func (w *way) convert(ctx context.Context, object []byte) ([]byte, error) {
	source := jsondoc.Get()
	defer source.Release()
	if _, err := w.source.program.DecodeConverted(source, object); err != nil {
		return nil, err
	}
	kept := source.Root().At("metadata", "annotations").Get(annotationPrefix + w.result.name)
	result, err := w.plain(ctx, source)
	if err != nil {
		return nil, err
	}
	if kept.Kind() == jsondoc.String {
		if result, err = w.restore(ctx, source, kept.Text(), result); err != nil {
			return nil, err
		}
	}
	if len(w.preserve) > 0 {
		return w.keep(ctx, source, result)
	}
	return result, nil
}

// plain converts a document without its preserved fields.
func (w *way) plain(ctx context.Context, source *jsondoc.Doc) ([]byte, error) {
	mem := getWork(ctx)
	defer mem.release()
	root := mem.new(source.Root())
	if !mem.openObject(root) {
		return nil, fmt.Errorf("got %s, want an object", root.kind())
	}
	if err := w.run(ctx, mem, root, source); err != nil {
		return nil, err
	}
	if err := mem.attach(root, path{{name: "apiVersion"}}, mem.text(w.result.apiVersion)); err != nil {
		return nil, err
	}
	mem.b = root.appendJSON(mem.b[:0])
	if len(mem.b) > MaxObject {
		return nil, fmt.Errorf("the result has %d bytes, want at most %d", len(mem.b), MaxObject)
	}
	return append(make([]byte, 0, len(mem.b)), mem.b...), nil
}

// run runs the steps and the set entries.
func (w *way) run(ctx context.Context, mem *work, root *node, source *jsondoc.Doc) error {
	for i := range w.steps {
		s := w.steps[i]
		if !w.forward {
			s = w.steps[len(w.steps)-1-i]
		}
		if err := s.run(mem, root, w.forward); err != nil {
			return err
		}
	}
	if len(w.setters) > 0 {
		e := evaluation{ctx: ctx, self: source.Root(), vars: cel.Vars{"self": cel.FromDoc(source.Root(), w.source.self)}}
		for _, s := range w.setters {
			if err := s.run(mem, root, &e); err != nil {
				return err
			}
		}
	}
	// The result has no use for the fields that were preserved for it, and the source has all of its own fields.
	w.detachKept(mem, root)
	return nil
}
