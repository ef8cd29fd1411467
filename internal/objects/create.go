package objects

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/apply"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file creates objects.

// maxGenerated is how many names are tried for an object that asks for one.
const maxGenerated = 8

// Create stores a new object, d. The document becomes the object as it is stored; it remains the
// caller's.
func (v *Verbs) Create(ctx context.Context, c Caller, ref Ref, d *jsondoc.Doc, o *meta.WriteOptions) (out Outcome, err error) {
	w, err := v.begin(ctx, c, ref)
	if err != nil {
		return out, err
	}
	defer func() { w.end(&out, err) }()
	return w.insert(d, o, (*apply.Manager).Update)
}

// insert stores a new object. If track is nil, its managedFields are complete.
func (w *write) insert(d *jsondoc.Doc, o *meta.WriteOptions, track tracker) (Outcome, error) {
	rev, view, err := w.insertDoc(d, o, track)
	if err != nil {
		return Outcome{}, err
	}
	out := wrote(Created, d, rev, view)
	out.pooled = false
	return out, nil
}

// insertDoc is insert; it returns the revision, and the view that the cache was given.
func (w *write) insertDoc(d *jsondoc.Doc, o *meta.WriteOptions, track tracker) (rev int64, view *meta.View, err error) {
	obj := meta.Object{Doc: d}
	// The namespace of the path counts; the body must have the same or none.
	if err := w.ref.CheckNamespace(obj); err != nil {
		return 0, nil, err
	}
	// The cache is opened before the write, so that watchers get all changes after it.
	if err := w.res.Ready(w.ctx); err != nil {
		return 0, nil, StoreError(err)
	}
	// Clients cannot choose the members of the metadata that the server sets.
	w.Warn(meta.WipeCreate(obj)...)
	if track != nil {
		m, err := managerOf(w.ref.Version)
		if err != nil {
			return 0, nil, err
		}
		if err := track(m, nil, d, w.manager(o, nil)); err != nil {
			return 0, nil, err
		}
	}
	// A claim is confirmed when the object is stored, and given back if it is not.
	var claimed claim
	// Admission and validation run once. If a generated name exists, only the name changes.
	base, found, err := w.prepareCreate(d, o, &claimed)
	if err != nil {
		claimed.end(err)
		return 0, nil, err
	}
	// Only the store knows whether a name is in use: another server may have created the object
	// just now.
	for try := 1; ; try++ {
		rev, view, err := w.store(d, o, track != nil, found)
		claimed.end(err)
		if err == nil {
			return rev, view, nil
		}
		if !errors.Is(err, store.ErrExists) {
			return 0, nil, StoreError(err)
		}
		if base == "" || try == maxGenerated {
			return 0, nil, w.exists(strings.Clone(obj.Name()), obj.GenerateName() != "")
		}
		// The next name needs a claim of its own: addresses are reserved for an object by its name.
		w.ref.generateName(obj, base)
		if err := w.claim(&claimed, d, nil, o.DryRun); err != nil {
			return 0, nil, err
		}
	}
}

// prepareCreate makes a new object fit to be stored, or refuses it. It returns the base of its
// generated name, "" if the object has a name, and the results of validation. The addresses, ports
// and the like that the object needs are added to claimed.
func (w *write) prepareCreate(d *jsondoc.Doc, o *meta.WriteOptions, claimed *claim) (base string, found validated, err error) {
	obj := meta.Object{Doc: d}
	if err := w.ref.checkTerminating(obj); err != nil {
		return "", found, err
	}
	// Admission runs before the server fills in the metadata, as upstream. Its steps may set a name.
	r := w.admit(admission.Create, o.DryRun)
	r.Name, r.New, r.Named, r.Write = strings.Clone(obj.Name()), d, w.ref.Name != "", o
	if err := w.chain.Mutate(w.ctx, r); err != nil {
		return "", found, err
	}
	// A step must not move the object to another namespace.
	if r.Mutated() {
		if err := w.ref.CheckNamespace(obj); err != nil {
			return "", found, err
		}
		w.Warn(meta.DedupOwners(obj, afterMutation)...)
	}
	meta.FillCreate(obj, time.Now())
	// Fields such as the labels of a Job's pods depend on the name.
	if obj.Name() == "" && obj.GenerateName() != "" {
		base = strings.Clone(obj.GenerateName())
		w.ref.generateName(obj, base)
	}
	w.ref.Version.PrepareCreate(d)
	// For example, the spec of a CertificateSigningRequest names its requester.
	if b, u := w.ref.behavior(), w.caller.user; b.CreateAs != nil {
		b.CreateAs(d, &kind.Requester{Name: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra})
	}
	// Validating steps see the generated name.
	r.Name = strings.Clone(obj.Name())
	if err := w.claim(claimed, d, nil, o.DryRun); err != nil {
		return "", found, err
	}
	if found, err = w.validate(d, nil, schema.Whole, w.ref.sentKind(d), schema.Kept{}, o); err != nil {
		return "", found, err
	}
	return base, found, w.chain.Validate(w.ctx, r)
}

