package rbac

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/cache"
)

// This file keeps an index like the store.

// Source is where one kind's objects are.
type Source struct {
	Kind     string // Role, ClusterRole, RoleBinding or ClusterRoleBinding
	Objects  *cache.Resource
	Renderer cache.Renderer // for objects that are not stored as JSON
}

// Follower keeps an Index like the cache.
type Follower struct {
	Index   *Index
	Sources []Source // one for each kind
	Logger  *slog.Logger

	positions []int64 // up to where each source has been followed
}

const retryFollowing = 50 * time.Millisecond

// Sync fills the index with what there is.
func (f *Follower) Sync(ctx context.Context) error {
	f.positions = make([]int64, len(f.Sources))
	errs := make([]error, len(f.Sources))
	var all sync.WaitGroup
	for i := range f.Sources {
		all.Go(func() { errs[i] = f.load(ctx, i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// load makes the index like a source is now.
func (f *Follower) load(ctx context.Context, i int) error {
	s := &f.Sources[i]
	if err := s.Objects.Ready(ctx); err != nil {
		return fmt.Errorf("reading %ss: %w", s.Kind, err)
	}
	snapshot := s.Objects.Snapshot()
	var changes []Change
	keys := map[string]bool{}
	snapshot.Ascend("", func(o *cache.Object) bool {
		keys[strings.TrimPrefix(o.Key, s.Objects.Prefix())] = true
		changes = f.add(changes, s, o, false)
		return true
	})
	f.Index.Keep(s.Kind, keys)
	f.Index.Apply(changes...)
	f.positions[i] = snapshot.Rev()
	return nil
}

// Run follows changes until ctx ends. Sync comes first.
func (f *Follower) Run(ctx context.Context) {
	var all sync.WaitGroup
	for i := range f.Sources {
		all.Go(func() {
			for ctx.Err() == nil {
				err := f.follow(ctx, i)
				if ctx.Err() != nil {
					return
				}
				f.Logger.Debug("watch of roles and bindings ended, starting another", "kind", f.Sources[i].Kind, "error", err)
				select {
				case <-ctx.Done():
				case <-time.After(retryFollowing):
				}
				if err := f.load(ctx, i); err != nil {
					f.Logger.Warn("roles and bindings cannot be read", "error", err)
				}
			}
		})
	}
	all.Wait()
}

// follow applies changes of one source as they come.
func (f *Follower) follow(ctx context.Context, i int) error {
	s := &f.Sources[i]
	watch, err := s.Objects.Watch(f.positions[i], "")
	if err != nil {
		return err
	}
	defer watch.Close()
	for {
		events, rev, err := watch.Next(ctx)
		if err != nil {
			return err
		}
		changes := make([]Change, 0, len(events))
		for _, e := range events {
			changes = f.add(changes, s, e.Object, e.Type == cache.Deleted)
		}
		f.Index.Apply(changes...)
		f.positions[i] = rev
	}
}

// add adds the change that an object is. One that cannot be read is as good as
// gone: it grants nothing.
func (f *Follower) add(changes []Change, s *Source, o *cache.Object, gone bool) []Change {
	c, err := decodeChange(s, o)
	if err != nil {
		f.Logger.Error("object cannot be read: it grants nothing", "key", o.Key, "error", err)
		namespace, name, found := strings.Cut(strings.TrimPrefix(o.Key, s.Objects.Prefix()), "/")
		if !found {
			namespace, name = "", namespace
		}
		return append(changes, goneChange(s.Kind, key{namespace, name}))
	}
	c.Gone = gone
	return append(changes, c)
}

func decodeChange(s *Source, o *cache.Object) (c Change, err error) {
	text := o.Raw
	if len(text) == 0 || text[0] != '{' {
		view, err := s.Renderer.Render(o.Raw, o.Rev)
		if err != nil {
			return c, err
		}
		text = view.JSON
	}
	switch s.Kind {
	case "Role":
		c.Role = new(rbacv1.Role)
		err = json.Unmarshal(text, c.Role)
	case "ClusterRole":
		c.ClusterRole = new(rbacv1.ClusterRole)
		err = json.Unmarshal(text, c.ClusterRole)
	case "RoleBinding":
		c.RoleBinding = new(rbacv1.RoleBinding)
		err = json.Unmarshal(text, c.RoleBinding)
	case "ClusterRoleBinding":
		c.ClusterRoleBinding = new(rbacv1.ClusterRoleBinding)
		err = json.Unmarshal(text, c.ClusterRoleBinding)
	default:
		err = fmt.Errorf("kind %s is none of RBAC", s.Kind)
	}
	return c, err
}

// ConfirmHeld is [Index.ConfirmHeld] of the index that is followed.
func (f *Follower) ConfirmHeld(user *authn.User, namespace string, rules []rbacv1.PolicyRule) error {
	return f.Index.ConfirmHeld(user, namespace, rules)
}

// RoleRules are the rules of a Role, or of a ClusterRole if namespace is "",
// as new as every write acknowledged before; false if there is none.
func (f *Follower) RoleRules(ctx context.Context, namespace, name string) ([]rbacv1.PolicyRule, bool, error) {
	kind, id := "ClusterRole", name
	if namespace != "" {
		kind, id = "Role", namespace+"/"+name
	}
	for i := range f.Sources {
		s := &f.Sources[i]
		if s.Kind != kind {
			continue
		}
		if err := s.Objects.Fresh(ctx); err != nil {
			return nil, false, err
		}
		o, ok := s.Objects.Get(s.Objects.Prefix() + id)
		if !ok {
			return nil, false, nil
		}
		c, err := decodeChange(s, o)
		switch {
		case err != nil:
			return nil, false, err
		case c.Role != nil:
			return c.Role.Rules, true, nil
		}
		return c.ClusterRole.Rules, true, nil
	}
	return nil, false, nil
}
