// Package bootstrap knows the bootstrap tokens with which new members of a
// cluster introduce themselves.
//
// A bootstrap token is two words, id.secret. The Secret bootstrap-token-<id> in
// the namespace kube-system, of type bootstrap.kubernetes.io/token, has both,
// says until when the token is good, whether it may be used to authenticate, and
// which groups its user is in besides system:bootstrappers. The user is
// system:bootstrap:<id>.
//
// What is not wholly in order is not known, rather than refused: another
// authenticator may know the token. [New] returns the authenticator.
package bootstrap

import (
	"context"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/authn"
)

// SecretType is the type of Secrets that are bootstrap tokens.
const SecretType = "bootstrap.kubernetes.io/token"

// Secrets looks up the type and the data of a Secret of a namespace; found is
// false if there is none.
type Secrets func(ctx context.Context, namespace, name string) (kind string, data map[string]string, found bool, err error)

const group = "system:bootstrappers"

var (
	tokenForm = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)
	groupForm = regexp.MustCompile(`^` + group + `:[a-z0-9:-]{0,255}[a-z0-9]$`)
)

// New returns the authenticator of the bootstrap tokens that are Secrets. Why a
// Secret is no token is told to the logger.
func New(secrets Secrets, logger *slog.Logger) authn.Token {
	return authn.TokenFunc(func(ctx context.Context, token string, _ []string) (*authn.Response, error) {
		words := tokenForm.FindStringSubmatch(token)
		if words == nil {
			return nil, nil
		}
		id, secret, name := words[1], words[2], "bootstrap-token-"+words[1]
		kind, data, found, err := secrets(ctx, metav1.NamespaceSystem, name)
		if err != nil || !found {
			return nil, err
		}
		groups, err := check(kind, data, id, secret)
		if err != nil {
			logger.Debug("bootstrap token is not good", "secret", name, "error", err)
			return nil, nil
		}
		user := "system:bootstrap:" + id
		return &authn.Response{User: &authn.User{Name: user, Groups: authn.WithAuthenticated(user, groups)}}, nil
	})
}

// check finds what is wrong with a Secret as a token, and says the groups.
func check(kind string, data map[string]string, id, secret string) ([]string, error) {
	switch {
	case kind != SecretType:
		return nil, fmt.Errorf("type %q, want %q", kind, SecretType)
	case subtle.ConstantTimeCompare([]byte(data["token-secret"]), []byte(secret)) != 1:
		return nil, fmt.Errorf("another token-secret")
	case data["token-id"] != id:
		return nil, fmt.Errorf("token-id %q, want %q", data["token-id"], id)
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
