package policy

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file prevents users from reading, by policies and bindings, parameter objects that they may
// not read themselves.

// Access refuses policies and bindings with parameters that the user may not read. Parameters that
// the object had before are exempt.
func Access(kinds func() *kind.Snapshot, c *cache.Cache, z authz.Authorizer) admission.Validator {
	return access{kinds, c, z}
}

// access is the step that Access returns.
type access struct {
	kinds func() *kind.Snapshot
	cache *cache.Cache
	authz authz.Authorizer
}

// referring has the fields of policies and bindings that refer to parameters.
type referring struct {
	Spec struct {
		ParamKind  *admissionv1.ParamKind `json:"paramKind"`
		ParamRef   *admissionv1.ParamRef  `json:"paramRef"`
		PolicyName string                 `json:"policyName"`
	} `json:"spec"`
}

// readReferring decodes the fields of a policy or binding that refer to parameters.
func readReferring(d *jsondoc.Doc) (*referring, error) {
	out := new(referring)
	if d == nil {
		return out, nil
	}
	if err := json.Unmarshal(d.AppendJSON(nil, d.Root().Node), out); err != nil {
		return nil, status.Internal(err)
	}
	return out, nil
}

// policiesOf maps the plural of policies or bindings to that of the policies.
var policiesOf = map[string]string{
	"validatingadmissionpolicies": "", "validatingadmissionpolicybindings": "validatingadmissionpolicies",
	"mutatingadmissionpolicies": "", "mutatingadmissionpolicybindings": "mutatingadmissionpolicies",
}

// Validate implements admission.Validator.
func (a access) Validate(ctx context.Context, r *admission.Request) error {
	k := r.Version.Kind
	policies, ok := policiesOf[k.Plural]
	if !ok || k.Group != admissionv1.GroupName || r.New == nil || r.Subresource != "" || r.User.InGroup(authn.Masters) {
		return nil
	}
	now, err := readReferring(r.New)
	if err != nil {
		return err
	}
	was, err := readReferring(r.Old)
	if err != nil {
		return err
	}
	at := "paramKind"
	if policies == "" {
		err = a.kind(ctx, r.User, now, was)
	} else {
		at = "paramRef"
		err = a.reference(ctx, r.User, policies, now, was)
	}
	if err == nil {
		return nil
	}
	return status.Invalid(schema.GroupKind{Group: k.Group, Kind: k.Name}, r.Name, field.ErrorList{field.Forbidden(field.NewPath("spec", at), err.Error())})
}

// kind checks that the user may read all objects of a policy's parameter kind.
func (a access) kind(ctx context.Context, u *authn.User, now, was *referring) error {
	k := now.Spec.ParamKind
	if k == nil || was.Spec.ParamKind != nil && *was.Spec.ParamKind == *k {
		return nil
	}
	ask, _ := a.resource(k)
	ask.User, ask.Verb, ask.Name, ask.Namespace = u, "get", "*", "*"
	if a.authz.Authorize(ctx, ask).Decision == authz.Allow {
		return nil
	}
	return fmt.Errorf(`user %v must have "get" permission on all objects of the referenced paramKind (kind=%s, apiVersion=%s)`, shown(u), k.Kind, k.APIVersion)
}

// resource returns the attributes of a request for a kind's objects. If the kind is unknown, it
// asks for all resources.
func (a access) resource(k *admissionv1.ParamKind) (ask *authz.Attributes, found bool) {
	ask = &authz.Attributes{ResourceRequest: true, Group: "*", Version: "*", Resource: "*"}
	gv, err := schema.ParseGroupVersion(k.APIVersion)
	if err != nil {
		return ask, false
	}
	ask.Group, ask.Version = gv.Group, gv.Version
	if v, err := findKind(k, a.kinds()); err == nil {
		ask.Resource, found = v.Kind.Plural, true
	}
	return ask, found
}

// reference checks that the user may read the objects to which a binding refers.
func (a access) reference(ctx context.Context, u *authn.User, policies string, now, was *referring) error {
	ref := now.Spec.ParamRef
	if ref == nil || was.Spec.PolicyName == now.Spec.PolicyName && equality.Semantic.DeepEqual(was.Spec.ParamRef, ref) {
		return nil
	}
	ask, found := &authz.Attributes{ResourceRequest: true, Group: "*", Version: "*", Resource: "*"}, true
	p, err := a.policy(ctx, policies, now.Spec.PolicyName)
	if err == nil && p.Spec.ParamKind != nil {
		ask, found = a.resource(p.Spec.ParamKind)
	}
	ask.User, ask.Verb, ask.Name, ask.Namespace = u, "get", ref.Name, ref.Namespace
	if ref.Name == "" {
		ask.Verb = "list"
	}
	switch {
	case a.authz.Authorize(ctx, ask).Decision == authz.Allow:
		return nil
	case err != nil:
		return fmt.Errorf(`unable to get policy %s to determine minimum required permissions and user %v does not have "%v" permission for all groups, versions and resources`,
			now.Spec.PolicyName, shown(u), ask.Verb)
	case !found:
		return fmt.Errorf(`unable to resolve paramKind %v to determine minimum required permissions and user %v does not have "%v" permission for all groups, versions and resources`,
			&struct{ APIVersion, Kind string }{p.Spec.ParamKind.APIVersion, p.Spec.ParamKind.Kind}, shown(u), ask.Verb)
	case policies == "mutatingadmissionpolicies": // upstream swaps the user and the verb here
		return fmt.Errorf(`user %v does not have "%v" permission on the object referenced by paramRef`, ask.Verb, shown(u))
	}
	return fmt.Errorf(`user %v does not have "%v" permission on the object referenced by paramRef`, shown(u), ask.Verb)
}

// policy reads a policy, after all acknowledged writes.
func (a access) policy(ctx context.Context, plural, name string) (*referring, error) {
	k := a.kinds().Lookup(admissionv1.GroupName, plural)
	res := a.cache.Resource(k.StoragePrefix)
	if err := res.Fresh(ctx); err != nil {
		return nil, err
	}
	o, ok := res.Get(k.Key("", name))
	if !ok {
		return nil, status.NotFound(k.GroupResource(), name)
	}
	view, err := o.View(k.Storage)
	if err != nil {
		return nil, err
	}
	out := new(referring)
	return out, json.Unmarshal(view.JSON, out)
}

// shown returns a user as upstream prints one.
func shown(u *authn.User) string {
	return fmt.Sprintf("&{%s %s %v %v}", u.Name, u.UID, u.Groups, u.Extra)
}
