package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/status"
	"github.com/keelson-io/keelson/store"
)

// This file deletes single objects.

func (q *request) delete() error {
	var err error
	if q.accept, err = q.negotiate(); err != nil {
		return err
	}
	o, err := q.deleteOptions()
	if err != nil {
		return err
	}
	if o.Unreadable {
		return q.removeUnreadable(o.DryRun)
	}
	done, err := q.remove(o)
	if err != nil {
		return err
	}
	return done.send(q)
}

// deleteOptions reads the options of the body, or else of the query.
func (q *request) deleteOptions() (*meta.DeleteOptions, error) {
	o, err := q.readDeleteOptions()
	if b := q.kind.Builtin; err == nil && b != nil && b.OrphanWarning != "" && o.PropagationPolicy == "" && o.OrphanDependents == nil {
		q.warn(b.OrphanWarning)
	}
	return o, err
}

func (q *request) readDeleteOptions() (*meta.DeleteOptions, error) {
	if bodyless(q.r) {
		return meta.ParseDeleteOptions(nil, "", q.query)
	}
	media := contentType(q.r)
	if media != typeJSON && media != typeYAML && media != typeProtobuf {
		return nil, unsupported(typeJSON, typeYAML, typeProtobuf)
	}
	body, err := q.readBody()
	if err != nil {
		return nil, err
	}
	if media == typeProtobuf && len(body) > 0 {
		if body, err = deleteOptionsFromProtobuf(body); err != nil {
			return nil, status.BadRequest("%v", err)
		}
		media = typeJSON
	}
	q.recordOptions(media, body)
	return meta.ParseDeleteOptions(body, media, q.query)
}

// removal is what came of a deletion: an object that waits for its
// finalizers, or one that is gone.
type removal struct {
	waiting []byte // JSON of the object; of one that is gone if its kind wants that
	uid     string
	orphan  bool // the body asked for orphanDependents=false, which answers 202
}

// send answers a deletion.
func (r *removal) send(q *request) error {
	if r.waiting != nil {
		code := http.StatusOK
		if r.orphan {
			code = http.StatusAccepted
		}
		return q.sendObject(code, r.waiting)
	}
	return q.sendDeleted(statusOK(q.name, q.kind.Group, q.kind.Plural, r.uid))
}

// sendDeleted answers that an object is gone.
func (q *request) sendDeleted(st *metav1.Status) error {
	if q.accept.form == formTable { // which this is not made, but what tables are to show is looked at
		if _, err := q.newTable(); err != nil {
			return err
		}
	}
	body, err := json.Marshal(st)
	if err != nil {
		return err
	}
	q.send(codeDeleted, body)
	return nil
}

// remove deletes the request's object, again and again until nobody got in
// between.
func (q *request) remove(o *meta.DeleteOptions) (*removal, error) {
	if err := q.checkPathName(); err != nil {
		return nil, err
	}
	l, err := q.start(o.DryRun)
	if err != nil {
		return nil, err
	}
	for {
		if l.obj == nil {
			changed, err := q.renew(&l)
			switch {
			case err != nil:
				return nil, err
			case changed:
				continue
			}
			return nil, status.NotFound(q.kind.GroupResource(), q.name)
		}
		done, err := q.tryRemove(o, l.obj)
		var overtaken *store.Changed
		switch {
		case err == nil:
			return done, nil
		case errors.As(err, &overtaken):
			l.overtaken(overtaken)
			if q.ctx.Err() != nil {
				return nil, storeError(q.ctx.Err())
			}
			continue
		}
		if open := (*unsettled)(nil); errors.As(err, &open) {
			return nil, open.err
		}
		changed, renewErr := q.renew(&l)
		switch {
		case renewErr != nil:
			return nil, renewErr
		case changed:
			continue
		case errors.Is(err, errUnchanged):
			view, err := l.obj.View(q.v)
			if err != nil {
				return nil, err
			}
			return &removal{waiting: view.JSON, orphan: o.OrphanDependents != nil && !*o.OrphanDependents}, nil
		}
		return nil, err
	}
}

