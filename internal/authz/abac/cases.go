package abac

import (
	"context"
	"strings"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authz/partial"
)

// This file finds the conditions under which policies allow a request with unknown parts.

// Cases implements partial.Authorizer.
func (l List) Cases(_ context.Context, r *partial.Request) []partial.Case {
	var out []partial.Case
	for i := range l {
		when := l[i].allowsWhen(r)
		if when.False() {
			continue
		}
		out = append(out, partial.Case{Result: authz.Result{Decision: authz.Allow}, When: when})
		if when.True() {
			return out
		}
	}
	return append(out, partial.Case{Result: authz.Result{Reason: "No policy matched."}})
}

// allowsWhen returns the condition under which the policy allows the request.
func (p *Policy) allowsWhen(r *partial.Request) partial.Condition {
	who := partial.Known(p.User != "" || p.Group != "")
	if p.User != "" {
		who = partial.All(who, r.Is("user", p.User))
	}
	if p.Group != "" {
		who = partial.All(who, r.Member(p.Group))
	}
	if p.Readonly {
		who = partial.All(who, r.In("verb", "", "get", "list", "watch"))
	}
	if r.ResourceRequest {
		return partial.All(who, r.In("namespace", "*", p.Namespace), r.In("resource", "*", p.Resource), r.In("group", "*", p.APIGroup))
	}
	path := r.Is("path", p.NonResourcePath)
	if prefix, ok := strings.CutSuffix(p.NonResourcePath, "*"); ok {
		path = r.Begins("path", strings.TrimRight(prefix, "*"))
	}
	return partial.All(who, path)
}
