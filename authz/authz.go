// Package authz decides whether a user may do what a request asks for.
//
// # Model
//
// [Attributes] describe the user and the request. An [Authorizer] answers with a [Result]: [Allow],
// [Deny] or [NoOpinion], with a reason, an error, and the name of the authorizer. A [Chain] asks
// named authorizers in order; the first one that allows or denies decides. A [RuleResolver] lists
// what a user may do, as far as that can be listed.
//
// Package chain, below this one, builds the authorizers of an API server from its configuration file, roles and bindings.
//
// # Invariants
//
//   - If no authorizer has an opinion, the request is refused.
//   - An authorizer that cannot decide returns an error. The request is then
//     refused, unless a later authorizer allows it.
//   - Authorizers neither change nor keep Attributes.
//   - Except for webhook calls, a decision takes no lock and allocates nothing
//     but the reason.
//
// [NewChain] makes a chain. [Standard] is the chain of a handler that is configured with none.
package authz

import (
	"context"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// User is the sender of a request.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// InGroup reports whether u is a member of the group.
func (u *User) InGroup(group string) bool { return slices.Contains(u.Groups, group) }

// MastersGroup is the group whose members may do everything.
const MastersGroup = "system:masters"

// Decision is an authorizer's answer.
type Decision uint8

// The zero value is NoOpinion.
const (
	NoOpinion Decision = iota
	Allow
	Deny
)

// String returns the name of the decision.
func (d Decision) String() string {
	switch d {
	case Allow:
		return "allow"
	case Deny:
		return "deny"
	}
	return "no opinion"
}

// Result is a decision, with its reason and author.
type Result struct {
	Decision Decision
	Reason   string // shown to the user and in the audit log; may be empty
	Err      error  // what failed before the decision; an Allow stands nevertheless
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

// Rules list what a user may do.
type Rules struct {
	Resource    []authorizationv1.ResourceRule
	NonResource []authorizationv1.NonResourceRule
	Incomplete  bool // the list may lack rules, or have too many
	Err         error
}

// RuleResolver lists what a user may do in a namespace and outside of all namespaces.
type RuleResolver interface {
	RulesFor(ctx context.Context, user *User, namespace string) Rules
}

// AlwaysAllow allows everything.
type AlwaysAllow struct{}

// Authorize allows.
func (AlwaysAllow) Authorize(context.Context, *Attributes) Result { return Result{Decision: Allow} }

// RulesFor returns one rule that allows everything.
func (AlwaysAllow) RulesFor(context.Context, *User, string) Rules {
	all := []string{"*"}
	return Rules{
		Resource:    []authorizationv1.ResourceRule{{Verbs: all, APIGroups: all, Resources: all}},
		NonResource: []authorizationv1.NonResourceRule{{Verbs: all, NonResourceURLs: all}},
	}
}

// AlwaysDeny never allows anything. Its decision is NoOpinion, as upstream's, so that later
// authorizers are asked.
type AlwaysDeny struct{}

// Authorize returns no opinion, with a reason.
func (AlwaysDeny) Authorize(context.Context, *Attributes) Result {
	return Result{Reason: "Everything is forbidden."}
}

// RulesFor returns no rules.
func (AlwaysDeny) RulesFor(context.Context, *User, string) Rules { return Rules{} }

// Masters allows everything to the group system:masters.
func Masters() Authorizer { return Func(masters) }

// masters allows everything to members of system:masters.
func masters(_ context.Context, a *Attributes) Result {
	if a.User != nil && a.User.InGroup(MastersGroup) {
		return Result{Decision: Allow}
	}
	return Result{}
}

// PublicPaths allows all users, including the anonymous one, to read the server's health and
// version. The results of single checks (/readyz/etcd) are not public, as with upstream's default
// roles.
func PublicPaths() Authorizer {
	return Func(func(_ context.Context, a *Attributes) Result {
		if !a.ResourceRequest && a.Verb == "get" && isPublic(a.Path) {
			return Result{Decision: Allow}
		}
		return Result{}
	})
}

// isPublic reports whether a path shows health or version to everybody.
func isPublic(path string) bool {
	switch path {
	case "/healthz", "/livez", "/readyz", "/version", "/version/":
		return true
	}
	return false
}

// Standard allows everything to system:masters, and health and version to everybody.
func Standard() Authorizer {
	return NewChain(nil, Named{Name: "public-paths", Authorizer: PublicPaths()})
}
