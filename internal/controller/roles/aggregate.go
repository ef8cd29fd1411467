package roles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/kind"
)

// This file keeps aggregated roles.

// Name is kube-controller-manager's name of the controller of aggregated roles, and Manager its
// field manager.
const (
	Name    = "clusterrole-aggregation-controller"
	Manager = Name
)

// API is the part of the API that the aggregator calls, as a client would.
type API interface {
	// Apply applies a configuration to an object, and becomes the owner of its fields even if other
	// managers own them.
	Apply(ctx context.Context, k *kind.Kind, namespace, name, subresource string, body []byte) error
}

// Aggregator sets the rules of ClusterRoles with an aggregation rule to those that they gather. Its
// fields are set before Run.
type Aggregator struct {
	Config
	API    API
	Logger *slog.Logger

	loop  loop.Loop // due is one key, for all roles
	kind  *kind.Kind
	roles map[string]*known
}

// known is what is remembered of a role: what decides which roles are gathered. The rules are decoded when they are, because those of
// all roles take many times their stored bytes.
type known struct {
	labels labelSet
	rule   *rbacv1.AggregationRule
	raw    []byte // as stored
	rev    int64
}

// Run works until ctx ends.
func (a *Aggregator) Run(ctx context.Context) {
	if !a.open() {
		return
	}
	a.loop = loop.Loop{Cache: a.Cache, Store: a.Store, Logger: a.Logger, Name: Name, List: []string{a.kind.StoragePrefix + "/"},
		Begin: func() { a.roles = map[string]*known{} },
		See:   a.see,
		Work:  func(ctx context.Context, _ string) error { return a.aggregate(ctx) },
	}
	a.loop.Run(ctx)
}

func (a *Aggregator) open() bool {
	a.kind = a.Kinds.Load().Lookup(rbacv1.GroupName, "clusterroles")
	return a.kind != nil
}

// see remembers the role of a change and schedules the work.
func (a *Aggregator) see(e *loop.Change) {
	if e.Deleted {
		delete(a.roles, strings.TrimPrefix(e.Key, a.kind.StoragePrefix+"/"))
	} else {
		a.remember(e.Key, e.Value, e.Rev)
	}
	a.loop.Add("")
}

// Sync gathers the rules of the present roles, once.
func (a *Aggregator) Sync(ctx context.Context) error {
	if !a.open() {
		return errors.New("cluster roles are not served")
	}
	res := a.Cache.Resource(a.kind.StoragePrefix)
	if err := res.Fresh(ctx); err != nil {
		return err
	}
	a.roles = map[string]*known{}
	res.Snapshot().Ascend("", func(o *cache.Object) bool {
		a.remember(o.Key, o.Raw, o.Rev)
		return true
	})
	return a.aggregate(ctx)
}

// remember remembers a role.
func (a *Aggregator) remember(key string, raw []byte, rev int64) {
	name := strings.TrimPrefix(key, a.kind.StoragePrefix+"/")
	var r struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
		AggregationRule *rbacv1.AggregationRule `json:"aggregationRule"`
	}
	if err := read(a.kind, raw, rev, &r); err != nil {
		a.Logger.Error("cluster role cannot be read", "key", key, "error", err)
		delete(a.roles, name)
		return
	}
	a.roles[name] = &known{r.Metadata.Labels, r.AggregationRule, raw, rev}
}

// aggregate sets the rules of every aggregated role.
func (a *Aggregator) aggregate(ctx context.Context) error {
	var errs []error
	for name, k := range a.roles {
		if k.rule == nil {
			continue
		}
		if err := a.gather(ctx, name, k); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// gather sets the rules of an aggregated role.
func (a *Aggregator) gather(ctx context.Context, name string, k *known) error {
	now, err := a.rules(name, k)
	if err != nil {
		return err
	}
	selectors, err := parse(k.rule.ClusterRoleSelectors)
	if err != nil {
		return err
	}
	var from []*rbacv1.ClusterRole
	for other, k := range a.roles {
		if other == name || !slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(k.labels) }) {
			continue
		}
		r, err := a.rules(other, k)
		if err != nil {
			return err
		}
		from = append(from, r)
	}
	if rules := gather(name, selectors, from); !equality.Semantic.DeepEqual(rules, now.Rules) {
		return a.write(ctx, name, k.rev, rules)
	}
	return nil
}

// rules returns a role with its name, labels and rules, which are decoded.
func (a *Aggregator) rules(name string, k *known) (*rbacv1.ClusterRole, error) {
	var r struct {
		Rules []rbacv1.PolicyRule `json:"rules"`
	}
	if err := read(a.kind, k.raw, k.rev, &r); err != nil {
		return nil, err
	}
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: k.labels}, Rules: r.Rules}, nil
}

// applied is the configuration that is applied to a role.
type applied struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        map[string]string   `json:"metadata"`
	Rules           []rbacv1.PolicyRule `json:"rules"`
}

// write applies new rules to a role at a revision. If the role has changed meanwhile, that change is seen
// soon. It may be another role of the same name, whose rules are its own.
func (a *Aggregator) write(ctx context.Context, name string, rev int64, rules []rbacv1.PolicyRule) error {
	metadata := map[string]string{"name": name, "resourceVersion": strconv.FormatInt(rev, 10)}
	text, err := json.Marshal(applied{head("ClusterRole"), metadata, append([]rbacv1.PolicyRule{}, rules...)})
	if err != nil {
		return err
	}
	if err := a.API.Apply(ctx, a.kind, "", name, "", text); !loop.Overtaken(err) {
		return err
	}
	return nil
}
