package impersonation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
)

// This file is the modes of impersonation.

// mode is one way to be allowed to be another user. It answers nil where it is
// not for that user at all.
type mode interface {
	check(ctx context.Context, wanted *authn.User, a *authz.Attributes) (*Impersonated, error)
}

// modes returns all of them, in the order in which they are tried.
func modes(c *checker) []mode {
	return []mode{
		newConstrained("associated-node", c, func(wanted, requester *authn.User) bool {
			return onlyNamed(wanted) && boundTo(requester, wanted.Name)
		}),
		newConstrained("arbitrary-node", c, func(wanted, _ *authn.User) bool {
			_, ok := nodeName(wanted.Name)
			return ok && onlyNamed(wanted)
		}),
		newConstrained("serviceaccount", c, func(wanted, _ *authn.User) bool {
			_, _, ok := authn.ServiceAccountOf(wanted.Name)
			return ok && onlyNamed(wanted)
		}),
		newConstrained("user-info", c, func(wanted, _ *authn.User) bool {
			_, node := nodeName(wanted.Name)
			_, _, account := authn.ServiceAccountOf(wanted.Name)
			return !node && !account
		}),
		legacy{&grant{checker: c, verb: "impersonate"}},
	}
}

// onlyNamed reports whether nothing but the name is asked for.
func onlyNamed(u *authn.User) bool { return u.UID == "" && len(u.Groups) == 0 && len(u.Extra) == 0 }

// nodeName is the node that a user is.
func nodeName(user string) (string, bool) {
	name, ok := strings.CutPrefix(user, "system:node:")
	if !ok || len(validation.NameIsDNSSubdomain(name, false)) > 0 {
		return "", false
	}
	return name, true
}

// boundTo reports whether a requester is a service account whose token is bound
// to the node that a user is.
func boundTo(requester *authn.User, user string) bool {
	node, ok := nodeName(user)
	if !ok {
		return false
	}
	_, _, account := authn.ServiceAccountOf(requester.Name)
	values := requester.Extra[authn.NodeName]
	return account && len(values) == 1 && values[0] == node
}

// constrained is a mode that asks about the request as well as the user.
type constrained struct {
	name  string
	fits  func(wanted, requester *authn.User) bool
	ask   *checker
	grant *grant
	known *recent[*Impersonated] // by request
}

// newConstrained returns a constrained mode. fits reports whether the mode is for such users.
func newConstrained(name string, c *checker, fits func(wanted, requester *authn.User) bool) *constrained {
	return &constrained{name: name, fits: fits, ask: c,
		grant: &grant{checker: c, verb: "impersonate:" + name, constrained: true, known: newRecent[*Impersonated](maxRemembered, lifetime)},
		known: newRecent[*Impersonated](maxRemembered, lifetime)}
}

// check implements mode.
func (m *constrained) check(ctx context.Context, wanted *authn.User, a *authz.Attributes) (*Impersonated, error) {
	if !m.fits(wanted, a.User) {
		return nil, nil
	}
	asked, anyNode := *a, m.name == "associated-node"
	keyed := wanted
	if anyNode {
		// The remembered permission is for every node that a token like this may be bound to.
		asked.User = associated(a.User)
		keyed = &authn.User{Name: "system:node:*"}
	}
	key := keyOf(keyed, &asked)
	if got, ok := m.known.get(key); ok {
		return renamed(got.value, wanted, anyNode), nil
	}
	began := time.Now()
	asked.Verb = "impersonate-on:" + m.name + ":" + a.Verb
	if err := m.ask.allowed(ctx, &asked); err != nil {
		return nil, err
	}
	got, err := m.grant.check(ctx, userKey(keyed, asked.User), wanted, asked.User)
	if err != nil {
		return nil, err
	}
	if got.since.After(began) {
		got.since = began
	}
	m.known.set(key, got)
	return renamed(got.value, wanted, anyNode), nil
}

// renamed is what was remembered for any node as the node that is wanted.
func renamed(got *Impersonated, wanted *authn.User, anyNode bool) *Impersonated {
	if !anyNode || got.User.Name == wanted.Name {
		return got
	}
	u := *got.User
	u.Name = wanted.Name
	return &Impersonated{User: &u, Constraint: got.Constraint}
}

// associated returns the requester as authorizers see it for its own node: a placeholder replaces
// the name of the node.
func associated(requester *authn.User) *authn.User {
	u := *requester
	u.Extra = map[string][]string{"authentication.kubernetes.io/associated-node-keys": slices.Sorted(maps.Keys(requester.Extra))}
	return &u
}

// legacy is the mode that asks about the user only.
type legacy struct{ grant *grant }

// check implements mode.
func (l legacy) check(ctx context.Context, wanted *authn.User, a *authz.Attributes) (*Impersonated, error) {
	got, err := l.grant.check(ctx, "", wanted, a.User)
	return got.value, err
}

// grant asks about everything that the wanted user has.
type grant struct {
	*checker
	verb        string
	constrained bool
	known       *recent[*Impersonated] // by wanted user and requester; nil: nothing is remembered
}

// many is the number of questions from which on one about all is asked first.
const many = 4

