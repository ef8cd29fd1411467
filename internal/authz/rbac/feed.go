package rbac

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authz/feed"
)

// This file keeps an index like the store.

// Follower keeps an Index like the cache.
type Follower struct {
	feed.Feed
	Index *Index
}

// NewFollower returns a follower with an empty index; the kinds of the sources are Role,
// ClusterRole, RoleBinding and ClusterRoleBinding. At level -5, requests that no rule allows are
// logged.
func NewFollower(sources []feed.Source, logger *slog.Logger) *Follower {
	f := &Follower{Index: NewIndex()}
	f.Index.logger = logger
	f.Keeper, f.Sources, f.Logger = keeper{f.Index}, sources, logger
	return f
}

// keeper makes changes of an index of what is followed.
type keeper struct{ index *Index }

// Reset implements feed.Keeper.
func (k keeper) Reset(kind string, objects []feed.Object) error {
	keys := make(map[string]bool, len(objects))
	for i := range objects {
		o := &objects[i]
		id := o.Name
		if o.Namespace != "" {
			id = o.Namespace + "/" + o.Name
		}
		keys[id] = true
	}
	k.index.Keep(kind, keys)
	return k.Change(kind, objects)
}

// Change implements feed.Keeper.
func (k keeper) Change(kind string, objects []feed.Object) error {
	changes := make([]Change, len(objects))
	var errs []error
	for i := range objects {
		o := &objects[i]
		var err error
		if changes[i], err = decodeChange(kind, o); err != nil {
			errs = append(errs, fmt.Errorf("%s/%s: %w", o.Namespace, o.Name, err))
		}
	}
	k.index.Apply(changes...)
	return errors.Join(errs...)
}

// decodeChange returns the change that an object is. One that is gone, or cannot be
// read, grants nothing. Of the metadata it has the name only.
func decodeChange(kind string, o *feed.Object) (Change, error) {
	gone := goneChange(kind, key{o.Namespace, o.Name})
	if o.JSON == nil {
		return gone, nil
	}
	var has struct {
		Rules    []rbacv1.PolicyRule `json:"rules"`
		Subjects []rbacv1.Subject    `json:"subjects"`
		RoleRef  rbacv1.RoleRef      `json:"roleRef"`
	}
	if err := json.Unmarshal(o.JSON, &has); err != nil {
		return gone, err
	}
	c := goneChange(kind, key{o.Namespace, o.Name})
	c.Gone = false
	switch {
	case c.Role != nil:
		c.Role.Rules = has.Rules
	case c.ClusterRole != nil:
		c.ClusterRole.Rules = has.Rules
	case c.RoleBinding != nil:
		c.RoleBinding.Subjects, c.RoleBinding.RoleRef = has.Subjects, has.RoleRef
	case c.ClusterRoleBinding != nil:
		c.ClusterRoleBinding.Subjects, c.ClusterRoleBinding.RoleRef = has.Subjects, has.RoleRef
	default:
		return gone, fmt.Errorf("kind %s is none of RBAC", kind)
	}
	return c, nil
}

// ConfirmHeld is [Index.ConfirmHeld] of the index that is followed.
func (f *Follower) ConfirmHeld(user *authn.User, namespace string, rules []rbacv1.PolicyRule) error {
	return f.Index.ConfirmHeld(user, namespace, rules)
}

// RoleRules returns the rules of a Role, or of a ClusterRole if namespace is "",
// as new as every write acknowledged before; false if there is none.
func (f *Follower) RoleRules(ctx context.Context, namespace, name string) ([]rbacv1.PolicyRule, bool, error) {
	kind := "ClusterRole"
	if namespace != "" {
		kind = "Role"
	}
	o, ok, err := f.Get(ctx, kind, namespace, name)
	if !ok || err != nil {
		return nil, false, err
	}
	c, err := decodeChange(kind, &o)
	switch {
	case err != nil:
		return nil, false, err
	case c.Role != nil:
		return c.Role.Rules, true, nil
	}
	return c.ClusterRole.Rules, true, nil
}
