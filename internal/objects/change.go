package objects

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/apply"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// This file changes live objects: what update, patch, apply and scale share.

// change is an operation that makes a new object of a live one.
type change struct {
	options *meta.WriteOptions
	scope   schema.Scope
	// build makes the new object, next, of the live one. It is called again when another writer has
	// changed the object meanwhile.
	build func(w *write, next, live *jsondoc.Doc, obj *cache.Object) (built, error)
	// track records in next who changed what. If nil, build has done so.
	track tracker
	// create creates the object if there is none. If nil, that is an error.
	create func(w *write) (Outcome, error)

	versioned bool // the new object must name the resource version that it replaces
	named     bool // likewise, but it names one unless the client removed it
	raw       bool // store what build makes as it is, without the rules of the kind and admission
}

// built has what build found out about the object that it made.
type built struct {
	warnings []string             // valid with an error, too
	grown    bool                 // a part of the object is new and lacks its defaults
	scale    *autoscalingv1.Scale // what the client wants, if the write is of a Scale
}

// tracker records in managedFields of next who made it of live. It is a method of [apply.Manager].
type tracker func(m *apply.Manager, live, next *jsondoc.Doc, o apply.Options) error

// change tries c until no other writer got in between.
func (v *Verbs) change(ctx context.Context, c Caller, ref Ref, op *change) (out Outcome, err error) {
	w, err := v.begin(ctx, c, ref)
	if err != nil {
		return out, err
	}
	defer func() { w.end(&out, err) }()
	return w.retry(op, op.options.DryRun)
}

// missing implements operation.
func (c *change) missing(w *write) (Outcome, error) {
	if c.create == nil {
		return Outcome{}, w.ref.notFound()
	}
	return c.create(w)
}

// attempt implements operation.
func (c *change) attempt(w *write, obj *cache.Object) (out Outcome, err error) {
	if w.caller.client != nil {
		if err := w.caller.client.Work(len(obj.Raw)); err != nil {
			return out, &refusal{err}
		}
	}
	old, next := jsondoc.Get(), jsondoc.Get()
	defer old.Release()
	defer func() {
		if out.Doc == nil {
			next.Release()
		}
	}()
	v := w.ref.Version
	if err := v.Load(old, obj.Raw, obj.Rev); err != nil {
		return out, err
	}
	// build makes the new object. All else is the same for updates, patches and applies.
	made, err := c.build(w, next, old, obj)
	w.Warn(made.warnings...)
	if err != nil {
		return out, err
	}
	k := known{before: obj.Known(v), grown: made.grown}
	p := pending{next: next, old: old, before: k.before, scale: made.scale}
	var claimed claim
	defer func() { claimed.end(err) }()
	if !c.raw {
		if err := w.checkUID(c, next, old, obj); err != nil {
			return out, err
		}
		// A wrong resource version is an error only if admission accepts the object.
		outdated := w.checkVersion(c, next, obj)
		if k.validated, err = w.prepareUpdate(c, &p, &claimed, outdated); err != nil {
			return out, err
		}
	}
	encoded, err := encode(v, next)
	if err != nil {
		return out, err
	}
	// The update removed the last finalizer of an object that is being deleted.
	if w.finished(next, old) {
		return w.finish(c, next, obj, &claimed)
	}
	// A write that changes nothing gets no revision, and watchers get no event.
	if bytes.Equal(encoded, obj.Raw) && !w.outdated(obj) {
		return out, errUnchanged
	}
	if c.options.DryRun {
		// The client gets what a read would return after the write.
		if !v.IsStorage {
			if err := v.Load(next, encoded, obj.Rev); err != nil {
				return out, err
			}
		}
		return wrote(Updated, next, obj.Rev, nil), nil
	}
	rev, view, err := w.storeUpdate(c, obj, next, encoded, &k)
	if err != nil {
		return out, writeError(err)
	}
	return wrote(Updated, next, rev, view), nil
}

