// Package bootstrap authenticates bootstrap tokens, with which new members of a cluster introduce
// themselves.
//
// A bootstrap token has the form id.secret. It is stored in the Secret bootstrap-token-<id> in the
// namespace kube-system, of type bootstrap.kubernetes.io/token, with its expiry, its permitted
// uses, and groups in addition to system:bootstrappers. The user is system:bootstrap:<id>.
//
// An invalid token is unknown rather than refused, because another authenticator may know it; the log shows
// why it is invalid. [New] returns the authenticator.
package bootstrap

import (
	"context"
	"crypto/subtle"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/authn"
)

// SecretType is the type of Secrets that hold bootstrap tokens.
const SecretType = "bootstrap.kubernetes.io/token"

// Secrets returns the type and the data of a Secret. found is false if it does not exist.
type Secrets func(ctx context.Context, namespace, name string) (kind string, data map[string]string, found bool, err error)

const group = "system:bootstrappers"

var (
	tokenForm = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)
	groupForm = regexp.MustCompile(`^` + group + `:[a-z0-9:-]{0,255}[a-z0-9]$`)
)

// name names the authenticator in the log.
const name = "bootstrap token"

// New returns the authenticator of bootstrap tokens.
func New(secrets Secrets) authn.Token {
	return authn.TokenFunc(func(ctx context.Context, token string, _ []string) (*authn.Response, error) {
		words := tokenForm.FindStringSubmatch(token)
		if words == nil {
			return nil, nil
		}
		id, secret := words[1], words[2]
		kind, data, found, err := secrets(ctx, metav1.NamespaceSystem, "bootstrap-token-"+id)
		switch {
		case err != nil:
			return nil, authn.Outage(name, "Failed to read the Secret of a bootstrap token", err)
		case !found:
			return nil, authn.Unknown(name, "there is no Secret for it in "+metav1.NamespaceSystem)
		}
		groups, err := check(kind, data, id, secret)
		if err != nil {
			return nil, authn.Unknown(name, err.Error())
		}
		user := "system:bootstrap:" + id
		return &authn.Response{User: &authn.User{Name: user, Groups: authn.WithAuthenticated(user, groups)}}, nil
	})
}

// check returns the groups of a token's Secret, or why the Secret does not make the token valid.
func check(kind string, data map[string]string, id, secret string) ([]string, error) {
	switch {
	case kind != SecretType:
		return nil, fmt.Errorf("type %q, want %q", kind, SecretType)
	case subtle.ConstantTimeCompare([]byte(data["token-secret"]), []byte(secret)) != 1:
		return nil, fmt.Errorf("another token-secret")
	case data["token-id"] != id:
		return nil, fmt.Errorf("another token-id than the name of its Secret")
	case data["usage-bootstrap-authentication"] != "true":
		return nil, fmt.Errorf("usage-bootstrap-authentication is not true")
	}
	if text := data["expiration"]; text != "" {
		end, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, fmt.Errorf("expiration: %w", err)
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("expired at %s", text)
		}
	}
	groups := []string{group}
	if text := data["auth-extra-groups"]; text != "" {
		for g := range strings.SplitSeq(text, ",") {
			if !groupForm.MatchString(g) {
				return nil, fmt.Errorf("auth-extra-groups: %q is not in the form of %s", g, groupForm)
			}
			groups = append(groups, g)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}
