// Package rbac decides by roles and bindings.
//
// # Model
//
// A role is a list of rules; a binding gives the rules of one role to
// subjects: users, groups and service accounts. Roles and RoleBindings are of
// one namespace, ClusterRoles and ClusterRoleBindings of all. [Index] holds
// them so that a decision looks up the user and each of his groups, in the
// cluster and in the request's namespace, and reads nothing else: its cost
// does not grow with the number of bindings.
//
// # Terms
//
//   - A grant is a role given to a subject by one binding.
//   - An entry holds the grants of one subject in one scope: a namespace, or
//     the cluster. One with many rules has a table of them by what they are for.
//
// # Invariants
//
//   - Deciding reads one immutable state, takes no lock and allocates nothing,
//     unless a role is missing or refusals are logged.
//   - A change makes new entries for the subjects that it concerns only.
//   - There is no Deny: who has no grant gets no opinion.
//
// [Index.Authorize] decides, [Index.Put] and [Index.Remove] change the index,
// [Follow] keeps it like the store. cover.go is who may give what to whom,
// bootstrap.go what exists from the start.
//
// Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/.
package rbac

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-io/keelson/authz"
)

// Authorize allows what a rule of one of the user's roles allows.
func (ix *Index) Authorize(ctx context.Context, a *authz.Attributes) authz.Result {
	st := ix.state.Load()
	var buffer [128]byte
	q := newQuestion(a, buffer[:0])
	g, dangling := st.find("", &q)
	if g == nil && a.Namespace != "" {
		var more bool
		g, more = st.find(a.Namespace, &q)
		dangling = dangling || more
	}
	if g != nil {
		return authz.Result{Decision: authz.Allow, Reason: g.why(&q)}
	}
	if ix.logger != nil && ix.logger.Enabled(ctx, levelRefused) {
		ix.logger.Log(ctx, levelRefused, refused(a))
	}
	if dangling {
		_, err := ix.PolicyRules(a.User, a.Namespace)
		if err != nil {
			return authz.Result{Reason: "RBAC: " + err.Error()}
		}
	}
	return authz.Result{}
}

// find returns a grant in a scope that allows what is asked, nil if there is
// none, and whether it came by grants of roles that do not exist.
func (st *state) find(scope string, q *question) (found *grant, dangling bool) {
	for i := -1; i < len(q.User.Groups); i++ {
		s := subject{scope, false, q.User.Name}
		if i >= 0 {
			s = subject{scope, true, q.User.Groups[i]}
		}
		e := st.subjects.get(s)
		if e == nil {
			continue
		}
		if g := e.allows(q); g != nil {
			return g, false
		}
		dangling = dangling || e.missing
	}
	return nil, dangling
}

// question is what is looked for in rules.
type question struct {
	*authz.Attributes
	combined []byte // resource[/subresource]
	anyOf    []byte // */subresource, empty if there is none
}

// newQuestion asks for what the attributes ask for. It writes behind b.
func newQuestion(a *authz.Attributes, b []byte) question {
	if !a.ResourceRequest {
		return question{Attributes: a}
	}
	b = append(b, a.Resource...)
	if a.Subresource == "" {
		return question{Attributes: a, combined: b}
	}
	b = append(append(b, '/'), a.Subresource...)
	n := len(b)
	b = append(append(b, "*/"...), a.Subresource...)
	return question{Attributes: a, combined: b[:n:n], anyOf: b[n:]}
}

// allows reports whether a rule allows what is asked.
func allows(r *rbacv1.PolicyRule, q *question) bool {
	if !has(r.Verbs, q.Verb, rbacv1.VerbAll) {
		return false
	}
	if !q.ResourceRequest {
		return matchesURL(r.NonResourceURLs, q.Path)
	}
	return has(r.APIGroups, q.Group, rbacv1.APIGroupAll) && matchesResource(r.Resources, q) && matchesName(r.ResourceNames, q.Name)
}

func has(list []string, one, all string) bool {
	for _, s := range list {
		if s == one || s == all {
			return true
		}
	}
	return false
}

func matchesResource(list []string, q *question) bool {
	for _, s := range list {
		if s == rbacv1.ResourceAll || s == string(q.combined) || len(q.anyOf) > 0 && s == string(q.anyOf) {
			return true
		}
	}
	return false
}

func matchesName(list []string, name string) bool {
	if len(list) == 0 {
		return true
	}
	for _, s := range list {
		if s == name {
			return true
		}
	}
	return false
}

func matchesURL(list []string, path string) bool {
	for _, s := range list {
		if urlCovers(s, path) {
			return true
		}
	}
	return false
}

// urlCovers reports whether a rule's URL is a path's: *, the path, or a prefix
// with asterisks after it.
func urlCovers(url, path string) bool {
	if url == rbacv1.NonResourceAll || url == path {
		return true
	}
	if len(url) == 0 || url[len(url)-1] != '*' {
		return false
	}
	prefix := trimStars(url)
	return len(path) >= len(prefix) && path[:len(prefix)] == prefix
}

func trimStars(s string) string {
	for len(s) > 0 && s[len(s)-1] == '*' {
		s = s[:len(s)-1]
	}
	return s
}
