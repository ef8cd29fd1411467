// Package devices checks who may write what of claims of devices.
//
// # Model
//
// A permission on the status of ResourceClaims is not one for every part of it. To allocate or reserve
// devices needs a permission on the synthetic subresource resourceclaims/binding. To report on a device needs
// one on resourceclaims/driver for its driver. Admin access, which is access to devices that are in use,
// needs a label of the namespace, for every user. [Claims] is the step.
//
// # Invariants
//
//   - Decisions and texts are those of Kubernetes' registry of claims.
//   - If the authorizers do not decide, the request is refused.
package devices

import (
	"context"
	"fmt"
	"maps"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/status"
)

// Resource is that of claims.
var Resource = schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceclaims"}

// The prefixes of verbs on resourceclaims/driver: for drivers on the node of the devices, and for all.
const (
	associatedNode = "associated-node:"
	arbitraryNode  = "arbitrary-node:"
)

// Claims refuses writes of claims that need more than the permission to write them. Add it after all
// steps that change objects.
func Claims(z authz.Authorizer, namespaces admission.Namespaces) admission.Mutator {
	return claims{z, namespaces}
}

type claims struct {
	authz      authz.Authorizer
	namespaces admission.Namespaces
}

// Mutate changes nothing. It is a mutator because it looks at what all others made of the object.
func (c claims) Mutate(ctx context.Context, r *admission.Request) error {
	k := r.Version.Kind
	if k.Plural != Resource.Resource || k.Group != Resource.Group || !k.Behavior.MayHavePlugins() {
		return nil
	}
	var errs field.ErrorList
	var err error
	switch {
	case r.Operation == admission.Create && r.Subresource == "":
		errs, err = c.spec(ctx, r)
	case r.Operation == admission.Update && r.Subresource == "status":
		errs, err = c.status(ctx, r)
	}
	if err != nil || len(errs) == 0 {
		return err
	}
	return status.Invalid(k.GroupKind(), r.Name, errs)
}

// spec checks the admin access that a new claim asks for.
func (c claims) spec(ctx context.Context, r *admission.Request) (field.ErrorList, error) {
	claim, err := admission.NewObject[resourcev1.ResourceClaim](r)
	if err != nil {
		return nil, err
	}
	for i, request := range claim.Spec.Devices.Requests {
		if e := request.Exactly; e != nil && e.AdminAccess != nil && *e.AdminAccess {
			return c.adminAccess(ctx, r, field.NewPath("spec", "devices", "requests").Index(i).Child("adminAccess"))
		}
	}
	return nil, nil
}

// status checks what an update of the status changes.
func (c claims) status(ctx context.Context, r *admission.Request) (field.ErrorList, error) {
	next, err := admission.NewObject[resourcev1.ResourceClaim](r)
	if err != nil {
		return nil, err
	}
	old, err := admission.OldObject[resourcev1.ResourceClaim](r)
	if err != nil {
		return nil, err
	}
	var errs field.ErrorList
	if at := grantedAccess(next.Status.Allocation); at != nil && grantedAccess(old.Status.Allocation) == nil {
		if errs, err = c.adminAccess(ctx, r, at); err != nil {
			return nil, err
		}
	}
	verb := "update"
	if r.Write != nil && r.Write.Patch {
		verb = "patch"
	}
	if !equality.Semantic.DeepEqual(next.Status.Allocation, old.Status.Allocation) || !equality.Semantic.DeepEqual(next.Status.ReservedFor, old.Status.ReservedFor) {
		if err := c.confirm(ctx, r.User, []string{verb}, "binding", "", ""); err != nil {
			errs = append(errs, field.Forbidden(field.NewPath("status", "allocation"),
				fmt.Sprintf(`changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="%s" permission: %s`, verb, err)))
		}
	}
	if next.Status.Allocation == nil {
		return errs, nil // reports on devices go with the allocation
	}
	verbs := []string{arbitraryNode + verb}
	if isOnNode(r.User, nodeOf(next.Status.Allocation)) {
		verbs = []string{associatedNode + verb, arbitraryNode + verb}
	}
	for _, driver := range changedDrivers(next.Status.Devices, old.Status.Devices) {
		if err := c.confirm(ctx, r.User, verbs, "driver", r.Namespace, driver); err != nil {
			errs = append(errs, field.Forbidden(field.NewPath("status", "devices"),
				fmt.Sprintf(`changing status.devices requires resource="resourceclaims/driver", verb="%s" permission: %s`, verbs, err)))
		}
	}
	return errs, nil
}