// wrote returns the outcome of a write that left d in the store, or would have. The outcome frees d.
func wrote(r Result, d *jsondoc.Doc, rev int64, view *meta.View) Outcome {
	if view == nil && rev > 0 {
		meta.Object{Doc: d}.SetResourceVersion(strconv.FormatInt(rev, 10))
	}
	return Outcome{Result: r, Revision: rev, Doc: d, View: view, pooled: true}
}

// finish removes an object that nothing keeps from being deleted any more.
func (w *write) finish(c *change, next *jsondoc.Doc, obj *cache.Object, claimed *claim) (Outcome, error) {
	if !c.options.DryRun {
		rev, err := w.Store.Delete(w.ctx, obj.Key, obj.Rev)
		if err != nil {
			return Outcome{}, writeError(err)
		}
		w.erased(obj.Key, rev)
		claimed.end(nil)
		w.release(next)
	}
	return wrote(Deleted, next, obj.Rev, nil), nil
}

// storeUpdate writes an object; one that is too large is tried once more
// without its managedFields, unless they are what the change is about.
func (w *write) storeUpdate(c *change, obj *cache.Object, next *jsondoc.Doc, encoded []byte, k *known) (int64, *meta.View, error) {
	if err := w.grow(w.res.Memory(encoded) - w.res.MemoryOf(obj)); err != nil {
		return 0, nil, err
	}
	if err := w.checkStorage(w.conflict); err != nil {
		return 0, nil, err
	}
	rev, err := w.Store.Update(w.ctx, obj.Key, encoded, obj.Rev)
	if c.track != nil && errors.Is(err, store.ErrTooLarge) {
		// managedFields may be as large as the object: it is better to lose them than to refuse the write.
		next.Remove("metadata", "managedFields")
		if encoded, err = encode(w.ref.Version, next); err == nil {
			rev, err = w.Store.Update(w.ctx, obj.Key, encoded, obj.Rev)
		}
	}
	if err != nil {
		return 0, nil, err
	}
	view, err := w.handOver(obj.Key, next, encoded, rev, k)
	return rev, view, err
}

// pending is an update that is not stored yet.
type pending struct {
	next, old *jsondoc.Doc
	before    *meta.View           // of the stored object; nil if it is not known
	scale     *autoscalingv1.Scale // that the client wants; nil if the write is of the object itself
}

// prepareUpdate makes p.next fit to be stored in place of p.old, or refuses it. The addresses, ports and the like that it needs are
// added to claimed. outdated is the result of [write.checkVersion]: clients get this error after those of admission.
func (w *write) prepareUpdate(c *change, p *pending, claimed *claim, outdated error) (validated, error) {
	v, next, old, before := w.ref.Version, p.next, p.old, p.before
	n, o := meta.Object{Doc: next}, meta.Object{Doc: old}
	if c.versioned { // patches are looked at when the owners of their fields are recorded
		w.Warn(meta.DedupOwners(n, "")...)
	}
	if c.track != nil { // of all that was sent, what this write ignores included
		// Ownership is computed from what was sent, before the server resets fields.
		m, err := managerOf(v)
		if err != nil {
			return validated{}, err
		}
		if err := c.track(m, old, next, w.manager(c.options, before)); err != nil {
			return validated{}, err
		}
	}
	if !c.versioned {
		w.Warn(meta.DedupOwners(n, afterMutation)...)
	}
	sent := w.ref.sentKind(next) // which may change below, if only a part is written
	r := w.admit(admission.Update, c.options.DryRun)
	r.New, r.Old, r.Write = next, old, c.options
	if p.scale != nil {
		form, err := w.showScale(r, p)
		if err != nil {
			return validated{}, err
		}
		defer form.release()
	}
	// The steps see what the client sent, also the members that this endpoint does not write, and without those of the metadata
	// that the client left out.
	if err := w.chain.Mutate(w.ctx, r); err != nil {
		return validated{}, err
	}
	if p.scale != nil {
		if err := w.takeScale(r, p); err != nil {
			return validated{}, err
		}
	}
	// Members of the metadata that the client left out keep their values. Only a delete sets or changes the deletionTimestamp.
	meta.FillSent(n, o, false)
	meta.KeepDeletion(n, o)
	if r.Mutated() {
		w.Warn(meta.DedupOwners(n, afterMutation)...)
	}
	// The members that this endpoint does not write get their old values.
	v.PrepareUpdate(next, old, c.scope)
	// Parts that did not change need not be validated again.
	kept := schema.Keep(next, old)
	if generation := o.Meta().Get("generation"); generation.Exists() && c.scope != schema.Status && w.ref.counts(!kept.Content, next, old) {
		n.SetGeneration(generation.Int() + 1)
	}
	// A repeated update by the same manager changes only times, also if a step sets again what the update leaves out: these do not
	// count as a change.
	apply.IgnoreTimestamps(old, next)
	if outdated != nil {
		return validated{}, outdated
	}
	if c.scope == schema.Whole {
		if err := w.claim(claimed, next, old, c.options.DryRun); err != nil {
			return validated{}, err
		}
	}
	// The live object is known valid, so that its unchanged parts are, too.
	if before != nil && before.KnownValid {
		kept = kept.After(uint64(before.Spent))
	}
	found, err := w.validate(next, old, c.scope, sent, kept, c.options)
	if err != nil {
		return validated{}, err
	}
	if p.scale != nil {
		if err := w.ref.showStoredScale(r, p); err != nil {
			return validated{}, err
		}
	}
	return found, w.chain.Validate(w.ctx, r)
}

