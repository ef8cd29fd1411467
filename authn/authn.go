// Package authn finds out who sends a request.
//
// # Model
//
// An [Authenticator] looks at a request and answers one of three things: a
// [Response] with a [User]; nothing at all, when the request carries no
// credential that it understands; or an error, when the request carries a
// credential that is wrong. Authenticators are asked in order by [Chain].
// Bearer tokens come to a server in more than one way; a [Token] says whose a
// token is, however it came, and [Bearer] and [WebSocket] find it in a request.
//
// A credential may be good for some audiences only. Who asks names those that
// would do; a Response names those of them that the credential is good for.
//
// # Invariants
//
//   - A wrong credential never becomes the anonymous user: once one
//     authenticator has refused what it was shown, and no other accepted the
//     request, the answer is an error and the client sees 401.
//   - Every user that showed a credential is in the group system:authenticated,
//     the anonymous user alone is in system:unauthenticated.
//   - A returned Response is shared between requests: nobody changes it.
//   - What a client says of itself in headers is believed only from a proxy
//     that showed its own certificate.
//
// [Standard] builds the usual chain. The packages below this one are ways to
// say whose a token is: serviceaccount, jwt, webhook.
package authn

import (
	"context"
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

// CredentialID is the key of the extra that names the credential which a user
// has shown (KEP-4193).
const CredentialID = "authentication.kubernetes.io/credential-id"

// User is who a request comes from.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// InGroup reports whether u is a member of the group.
func (u *User) InGroup(group string) bool { return slices.Contains(u.Groups, group) }

// Response is what a credential says.
type Response struct {
	User *User
	// Audiences are those of the audiences asked for that the credential is
	// good for; none if it knows no audiences.
	Audiences []string
	// Annotations are for the audit log.
	Annotations map[string]string
	// Warnings are for the client.
	Warnings []string
}

// Authenticator answers who sent a request: a user, nil if the request carries
// no credential of the kind it knows, an error if it carries a wrong one. The
// audiences are those that a credential may be good for; it has to be good for
// one of them. None means that audiences do not matter.
type Authenticator interface {
	Authenticate(r *http.Request, audiences []string) (*Response, error)
}

// Func makes a function an Authenticator.
type Func func(*http.Request, []string) (*Response, error)

// Authenticate calls f.
func (f Func) Authenticate(r *http.Request, audiences []string) (*Response, error) {
	return f(r, audiences)
}

// Token answers whose a token is: nil if that is not known to it, an error if
// the token is one of its own and wrong. Audiences are as in Authenticator.
type Token interface {
	AuthenticateToken(ctx context.Context, token string, audiences []string) (*Response, error)
}

// TokenFunc makes a function a Token.
type TokenFunc func(ctx context.Context, token string, audiences []string) (*Response, error)

// AuthenticateToken calls f.
func (f TokenFunc) AuthenticateToken(ctx context.Context, token string, audiences []string) (*Response, error) {
	return f(ctx, token, audiences)
}

// Chain asks the authenticators in order. The first user wins, also after an
// earlier authenticator refused; with no user, all errors together are the
// answer.
func Chain(chain ...Authenticator) Authenticator {
	return Func(func(r *http.Request, audiences []string) (*Response, error) {
		var refused error
		for _, a := range chain {
			response, err := a.Authenticate(r, audiences)
			if err == nil && response != nil {
				return response, nil
			}
			if err != nil {
				refused = join(refused, err)
			}
		}
		return nil, refused
	})
}

// Tokens asks in order whose a token is, as Chain does.
func Tokens(chain ...Token) Token {
	return TokenFunc(func(ctx context.Context, token string, audiences []string) (*Response, error) {
		var refused error
		for _, t := range chain {
			response, err := t.AuthenticateToken(ctx, token, audiences)
			if err == nil && response != nil {
				return response, nil
			}
			if err != nil {
				refused = join(refused, err)
			}
		}
		return nil, refused
	})
}

// join is both errors, the second alone if it is the only one.
func join(first, second error) error {
	if first == nil {
		return second
	}
	return aggregate{first, second}
}

// aggregate prints as upstream prints the errors of several authenticators.
type aggregate [2]error

func (a aggregate) Error() string {
	var texts []string
	var add func(err error)
	add = func(err error) {
		if more, ok := err.(aggregate); ok {
			add(more[0])
			add(more[1])
			return
		}
		if text := err.Error(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	add(a)
	if len(texts) == 1 {
		return texts[0]
	}
	out := "["
	for i, text := range texts {
		if i > 0 {
			out += ", "
		}
		out += text
	}
	return out + "]"
}

// Unwrap is for errors.Is and errors.As.
func (a aggregate) Unwrap() []error { return a[:] }

// errNobody refuses a request whose Authorization header no authenticator took.
var errNobody = errors.New("authorization header not accepted by any authenticator")

// errMissing refuses a request without a credential where the anonymous user
// is not let in.
var errMissing = errors.New("no credentials provided")

// Standard asks the credentials in order and lets a request without any
// credential through as the anonymous user, if that user may come in by the
// request's path. An Authorization header is a credential whatever its scheme:
// one that nobody accepted is refused.
func Standard(anonymous Anonymous, credentials ...Authenticator) Authenticator {
	chain := Chain(credentials...)
	return Func(func(r *http.Request, audiences []string) (*Response, error) {
		response, err := chain.Authenticate(r, audiences)
		switch {
		case err != nil || response != nil:
			return response, err
		case len(r.Header["Authorization"]) > 0 && r.Header.Get("Authorization") != "":
			return nil, errNobody
		case !anonymous.admits(r.URL.Path):
			return nil, errMissing
		}
		return anonymousResponse, nil
	})
}

// Anonymous says where requests without a credential are let in. The zero value
// is nowhere.
type Anonymous struct {
	Enabled bool
	// Paths, if there are any, are the only paths at which they are, compared
	// exactly.
	Paths []string
}

// Anybody lets requests without a credential in everywhere.
var Anybody = Anonymous{Enabled: true}

func (a Anonymous) admits(path string) bool {
	return a.Enabled && (len(a.Paths) == 0 || slices.Contains(a.Paths, path))
}

var anonymousResponse = &Response{User: &User{Name: AnonymousUser, Groups: []string{Unauthenticated}}}

// WithAuthenticated adds the group of everybody who showed a credential to the
// groups of a user of a name. The result shares nothing with groups.
func WithAuthenticated(name string, groups []string) []string {
	if name == AnonymousUser || slices.Contains(groups, Authenticated) || slices.Contains(groups, Unauthenticated) {
		return slices.Clone(groups)
	}
	return append(slices.Clone(groups), Authenticated)
}

// authenticated is the response with the group of everybody who showed a
// credential.
func authenticated(r *Response) *Response {
	u := *r.User
	u.Groups = WithAuthenticated(u.Name, u.Groups)
	out := *r
	out.User = &u
	return &out
}