// tryRemove deletes one state of the object, or marks it as being deleted.
func (q *request) tryRemove(o *meta.DeleteOptions, obj *cache.Object) (*removal, error) {
	d, old := doc.Get(), doc.Get()
	defer d.Release()
	defer old.Release()
	if err := q.v.Load(d, obj.Raw, obj.Rev); err != nil {
		return nil, err
	}
	if err := q.v.Load(old, obj.Raw, obj.Rev); err != nil {
		return nil, err
	}
	m := meta.Object{Doc: d}
	if err := q.preconditions(o, m, obj); err != nil {
		return nil, err
	}
	r := &admission.Request{Operation: admission.Delete, Version: q.v, Namespace: q.namespace, Name: q.name, Old: old, User: q.user, DryRun: o.DryRun,
		Delete: o, Client: q}
	if !q.admitted {
		if err := q.h.admission.Mutate(q.ctx, r); err != nil {
			return nil, err
		}
		if err := q.h.admission.Validate(q.ctx, r); err != nil {
			return nil, err
		}
	}
	wasDeleting := m.DeletionTimestamp() != ""
	hooked := false
	if b := q.kind.Builtin; b != nil && b.Delete != nil && !wasDeleting {
		hooked = b.Delete(d, time.Now().UTC().Format(time.RFC3339))
	}
	held := q.kind.IsNamespaces() && d.Root().At("spec", "finalizers").Len() > 0
	before := slices.Collect(m.Finalizers())
	after := q.finalizers(before, o, wasDeleting)
	grace, shorter := q.grace(o, m, wasDeleting)
	if len(after) == 0 && !hooked && !held && grace == 0 {
		return q.erase(o, m, obj)
	}
	// Kinds with rules of their own for deletion are marked without a grace period; who asks again gives them one.
	unmarked := wasDeleting && !held && !m.Meta().Get("deletionGracePeriodSeconds").Exists()
	if q.kind.Builtin != nil && wasDeleting && slices.Equal(before, after) && !hooked && !shorter && !unmarked {
		return nil, errUnchanged
	}
	if unmarked {
		m.SetDeletionGracePeriodSeconds(0)
	}
	if grace > 0 && (!wasDeleting || shorter) {
		m.SetDeletionTimestamp(time.Now().Add(time.Duration(grace) * time.Second))
		m.SetDeletionGracePeriodSeconds(grace)
	}
	return q.mark(o, m, obj, before, after, wasDeleting)
}

// grace is how many seconds an object is to live on: what its kind says, or what
// is left for one that is being deleted already. shorter says that this is less
// than was said before.
func (q *request) grace(o *meta.DeleteOptions, m meta.Object, wasDeleting bool) (seconds int64, shorter bool) {
	b := q.kind.Builtin
	if b == nil || b.Grace == nil {
		return 0, false
	}
	if !wasDeleting {
		return b.Grace(m.Doc, o.GracePeriodSeconds), false
	}
	seconds = m.Meta().Get("deletionGracePeriodSeconds").Int()
	if asked := o.GracePeriodSeconds; asked != nil && *asked < seconds {
		return max(*asked, 0), true
	}
	return seconds, false
}

// erase removes the object from the store.
func (q *request) erase(o *meta.DeleteOptions, m meta.Object, obj *cache.Object) (*removal, error) {
	done := &removal{uid: strings.Clone(m.UID())}
	rev := obj.Rev
	if !o.DryRun {
		var err error
		if rev, err = q.h.Store.Delete(q.ctx, obj.Key, obj.Rev); err != nil {
			return nil, writeError(err)
		}
		q.erased(obj.Key, rev)
		q.released(m.Doc)
	}
	if b := q.kind.Builtin; b != nil && b.Returned {
		if b.Grace != nil && m.DeletionTimestamp() == "" {
			markDeleted(m)
		}
		m.SetResourceVersion(strconv.FormatInt(rev, 10))
		done.waiting = m.Doc.AppendJSON(nil, m.Doc.Root().Node)
	}
	return done, nil
}

// markDeleted says in an object's metadata that it is being deleted.
func markDeleted(m meta.Object) {
	if m.DeletionTimestamp() == "" {
		m.SetDeletionTimestamp(time.Now())
	}
	if !m.Meta().Get("deletionGracePeriodSeconds").Exists() {
		m.SetDeletionGracePeriodSeconds(0)
	}
	if g := m.Generation(); g > 0 {
		m.SetGeneration(g + 1)
	}
}

