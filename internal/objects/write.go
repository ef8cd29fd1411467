package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/apply"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/poison"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/schema"
)

// This file is the loop that all verbs share which start from a live object: they are tried on the
// object as it is known, and tried again when another writer changed it meanwhile.
//
// The cache's object is usually current. Starting from it saves a read of the store: if it is outdated,
// the compare-and-swap fails and returns the current object, from which the verb starts again.

// write is one verb on its way: what it is given, and what is found out on the way.
type write struct {
	*Verbs
	ctx    context.Context
	caller Caller
	ref    Ref
	res    *cache.Resource

	warnings []string
	reasons  []schema.Reason        // why the last attempt was refused
	unused   []schema.UnusedMessage // of the last attempt
	conflict int64                  // the revision of the object that the last conflict found, 0 before a conflict
}

var writes = sync.Pool{New: func() any { return new(write) }}

// errNoCaller is the error of verbs that are called without an identity, which admission, audit and
// the rules of kinds would miss.
var errNoCaller = errors.New("a write needs a caller, got none")

// begin prepares a verb. The function that calls it must call end.
func (v *Verbs) begin(ctx context.Context, c Caller, ref Ref) (*write, error) {
	if c.user == nil {
		return nil, status.Internal(errNoCaller)
	}
	w := writes.Get().(*write)
	*w = write{Verbs: v, ctx: ctx, caller: c, ref: ref, res: v.Cache.Resource(ref.Kind.StoragePrefix)}
	return w, nil
}

// end completes the outcome of a verb with its warnings and frees what out does not need if err is
// not nil.
func (w *write) end(out *Outcome, err error) {
	out.Warnings, out.Reasons, out.UnusedMessages = w.warnings, w.reasons, w.unused
	if err != nil {
		out.Release()
	}
	*w = write{}
	if !poison.On {
		writes.Put(w)
	}
}

// Warn implements admission.Client.
func (w *write) Warn(texts ...string) { w.warnings = append(w.warnings, texts...) }

// Annotate implements admission.Client.
func (w *write) Annotate(key, value string) {
	if w.caller.client != nil {
		w.caller.client.Annotate(key, value)
	}
}

// AnnotateRequest implements admission.Client.
func (w *write) AnnotateRequest(key, value string) {
	if w.caller.client != nil {
		w.caller.client.AnnotateRequest(key, value)
	}
}

// mayCreate returns an error unless the caller may create what its update or apply did not find.
func (w *write) mayCreate() error {
	if w.caller.client == nil {
		return nil
	}
	return w.caller.client.MayCreate()
}

// admit returns the write as the steps of admission see it, without its documents.
func (w *write) admit(op admission.Operation, dryRun bool) *admission.Request {
	return &admission.Request{Operation: op, Version: w.ref.Version, Subresource: w.ref.Subresource, Namespace: w.ref.Namespace, Name: w.ref.Name,
		User: w.caller.user, DryRun: dryRun, Client: w}
}

// manager returns what managedFields record the write under. before is the view of the live object,
// nil if it is not known.
func (w *write) manager(o *meta.WriteOptions, before *meta.View) apply.Options {
	return w.caller.manager(w.ref.Subresource, o, before)
}

// manager returns the options for managedFields.
func (c *Caller) manager(subresource string, o *meta.WriteOptions, before *meta.View) apply.Options {
	return apply.Options{
		Manager:     apply.ManagerName(o.FieldManager, c.agent),
		Subresource: subresource,
		Time:        time.Now(),
		Force:       o.Force != nil && *o.Force,
		KnownValid:  before != nil && before.KnownValid,
	}
}

// grow returns an error if a write makes what is stored, and what is kept for it, larger by n bytes,
// and there is no room for them.
func (w *write) grow(n int64) error {
	if w.Grow == nil || n <= 0 {
		return nil
	}
	u := w.caller.user
	return w.Grow(w.ref.Kind, n, w.caller.own || u != nil && slices.Contains(u.Groups, authn.Masters))
}

// live is the object that a verb starts from.
type live struct {
	obj   *cache.Object // nil if there is none
	fresh bool          // obj is known not to be older than the call
}

