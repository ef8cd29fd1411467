package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/apply"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/status"
	"github.com/keelson-io/keelson/store"
)

// This file is what update, patch and scale share: changing an object that
// exists, again and again until nobody got in between.

// change is a change of a live object.
type change struct {
	options *meta.WriteOptions
	scope   schema.Scope
	// build makes the new object of the live one. It is called again after
	// somebody else has changed the object meanwhile.
	build func(next, live *doc.Doc, obj *cache.Object) error
	// versioned: the new object must name the resource version it replaces.
	versioned bool
	named     bool // likewise, but it had the version until the client took it away
	scale     bool // answer with a Scale
	quiet     bool // nobody waits for an answer
	// bare: what build makes is stored as it is, by no rules of the kind, nor admission.
	bare   bool
	became *int64 // takes the revision that the object has then; nil: nobody asks
	// track notes in next who changed what; nil if build did.
	track func(m *apply.Manager, live, next *doc.Doc) error
	// missing is called if there is no such object; nil says not found.
	missing func() error
}

// errUnchanged says that a change changes nothing.
var errUnchanged = errors.New("unchanged")

// live is an object that a change starts from.
type live struct {
	obj   *cache.Object // nil if there is none
	fresh bool          // obj is known not to be older than the request
}

// key is the store key of the request's object.
func (q *request) key() string { return q.kind.Key(q.namespace, q.name) }

// live is the request's object as it is known now.
func (q *request) live() live {
	obj, _ := q.res.Newest(q.key())
	return live{obj: obj}
}

// start is the object that a write starts from. Writing tells whether it is
// outdated; a dry run writes nothing, so that it has to ask.
func (q *request) start(dryRun bool) (live, error) {
	l := q.live()
	if !dryRun {
		return l, nil
	}
	_, err := q.renew(&l)
	return l, err
}

// renew makes l as new as the beginning of the request. It reports whether
// that made a difference.
func (q *request) renew(l *live) (changed bool, err error) {
	if l.fresh {
		return false, nil
	}
	if err := q.res.Fresh(q.ctx); err != nil {
		return false, storeError(err)
	}
	l.fresh = true
	now, _ := q.res.Get(q.key())
	changed = (now == nil) != (l.obj == nil) || now != nil && now.Rev != l.obj.Rev
	l.obj = now
	return changed, nil
}

// overtaken makes l what a failed compare-and-swap found.
func (l *live) overtaken(e *store.Changed) {
	l.fresh = true
	l.obj = nil
	if !e.Gone {
		l.obj = &cache.Object{Key: e.Current.Key, Rev: e.Current.Rev, Raw: e.Current.Value}
	}
}

// change applies c to the request's object and answers.
func (q *request) change(c *change) error {
	if err := q.checkPathName(); err != nil {
		return err
	}
	l, err := q.start(c.options.DryRun)
	if err != nil {
		return err
	}
	warned := len(q.warnings)
	for {
		if l.obj == nil {
			if changed, err := q.renew(&l); err != nil || changed {
				if err != nil {
					return err
				}
				continue
			}
			if c.missing == nil {
				return status.NotFound(q.kind.GroupResource(), q.name)
			}
			err := c.missing()
			if e := (*status.Error)(nil); errors.As(err, &e) && e.Reason == "AlreadyExists" && q.ctx.Err() == nil {
				l.fresh = false // somebody created it in the meantime
				if changed, err := q.renew(&l); err != nil || changed {
					if err != nil {
						return err
					}
					continue
				}
			}
			return err
		}
		q.warnings = q.warnings[:warned]
		err := q.attempt(c, l.obj)
		q.settled(err)
		var overtaken *store.Changed
		switch {
		case err == nil:
			return nil
		case errors.As(err, &overtaken):
			l.overtaken(overtaken)
			if q.ctx.Err() != nil {
				return storeError(q.ctx.Err())
			}
			continue
		}
		if open := (*unsettled)(nil); errors.As(err, &open) {
			return open.err
		}
		// Whatever else stopped it may be due to an outdated object.
		changed, renewErr := q.renew(&l)
		switch {
		case renewErr != nil:
			return renewErr
		case changed:
			continue
		case errors.Is(err, errUnchanged):
			return q.unchanged(c, l.obj)
		}
		return err
	}
}

