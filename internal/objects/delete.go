package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file deletes objects.

// Delete deletes an object. One with finalizers, or with a grace period, gets a deletionTimestamp.
func (v *Verbs) Delete(ctx context.Context, c Caller, ref Ref, o *meta.DeleteOptions) (Outcome, error) {
	return v.delete(ctx, c, ref, &deletion{options: o})
}

// delete deletes an object, or marks it as being deleted if it has finalizers or a grace period.
func (v *Verbs) delete(ctx context.Context, c Caller, ref Ref, op *deletion) (out Outcome, err error) {
	w, err := v.begin(ctx, c, ref)
	if err != nil {
		return out, err
	}
	defer func() { w.end(&out, err) }()
	return w.retry(op, op.options.DryRun)
}

// DeleteCollection deletes the objects that each passes on, of the kind that ref names. Objects that
// are gone meanwhile are no error.
func (v *Verbs) DeleteCollection(ctx context.Context, c Caller, ref Ref, o *meta.DeleteOptions, each func(func(*cache.Object) error) error) (warnings []string, err error) {
	op := &deletion{options: o, unnamed: true}
	err = each(func(obj *cache.Object) error {
		if ctx.Err() != nil {
			return StoreError(ctx.Err())
		}
		// The collection may span namespaces, so the key names the object.
		ref.Namespace, ref.Name = SplitKey(ref.Kind, obj.Key)
		out, err := v.delete(ctx, c, ref, op)
		out.Release()
		warnings = append(warnings, out.Warnings...)
		if err != nil && status.From(err).Reason != metav1.StatusReasonNotFound {
			return err
		}
		return nil
	})
	return warnings, err
}

// SplitKey returns the namespace and the name in the store key of an object.
func SplitKey(k *kind.Kind, key string) (namespace, name string) {
	name = key[len(k.StoragePrefix)+1:]
	if k.Namespaced {
		namespace, name, _ = strings.Cut(name, "/")
	}
	return namespace, name
}

// deletion is the operation that deletes an object.
type deletion struct {
	options  *meta.DeleteOptions
	admitted bool // it is a part of another verb, which admission has seen
	unnamed  bool // admission sees no name: the request is for a collection
}

// missing implements operation.
func (*deletion) missing(w *write) (Outcome, error) { return Outcome{}, w.ref.notFound() }

// attempt implements operation.
func (op *deletion) attempt(w *write, obj *cache.Object) (out Outcome, err error) {
	// d becomes the object as it is after the deletion, old is what admission sees.
	d, old := jsondoc.Get(), jsondoc.Get()
	defer func() {
		if out.Doc == nil {
			d.Release()
		}
	}()
	defer old.Release()
	if err := w.ref.Version.LoadToRemove(d, obj.Raw, obj.Rev); err != nil {
		return out, err
	}
	if err := w.ref.Version.LoadToRemove(old, obj.Raw, obj.Rev); err != nil {
		return out, err
	}
	m, o, b := meta.Object{Doc: d}, op.options, w.ref.behavior()
	if err := w.ref.preconditions(o, m, obj); err != nil {
		return out, err
	}
	if err := op.admit(w, d, old); err != nil {
		return out, err
	}
	// A second delete may shorten the grace period or set finalizers, but not start again.
	wasDeleting := m.DeletionTimestamp() != ""
	hooked := false
	if b.Delete != nil && !wasDeleting {
		hooked = b.Delete(d, time.Now().UTC().Format(time.RFC3339))
	}
	// A namespace stays until its controller has deleted the objects in it and removed this finalizer.
	held := w.ref.Kind.IsNamespaces() && d.Root().At("spec", "finalizers").Len() > 0
	// If anything has to happen before the object goes, the object is marked instead of removed.
	before := slices.Collect(m.Finalizers())
	after := w.ref.finalizers(before, o, wasDeleting)
	grace, shorter := w.ref.grace(o, m, wasDeleting)
	if len(after) == 0 && !hooked && !held && grace == 0 {
		return w.erase(o, m, obj, b.Grace != nil && (!wasDeleting || shorter))
	}
	// Kinds with rules of their own for deletion get a deletionTimestamp without a grace period; another delete adds one.
	unmarked := wasDeleting && !held && !m.Meta().Get("deletionGracePeriodSeconds").Exists()
	if !b.FollowsSchema() && wasDeleting && slices.Equal(before, after) && !hooked && !shorter && !unmarked {
		return out, errUnchanged
	}
	if unmarked {
		m.SetDeletionGracePeriodSeconds(0)
	}
	if grace > 0 && (!wasDeleting || shorter) {
		setGrace(m, grace)
	}
	return w.mark(o, m, obj, before, after, wasDeleting)
}