// live returns the object as it is known now.
func (w *write) live() live {
	obj, _ := w.res.Newest(w.ref.Key())
	return live{obj: obj}
}

// start returns the object that a verb starts from. The compare-and-swap of a write finds out
// whether it is outdated. A dry run writes nothing, so the object is proven current first.
func (w *write) start(dryRun bool) (live, error) {
	l := w.live()
	if !dryRun {
		return l, nil
	}
	_, err := w.renew(&l)
	return l, err
}

// renew makes l at least as new as the beginning of the call. It reports whether the object is
// another one then.
func (w *write) renew(l *live) (changed bool, err error) {
	// The object was proven current once in this call. That is enough: a later change is a conflict.
	if l.fresh {
		return false, nil
	}
	if err := w.res.Fresh(w.ctx); err != nil {
		return false, StoreError(err)
	}
	l.fresh = true
	now, _ := w.res.Get(w.ref.Key())
	changed = (now == nil) != (l.obj == nil) || now != nil && now.Rev != l.obj.Rev
	l.obj = now
	return changed, nil
}

// conflicted makes l what a failed compare-and-swap found.
func (l *live) conflicted(e *store.Changed) {
	l.fresh = true
	l.obj = nil
	if !e.Gone {
		l.obj = &cache.Object{Key: e.Current.Key, Rev: e.Current.Rev, Raw: e.Current.Value, Sealed: e.Current.Sealed}
	}
}

// checkStorage returns an error if the CRD has got another storage version since the request
// began, for example while a webhook was called. The object would be stored in the old version,
// although a migration may have rewritten all others, and the CRD may have dropped the version.
// Clients try again after a 503 with Retry-After.
//
// Another server may have changed the CRD, and this one may lag behind, for example because its
// process was stopped. upTo is a revision up to which it must know the CRD, -1 for now. An update
// needs no more than the object that it replaces: if a migration has rewritten that after the
// change, the first compare-and-swap fails, and the conflict has the revision. If not, the object is
// in the old version still, so that the CRD cannot drop the version.
func (w *write) checkStorage(upTo int64) error {
	k := w.ref.Kind
	if k.Behavior.IsBuiltin {
		return nil
	}
	if w.AwaitKinds != nil {
		w.AwaitKinds(w.ctx, upTo)
	}
	now := w.Kinds.Load().Lookup(k.Group, k.Plural)
	if now == nil || now == k || now.Storage.Name == k.Storage.Name {
		return nil
	}
	e := status.Unavailable(fmt.Sprintf("the storage version of %s.%s has changed from %s to %s during the request: try again",
		k.Plural, k.Group, k.Storage.Name, now.Storage.Name))
	e.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	return e
}

// outdated reports whether a stored object is to be written again even if nothing in it changes,
// because it is not encrypted as it would be now.
func (w *write) outdated(obj *cache.Object) bool {
	// Only a store with encryption at rest seals values.
	sealer, ok := w.Store.(store.Sealer)
	return ok && sealer.WritesAs(obj.Key) != obj.Sealed
}

// operation is what retry does to an object.
type operation interface {
	// attempt tries the operation on one state of the object. It returns errUnchanged if there is
	// nothing to write.
	attempt(w *write, obj *cache.Object) (Outcome, error)
	// missing answers for an object that does not exist.
	missing(w *write) (Outcome, error)
}

// errUnchanged is returned by operations that leave the object as it is.
var errUnchanged = errors.New("unchanged")

