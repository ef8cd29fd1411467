package rbac

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/authz/feed"
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
// read, grants nothing.
func decodeChange(kind string, o *feed.Object) (c Change, err error) {
	gone := goneChange(kind, key{o.Namespace, o.Name})
	if o.JSON == nil {
		return gone, nil
	}
	switch kind {
	case "Role":
		c.Role = new(rbacv1.Role)
		err = json.Unmarshal(o.JSON, c.Role)
	case "ClusterRole":
		c.ClusterRole = new(rbacv1.ClusterRole)
		err = json.Unmarshal(o.JSON, c.ClusterRole)
	case "RoleBinding":
		c.RoleBinding = new(rbacv1.RoleBinding)
		err = json.Unmarshal(o.JSON, c.RoleBinding)
	case "ClusterRoleBinding":
		c.ClusterRoleBinding = new(rbacv1.ClusterRoleBinding)
		err = json.Unmarshal(o.JSON, c.ClusterRoleBinding)
	default:
		err = fmt.Errorf("kind %s is none of RBAC", kind)
	}
	if err != nil {
		return gone, err
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
