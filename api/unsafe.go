package api

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/status"
)

// This file deletes objects that cannot be read any more (KEP-3926): without preconditions, finalizers or admission, and only for those
// who may.

// verbUnsafe is what one must be allowed to do for that.
const verbUnsafe = "unsafe-delete-ignore-read-errors"

// ignoresReadErrors is the option that asks for it.
const ignoresReadErrors = "ignoreStoreReadErrorWithClusterBreakingPotential"

// notForCollections refuses the option for many objects at once.
func notForCollections() error {
	return status.Invalid(kschema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", field.ErrorList{
		field.Invalid(field.NewPath(ignoresReadErrors), true, "is not allowed with DELETECOLLECTION, try again after removing the option"),
	})
}

// removeUnreadable deletes the request's object if it cannot be read.
func (q *request) removeUnreadable(dryRun bool) error {
	q.audit.Annotate("apiserver.k8s.io/unsafe-delete-ignore-read-error", "")
	if err := q.mayRemoveUnreadable(); err != nil {
		return err
	}
	if err := q.checkPathName(); err != nil {
		return err
	}
	var l live
	if _, err := q.renew(&l); err != nil {
		return err
	}
	if l.obj == nil {
		return status.NotFound(q.kind.GroupResource(), q.name)
	}
	d := doc.Get()
	defer d.Release()
	if q.v.Load(d, l.obj.Raw, l.obj.Rev) == nil {
		return status.Conflict(q.kind.GroupResource(), q.name, errors.New("StorageError: invalid object, Code: 4, Key: /registry/"+l.obj.Key+
			", ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage"))
	}
	if !dryRun {
		rev, err := q.h.Store.Delete(q.ctx, l.obj.Key, l.obj.Rev)
		if err != nil {
			return storeError(err)
		}
		q.erased(l.obj.Key, rev)
	}
	return q.sendDeleted(statusOK(q.name, "", q.kind.Name, ""))
}

// mayRemoveUnreadable asks whether the user may.
func (q *request) mayRemoveUnreadable() error {
	a := *q.attributes()
	a.Verb = verbUnsafe
	r := q.h.Authz.Authorize(q.ctx, &a)
	switch {
	case r.Decision == authz.Allow:
		return nil
	case r.Err != nil:
		return status.Forbidden(q.kind.GroupResource(), q.name, fmt.Errorf("error while checking permission for %q, %w", verbUnsafe, r.Err))
	}
	return status.Forbidden(q.kind.GroupResource(), q.name, fmt.Errorf("not permitted to do %q, reason: %s", verbUnsafe, r.Reason))
}