// attempt tries a change on one state of the object.
func (q *request) attempt(c *change, obj *cache.Object) error {
	old, next := doc.Get(), doc.Get()
	defer old.Release()
	defer next.Release()
	if err := q.v.Load(old, obj.Raw, obj.Rev); err != nil {
		return err
	}
	if err := c.build(next, old, obj); err != nil {
		return err
	}
	q.sound = false
	q.before = obj.Known(q.v)
	if !c.bare {
		if err := q.checkUID(c, next, old, obj); err != nil {
			return err
		}
		outdated := q.checkVersion(c, next, obj)
		if err := q.prepareUpdate(c, next, old, obj, outdated); err != nil {
			return err
		}
	}
	encoded, err := q.encode(next)
	if err != nil {
		return err
	}
	if q.finished(next, old) {
		if !c.options.DryRun {
			rev, err := q.h.Store.Delete(q.ctx, obj.Key, obj.Rev)
			if err != nil {
				return writeError(err)
			}
			q.erased(obj.Key, rev)
			q.settled(nil)
			q.released(next)
		}
		return q.answerWritten(c, next, obj.Rev)
	}
	if bytes.Equal(encoded, obj.Raw) {
		return errUnchanged
	}
	if c.options.DryRun {
		if !q.v.IsStorage {
			if err := q.v.Load(next, encoded, obj.Rev); err != nil {
				return err
			}
		}
		return q.answer(c, next, obj.Rev)
	}
	rev, err := q.storeUpdate(c, obj, next, encoded)
	if err != nil {
		return writeError(err)
	}
	q.settled(nil)
	return q.answerWritten(c, next, rev)
}

// answerWritten is answer for a change that was made: an answer that cannot be given is no reason to make it again.
func (q *request) answerWritten(c *change, next *doc.Doc, rev int64) error {
	if err := q.answer(c, next, rev); err != nil {
		return &unsettled{err}
	}
	return nil
}

// answer answers with the object that a change made.
func (q *request) answer(c *change, next *doc.Doc, rev int64) error {
	if c.became != nil {
		*c.became = rev
	}
	if c.quiet {
		return nil
	}
	if c.scale {
		return q.sendScaleOf(next, rev)
	}
	return q.sendDoc(http.StatusOK, next, rev)
}

// unchanged answers with the object that a change left as it is.
func (q *request) unchanged(c *change, obj *cache.Object) error {
	if c.became != nil {
		*c.became = obj.Rev
	}
	if c.quiet {
		return nil
	}
	if !c.scale {
		return q.sendStored(http.StatusOK, obj)
	}
	d := doc.Get()
	defer d.Release()
	if err := q.v.Load(d, obj.Raw, obj.Rev); err != nil {
		return err
	}
	return q.sendScaleOf(d, obj.Rev)
}

// storeUpdate writes an object; one that is too large is tried once more
// without its managedFields, unless they are what the change is about.
func (q *request) storeUpdate(c *change, obj *cache.Object, next *doc.Doc, encoded []byte) (int64, error) {
	rev, err := q.h.Store.Update(q.ctx, obj.Key, encoded, obj.Rev)
	if c.track != nil && errors.Is(err, store.ErrTooLarge) {
		next.Remove("metadata", "managedFields")
		if encoded, err = q.encode(next); err == nil {
			rev, err = q.h.Store.Update(q.ctx, obj.Key, encoded, obj.Rev)
		}
	}
	if err != nil {
		return 0, err
	}
	return rev, q.handOver(obj.Key, next, encoded, rev)
}