// mark stores the object as one that is being deleted. One that is so already is written only if that makes a difference: in the form
// that this version of it has, which need not have every field.
func (q *request) mark(o *meta.DeleteOptions, m meta.Object, obj *cache.Object, before, after []string, wasDeleting bool) (*removal, error) {
	d := m.Doc
	if !slices.Equal(before, after) {
		for i := range after {
			after[i] = strings.Clone(after[i])
		}
		m.SetFinalizers(after)
	}
	if !wasDeleting {
		// Kinds with rules of their own for deletion are marked by those alone.
		if b := q.kind.Builtin; b == nil || b.Delete == nil {
			markDeleted(m)
		} else if m.DeletionTimestamp() == "" {
			m.SetDeletionTimestamp(time.Now())
		}
	}
	encoded, err := q.v.Encode(d, nil)
	if err != nil {
		return nil, err
	}
	if wasDeleting && bytes.Equal(encoded, obj.Raw) {
		return nil, errUnchanged
	}
	rev := obj.Rev
	if !o.DryRun {
		if rev, err = q.h.Store.Update(q.ctx, obj.Key, encoded, obj.Rev); err != nil {
			return nil, writeError(err)
		}
		q.awaitDecisions(rev)
	}
	m.SetResourceVersion(strconv.FormatInt(rev, 10))
	done := &removal{waiting: d.AppendJSON(nil, d.Root().Node), uid: strings.Clone(m.UID())}
	done.orphan = o.OrphanDependents != nil && !*o.OrphanDependents
	return done, nil
}

// preconditions refuses to delete another object than the one meant.
func (q *request) preconditions(o *meta.DeleteOptions, m meta.Object, obj *cache.Object) error {
	have := strconv.FormatInt(obj.Rev, 10)
	if b := q.kind.Builtin; b != nil && b.Delete != nil {
		return q.strictPreconditions(o, m.UID(), have)
	}
	gr := kschema.GroupResource{Group: q.kind.Storage.Kind.Group, Resource: q.kind.Name}
	if o.UID != nil && *o.UID != m.UID() {
		return status.Conflict(gr, q.name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). "+
			"The object might have been deleted and then recreated", *o.UID, m.UID()))
	}
	if o.ResourceVersion != nil && *o.ResourceVersion != have {
		return status.Conflict(gr, q.name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). "+
			"The object might have been modified", *o.ResourceVersion, have))
	}
	return nil
}

// strictPreconditions does the same in the words of kinds that have rules of their own for deletion.
func (q *request) strictPreconditions(o *meta.DeleteOptions, uid, version string) error {
	failed := "precondition failed"
	if q.kind.IsNamespaces() {
		failed = "Precondition failed"
	}
	if o.UID != nil && *o.UID != uid {
		return status.Conflict(q.kind.GroupResource(), q.name, fmt.Errorf("%s: UID in precondition: %s, UID in object meta: %s", failed, *o.UID, uid))
	}
	if o.ResourceVersion != nil && *o.ResourceVersion != version {
		return status.Conflict(q.kind.GroupResource(), q.name,
			fmt.Errorf("%s: ResourceVersion in precondition: %s, ResourceVersion in object meta: %s", failed, *o.ResourceVersion, version))
	}
	return nil
}

// finalizers are those of an object after its deletion was asked for.
func (q *request) finalizers(before []string, o *meta.DeleteOptions, wasDeleting bool) []string {
	b := q.kind.Builtin
	if b != nil && (b.Unowned || b.Undirected && !wasDeleting) {
		return before
	}
	if q.kind.IsNamespaces() && !wasDeleting && o.OrphanDependents != nil && !*o.OrphanDependents {
		foreground := *o
		foreground.OrphanDependents, foreground.PropagationPolicy = nil, string(metav1.DeletePropagationForeground)
		o = &foreground
	}
	return finalizersFor(before, o, b != nil && b.Orphans)
}

// finalizersFor are the finalizers of an object whose deletion is asked for in
// a way: what becomes of its dependents is up to whoever takes the finalizers
// foregroundDeletion and orphan away. Who says nothing keeps them as they are, or
// the dependents, if that is the way of the kind.
func finalizersFor(have []string, o *meta.DeleteOptions, orphans bool) []string {
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
	case orphans && !want[metav1.FinalizerDeleteDependents]:
		want[metav1.FinalizerOrphanDependents] = true
	}
	var out []string
	for _, f := range have {
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