// admit passes the deletion of an object through the steps of admission. d and old are the object.
func (op *deletion) admit(w *write, d, old *jsondoc.Doc) error {
	if op.admitted {
		return nil
	}
	o, b := op.options, w.ref.behavior()
	r := w.admit(admission.Delete, o.DryRun)
	if op.unnamed {
		r.Name = ""
	}
	r.Old, r.Delete = old, o
	if b.Grace != nil && (meta.Object{Doc: d}).DeletionTimestamp() == "" {
		settled := *o // upstream's steps see the period that the kind makes of the one that was asked for
		settled.GracePeriodSeconds = new(b.Grace(d, o.GracePeriodSeconds))
		r.Delete = &settled
	}
	if err := w.chain.Mutate(w.ctx, r); err != nil {
		return err
	}
	return w.chain.Validate(w.ctx, r)
}

// grace returns the grace period of an object in seconds: that of its kind, or the rest for an
// object that is being deleted already. shorter reports that the period is shorter than before.
func (r *Ref) grace(o *meta.DeleteOptions, m meta.Object, wasDeleting bool) (seconds int64, shorter bool) {
	b := r.behavior()
	if b.Grace == nil {
		return 0, false
	}
	asked := o.GracePeriodSeconds
	if asked != nil && *asked < 0 { // as upstream reads it
		// 0 would delete at once, which a negative number does not ask for.
		asked = new(int64(1))
	}
	if !wasDeleting {
		return b.Grace(m.Doc, asked), false
	}
	seconds = m.Meta().Get("deletionGracePeriodSeconds").Int()
	if asked != nil && *asked < seconds {
		return *asked, true
	}
	return seconds, false
}

// setGrace sets the grace period, in seconds, and the deletionTimestamp, which is its end. A period
// that the object has already is shortened: it began when the object was deleted first. It does not
// end in the past: what is left of it is 1 s then, or nothing if the new period is 0.
func setGrace(m meta.Object, seconds int64) {
	now := time.Now()
	// The first delete: the period begins now.
	end := now.Add(time.Duration(seconds) * time.Second)
	if was, err := time.Parse(time.RFC3339, m.DeletionTimestamp()); err == nil {
		had := m.Meta().Get("deletionGracePeriodSeconds").Int()
		if end = was.Add(time.Duration(seconds-had) * time.Second); end.Before(now) {
			end, seconds = now, min(seconds, 1)
		}
	}
	m.SetDeletionTimestamp(end)
	m.SetDeletionGracePeriodSeconds(seconds)
}

// erase removes the object from the store. If graceful is true, it first stores the object with a
// grace period of 0: watchers of kinds with grace periods learn of each deletion by a deletionTimestamp.
func (w *write) erase(o *meta.DeleteOptions, m meta.Object, obj *cache.Object, graceful bool) (Outcome, error) {
	out := Outcome{Result: Deleted, Revision: obj.Rev, UID: strings.Clone(m.UID())}
	if graceful {
		wasDeleting := m.DeletionTimestamp() != ""
		if setGrace(m, 0); !wasDeleting {
			markDeleted(m)
		}
	}
	if !o.DryRun {
		rev, err := obj.Rev, error(nil)
		if graceful {
			// If the server ends between the two writes, the object stays with a grace period of 0: the next
			// delete removes it.
			if rev, err = w.storeMarked(m.Doc, obj); err != nil {
				return Outcome{}, err
			}
		}
		if out.Revision, err = w.Store.Delete(w.ctx, obj.Key, rev); err != nil {
			return Outcome{}, writeError(err)
		}
		w.erased(obj.Key, out.Revision)
		w.release(m.Doc)
	}
	if w.ref.behavior().DeleteReturnsObject {
		m.SetResourceVersion(strconv.FormatInt(out.Revision, 10))
		// Clients get the object as it was when it was removed.
		out.Doc, out.pooled = m.Doc, true
	}
	return out, nil
}