// prepareUpdate makes next fit to be stored in place of old, or refuses it.
// old is what obj holds. outdated is what [request.checkVersion] says; clients hear of it after what admission has to say.
func (q *request) prepareUpdate(c *change, next, old *doc.Doc, obj *cache.Object, outdated error) error {
	n, o := meta.Object{Doc: next}, meta.Object{Doc: old}
	meta.FillSent(n, o, false)
	if c.versioned { // patches are looked at when it is noted who changed what
		q.warn(meta.DedupOwners(n, "")...)
	}
	if c.track != nil { // of all that was sent, what this write ignores included
		m, err := q.h.managers.get(q.h, q.v)
		if err != nil {
			return err
		}
		if err := c.track(m, old, next); err != nil {
			return err
		}
	}
	meta.KeepDeletion(n, o)
	if !c.versioned {
		q.warn(meta.DedupOwners(n, afterMutation)...)
	}
	sent := q.sentKind(next) // which may change below, if only a part is written
	q.v.PrepareUpdate(next, old, c.scope)
	kept := schema.Keep(next, old)
	if generation := o.Meta().Get("generation"); generation.Exists() && c.scope == schema.Whole && q.counts(!kept.Content, next, old) {
		n.SetGeneration(generation.Int() + 1)
	}
	apply.IgnoreTimestamps(old, next)
	r := &admission.Request{Operation: admission.Update, Version: q.v, Subresource: q.subresource, Namespace: q.namespace, Name: q.name,
		New: next, Old: old, User: q.user, DryRun: c.options.DryRun, Write: c.options, Client: q}
	if c.scale {
		r.Foreign = q.scaleForm()
	}
	if err := q.h.admission.Mutate(q.ctx, r); err != nil {
		return err
	}
	if r.Mutated() {
		kept = q.afterMutation(c, next, old)
		q.warn(meta.DedupOwners(n, afterMutation)...)
	}
	if outdated != nil {
		return outdated
	}
	if c.scope == schema.Whole {
		if err := q.claim(next, old, c.options.DryRun); err != nil {
			return err
		}
	}
	if q.before != nil && q.before.Sound {
		kept = kept.After(uint64(q.before.Spent))
	}
	if err := q.validate(next, old, c.scope, sent, kept); err != nil {
		return err
	}
	return q.h.admission.Validate(q.ctx, r)
}

// afterMutation is how a warning says when an owner was there twice.
const afterMutation = " after mutating admission happens"

// afterMutation does again to an object that admission changed what had been
// done to it before, and returns what it leaves as it was.
func (q *request) afterMutation(c *change, next, old *doc.Doc) schema.Kept {
	q.v.PrepareUpdate(next, old, c.scope)
	kept := schema.Keep(next, old)
	n, o := meta.Object{Doc: next}, meta.Object{Doc: old}
	meta.FillSent(n, o, c.scope == schema.Whole && q.counts(!kept.Content, next, old))
	meta.KeepDeletion(n, o)
	return kept
}

// validate checks an object; old is nil on create, sent the kind that it said it is of, kept what is known of an update.
func (q *request) validate(next, old *doc.Doc, scope schema.Scope, sent kschema.GroupKind, kept schema.Kept) error {
	result := q.v.ValidateUpdate(q.ctx, next, old, scope, kept)
	if len(result.Errors) > 0 {
		return status.Invalid(sent, strings.Clone((meta.Object{Doc: next}).Name()), result.Errors)
	}
	q.sound, q.spent = result.Sound, result.Spent
	q.warnOfFinalizers(meta.Object{Doc: next}, meta.Object{Doc: old})
	q.warn(result.Warnings...)
	return nil
}

// warnOfFinalizers warns of names that may clash, in custom resources: built-in kinds accept them or refuse them.
func (q *request) warnOfFinalizers(next, old meta.Object) {
	if q.kind.Builtin == nil {
		q.warn(meta.Warnings(next, old)...)
	}
}

