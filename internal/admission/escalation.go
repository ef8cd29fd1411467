package admission

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file prevents privilege escalation by roles and bindings: users cannot give permissions that
// they do not have.

// Roles gives Escalation access to roles.
type Roles interface {
	// ConfirmHeld returns nil if RBAC gives the user everything that the rules allow, in a
	// namespace or ("") in the cluster.
	ConfirmHeld(user *authn.User, namespace string, rules []rbacv1.PolicyRule) error
	// RoleRules returns the rules of a Role, or of a ClusterRole if namespace is "". It reports
	// false if the role does not exist. It reads the state after all acknowledged writes.
	RoleRules(ctx context.Context, namespace, name string) ([]rbacv1.PolicyRule, bool, error)
}

// Escalation refuses roles, and bindings to roles, whose rules the user does not hold. The verb
// escalate on the role, or bind on the bound role, exempts the user. Add it after all steps that
// change objects.
func Escalation(z authz.Authorizer, roles Roles) Mutator { return escalation{z, roles} }

// escalation refuses roles and bindings that grant more than their author has.
type escalation struct {
	authz authz.Authorizer
	roles Roles
}

// Mutate changes nothing. It is a mutator because upstream refuses before validation.
func (e escalation) Mutate(ctx context.Context, r *Request) error {
	k := r.Version.Kind
	if k.Group != rbacv1.GroupName || r.Operation == Delete || r.User.InGroup(authn.Masters) {
		return nil
	}
	switch k.Plural {
	case "roles", "clusterroles":
		return e.role(ctx, r)
	case "rolebindings", "clusterrolebindings":
		return e.binding(ctx, r)
	}
	return nil
}

// may reports whether the user has a verb on a role.
func (e escalation) may(ctx context.Context, r *Request, verb, resource, name string) bool {
	return e.authz.Authorize(ctx, &authz.Attributes{
		User: r.User, Verb: verb, ResourceRequest: true, Group: rbacv1.GroupName, Version: "*", Resource: resource, Namespace: r.Namespace, Name: name,
	}).Decision == authz.Allow
}

var fullAuthority = []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}

// role checks the rules of a role, and the permission to write an aggregationRule.
func (e escalation) role(ctx context.Context, r *Request) error {
	name := ""
	if r.Operation == Update || r.Named {
		name = r.Name // for POST the URL has no name
	}
	if e.may(ctx, r, "escalate", r.Version.Kind.Plural, name) || onlyCollectorsFields(r) {
		return nil
	}
	var rules []rbacv1.PolicyRule
	if err := decode(r.New.Root().Get("rules"), &rules); err != nil {
		return status.BadRequest("rules: %v", err)
	}
	if err := e.roles.ConfirmHeld(r.User, r.Namespace, rules); err != nil {
		return refuse(r, err)
	}
	if !aggregates(r.New) && !aggregates(r.Old) {
		return nil
	}
	if e.roles.ConfirmHeld(r.User, r.Namespace, fullAuthority) != nil {
		return refuse(r, errors.New("must have cluster-admin privileges to use the aggregationRule"))
	}
	return nil
}

// aggregates reports whether a role has an aggregationRule.
func aggregates(d *jsondoc.Doc) bool {
	return d != nil && d.Root().At("aggregationRule", "clusterRoleSelectors").Len() > 0
}

// binding checks the rules of the bound role.
func (e escalation) binding(ctx context.Context, r *Request) error {
	if onlyCollectorsFields(r) {
		return nil
	}
	ref := r.New.Root().Get("roleRef")
	kind, name := strings.Clone(ref.Get("kind").Text()), strings.Clone(ref.Get("name").Text())
	resource, namespace := "clusterroles", ""
	switch kind {
	case "ClusterRole":
	case "Role":
		resource, namespace = "roles", r.Namespace
	default:
		return nil // the object is invalid: validation refuses it
	}
	if ref.Get("apiGroup").Text() == rbacv1.GroupName && e.may(ctx, r, "bind", resource, name) {
		return nil
	}
	if kind == "Role" && namespace == "" || name == "" {
		return nil // the object is invalid: validation refuses it
	}
	rules, found, err := e.roles.RoleRules(ctx, namespace, name)
	switch {
	case err != nil:
		return err
	case !found:
		return status.NotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}, name)
	}
	if err := e.roles.ConfirmHeld(r.User, r.Namespace, rules); err != nil {
		return refuse(r, err)
	}
	return nil
}

// refuse returns the client's error for missing permissions.
func refuse(r *Request, err error) error {
	return status.Forbidden(r.Version.Kind.GroupResource(), r.Name, err)
}

// decode decodes a part of a document into a Go type.
func decode(v jsondoc.Value, into any) error {
	if v.Len() == 0 {
		return nil
	}
	return json.Unmarshal(v.AppendJSON(nil), into)
}

// onlyCollectorsFields reports whether an update changes only the fields that garbage collection
// changes: owners and finalizers.
func onlyCollectorsFields(r *Request) bool {
	if r.Operation != Update || r.Old == nil {
		return false
	}
	var was, is map[string]any
	if decode(r.Old.Root(), &was) != nil || decode(r.New.Root(), &is) != nil {
		return false
	}
	for _, m := range []map[string]any{was, is} {
		meta, ok := m["metadata"].(map[string]any)
		if !ok {
			return false
		}
		for _, field := range []string{"ownerReferences", "finalizers", "selfLink", "managedFields"} {
			delete(meta, field)
		}
	}
	return equality.Semantic.DeepEqual(was, is)
}