// storeMarked stores d, which has got a deletionTimestamp, in the place of obj.
func (w *write) storeMarked(d *jsondoc.Doc, obj *cache.Object) (rev int64, err error) {
	// Only the encoded object shows whether anything changes.
	encoded, err := w.ref.Version.Encode(d, nil)
	if err != nil {
		return 0, err
	}
	if err := w.checkStorage(w.conflict); err != nil {
		return 0, err
	}
	if rev, err = w.Store.Update(w.ctx, obj.Key, encoded, obj.Rev); err != nil {
		return 0, writeError(err)
	}
	return rev, nil
}

// markDeleted sets the fields of metadata for an object that is being deleted.
func markDeleted(m meta.Object) {
	if m.DeletionTimestamp() == "" {
		m.SetDeletionTimestamp(time.Now())
	}
	if !m.Meta().Get("deletionGracePeriodSeconds").Exists() {
		m.SetDeletionGracePeriodSeconds(0)
	}
	// The deletion is a change of the desired state: controllers compare the generation.
	if g := m.Generation(); g > 0 {
		m.SetGeneration(g + 1)
	}
}

// mark stores the object as one that is being deleted. One that is so already is written only if that makes a difference: in the form
// that this version of it has, which need not have every field.
func (w *write) mark(o *meta.DeleteOptions, m meta.Object, obj *cache.Object, before, after []string, wasDeleting bool) (Outcome, error) {
	d := m.Doc
	if !slices.Equal(before, after) {
		// The texts may be in the memory of the document that is changed.
		for i := range after {
			after[i] = strings.Clone(after[i])
		}
		m.SetFinalizers(after)
	}
	if !wasDeleting {
		// Kinds with rules of their own for deletion are marked by those alone.
		if w.ref.behavior().Delete == nil {
			markDeleted(m)
		} else if m.DeletionTimestamp() == "" {
			m.SetDeletionTimestamp(time.Now())
		}
	}
	encoded, err := w.ref.Version.Encode(d, nil)
	if err != nil {
		return Outcome{}, err
	}
	if wasDeleting && bytes.Equal(encoded, obj.Raw) {
		return Outcome{}, errUnchanged
	}
	rev := obj.Rev
	if !o.DryRun {
		if err := w.checkStorage(w.conflict); err != nil {
			return Outcome{}, err
		}
		if rev, err = w.Store.Update(w.ctx, obj.Key, encoded, obj.Rev); err != nil {
			return Outcome{}, writeError(err)
		}
		// Roles that are being deleted decide no more when the client gets its answer.
		w.awaitDecisions(rev)
	}
	out := wrote(Terminating, d, rev, nil)
	out.UID = strings.Clone(m.UID())
	return out, nil
}

// preconditions refuses to delete another object than the one meant.
func (r *Ref) preconditions(o *meta.DeleteOptions, m meta.Object, obj *cache.Object) error {
	have := strconv.FormatInt(obj.Rev, 10)
	if r.behavior().Delete != nil {
		// Upstream checks these kinds in their own code, with other texts.
		return r.strictPreconditions(o, m.UID(), have)
	}
	// Upstream names the kind here, where other errors name the resource.
	gr := kschema.GroupResource{Group: r.Kind.Storage.Kind.Group, Resource: r.Kind.Name}
	if o.UID != nil && *o.UID != m.UID() {
		return status.Conflict(gr, r.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). "+
			"The object might have been deleted and then recreated", *o.UID, m.UID()))
	}
	if o.ResourceVersion != nil && *o.ResourceVersion != have {
		return status.Conflict(gr, r.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). "+
			"The object might have been modified", *o.ResourceVersion, have))
	}
	return nil
}

// strictPreconditions does the same in the words of kinds that have rules of their own for deletion.
func (r *Ref) strictPreconditions(o *meta.DeleteOptions, uid, version string) error {
	// Upstream has one text for namespaces and one for definitions.
	failed := "precondition failed"
	if r.Kind.IsNamespaces() {
		failed = "Precondition failed"
	}
	if o.UID != nil && *o.UID != uid {
		return status.Conflict(r.Kind.GroupResource(), r.Name, fmt.Errorf("%s: UID in precondition: %s, UID in object meta: %s", failed, *o.UID, uid))
	}
	if o.ResourceVersion != nil && *o.ResourceVersion != version {
		return status.Conflict(r.Kind.GroupResource(), r.Name,
			fmt.Errorf("%s: ResourceVersion in precondition: %s, ResourceVersion in object meta: %s", failed, *o.ResourceVersion, version))
	}
	return nil
}