// generateName gives a new object a random name that starts with base.
func (r *Ref) generateName(obj meta.Object, base string) {
	obj.SetName(meta.GenerateName(base))
	if b := r.behavior(); b.Named != nil {
		b.Named(obj.Doc)
	}
}

// checkTerminating refuses new objects of a definition that is being deleted.
func (r *Ref) checkTerminating(obj meta.Object) error {
	// Updates and deletes go on, so that controllers can remove their finalizers.
	if !r.Kind.Terminating {
		return nil
	}
	return status.Forbidden(r.Kind.GroupResource(), strings.Clone(obj.Name()),
		errors.New("create not allowed while custom resource definition is terminating"))
}

// store writes a new object. One that is too large is tried once more without its managedFields, if
// they may be dropped. The revision of a dry run is 0.
func (w *write) store(d *jsondoc.Doc, o *meta.WriteOptions, mayDrop bool, found validated) (int64, *meta.View, error) {
	encoded, err := encode(w.ref.Version, d)
	if err != nil {
		return 0, nil, err
	}
	key := w.ref.Kind.Key(w.ref.Namespace, strings.Clone(meta.Object{Doc: d}.Name()))
	if o.DryRun {
		// A dry run writes nothing, so it has to read whether the name is in use.
		_, err := w.Store.Get(w.ctx, key)
		if err == nil {
			return 0, nil, store.ErrExists
		}
		// The name is free. The answer shows what would be read after the write.
		if errors.Is(err, store.ErrNotFound) {
			return 0, nil, w.ref.asStored(d, encoded)
		}
		return 0, nil, err
	}
	// Upstream finds this in the storage layer, so it is a plain error (500).
	if v, err := strconv.ParseUint(meta.Object{Doc: d}.ResourceVersion(), 10, 64); err == nil && v != 0 {
		return 0, nil, status.Plain500("resourceVersion should not be set on objects to be created")
	}
	if err := w.grow(int64(len(key)) + w.res.Memory(encoded)); err != nil {
		return 0, nil, err
	}
	// The check of the namespace has asked the store for its revision, which is in the cache now.
	upTo := int64(0)
	if !w.ref.Kind.Namespaced {
		upTo = -1
	}
	if err := w.checkStorage(upTo); err != nil {
		return 0, nil, err
	}
	rev, err := w.Store.Create(w.ctx, key, encoded)
	// managedFields may be as large as the object. It is better to lose them than to refuse the object.
	if mayDrop && errors.Is(err, store.ErrTooLarge) {
		d.Remove("metadata", "managedFields")
		if encoded, err = encode(w.ref.Version, d); err == nil {
			rev, err = w.Store.Create(w.ctx, key, encoded)
		}
	}
	if err != nil {
		return 0, nil, err
	}
	// The cache learns of the object at once: the client's next read must see it.
	view, err := w.handOver(key, d, encoded, rev, &known{validated: found})
	return rev, view, err
}

// asStored makes the object of a dry run in another version than the stored one what a read would
// return, with the defaults of the stored version.
func (r *Ref) asStored(d *jsondoc.Doc, encoded []byte) error {
	if !r.behavior().FollowsSchema() || r.Version.IsStorage {
		return nil
	}
	// Load sets a resource version, which an object of a dry run does not have.
	sent := strings.Clone(meta.Object{Doc: d}.ResourceVersion())
	err := r.Version.Load(d, encoded, 0)
	if d.Remove("metadata", "resourceVersion"); sent != "" {
		meta.Object{Doc: d}.SetResourceVersion(sent)
	}
	return err
}

// exists returns the error for a name that is in use. generated is set if the object also has a
// generateName.
func (w *write) exists(name string, generated bool) error {
	// The live object may be about to go: clients should wait and try again.
	e := status.AlreadyExists(w.ref.Kind.GroupResource(), name)
	if generated {
		e = status.GenerateNameConflict(w.ref.Kind.GroupResource(), name)
	}
	item, err := w.Store.Get(w.ctx, w.ref.Kind.Key(w.ref.Namespace, name))
	if err != nil {
		return e
	}
	d := jsondoc.Get()
	defer d.Release()
	if w.ref.Version.Load(d, item.Value, item.Rev) == nil && (meta.Object{Doc: d}).DeletionTimestamp() != "" {
		e.Message = "object is being deleted: " + e.Message
	}
	return e
}
