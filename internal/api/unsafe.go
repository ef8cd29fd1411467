package api

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/status"
)

// This file deletes objects that cannot be read any more (KEP-3926), without preconditions,
// finalizers or admission. The user needs a permission for it.

// verbUnsafe is the verb of that permission.
const verbUnsafe = "unsafe-delete-ignore-read-errors"

// ignoresReadErrors is the option that asks for it.
const ignoresReadErrors = "ignoreStoreReadErrorWithClusterBreakingPotential"

// notForCollections refuses the option for many objects at once.
func notForCollections() error {
	return status.Invalid(kschema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", field.ErrorList{
		field.Invalid(field.NewPath(ignoresReadErrors), true, "is not allowed with DELETECOLLECTION, try again after removing the option"),
	})
}

// deleteUnreadable deletes the request's object if it cannot be read.
func (q *request) deleteUnreadable(dryRun bool) error {
	q.audit.Annotate("apiserver.k8s.io/unsafe-delete-ignore-read-error", "")
	if err := q.mayDeleteUnreadable(); err != nil {
		return err
	}
	if _, err := q.h.Objects.DeleteUnreadable(q.ctx, q.caller(), q.ref(), dryRun); err != nil {
		return err
	}
	return q.sendDeleted(status.Deleted(kschema.GroupResource{Resource: q.kind.Name}, q.name, ""))
}

// mayDeleteUnreadable asks whether the user may.
func (q *request) mayDeleteUnreadable() error {
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
