package roles

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/store"
)

// This file keeps aggregated roles.

// retryAfter is how long to wait before what went wrong is tried again.
const retryAfter = 100 * time.Millisecond

// Aggregator gives ClusterRoles with an aggregation rule the rules that they
// gather.
type Aggregator struct {
	Config
	Logger *slog.Logger

	roles map[string]*rbacv1.ClusterRole
	revs  map[string]int64
}

// Run works until ctx ends.
func (a *Aggregator) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := a.follow(ctx); err != nil && ctx.Err() == nil {
			a.Logger.Debug("watch of cluster roles ended, starting another", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
			}
		}
	}
}

// Sync gathers the rules of the roles that there are now, once.
func (a *Aggregator) Sync(ctx context.Context) error {
	k := a.Kinds.Load().Lookup(rbacv1.GroupName, "clusterroles")
	if k == nil {
		return errors.New("cluster roles are not served")
	}
	res := a.Cache.Resource(k.StoragePrefix)
	if err := res.Fresh(ctx); err != nil {
		return err
	}
	a.load(k, res, res.Snapshot())
	if !a.aggregate(ctx, k) {
		return errors.New("cluster roles cannot be aggregated")
	}
	return nil
}

// load notes the roles of a snapshot, and no others.
func (a *Aggregator) load(k *kind.Kind, res *cache.Resource, snapshot cache.Snapshot) {
	a.roles, a.revs = map[string]*rbacv1.ClusterRole{}, map[string]int64{}
	snapshot.Ascend("", func(o *cache.Object) bool {
		a.note(k, res, o)
		return true
	})
}

// follow looks at all roles, and again whenever one changes.
func (a *Aggregator) follow(ctx context.Context) error {
	k := a.Kinds.Load().Lookup(rbacv1.GroupName, "clusterroles")
	if k == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	res := a.Cache.Resource(k.StoragePrefix)
	if err := res.Ready(ctx); err != nil {
		return err
	}
	snapshot := res.Snapshot()
	watch, err := res.Watch(snapshot.Rev(), "")
	if err != nil {
		return err
	}
	defer watch.Close()
	a.load(k, res, snapshot)
	for {
		wait, cancel := ctx, context.CancelFunc(func() {})
		if !a.aggregate(ctx, k) {
			wait, cancel = context.WithTimeout(ctx, retryAfter)
		}
		events, _, err := watch.Next(wait)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return err
		}
		for _, e := range events {
			if e.Type == cache.Deleted {
				delete(a.roles, nameOf(e.Object.Key, res.Prefix()))
				continue
			}
			a.note(k, res, e.Object)
		}
	}
}

// note remembers a role.
func (a *Aggregator) note(k *kind.Kind, res *cache.Resource, o *cache.Object) {
	name := nameOf(o.Key, res.Prefix())
	r := new(rbacv1.ClusterRole)
	if err := read(k, o.Raw, o.Rev, r); err != nil {
		a.Logger.Error("cluster role cannot be read", "key", o.Key, "error", err)
		delete(a.roles, name)
		return
	}
	a.roles[name], a.revs[name] = r, o.Rev
}

// aggregate brings every aggregated role in line. It reports whether that went
// well; what did not is to be tried again.
func (a *Aggregator) aggregate(ctx context.Context, k *kind.Kind) bool {
	all := make([]*rbacv1.ClusterRole, 0, len(a.roles))
	for _, r := range a.roles {
		all = append(all, r)
	}
	well := true
	for name, r := range a.roles {
		if r.AggregationRule == nil {
			continue
		}
		rules, err := Gather(name, r.AggregationRule.ClusterRoleSelectors, all)
		if err == nil && !equality.Semantic.DeepEqual(rules, r.Rules) {
			err = a.write(ctx, k, r, a.revs[name], rules)
		}
		if err != nil && ctx.Err() == nil {
			well = false
			a.Logger.Warn("cluster role cannot be aggregated", "clusterrole", name, "error", err)
		}
	}
	return well
}

// write stores a role with other rules. If somebody else has changed it
// meanwhile, the watch will say so.
func (a *Aggregator) write(ctx context.Context, k *kind.Kind, r *rbacv1.ClusterRole, rev int64, rules []rbacv1.PolicyRule) error {
	next := *r
	next.TypeMeta = head("ClusterRole")
	next.ResourceVersion = ""
	next.Rules = slices.Clone(rules)
	text, err := json.Marshal(&next)
	if err != nil {
		return err
	}
	_, err = a.Store.Update(ctx, k.Key("", r.Name), text, rev)
	if changed := (*store.Changed)(nil); errors.As(err, &changed) {
		return nil
	}
	return err
}