// retry tries an operation until no other writer got in between. An operation that starts from an
// outdated object may fail for that reason alone, so an error counts only once the object is proven
// current.
func (w *write) retry(op operation, dryRun bool) (Outcome, error) {
	if err := w.ref.CheckPathName(); err != nil {
		return Outcome{}, err
	}
	l, err := w.start(dryRun)
	if err != nil {
		return Outcome{}, err
	}
	// Warnings of an attempt that is repeated are dropped.
	warned := len(w.warnings)
	for {
		var out Outcome
		w.warnings, w.reasons, w.unused = w.warnings[:warned], nil, nil
		// The cache does not have the object. Before the object counts as missing, the cache
		// catches up.
		if l.obj == nil {
			changed, err := w.renew(&l)
			if err != nil {
				return out, err
			}
			if changed {
				continue
			}
			if out, err = op.missing(w); err == nil || !isAlreadyExists(err) || w.ctx.Err() != nil {
				return out, err
			}
			l.fresh = false // another writer created it meanwhile
			if changed, renewErr := w.renew(&l); renewErr != nil {
				return out, renewErr
			} else if changed {
				continue
			}
			return out, err
		}
		out, err := op.attempt(w, l.obj)
		if err == nil {
			return out, nil
		}
		// Another writer won the race. The conflict has the object that it wrote.
		if conflict, ok := errors.AsType[*store.Changed](err); ok {
			l.conflicted(conflict)
			w.conflict = conflict.Current.Rev
			if w.ctx.Err() != nil {
				return out, StoreError(w.ctx.Err())
			}
			continue
		}
		// The client may have the answer already: nothing may be written after it.
		if refused, ok := errors.AsType[*refusal](err); ok {
			return out, refused.error
		}
		// The write may have happened, so that a second attempt could undo what followed it.
		if unknown, ok := errors.AsType[*unknownOutcome](err); ok {
			return out, unknown.err
		}
		// The attempt failed. If it started from an outdated object, that may be the reason.
		changed, renewErr := w.renew(&l)
		switch {
		case renewErr != nil:
			return out, renewErr
		case changed:
			continue
		case errors.Is(err, errUnchanged):
			return Outcome{Object: l.obj, Revision: l.obj.Rev}, nil
		}
		return out, err
	}
}

// isAlreadyExists reports whether an error means that the name of a new object is in use.
func isAlreadyExists(err error) bool {
	e, ok := errors.AsType[*status.Error](err)
	return ok && e.Reason == metav1.StatusReasonAlreadyExists
}

// refusal is the error of a request that is refused, whatever the object is. It is never tried again.
type refusal struct{ error }

// unknownOutcome is the error of a write that may have been made all the same, or may still be
// made. It is never tried again: it would be made twice, or be refused for what it did itself.
type unknownOutcome struct{ err error }

// Error returns the text of the cause.
func (e *unknownOutcome) Error() string { return e.err.Error() }

// Unwrap is for package errors.
func (e *unknownOutcome) Unwrap() error { return e.err }

// writeError is StoreError for the error of a write.
func writeError(err error) error {
	var changed *store.Changed
	if err == nil || errors.As(err, &changed) || errors.Is(err, store.ErrTooLarge) || errors.Is(err, store.ErrNoSpace) {
		return StoreError(err) // nothing was written
	}
	return &unknownOutcome{StoreError(err)}
}

// StoreError returns the API's error for one of the store, of the cache or of a context that ended.
// Other errors are returned as they are.
func StoreError(err error) error {
	var changed *store.Changed
	switch {
	case err == nil || errors.As(err, &changed):
		return err
	case errors.Is(err, store.ErrTooLarge):
		return status.Plain500("etcdserver: request is too large")
	case errors.Is(err, store.ErrDiskFull) && errors.Is(err, store.ErrUnavailable):
		return status.Unavailable("the disk of the server is full: " + err.Error())
	case errors.Is(err, store.ErrDiskFull):
		return status.Plain500("etcdserver: mvcc: database space exceeded: the disk of the server is full")
	case errors.Is(err, store.ErrNoMemory):
		return status.Plain500("etcdserver: mvcc: database space exceeded: " + strings.TrimPrefix(err.Error(), store.ErrNoMemory.Error()+": "))
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

// retryAfter is when a client may ask again, in seconds, if the store cannot answer now.
const retryAfter = 1

// Find returns an object as it is known, nil if there is none. Only an object that is not known is
// looked for in the store.
func (v *Verbs) Find(ctx context.Context, ref Ref) (*cache.Object, error) {
	w := &write{Verbs: v, ctx: ctx, ref: ref, res: v.Cache.Resource(ref.Kind.StoragePrefix)}
	if err := w.res.Ready(ctx); err != nil {
		return nil, StoreError(err)
	}
	l := w.live()
	if l.obj == nil {
		if _, err := w.renew(&l); err != nil {
			return nil, err
		}
	}
	return l.obj, nil
}