// check checks the permissions on everything that the wanted user has, and returns the complete
// user, and when the permissions were asked for.
func (g *grant) check(ctx context.Context, key string, wanted, requester *authn.User) (remembered[*Impersonated], error) {
	if g.known != nil {
		if got, ok := g.known.get(key); ok {
			return got, nil
		}
	}
	user, out := *wanted, remembered[*Impersonated]{since: time.Now()}
	for _, ask := range []func(context.Context, *authn.User, *authn.User) error{g.name, g.uid, g.groups, g.extra} {
		if err := ask(ctx, requester, &user); err != nil {
			return out, err
		}
	}
	if user.Name == authn.AnonymousUser {
		user.Groups = with(user.Groups, authn.Unauthenticated)
	} else if !slices.Contains(user.Groups, authn.Unauthenticated) {
		user.Groups = with(user.Groups, authn.Authenticated)
	}
	out.value = &Impersonated{User: &user}
	if g.constrained {
		out.value.Constraint = g.verb
	}
	if g.known != nil {
		g.known.set(key, out)
	}
	return out, nil
}

// with returns the groups and one more, unless it is among them.
func with(groups []string, group string) []string {
	if slices.Contains(groups, group) {
		return groups
	}
	return append(slices.Clone(groups), group)
}

// attributes returns the question about one thing that the wanted user has.
func (g *grant) attributes(requester *authn.User, resource, name string) *authz.Attributes {
	group := "authentication.k8s.io"
	if !g.constrained && (resource == "users" || resource == "groups") {
		group = ""
	}
	return &authz.Attributes{User: requester, Verb: g.verb, ResourceRequest: true, Group: group, Version: "v1", Resource: resource, Name: name}
}

// name asks about the name, and gives nodes and service accounts the groups
// that they have by nature. user.Groups is set only after it has been asked
// about, so that the groups by nature are not.
func (g *grant) name(ctx context.Context, requester, user *authn.User) error {
	a := g.attributes(requester, "users", user.Name)
	if node, ok := nodeName(user.Name); ok && g.constrained {
		a.Resource, a.Name = "nodes", node
		if g.verb == "impersonate:associated-node" {
			a.Name = "*"
		}
		if len(user.Groups) > 0 {
			return g.forbidden(a, fmt.Sprintf("when impersonating a node, cannot impersonate groups %q", user.Groups))
		}
	}
	if namespace, name, ok := authn.ServiceAccountOf(user.Name); ok {
		a.Resource, a.Namespace, a.Name = "serviceaccounts", namespace, name
		if g.constrained && len(user.Groups) > 0 {
			return g.forbidden(a, fmt.Sprintf("when impersonating a service account, cannot impersonate groups %q", user.Groups))
		}
	}
	return g.allowed(ctx, a)
}

// uid checks the permission for the wanted UID.
func (g *grant) uid(ctx context.Context, requester, user *authn.User) error {
	if user.UID == "" {
		return nil
	}
	return g.allowed(ctx, g.attributes(requester, "uids", user.UID))
}

// groups checks the permissions for the wanted groups. A user without any gets those that belong to
// its name.
func (g *grant) groups(ctx context.Context, requester, user *authn.User) error {
	if len(user.Groups) == 0 {
		user.Groups = g.natural(user.Name)
		return nil
	}
	a := g.attributes(requester, "groups", "")
	if g.constrained {
		if slices.Contains(user.Groups, "") {
			return g.forbidden(a, "impersonating the empty string group is not allowed")
		}
		if slices.Contains(user.Groups, authn.Masters) {
			a.Name = authn.Masters
			return g.forbidden(a, "impersonating the system:masters group is not allowed")
		}
		if len(user.Groups) >= many {
			a.Name = "*"
			if g.allowed(ctx, a) == nil {
				return nil
			}
		}
	}
	for _, group := range user.Groups {
		a.Name = group
		if err := g.allowed(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// natural returns the groups that a user of a name has if none are asked for.
func (g *grant) natural(user string) []string {
	if _, ok := nodeName(user); ok && g.constrained {
		return []string{"system:nodes"}
	}
	if namespace, _, ok := authn.ServiceAccountOf(user); ok {
		return authn.ServiceAccountGroups(namespace)
	}
	return nil
}

// extra checks the permissions for the wanted extra.
func (g *grant) extra(ctx context.Context, requester, user *authn.User) error {
	if len(user.Extra) == 0 {
		return nil
	}
	a := g.attributes(requester, "userextras", "")
	if g.constrained {
		if err := checkExtra(user.Extra); err != nil {
			return g.forbidden(a, err.Error())
		}
		if isLarge(user.Extra) {
			a.Subresource, a.Name = "*", "*"
			if g.allowed(ctx, a) == nil {
				return nil
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(user.Extra)) {
		a.Subresource = key
		for _, value := range user.Extra[key] {
			a.Name = value
			if err := g.allowed(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkExtra refuses extras whose keys could be confused with others.
func checkExtra(extra map[string][]string) error {
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		values := extra[key]
		if key == "" {
			return fmt.Errorf("impersonating the empty string key in extra is not allowed")
		}
		if err := utilvalidation.IsDomainPrefixedPath(field.NewPath("extra", "key"), key).ToAggregate(); err != nil {
			return fmt.Errorf("impersonating an invalid key in extra is not allowed: %w", err)
		}
		switch {
		case key != strings.ToLower(key):
			return fmt.Errorf("impersonating a non-lowercase key in extra is not allowed: %q", key)
		case len(values) == 0:
			return fmt.Errorf("impersonating empty values in extra is not allowed")
		case slices.Contains(values, ""):
			return fmt.Errorf("impersonating the empty string value in extra is not allowed")
		}
	}
	return nil
}

// isLarge reports whether there are so many values that one permission for all of them is tried
// first.
func isLarge(extra map[string][]string) bool {
	count := 0
	for _, values := range extra {
		count += len(values)
	}
	return len(extra) >= many || count >= many
}
