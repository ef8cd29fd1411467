package objects

import (
	"context"

	"github.com/keelson-io/keelson/internal/apply"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// This file replaces objects, and their parts that are subresources.

// Update replaces an object by d, which is what the body b decodes to. It may change d.
func (v *Verbs) Update(ctx context.Context, c Caller, ref Ref, d *jsondoc.Doc, b *Body, o *meta.WriteOptions) (out Outcome, err error) {
	w, err := v.begin(ctx, c, ref)
	if err != nil {
		return out, err
	}
	defer func() { w.end(&out, err) }()
	// The name of the path is the name of the object: the document must not name another one.
	obj := meta.Object{Doc: d}
	// A body without a namespace belongs to the namespace of the path.
	if err := w.ref.checkIdentity(obj); err != nil {
		return out, err
	}
	// Duplicate owners are dropped with a warning, as upstream does to stay compatible.
	w.Warn(meta.DedupOwners(obj, "")...)
	op := &change{
		options:   o,
		scope:     w.ref.scope(),
		versioned: true,
		track:     (*apply.Manager).Update,
		build: func(w *write, next, _ *jsondoc.Doc, _ *cache.Object) (built, error) {
			// Each attempt starts from the text: the attempt before has changed its document.
			if _, err := w.ref.Version.Decode(next, b.JSON); err != nil {
				return built{}, err
			}
			w.ref.keepReset(next, b.JSON)
			n := meta.Object{Doc: next}
			if b.Revision != "" {
				n.SetResourceVersion(b.Revision)
			}
			return built{}, w.ref.CheckNamespace(n)
		},
	}
	if w.ref.behavior().CreateOnUpdate && w.ref.Subresource == "" {
		op.create = func(w *write) (Outcome, error) { return w.updateNew(d, o) }
	}
	return w.retry(op, o.DryRun)
}

// updateNew creates the object that an update describes and that does not exist.
func (w *write) updateNew(d *jsondoc.Doc, o *meta.WriteOptions) (Outcome, error) {
	// A resource version in the object means that the client wants to replace an existing object.
	if rv := (meta.Object{Doc: d}).ResourceVersion(); rv != "" && rv != "0" {
		return Outcome{}, w.ref.notFound()
	}
	// Zero means any version, which a new object does not have.
	d.Remove("metadata", "resourceVersion")
	// The request was authorized as an update.
	if err := w.mayCreate(); err != nil {
		return Outcome{}, err
	}
	return w.insert(d, o, (*apply.Manager).Update)
}

// scope returns the part of the object that a write to the subresource may change.
func (r *Ref) scope() schema.Scope {
	// All kinds have the same meaning of status. Other parts are declared by the kind.
	if r.Subresource == "status" {
		return schema.Status
	}
	if sub := r.behavior().Subresource(r.Subresource); sub != nil {
		return sub.Scope
	}
	return schema.Whole
}
