// Package authz decides whether a user may do what a request asks for.
//
// # Model
//
// [Attributes] say who wants to do what. An [Authorizer] answers with a
// [Result]: [Allow], [Deny], or [NoOpinion], with a reason, an error, and the
// name of whoever decided. A [Chain] asks named authorizers in order: the first
// opinion stands. A [RuleResolver] lists what a user may do, as far as it can.
//
// The packages below this one are the authorizers and what makes a chain of
// them: config (the file and the flags), webhook, rbac, abac, node, and reload.
//
// # Invariants
//
//   - Who gets no opinion from anybody is refused.
//   - An authorizer that cannot decide returns an error; the request is then
//     refused unless a later authorizer allows it.
//   - Authorizers do not change Attributes, nor keep them.
//   - Deciding takes no lock and, webhooks that are called excepted, allocates
//     nothing but the reason.
//
// [NewChain] makes a chain, [Standard] the one of a handler that is given none.
package authz

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/keelson-io/keelson/authn"
)

// Decision is an authorizer's answer.
type Decision uint8

// The decisions. The zero value is no opinion.
const (
	NoOpinion Decision = iota
	Allow
	Deny
)

// String names the decision.
func (d Decision) String() string {
	switch d {
	case Allow:
		return "allow"
	case Deny:
		return "deny"
	}
	return "no opinion"
}

// Result is a decision and how it came about.
type Result struct {
	Decision Decision
	Reason   string // for the user and the audit log; may be empty
	Err      error  // what went wrong on the way; an Allow stands nevertheless
	By       string // the name of the authorizer whose opinion it is, set by a Chain; "" if nobody has one
}

// Authorizer decides about attributes.
type Authorizer interface {
	Authorize(ctx context.Context, a *Attributes) Result
}

// Func makes a function an Authorizer.
type Func func(context.Context, *Attributes) Result

// Authorize calls f.
func (f Func) Authorize(ctx context.Context, a *Attributes) Result { return f(ctx, a) }

// Rules are what a user may do, as far as it can be listed.
type Rules struct {
	Resource    []authorizationv1.ResourceRule
	NonResource []authorizationv1.NonResourceRule
	Incomplete  bool // there may be more, or less, than is listed
	Err         error
}

// RuleResolver lists what a user may do in a namespace and outside of any.
type RuleResolver interface {
	RulesFor(ctx context.Context, user *authn.User, namespace string) Rules
}

// AlwaysAllow allows everything.
type AlwaysAllow struct{}

// Authorize allows.
func (AlwaysAllow) Authorize(context.Context, *Attributes) Result { return Result{Decision: Allow} }

// RulesFor is everything.
func (AlwaysAllow) RulesFor(context.Context, *authn.User, string) Rules {
	all := []string{"*"}
	return Rules{
		Resource:    []authorizationv1.ResourceRule{{Verbs: all, APIGroups: all, Resources: all}},
		NonResource: []authorizationv1.NonResourceRule{{Verbs: all, NonResourceURLs: all}},
	}
}

// AlwaysDeny never allows anything. Its answer is no opinion, as upstream's, so
// that later authorizers are asked.
type AlwaysDeny struct{}

// Authorize has no opinion, and says why.
func (AlwaysDeny) Authorize(context.Context, *Attributes) Result {
	return Result{Reason: "Everything is forbidden."}
}

// RulesFor is nothing.
func (AlwaysDeny) RulesFor(context.Context, *authn.User, string) Rules { return Rules{} }

// Masters allows everything to the group system:masters.
func Masters() Authorizer { return Func(masters) }

func masters(_ context.Context, a *Attributes) Result {
	if a.User != nil && a.User.InGroup(authn.Masters) {
		return Result{Decision: Allow}
	}
	return Result{}
}

// PublicPaths allows everybody, the anonymous user too, to read the server's
// health and version. Health answers of one check (/readyz/etcd) are not
// public, as upstream's default roles have it.
func PublicPaths() Authorizer {
	return Func(func(_ context.Context, a *Attributes) Result {
		if !a.ResourceRequest && a.Verb == "get" && isPublic(a.Path) {
			return Result{Decision: Allow}
		}
		return Result{}
	})
}

func isPublic(path string) bool {
	switch path {
	case "/healthz", "/livez", "/readyz", "/version", "/version/":
		return true
	}
	return false
}

// Standard lets system:masters do everything and everybody read health and
// version; nobody else gets anything.
func Standard() Authorizer {
	return NewChain(nil, Named{Name: "public-paths", Authorizer: PublicPaths()})
}