// afterMutation is how a warning says when an owner was there twice.
const afterMutation = " after mutating admission happens"

// validated is what validation found out about an object that it accepted.
type validated struct {
	sound bool   // every check was made and nothing was forgiven
	spent uint64 // the cost of its rules, in CEL cost units
}

// validate checks an object. old is nil on create. sent is the kind in the body, kept has the parts
// that an update is known to leave unchanged.
func (w *write) validate(next, old *jsondoc.Doc, scope schema.Scope, sent kschema.GroupKind, kept schema.Kept, o *meta.WriteOptions) (validated, error) {
	result := w.ref.Version.ValidateUpdate(w.ctx, next, old, scope, kept)
	if w.caller.client != nil {
		w.caller.client.Validated(w.ref.Version, schema.Validated{New: next, Old: old, Scope: scope, Errors: result.Errors})
	}
	w.unused = result.UnusedMessages
	if len(w.unused) > 0 && w.MessagesUnused != nil {
		w.MessagesUnused(w.ref.Version, w.unused)
	}
	if len(result.Errors) > 0 {
		err := status.Invalid(sent, strings.Clone((meta.Object{Doc: next}).Name()), result.Errors)
		if o != nil && o.Explain != "" {
			w.reasons = w.ref.Version.Reasons(w.ctx, next, old, !o.ExplainOld)
		}
		return validated{}, err
	}
	if check := w.ref.behavior().CheckStored; check != nil && old != nil {
		errs, err := check(w.ctx, next, old, scope)
		if err != nil {
			return validated{}, StoreError(err)
		}
		if len(errs) > 0 {
			return validated{}, status.Invalid(sent, strings.Clone((meta.Object{Doc: next}).Name()), errs)
		}
	}
	if w.ref.behavior().WarnsOfFinalizers() {
		w.Warn(meta.Warnings(meta.Object{Doc: next}, meta.Object{Doc: old})...)
	}
	w.Warn(result.Warnings...)
	return validated{sound: result.KnownValid, spent: result.Spent}, nil
}

