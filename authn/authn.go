// Package authn finds out who sends a request.
//
// # Model
//
// An [Authenticator] looks at a request and answers one of three things: a
// [User]; nothing at all, when the request carries no credential that it
// understands; or an error, when the request carries a credential that is
// wrong. Authenticators are asked in order by [Chain].
//
// # Invariants
//
//   - A wrong credential never becomes the anonymous user: once one
//     authenticator has refused what it was shown, and no other accepted the
//     request, the answer is an error and the client sees 401.
//   - Every user that showed a credential is in the group system:authenticated,
//     the anonymous user alone is in system:unauthenticated.
//   - A returned User is shared between requests: nobody changes it.
//
// [Standard] builds the usual chain; [Anonymous] belongs at the end of it.
package authn

import (
	"errors"
	"net/http"
	"slices"
)

// Names that Kubernetes gives to users and groups with a fixed meaning.
const (
	AnonymousUser   = "system:anonymous"
	Unauthenticated = "system:unauthenticated"
	Authenticated   = "system:authenticated"
	Masters         = "system:masters"
)

// User is who a request comes from.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// InGroup reports whether u is a member of the group.
func (u *User) InGroup(group string) bool { return slices.Contains(u.Groups, group) }

// Authenticator answers who sent a request: a user, nil if the request carries
// no credential of the kind it knows, an error if it carries a wrong one.
type Authenticator interface {
	Authenticate(r *http.Request) (*User, error)
}

// Func makes a function an Authenticator.
type Func func(*http.Request) (*User, error)

// Authenticate calls f.
func (f Func) Authenticate(r *http.Request) (*User, error) { return f(r) }

// Chain asks the authenticators in order. The first user wins, also after an
// earlier authenticator refused; with no user, the first error wins.
func Chain(chain ...Authenticator) Authenticator {
	return Func(func(r *http.Request) (*User, error) {
		var refused error
		for _, a := range chain {
			user, err := a.Authenticate(r)
			if err == nil && user != nil {
				return user, nil
			}
			if err != nil && refused == nil {
				refused = err
			}
		}
		return nil, refused
	})
}

// errNobody refuses a request whose Authorization header no authenticator took.
var errNobody = errors.New("authorization header not accepted by any authenticator")

// Standard asks the credentials in order and lets a request without any
// credential through as the anonymous user. An Authorization header is a
// credential whatever its scheme: one that nobody accepted is refused.
func Standard(credentials ...Authenticator) Authenticator {
	chain := Chain(credentials...)
	return Func(func(r *http.Request) (*User, error) {
		user, err := chain.Authenticate(r)
		switch {
		case err != nil || user != nil:
			return user, err
		case r.Header.Get("Authorization") != "":
			return nil, errNobody
		}
		return Anonymous().Authenticate(r)
	})
}

var anonymous = &User{Name: AnonymousUser, Groups: []string{Unauthenticated}}

// Anonymous takes every request for the anonymous user's.
func Anonymous() Authenticator {
	return Func(func(*http.Request) (*User, error) { return anonymous, nil })
}

// withAuthenticated adds the group of everybody who showed a credential.
func withAuthenticated(groups []string) []string {
	if slices.Contains(groups, Authenticated) || slices.Contains(groups, Unauthenticated) {
		return groups
	}
	return append(slices.Clone(groups), Authenticated)
}
