// Package authz decides whether a user may do what a request asks for.
//
// # Model
//
// [Attributes] say who wants to do what. An [Authorizer] answers [Allow],
// [Deny], or [NoOpinion], with a reason. A [Chain] asks authorizers in order:
// the first opinion stands.
//
// # Invariants
//
//   - Who gets no opinion from anybody is refused.
//   - An authorizer that cannot decide returns an error; the request is then
//     refused unless a later authorizer allows it.
//
// [Standard] is the chain of a server without further configuration.
package authz

import (
	"context"
	"errors"

	"github.com/keelson-io/keelson/authn"
)

// Attributes are what a decision may depend on.
type Attributes struct {
	User *authn.User
	Verb string

	// Of a request for a resource.
	ResourceRequest bool
	Group           string
	Version         string
	Resource        string
	Subresource     string
	Namespace       string
	Name            string

	// Path of the request's URL.
	Path string
}

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

// Authorizer decides about attributes, and may say why.
type Authorizer interface {
	Authorize(ctx context.Context, a *Attributes) (d Decision, reason string, err error)
}

// Func makes a function an Authorizer.
type Func func(context.Context, *Attributes) (Decision, string, error)

// Authorize calls f.
func (f Func) Authorize(ctx context.Context, a *Attributes) (Decision, string, error) {
	return f(ctx, a)
}

// Chain asks the authorizers in order until one has an opinion. Reasons and
// errors of those without one are kept and returned if nobody has any.
func Chain(chain ...Authorizer) Authorizer {
	return Func(func(ctx context.Context, a *Attributes) (Decision, string, error) {
		var why string
		var errs error
		for _, z := range chain {
			d, reason, err := z.Authorize(ctx, a)
			if d == Allow || d == Deny {
				return d, reason, err
			}
			if err != nil {
				errs = errors.Join(errs, err)
			}
			if reason != "" {
				if why != "" {
					why += "\n"
				}
				why += reason
			}
		}
		return NoOpinion, why, errs
	})
}

// Masters allows everything to the group system:masters.
func Masters() Authorizer {
	return Func(func(_ context.Context, a *Attributes) (Decision, string, error) {
		if a.User != nil && a.User.InGroup(authn.Masters) {
			return Allow, "", nil
		}
		return NoOpinion, "", nil
	})
}

// PublicPaths allows everybody, the anonymous user too, to read the server's
// health and version. Health answers of one check (/readyz/etcd) are not
// public, as upstream's default roles have it.
func PublicPaths() Authorizer {
	return Func(func(_ context.Context, a *Attributes) (Decision, string, error) {
		if !a.ResourceRequest && a.Verb == "get" && isPublic(a.Path) {
			return Allow, "", nil
		}
		return NoOpinion, "", nil
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
func Standard() Authorizer { return Chain(Masters(), PublicPaths()) }