// sentKind returns the kind in the body of an object.
func (r *Ref) sentKind(d *jsondoc.Doc) kschema.GroupKind {
	gk := r.Kind.GroupKind()
	if r.Kind.Storage.Kind != r.Kind { // of which it is another form
		return r.Kind.Storage.Kind.GroupKind()
	}
	o := meta.Object{Doc: d}
	if o.Kind() != gk.Kind {
		gk.Kind = strings.Clone(o.Kind())
	}
	if gv, err := kschema.ParseGroupVersion(o.APIVersion()); err == nil && gv.Group != gk.Group {
		gk.Group = strings.Clone(gv.Group)
	}
	return gk
}

// counts reports whether an update makes a new generation. differs is set if the content has
// changed.
func (r *Ref) counts(differs bool, next, old *jsondoc.Doc) bool {
	if r.behavior().FixedGeneration {
		return false
	}
	return differs || r.countsAsContent(next, old)
}

// countsAsContent reports whether a member of the metadata differs that counts as content, which some kinds have.
func (r *Ref) countsAsContent(a, b *jsondoc.Doc) bool {
	name := r.behavior().GenerationMember
	if name == "" {
		return false
	}
	x, y := a.Root().At("metadata", name), b.Root().At("metadata", name)
	return x.Len()+y.Len() > 0 && !jsondoc.Equal(x, y)
}

// finished reports whether an update removed everything that kept an object from being deleted: it
// has no finalizers and no grace period any more.
func (w *write) finished(next, old *jsondoc.Doc) bool {
	if (meta.Object{Doc: old}).DeletionTimestamp() == "" {
		return false
	}
	for range (meta.Object{Doc: next}).Finalizers() {
		return false
	}
	if (meta.Object{Doc: old}).Meta().Get("deletionGracePeriodSeconds").Int() > 0 {
		return false // it lives on until somebody deletes it without
	}
	return !w.ref.Kind.IsNamespaces() || next.Root().At("spec", "finalizers").Len() == 0
}

// checkUID compares the uid that the new object has with that of the one it replaces.
func (w *write) checkUID(c *change, next, old *jsondoc.Doc, obj *cache.Object) error {
	if uid, have := (meta.Object{Doc: next}).UID(), (meta.Object{Doc: old}).UID(); c.versioned && uid != "" && uid != have {
		return status.Conflict(w.ref.Kind.GroupResource(), w.ref.Name, uidMismatch(obj.Key, uid, have, c.options.DryRun))
	}
	return nil
}

// checkVersion compares the resource version in the new object with that of the object that it
// replaces.
func (w *write) checkVersion(c *change, next *jsondoc.Doc, obj *cache.Object) error {
	switch rv := (meta.Object{Doc: next}).ResourceVersion(); {
	case rv == "" || rv == "0":
		if (c.versioned || c.named) && !w.ref.behavior().AllowsUnconditionalUpdate() {
			return w.ref.unversioned()
		}
	case rv != strconv.FormatInt(obj.Rev, 10):
		if _, err := strconv.ParseUint(rv, 10, 64); err != nil {
			return status.Plain500(err.Error())
		}
		return status.Conflict(w.ref.Kind.GroupResource(), w.ref.Name, errModified)
	}
	return nil
}

// uidMismatch returns the error for an object with another UID than the requested one.
func uidMismatch(key, sent, have string, dryRun bool) error {
	return preconditionFailed(key, "UID in precondition: "+sent+", UID in object meta: "+have, dryRun)
}

// preconditionFailed returns the error for an object that is not in the requested state. In a dry
// run the key has no etcd prefix, as in upstream.
func preconditionFailed(key, text string, dryRun bool) error {
	prefix := "/registry/"
	if dryRun {
		prefix = "/"
	}
	return errors.New("StorageError: invalid object, Code: 4, Key: " + prefix + key +
		", ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: " + text)
}

// unversioned returns the error for an update without a resource version.
func (r *Ref) unversioned() error {
	gr := r.Kind.GroupResource()
	return status.Invalid(kschema.GroupKind{Group: gr.Group, Kind: gr.Resource}, r.Name, field.ErrorList{
		field.Invalid(field.NewPath("metadata").Child("resourceVersion"), 0, "must be specified for an update"),
	})
}

var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")
