package admission

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file checks permissions for owner references, which can delete objects or delay the deletion
// of their owners.

// OwnerReferences returns the plugin OwnerReferencesPermissionEnforcement. To change an object's owners,
// a user needs permission to delete the object. To set blockOwnerDeletion, a user needs permission
// to update the finalizers of the owner.
func OwnerReferences(z authz.Authorizer, kinds func() *kind.Snapshot) Validator {
	return ownerReferences{z, kinds}
}

// ownerReferences is the plugin OwnerReferencesPermissionEnforcement.
type ownerReferences struct {
	authz authz.Authorizer
	kinds func() *kind.Snapshot
}

// Validate implements Validator.
func (o ownerReferences) Validate(ctx context.Context, r *Request) error {
	k := r.Version.Kind
	if r.Operation == Delete || r.Foreign != nil || k.Group == "" && k.Plural == "pods" && r.Subresource == "status" {
		return nil // subresources cannot change owners
	}
	is, was := ownersOf(r.New), ownersOf(r.Old)
	if len(is) == len(was) && equality.Semantic.DeepEqual(is, was) {
		return nil
	}
	if r.Operation == Update {
		own := authz.Attributes{
			User: r.User, Verb: "delete", ResourceRequest: true, Group: k.Group, Version: r.Version.Name, Resource: k.Plural,
			Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
		}
		if d := o.authz.Authorize(ctx, &own); d.Decision != authz.Allow {
			return r.Forbidden(fmt.Errorf("cannot set an ownerRef on a resource you can't delete: %v, %v", d.Reason, d.Err))
		}
	}
	blocking := newlyBlocking(is, was)
	if len(blocking) == 0 || o.mayFinalize(ctx, r, &authz.Attributes{Group: "*", Version: "*", Resource: "*", Name: "*"}).Decision == authz.Allow {
		return nil
	}
	for i := range blocking {
		if err := o.mayBlock(ctx, r, &blocking[i]); err != nil {
			return err
		}
	}
	return nil
}

// mayBlock returns nil if the user may update the finalizers of an owner. If several resources have
// objects of its kind, the permission is needed for all of them.
func (o ownerReferences) mayBlock(ctx context.Context, r *Request, ref *metav1.OwnerReference) error {
	versions, err := o.versionsOf(ref)
	if err != nil {
		return r.Forbidden(fmt.Errorf("cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %s Kind %s: %v",
			ref.APIVersion, ref.Kind, err))
	}
	for _, v := range versions {
		a := authz.Attributes{Group: v.Kind.Group, Version: v.Name, Resource: v.Kind.Plural, Name: ref.Name}
		if v.Kind.Namespaced {
			a.Namespace = r.Namespace // an owner is in the same namespace or cluster-scoped
		}
		if d := o.mayFinalize(ctx, r, &a); d.Decision != authz.Allow {
			return r.Forbidden(fmt.Errorf("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %v, %v",
				d.Reason, d.Err))
		}
	}
	return nil
}

// mayFinalize reports whether the user may update the finalizers of a resource.
func (o ownerReferences) mayFinalize(ctx context.Context, r *Request, a *authz.Attributes) authz.Result {
	a.User, a.Verb, a.ResourceRequest, a.Subresource = r.User, "update", true, "finalizers"
	return o.authz.Authorize(ctx, a)
}

// versionsOf returns the versions that an owner reference may mean.
func (o ownerReferences) versionsOf(ref *metav1.OwnerReference) ([]*kind.Version, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, err
	}
	var found []*kind.Version
	for k := range o.kinds().All() {
		if k.Group != gv.Group || k.Name != ref.Kind {
			continue
		}
		for _, v := range k.All {
			if v.Name == gv.Version && v.Served {
				found = append(found, v)
			}
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no matches for kind %q in version %q", ref.Kind, gv.String())
	}
	return found, nil
}

// ownersOf returns the owner references of an object, nil if d is nil. Malformed references have
// been refused before.
func ownersOf(d *jsondoc.Doc) []metav1.OwnerReference {
	if d == nil {
		return nil
	}
	var refs []metav1.OwnerReference
	if decode(d.Root().At("metadata", "ownerReferences"), &refs) != nil {
		return nil
	}
	return refs
}

// newlyBlocking returns the references in is that block the deletion of an owner and did not in
// was.
func newlyBlocking(is, was []metav1.OwnerReference) []metav1.OwnerReference {
	blocks := func(ref *metav1.OwnerReference) bool { return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion }
	before := map[types.UID]bool{}
	for i := range was {
		before[was[i].UID] = blocks(&was[i])
	}
	var out []metav1.OwnerReference
	for i := range is {
		if blocks(&is[i]) && !before[is[i].UID] {
			out = append(out, is[i])
		}
	}
	return out
}