// sentKind is the kind that an object says it is of.
func (q *request) sentKind(d *doc.Doc) kschema.GroupKind {
	gk := q.kind.GroupKind()
	if q.kind.Storage.Kind != q.kind { // of which it is another form
		return q.kind.Storage.Kind.GroupKind()
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

// counts reports whether an update makes a new generation, of which differs says whether it changes the content.
func (q *request) counts(differs bool, next, old *doc.Doc) bool {
	if b := q.kind.Builtin; b != nil && b.Uncounted {
		return false
	}
	return differs || q.countsAsContent(next, old)
}

// countsAsContent reports whether a member of the metadata differs that counts as content, which some kinds have.
func (q *request) countsAsContent(a, b *doc.Doc) bool {
	if q.kind.Builtin == nil || q.kind.Builtin.Counts == "" {
		return false
	}
	x, y := a.Root().At("metadata", q.kind.Builtin.Counts), b.Root().At("metadata", q.kind.Builtin.Counts)
	return x.Len()+y.Len() > 0 && !doc.Equal(x, y)
}

// finished reports whether an update took the last thing away that kept an
// object from being deleted.
func (q *request) finished(next, old *doc.Doc) bool {
	if (meta.Object{Doc: old}).DeletionTimestamp() == "" {
		return false
	}
	for range (meta.Object{Doc: next}).Finalizers() {
		return false
	}
	if (meta.Object{Doc: old}).Meta().Get("deletionGracePeriodSeconds").Int() > 0 {
		return false // it lives on until somebody deletes it without
	}
	return !q.kind.IsNamespaces() || next.Root().At("spec", "finalizers").Len() == 0
}

// checkUID compares the uid that the new object has with that of the one it replaces.
func (q *request) checkUID(c *change, next, old *doc.Doc, obj *cache.Object) error {
	if uid, have := (meta.Object{Doc: next}).UID(), (meta.Object{Doc: old}).UID(); c.versioned && uid != "" && uid != have {
		return status.Conflict(q.kind.GroupResource(), q.name, uidMismatch(obj.Key, uid, have, c.options.DryRun))
	}
	return nil
}

// checkVersion compares the version that the new object says it replaces with the one it does.
func (q *request) checkVersion(c *change, next *doc.Doc, obj *cache.Object) error {
	switch rv := (meta.Object{Doc: next}).ResourceVersion(); {
	case rv == "" || rv == "0":
		if (c.versioned || c.named) && (q.kind.Builtin == nil || !q.kind.Builtin.AllowUnconditionalUpdate) {
			return unversioned(q)
		}
	case rv != strconv.FormatInt(obj.Rev, 10):
		if _, err := strconv.ParseUint(rv, 10, 64); err != nil {
			return status.Plain500(err.Error())
		}
		return status.Conflict(q.kind.GroupResource(), q.name, errModified)
	}
	return nil
}

// uidMismatch says that an object is not the one that was meant.
func uidMismatch(key, sent, have string, dryRun bool) error {
	return preconditionFailed(key, "UID in precondition: "+sent+", UID in object meta: "+have, dryRun)
}

// preconditionFailed says that an object is not in the state that was meant. A dry run names the key without the prefix that it has in
// etcd.
func preconditionFailed(key, text string, dryRun bool) error {
	prefix := "/registry/"
	if dryRun {
		prefix = "/"
	}
	return errors.New("StorageError: invalid object, Code: 4, Key: " + prefix + key +
		", ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: " + text)
}

var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// writer is who a write is noted for in managedFields.
func (q *request) writer(o *meta.WriteOptions) apply.Options {
	agent := ""
	if q.r != nil { // not one of the server's own
		agent = q.r.Header.Get("User-Agent")
	}
	return apply.Options{
		Manager:     apply.ManagerName(o.FieldManager, agent),
		Subresource: q.subresource,
		Time:        time.Now(),
		Force:       o.Force != nil && *o.Force,
		Sound:       q.before != nil && q.before.Sound,
	}
}

// updates notes a write that is no apply.
func (q *request) updates(o *meta.WriteOptions) func(m *apply.Manager, live, next *doc.Doc) error {
	return func(m *apply.Manager, live, next *doc.Doc) error { return m.Update(live, next, q.writer(o)) }
}

// unsettled is the error of a write that may have been made all the same, or may still be made. It is never tried again: it would be
// made twice, or be refused for what it did itself.
type unsettled struct{ err error }

func (e *unsettled) Error() string { return e.err.Error() }

// Unwrap is for package errors.
func (e *unsettled) Unwrap() error { return e.err }

// writeError is storeError for the error of a write.
func writeError(err error) error {
	var changed *store.Changed
	if err == nil || errors.As(err, &changed) || errors.Is(err, store.ErrTooLarge) || errors.Is(err, store.ErrNoSpace) {
		return storeError(err) // nothing was written
	}
	return &unsettled{storeError(err)}
}

// storeError says in the API's words why the store or the cache did not do
// what it was asked.
func storeError(err error) error {
	var changed *store.Changed
	switch {
	case err == nil || errors.As(err, &changed):
		return err
	case errors.Is(err, store.ErrTooLarge):
		return status.Plain500("etcdserver: request is too large")
	case errors.Is(err, store.ErrNoSpace):
		return status.Plain500("etcdserver: mvcc: database space exceeded")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.Timeout("request did not complete within the allotted timeout", 0)
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrClosed), errors.Is(err, cache.ErrClosed):
		e := status.Unavailable(err.Error())
		e.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
		return e
	}
	return err
}

// retryAfter is when a client may ask again, in seconds, if the store cannot
// answer now.
const retryAfter = 1
