package rbac

import (
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
)

// This file lists what a user may do.

// PolicyRules returns the rules that a user has in the cluster and, unless namespace is "", in the
// namespace, ordered by the names of their bindings. The error lists roles that do not exist.
func (ix *Index) PolicyRules(user *authn.User, namespace string) ([]rbacv1.PolicyRule, error) {
	st := ix.state.Load()
	rules, errs := st.rulesIn("", user, nil, nil)
	if namespace != "" {
		rules, errs = st.rulesIn(namespace, user, rules, errs)
	}
	if len(errs) == 0 {
		return rules, nil
	}
	return rules, utilerrors.NewAggregate(errs)
}

// rulesIn appends the user's rules of one scope, once for each binding.
func (st *state) rulesIn(scope string, user *authn.User, rules []rbacv1.PolicyRule, errs []error) ([]rbacv1.PolicyRule, []error) {
	found := map[*binding]*role{}
	gather := func(s subject) {
		if e := st.subjects.get(s); e != nil {
			for i := range e.grants {
				found[e.grants[i].binding] = e.grants[i].role
			}
		}
	}
	gather(subject{scope, false, user.Name})
	for _, g := range user.Groups {
		gather(subject{scope, true, g})
	}
	bindings := make([]*binding, 0, len(found))
	for b := range found {
		bindings = append(bindings, b)
	}
	slices.SortFunc(bindings, func(a, b *binding) int { return strings.Compare(a.name, b.name) })
	for _, b := range bindings {
		if r := found[b]; r != nil {
			rules = append(rules, r.rules...)
		} else {
			errs = append(errs, b.missing())
		}
	}
	return rules, errs
}

// RulesFor returns the user's rules in the form of a SelfSubjectRulesReview.
func (ix *Index) RulesFor(_ context.Context, user *authn.User, namespace string) authz.Rules {
	rules, err := ix.PolicyRules(user, namespace)
	out := authz.Rules{Err: err}
	for i := range rules {
		r := &rules[i]
		if len(r.Resources) > 0 {
			out.Resource = append(out.Resource, authorizationv1.ResourceRule{
				Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames,
			})
		}
		if len(r.NonResourceURLs) > 0 {
			out.NonResource = append(out.NonResource, authorizationv1.NonResourceRule{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
		}
	}
	return out
}
