// Package rbac decides by roles and bindings.
//
// # Model
//
// A role is a list of rules. A binding gives the rules of one role to subjects: users, groups and
// service accounts. Roles and RoleBindings belong to a namespace, ClusterRoles and
// ClusterRoleBindings to the cluster. An [Index] holds them by subject. A decision looks up the
// user and each of the user's groups, in the cluster and in the request's namespace, and reads
// nothing else, so that its cost does not grow with the number of bindings.
//
// # Terms
//
//   - A grant is a role given to a subject by one binding.
//   - An entry holds the grants of one subject in one scope: a namespace, or
//     the cluster. An entry with many rules has a table of them by resource while it is used
//     ([Index] keeps 8 MiB of tables).
//
// # Invariants
//
//   - A decision reads one immutable state, takes no lock and allocates nothing,
//     unless a role is missing or large, a binding has more than 64 subjects, a table is not there, or
//     refusals are logged.
//   - A decision searches each large role once, however many groups have it.
//   - A change replaces only the entries of the subjects that it concerns.
//   - The authorizer never denies: without a grant it has no opinion.
//
// [Index.Authorize] decides and [Index.Apply] changes the index. cover.go prevents privilege
// escalation.
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
	var ruledOut []*role
	g, dangling := st.find("", &q, &ruledOut)
	if g == nil && a.Namespace != "" {
		var more bool
		g, more = st.find(a.Namespace, &q, &ruledOut)
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

// find returns a grant in a scope that allows the request, nil if there is none, and whether a
// grant refers to a missing role. It adds to refused the large roles that do not allow the request,
// so that they are not searched again for another group.
func (st *state) find(scope string, q *question, refused *[]*role) (found *grant, dangling bool) {
	for i := -1; i < len(q.User.Groups); i++ {
		s := subject{scope, false, q.User.Name}
		if i >= 0 {
			s = subject{scope, true, q.User.Groups[i]}
		}
		e := st.subjects.get(s)
		if e == nil {
			continue
		}
		if g := e.allows(q, refused, st.tables); g != nil {
			return g, false
		}
		dangling = dangling || e.missing
	}
	return nil, dangling
}

// question is a request in the form in which rules are compared with it.
type question struct {
	*authz.Attributes
	combined []byte // resource[/subresource]
	anyOf    []byte // */subresource, empty if there is none
}

// newQuestion returns the question of a request. It stores its strings in b.
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

// allows reports whether a rule allows the request.
func allows(r *rbacv1.PolicyRule, q *question) bool {
	if !has(r.Verbs, q.Verb, rbacv1.VerbAll) {
		return false
	}
	if !q.ResourceRequest {
		return matchesURL(r.NonResourceURLs, q.Path)
	}
	return has(r.APIGroups, q.Group, rbacv1.APIGroupAll) && matchesResource(r.Resources, q) && matchesName(r.ResourceNames, q.Name)
}

// has reports whether list has one, or all, which stands for any.
func has(list []string, one, all string) bool {
	for _, s := range list {
		if s == one || s == all {
			return true
		}
	}
	return false
}

// matchesResource reports whether a rule's resources include the requested one: by name, as
// subresource of any resource, or by *.
func matchesResource(list []string, q *question) bool {
	for _, s := range list {
		if s == rbacv1.ResourceAll || s == string(q.combined) || len(q.anyOf) > 0 && s == string(q.anyOf) {
			return true
		}
	}
	return false
}

// matchesName reports whether a rule's resourceNames include a name. An empty list includes all.
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

// matchesURL reports whether one of a rule's URLs covers a path.
func matchesURL(list []string, path string) bool {
	for _, s := range list {
		if urlCovers(s, path) {
			return true
		}
	}
	return false
}

// urlCovers reports whether a rule's URL covers a path: it is *, the path, or a prefix followed by
// asterisks.
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

// trimStars removes the stars at the end of a path.
func trimStars(s string) string {
	for len(s) > 0 && s[len(s)-1] == '*' {
		s = s[:len(s)-1]
	}
	return s
}