// adminAccess returns an error unless the namespace allows admin access to devices.
func (c claims) adminAccess(ctx context.Context, r *admission.Request, at *field.Path) (field.ErrorList, error) {
	ns, err := c.namespaces.Namespace(ctx, r.Namespace)
	switch {
	case err != nil:
		return field.ErrorList{field.InternalError(at, fmt.Errorf("could not retrieve namespace to verify admin access: %w", err))}, nil
	case ns.Labels.Get(resourcev1.DRAAdminNamespaceLabelKey) == "true":
		return nil, nil
	}
	return field.ErrorList{field.Forbidden(at,
		fmt.Sprintf("admin access to devices requires the `%s: true` label on the containing namespace", resourcev1.DRAAdminNamespaceLabelKey))}, nil
}

// grantedAccess returns the path of the first device with admin access, nil if there is none.
func grantedAccess(a *resourcev1.AllocationResult) *field.Path {
	if a == nil {
		return nil
	}
	for i, d := range a.Devices.Results {
		if d.AdminAccess != nil && *d.AdminAccess {
			return field.NewPath("status", "allocation", "devices", "results").Index(i).Child("adminAccess")
		}
	}
	return nil
}

// confirm returns why the user has none of the verbs on a synthetic subresource of claims.
func (c claims) confirm(ctx context.Context, user *authn.User, verbs []string, subresource, namespace, name string) error {
	var first error
	for _, verb := range verbs {
		a := &authz.Attributes{User: user, Verb: verb, ResourceRequest: true, Group: Resource.Group, Version: "v1", Resource: Resource.Resource,
			Subresource: subresource, Namespace: namespace, Name: name}
		d := c.authz.Authorize(ctx, a)
		if d.Decision == authz.Allow {
			return nil
		}
		if first == nil {
			first = refusal(a, &d)
		}
	}
	return first
}

// refusal returns the error for a decision.
func refusal(a *authz.Attributes, d *authz.Result) error {
	reason := d.Reason
	switch {
	case d.Err != nil && reason != "":
		reason = fmt.Sprintf("%v: %s", d.Err, reason)
	case d.Err != nil:
		reason = d.Err.Error()
	}
	text := a.Refusal()
	if reason != "" {
		text += ": " + reason
	}
	return status.Forbidden(Resource, a.Name, fmt.Errorf("%s", text))
}

// changedDrivers returns the drivers of reports that were added, changed or removed, in order.
func changedDrivers(next, old []resourcev1.AllocatedDeviceStatus) []string {
	type key struct{ driver, pool, device, share string }
	of := func(d *resourcev1.AllocatedDeviceStatus) key {
		k := key{driver: d.Driver, pool: d.Pool, device: d.Device}
		if d.ShareID != nil {
			k.share = *d.ShareID
		}
		return k
	}
	before, drivers := map[key]*resourcev1.AllocatedDeviceStatus{}, map[string]bool{}
	for i := range old {
		before[of(&old[i])] = &old[i]
	}
	for i := range next {
		d := &next[i]
		was := before[of(d)]
		delete(before, of(d))
		if was == nil || !equality.Semantic.DeepEqual(was, d) {
			drivers[d.Driver] = true
		}
	}
	for k := range before {
		drivers[k.driver] = true
	}
	return slices.Sorted(maps.Keys(drivers))
}

// nodeOf returns the node of the allocated devices, "" if they are not on a single one.
func nodeOf(a *resourcev1.AllocationResult) string {
	if a.NodeSelector == nil || len(a.NodeSelector.NodeSelectorTerms) != 1 {
		return ""
	}
	term := a.NodeSelector.NodeSelectorTerms[0]
	if len(term.MatchExpressions) != 0 || len(term.MatchFields) != 1 {
		return ""
	}
	f := term.MatchFields[0]
	if f.Key != "metadata.name" || f.Operator != "In" || len(f.Values) != 1 {
		return ""
	}
	return f.Values[0]
}

// isOnNode reports whether the user is a service account whose token is bound to the node.
func isOnNode(user *authn.User, node string) bool {
	if node == "" {
		return false
	}
	if _, _, ok := authn.ServiceAccountOf(user.Name); !ok {
		return false
	}
	names := user.Extra[authn.NodeName]
	return len(names) == 1 && len(validation.IsDNS1123Subdomain(names[0])) == 0 && names[0] == node
}
