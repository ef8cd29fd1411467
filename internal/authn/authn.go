// Package authn authenticates requests.
//
// # Model
//
// An [Authenticator] examines a request. It returns a [Response] with a [User]; nothing, if the
// request has no credential of its kind; or an error, if the credential is invalid. A [Chain] asks
// authenticators in order. Bearer tokens arrive in more than one way: [Bearer] and [WebSocket] find
// them in a request, and a [Token] authenticates them.
//
// A credential may be valid for some audiences only. The caller names the audiences that it
// accepts; the Response names those for which the credential is valid.
//
// # Invariants
//
//   - An invalid credential never becomes the anonymous user. If one
//     authenticator refuses and no other accepts the request, the client gets
//     401.
//   - Every user with a credential is in the group system:authenticated. Only
//     the anonymous user is in system:unauthenticated.
//   - A Response is shared between requests and never modified.
//   - Headers that name a user are trusted only from a proxy with its own
//     certificate.
//
// [Standard] builds the usual chain. The packages below this one authenticate tokens:
// serviceaccount, bootstrap, jwt, webhook.
package authn

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/keelson-io/keelson/authz"
)

// Users and groups to which Kubernetes gives a meaning.
const (
	AnonymousUser   = "system:anonymous"
	Unauthenticated = "system:unauthenticated"
	Authenticated   = "system:authenticated"
	Masters         = authz.MastersGroup
)

// CredentialID is the key of extra that identifies the user's credential (KEP-4193).
const CredentialID = "authentication.kubernetes.io/credential-id"

// User is the sender of a request.
type User = authz.User

// Response is the result of a successful authentication.
type Response struct {
	User *User
	// Audiences lists the requested audiences for which the credential is valid; empty if the
	// credential has no audiences.
	Audiences []string
	// Annotations are added to the audit event.
	Annotations map[string]string
	// Warnings are sent to the client.
	Warnings []string
}

// Authenticator returns the user of a request; nil if the request has no credential that it knows;
// an error if the credential is invalid. The credential must be valid for one of the audiences,
// unless none are given.
type Authenticator interface {
	Authenticate(r *http.Request, audiences []string) (*Response, error)
}

// Func adapts a function to Authenticator.
type Func func(*http.Request, []string) (*Response, error)

// Authenticate calls f.
func (f Func) Authenticate(r *http.Request, audiences []string) (*Response, error) {
	return f(r, audiences)
}

// Token returns the user of a token; nil if it does not know the token; an error if the token is of
// its kind and invalid. Audiences are as for Authenticator.
type Token interface {
	AuthenticateToken(ctx context.Context, token string, audiences []string) (*Response, error)
}

// TokenFunc adapts a function to Token.
type TokenFunc func(ctx context.Context, token string, audiences []string) (*Response, error)

// AuthenticateToken calls f.
func (f TokenFunc) AuthenticateToken(ctx context.Context, token string, audiences []string) (*Response, error) {
	return f(ctx, token, audiences)
}

// Chain asks authenticators in order. The first user is the result, even if an earlier
// authenticator refused. Without a user, the result has all errors.
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

// Tokens is Chain for tokens.
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

// join combines two errors; the first may be nil.
func join(first, second error) error {
	if first == nil {
		return second
	}
	return aggregate{first, second}
}

// aggregate formats several errors as upstream does.
type aggregate [2]error

// Error returns the texts of all errors.
func (a aggregate) Error() string {
	var texts []string
	var add func(err error)
	add = func(err error) {
		if more, ok := err.(aggregate); ok {
			add(more[0])
			add(more[1])
			return
		}
		if errors.Is(err, errInvalidToken) && !isUnknown(a) {
			return // the others say more
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

// errNobody refuses a request with an Authorization header that no authenticator knows.
var errNobody = errors.New("authorization header not accepted by any authenticator")

// ErrMissing refuses a request without a credential if anonymous requests are not accepted.
var ErrMissing = errors.New("no credentials provided")

// Standard asks the credentials in order. A request without any credential becomes the anonymous
// user, if that is accepted at the request's path. An Authorization header counts as a credential,
// whatever its scheme.
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
			return nil, ErrMissing
		}
		return anonymousResponse, nil
	})
}

// Anonymous selects the paths on which requests without a credential are accepted. The zero value
// accepts none.
type Anonymous struct {
	Enabled bool
	// Paths, if not empty, restricts anonymous requests to exactly these paths.
	Paths []string
}

// Anybody accepts requests without a credential at all paths.
var Anybody = Anonymous{Enabled: true}

// admits reports whether anonymous requests are accepted at a path.
func (a Anonymous) admits(path string) bool {
	return a.Enabled && (len(a.Paths) == 0 || slices.Contains(a.Paths, path))
}

var anonymousResponse = &Response{User: &User{Name: AnonymousUser, Groups: []string{Unauthenticated}}}

// WithAuthenticated returns groups and system:authenticated, unless name is the anonymous user. The
// result shares no memory with groups.
func WithAuthenticated(name string, groups []string) []string {
	if name == AnonymousUser || slices.Contains(groups, Authenticated) || slices.Contains(groups, Unauthenticated) {
		return slices.Clone(groups)
	}
	return append(slices.Clone(groups), Authenticated)
}

// authenticated returns the response with the group system:authenticated added.
func authenticated(r *Response) *Response {
	u := *r.User
	u.Groups = WithAuthenticated(u.Name, u.Groups)
	out := *r
	out.User = &u
	return &out
}
