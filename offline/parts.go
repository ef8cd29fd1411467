package offline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/plugins"
	"github.com/keelson-io/keelson/internal/admission/policy"
	"github.com/keelson-io/keelson/internal/allocator"
	"github.com/keelson-io/keelson/internal/api/impersonation"
	"github.com/keelson-io/keelson/internal/api/program"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authz/feed"
	"github.com/keelson-io/keelson/internal/authz/rbac"
	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/definitions"
	"github.com/keelson-io/keelson/internal/controller/ensure"
	"github.com/keelson-io/keelson/internal/controller/roles"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
)

// This file assembles the parts of a server that decide about writes. Nothing runs in the background: the
// caches see a write only when settle is called. Nothing uses the network: webhooks are not called, so that writes must be dry runs.

// parts are these parts.
type parts struct {
	kinds      *kind.Registry
	cache      *cache.Cache
	verbs      *objects.Verbs
	own        objects.Writer // of the server itself
	crds       *definitions.Controller
	rules      *rbac.Follower
	aggregator *roles.Aggregator
	guard      guard
	users      *impersonation.Impersonator
}

// administrator is the user of requests that name none.
var administrator = &authn.User{Name: "keelson-admin", Groups: []string{authn.Masters, authn.Authenticated}}

// off are the plugins that do not run: there are no controllers to create service accounts, and classes need not
// be part of what is checked.
var off = []string{plugins.ServiceAccount, plugins.Priority, plugins.RuntimeClass, plugins.MutatingWebhook, plugins.ValidatingWebhook}

// assemble builds the parts over a store.
func assemble(ctx context.Context, st store.Store, logger *slog.Logger) (*parts, error) {
	on, err := plugins.Choose(nil, off, false)
	if err != nil {
		return nil, err
	}
	ports, err := utilnet.ParsePortRange(allocator.DefaultPorts)
	if err != nil {
		return nil, err
	}
	compiler := new(crd.Compiler)
	p := &parts{kinds: kind.NewRegistry(builtin.All(compiler)...), cache: cache.New(st, cache.Options{Logger: logger})}
	compiler.Stored = definitions.Stored(p.kinds, p.cache)
	const group = rbacv1.GroupName
	sources, err := feed.SourcesOf(p.kinds.Load(), p.cache, group+"/roles", group+"/clusterroles", group+"/rolebindings", group+"/clusterrolebindings")
	if err != nil {
		return nil, p.closed(err)
	}
	p.rules = rbac.NewFollower(sources, logger)
	p.guard.rules = p.rules.Index
	p.users = impersonation.New(impersonation.Config{Authz: requestGuard{&p.guard}, Forbidden: (*authz.Attributes).Forbidden, Metrics: prometheus.NewRegistry()})
	metrics := prometheus.NewRegistry()
	steps := &plugins.Config{
		On: on, Configs: new(plugins.Configs), Kinds: p.kinds, Cache: p.cache, Logger: logger, Authorizer: policyGuard{&p.guard}, Roles: p.rules,
		Metrics: admission.NewMetrics(metrics), Policies: policy.NewMetrics(metrics), Registry: metrics, Version: program.Version{}.Fill().GitVersion,
		EnsureNamespace: func(ctx context.Context, name string) error { return p.own.EnsureNamespace(ctx, name) },
		ModifyStatus: func(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error {
			return p.own.ModifyPart(ctx, k, namespace, name, "status", fn)
		},
	}
	p.verbs = objects.New(objects.Config{Kinds: p.kinds, Store: st, Cache: p.cache, Admission: steps.Chain})
	p.own = p.verbs.Writer(objects.Server(), objects.ServerManager)
	p.verbs.Claimer = &allocator.Allocator{
		Kinds: p.kinds, Cache: p.cache, Store: st, Logger: logger, API: p.own, Status: p.verbs.Writer(objects.Server(), allocator.StatusManager),
		Ranges: []netip.Prefix{netip.MustParsePrefix(allocator.DefaultRange)}, Ports: *ports, Exclusive: true,
	}
	config := roles.Config{Kinds: p.kinds, Cache: p.cache, Store: st}
	p.aggregator = &roles.Aggregator{Config: config, Logger: logger, API: p.verbs.Writer(objects.Server(), roles.Manager)}
	p.crds = &definitions.Controller{Kinds: p.kinds, Compiler: compiler, Cache: p.cache, Store: st, Logger: logger, Delete: p.own.Admitted().Delete, Converter: newEcho}
	if err := p.crds.Sync(ctx); err != nil {
		return nil, p.closed(fmt.Errorf("loading custom resource definitions: %w", err))
	}
	err = ensure.Standard(ctx, p.kinds.Load(), p.own, func() error {
		return errors.Join(roles.Ensure(ctx, config), p.rules.Sync(ctx))
	})
	return p, p.closed(err)
}

// closed returns an error, and closes what has been opened if it is one.
func (p *parts) closed(err error) error {
	if err != nil {
		p.cache.Close()
	}
	return err
}

// caller returns the identity of a write by a user, an administrator if that is nil. The user gets the groups
// that all users have or that follow from the name.
func (p *parts) caller(ctx context.Context, user *authn.User, client objects.Client) (objects.Caller, error) {
	if user == nil {
		return objects.NewCaller(administrator, localAgent, client), nil
	}
	got, err := p.users.Impersonate(ctx, user, &authz.Attributes{User: administrator})
	if err != nil {
		return objects.Caller{}, err
	}
	return objects.NewCaller(got.User, localAgent, client), nil
}

// localAgent is the name of the client, which names the field manager.
const localAgent = "keelson"

// authorize returns an error unless a request is allowed.
func (p *parts) authorize(ctx context.Context, a *authz.Attributes) error {
	r := requestGuard{&p.guard}.Authorize(ctx, a)
	switch {
	case r.Decision == authz.Allow:
		return nil
	case r.Err != nil:
		return status.Internal(r.Err)
	}
	return a.Forbidden(r.Reason)
}

// settle waits until writes of the given kinds have their effect: definitions are served, roles
// decide, and requests see all other objects.
func (p *parts) settle(ctx context.Context, changed ...*kind.Kind) error {
	definitions, roles := false, false
	for _, k := range changed {
		definitions = definitions || k.StoragePrefix == crd.Prefix
		roles = roles || k.Group == rbacv1.GroupName
		if err := p.cache.Resource(k.StoragePrefix).Fresh(ctx); err != nil {
			return err
		}
	}
	if definitions {
		if err := p.crds.Sync(ctx); err != nil {
			return err
		}
	}
	if !roles {
		return nil
	}
	if err := p.aggregator.Sync(ctx); err != nil {
		return err
	}
	return p.rules.Sync(ctx)
}
