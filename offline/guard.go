package offline

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authz/rbac"
)

// This file decides what users may do, and notes what is not known.

// unknown is the last user whose permissions were asked for although they are not known.
type unknown struct{ user atomic.Pointer[string] }

// name returns the user, "" if there is none.
func (u *unknown) name() string {
	if name := u.user.Load(); name != nil {
		return *name
	}
	return ""
}

// unknownKey is the key of the unknown of a context.
type unknownKey struct{}

// context returns a context whose requests note in u what is not known.
func (u *unknown) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, unknownKey{}, u)
}

// guard decides by roles and bindings, if there are any.
type guard struct {
	rules   *rbac.Index
	byRoles atomic.Bool // roles and bindings decide; at first every request is allowed
}

// decide decides as the authorizers of a server do.
func (g *guard) decide(ctx context.Context, a *authz.Attributes) authz.Result {
	if a.User.InGroup(authn.Masters) {
		return authz.Result{Decision: authz.Allow}
	}
	return g.rules.Authorize(ctx, a)
}

// requestGuard decides about requests.
type requestGuard struct{ *guard }

// Authorize implements authz.Authorizer.
func (g requestGuard) Authorize(ctx context.Context, a *authz.Attributes) authz.Result {
	if !g.byRoles.Load() {
		return authz.Result{Decision: authz.Allow}
	}
	return g.decide(ctx, a)
}

// policyGuard decides for expressions of policies.
type policyGuard struct{ *guard }

// Authorize implements authz.Authorizer.
func (g policyGuard) Authorize(ctx context.Context, a *authz.Attributes) authz.Result {
	if g.byRoles.Load() || slices.Contains(a.User.Groups, authn.Masters) {
		return g.decide(ctx, a)
	}
	name := a.User.Name
	if u, ok := ctx.Value(unknownKey{}).(*unknown); ok {
		u.user.Store(&name)
	}
	return authz.Result{Err: fmt.Errorf("what %s may do is not known without roles and bindings", name)}
}