// finalizers returns those of an object after its deletion was asked for.
func (r *Ref) finalizers(before []string, o *meta.DeleteOptions, wasDeleting bool) []string {
	b := r.behavior()
	if b.NoDependents || b.IgnoresFirstPolicy && !wasDeleting {
		return before
	}
	if r.Kind.IsNamespaces() && !wasDeleting && o.OrphanDependents != nil && !*o.OrphanDependents {
		// An old client asks for the deletion of dependents: for a namespace, this is the foreground.
		foreground := *o
		foreground.OrphanDependents, foreground.PropagationPolicy = nil, string(metav1.DeletePropagationForeground)
		o = &foreground
	}
	return finalizersFor(before, o, b.DefaultOrphan)
}

// finalizersFor returns the finalizers of an object after a delete with some options. The
// finalizers foregroundDeletion and orphan ask the garbage collector to deal with the dependents.
// Without a choice in the options the finalizers stay as they are, or the dependents stay if that
// is the default of the kind.
func finalizersFor(have []string, o *meta.DeleteOptions, orphans bool) []string {
	// The two finalizers for which the garbage collector is responsible, and whether they are to be set.
	want := map[string]bool{
		metav1.FinalizerOrphanDependents: slices.Contains(have, metav1.FinalizerOrphanDependents),
		metav1.FinalizerDeleteDependents: slices.Contains(have, metav1.FinalizerDeleteDependents),
	}
	switch {
	case o.PropagationPolicy != "":
		want[metav1.FinalizerOrphanDependents] = o.PropagationPolicy == string(metav1.DeletePropagationOrphan)
		want[metav1.FinalizerDeleteDependents] = o.PropagationPolicy == string(metav1.DeletePropagationForeground)
	case o.OrphanDependents != nil:
		want[metav1.FinalizerOrphanDependents] = *o.OrphanDependents
		want[metav1.FinalizerDeleteDependents] = false
	// A delete without a policy keeps the finalizers that the object has.
	case orphans && !want[metav1.FinalizerDeleteDependents]:
		want[metav1.FinalizerOrphanDependents] = true
	}
	var out []string
	for _, f := range have {
		// The order of the other finalizers stays the same.
		keep, special := want[f]
		if !special || keep {
			out = append(out, f)
			delete(want, f)
		}
	}
	for _, f := range []string{metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents} {
		if want[f] {
			out = append(out, f)
		}
	}
	return out
}

// DeleteUnreadable deletes an object that cannot be read any more, without preconditions, finalizers
// or admission (KEP-3926). It refuses to delete an object that can be read.
func (v *Verbs) DeleteUnreadable(ctx context.Context, c Caller, ref Ref, dryRun bool) (out Outcome, err error) {
	w, err := v.begin(ctx, c, ref)
	if err != nil {
		return out, err
	}
	defer func() { w.end(&out, err) }()
	if err := w.ref.CheckPathName(); err != nil {
		return out, err
	}
	// The current state of the store counts, not what the cache remembers.
	var l live
	if _, err := w.renew(&l); err != nil {
		return out, err
	}
	if l.obj == nil {
		return out, w.ref.notFound()
	}
	d := jsondoc.Get()
	defer d.Release()
	if w.ref.Version.Load(d, l.obj.Raw, l.obj.Rev) == nil {
		return out, status.Conflict(w.ref.Kind.GroupResource(), w.ref.Name, errors.New("StorageError: invalid object, Code: 4, Key: /registry/"+l.obj.Key+
			", ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage"))
	}
	rev := l.obj.Rev
	if !dryRun {
		if rev, err = w.Store.Delete(w.ctx, l.obj.Key, l.obj.Rev); err != nil {
			return out, StoreError(err)
		}
		w.erased(l.obj.Key, rev)
	}
	return Outcome{Result: Deleted, Revision: rev}, nil
}
