package rbac

import (
	"cmp"
	"context"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authz/partial"
)

// This file finds the conditions under which roles allow a request with unknown parts. It reads
// every binding.

// Cases implements partial.Authorizer.
func (ix *Index) Cases(_ context.Context, r *partial.Request) []partial.Case {
	var out []partial.Case
	for _, b := range ix.inOrder() {
		role := ix.roleOf(b)
		where := partial.Known(true)
		if b.namespace != "" {
			where = partial.Known(false) // requests without a resource have no namespace
			if r.ResourceRequest {
				where = r.Is("namespace", b.namespace)
			}
		}
		if role == nil || where.False() {
			continue
		}
		for i := range b.subjects {
			who := who(r, b, &b.subjects[i])
			if who.False() {
				continue
			}
			for j := range role.rules {
				when := partial.All(who, where, allowsWhen(&role.rules[j], r))
				if when.False() {
					continue
				}
				out = append(out, partial.Case{Result: authz.Result{Decision: authz.Allow, Reason: b.reason(&b.subjects[i])}, When: when})
				if when.True() {
					return out
				}
			}
		}
	}
	return out
}

// inOrder returns the bindings, those of the cluster first.
func (ix *Index) inOrder() []*binding {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	list := make([]*binding, 0, len(ix.bindings))
	for _, b := range ix.bindings {
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b *binding) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return list
}

// roleOf returns the role of a binding, nil if it does not exist.
func (ix *Index) roleOf(b *binding) *role {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if !b.known {
		return nil
	}
	return ix.roles[b.role]
}

// who returns the condition that the user is the subject.
func who(r *partial.Request, b *binding, s *rbacv1.Subject) partial.Condition {
	switch is, ok := b.subject(s); {
	case !ok:
		return partial.Known(false)
	case is.group:
		return r.Member(is.name)
	default:
		return r.Is("user", is.name)
	}
}

// allowsWhen returns the condition under which a rule allows the request.
func allowsWhen(rule *rbacv1.PolicyRule, r *partial.Request) partial.Condition {
	verb := r.In("verb", rbacv1.VerbAll, rule.Verbs...)
	if !r.ResourceRequest {
		var urls []partial.Condition
		for _, url := range rule.NonResourceURLs {
			switch {
			case url == rbacv1.NonResourceAll:
				urls = append(urls, partial.Known(true))
			case strings.HasSuffix(url, "*"):
				urls = append(urls, r.Begins("path", trimStars(url)))
			default:
				urls = append(urls, r.Is("path", url))
			}
		}
		return partial.All(verb, partial.Any(urls...))
	}
	var resources []partial.Condition
	for _, s := range rule.Resources {
		resource, sub, both := strings.Cut(s, "/")
		switch {
		case s == rbacv1.ResourceAll:
			resources = append(resources, partial.Known(true))
		case both && resource == rbacv1.ResourceAll:
			resources = append(resources, partial.All(partial.Known(sub != ""), r.Is("subresource", sub)))
		default:
			resources = append(resources, partial.All(r.Is("resource", resource), r.Is("subresource", sub)))
		}
	}
	names := partial.Known(true)
	if len(rule.ResourceNames) > 0 {
		names = r.In("name", "", rule.ResourceNames...)
	}
	return partial.All(verb, r.In("group", rbacv1.APIGroupAll, rule.APIGroups...), partial.Any(resources...), names)
}
