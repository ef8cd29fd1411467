package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/admission/lookup"
	"github.com/keelson-io/keelson/internal/admission/plugins"
	"github.com/keelson-io/keelson/internal/allocator"
	"github.com/keelson-io/keelson/internal/api"
	"github.com/keelson-io/keelson/internal/api/health"
	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/definitions"
	"github.com/keelson-io/keelson/internal/controller/ensure"
	"github.com/keelson-io/keelson/internal/controller/gc"
	"github.com/keelson-io/keelson/internal/controller/roles"
	"github.com/keelson-io/keelson/internal/conversion"
	"github.com/keelson-io/keelson/internal/flow"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/webhook"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file builds the parts that every server has, with or without a port: cache, registry of
// kinds, authorizers and API. It also creates what must exist before the first request.

// parts has the inputs of assemble, which depend on the configuration.
type parts struct {
	store             store.Store
	plugins           plugins.Set
	pluginConfigs     *plugins.Configs
	authorization     *config.AuthorizationConfiguration
	authorizationText []byte
	recorder          *audit.Auditor // nil: no audit log
	ownRecorder       *audit.Auditor // for the writes of the server's own parts
	converter         func(name string, c *apiextv1.WebhookConversion) (kind.Converter, error)
	// guards, if not nil, returns the authorizers for requests and for the expressions of policies,
	// in place of the chain.
	guards func(chain authz.Authorizer) (requests, policies authz.Authorizer)
	// messagesUnused, if not nil, receives messageExpressions that failed.
	messagesUnused func(v *kind.Version, unused []schema.UnusedMessage)
}

// assemble builds the server. s.authn must be set.
func (s *Server) assemble(ctx context.Context, p *parts) error {
	c := &s.config
	shares := s.memory.Shares()
	s.hooks.Rooms = webhook.NewRooms(shares.Webhooks)
	compiler := &crd.Compiler{Metrics: schemaMetrics(s.metrics), NoBeta: s.noBeta}
	s.kinds = kind.NewRegistry(builtin.All(compiler)...)
	s.cache = cache.New(p.store, cache.Options{Logger: s.logger, AllLogBytes: shares.Logs, ViewBytes: shares.Views, StateBytes: shares.States,
		Memory: memoryOf(s.kinds.Load()), Beside: gc.Memory})
	compiler.Stored = definitions.Stored(s.kinds, s.cache)
	s.opened = append(s.opened, closer(func() error { s.cache.Close(); return nil }))
	s.own = newOwnParts(p.ownRecorder)
	s.hooks.Resolve = newResolver(lookup.Source{Kinds: s.kinds.Load, Cache: s.cache}).resolve
	if err := s.openAuthz(p.authorization, p.authorizationText, s.kinds, s.cache, p.store); err != nil {
		return err
	}
	var requests, policies authz.Authorizer = s.authz.chain, s.authz.chain
	if p.guards != nil {
		requests, policies = p.guards(s.authz.chain)
	}
	s.own.next = policies
	static, err := s.openStatic(p.plugins, p.pluginConfigs)
	if err != nil {
		return err
	}
	s.objects = objects.New(objects.Config{
		Kinds: s.kinds,
		Store: p.store, Cache: s.cache,
		Admission:      s.admission(p.plugins, p.pluginConfigs, static, s.own),
		Own:            s.own,
		AwaitDecisions: s.await,
		Grow:           s.grow,
		AwaitKinds:     s.awaitKinds(),
		MessagesUnused: p.messagesUnused,
	})
	if seats := c.seats(); seats > 0 && !c.DisableFairness {
		s.flow = flow.New(flow.Config{Seats: seats, Metrics: s.metrics, Logger: s.logger})
	}
	s.handler = api.New(api.Config{
		Objects: s.objects,
		Authn:   s.authn,
		Authz:   requests,
		CatchUp: s.catchUp(),
		Checks:  slices.Concat([]health.Check{{Name: "etcd", Do: p.store.Ping}}, s.authz.checks(), s.encryption.checks()),
		Logger:  s.logger,
		Flags:   c.Flags,

		DisableProfiling: c.DisableProfiling,
		FreshReads:       c.FreshReads,

		Snapshot:  snapshotOf(s.durable),
		Audiences: s.audiences,
		Tokens:    s.tokens,
		Audit:     p.recorder,
		Metrics:   s.metrics,

		BeforeMetrics: s.sweepMetrics,
		Memory:        s.memory,

		Timeout:      c.RequestTimeout,
		WatchTimeout: c.MinRequestTimeout,

		MaxReads:  c.MaxRequestsInFlight,
		MaxWrites: c.MaxMutatingRequestsInFlight,
		Flow:      s.flow,
	})
	s.opened = append(s.opened, closer(func() error { s.handler.Stop(); return nil }))
	s.governMemory()
	s.allocator = &allocator.Allocator{Kinds: s.kinds, Cache: s.cache, Store: p.store, Logger: s.logger, API: s.writer(objects.ServerManager),
		Status: s.writer(allocator.StatusManager), Ranges: s.network.services, Ports: s.network.nodePorts, Exclusive: s.embedsStore()}
	s.objects.Claimer = s.allocator
	s.authz.aggregator.API = s.objects.Writer(s.own.controller(roles.Name), roles.Manager)
	s.crds = &definitions.Controller{Kinds: s.kinds, Compiler: compiler, Cache: s.cache, Store: s.recording(p.store, objects.ServerManager), Logger: s.logger,
		Delete: s.writer(objects.ServerManager).Admitted().Delete, Converter: p.converter, Note: s.announceStatus}
	if err := s.crds.Sync(ctx); err != nil {
		return fmt.Errorf("loading custom resource definitions: %w", err)
	}
	return ensure.Standard(ctx, s.kinds.Load(), s.writer(objects.ServerManager), func() error { return s.syncRoles(ctx) })
}

// seats returns the number of requests that priority and fairness lets in at a time; 0 if there is no
// limit.
func (c *Config) seats() int {
	seats := 0
	for _, limit := range []struct{ configured, standard int }{{c.MaxRequestsInFlight, api.DefaultReads}, {c.MaxMutatingRequestsInFlight, api.DefaultWrites}} {
		switch {
		case limit.configured == 0:
			seats += limit.standard
		case limit.configured > 0:
			seats += limit.configured
		}
	}
	return seats
}

// levelMessages is the level of messageExpressions that failed: --v 2, as upstream.
const levelMessages = slog.Level(-2)

// logUnusedMessages logs messageExpressions that failed.
func (s *Server) logUnusedMessages(v *kind.Version, unused []schema.UnusedMessage) {
	for _, m := range unused {
		s.logger.Log(context.Background(), levelMessages, "messageExpression evaluation failed",
			"kind", v.GVK().String(), "field", m.Field, "messageExpression", m.Expression, "error", m.Reason)
	}
}

// writer returns the verbs as the server's own parts use them, with a field manager.
func (s *Server) writer(manager string) objects.Writer {
	return s.objects.Writer(objects.Server(), manager)
}

// await waits until a write to objects at a revision is in effect. A client that created a
// definition or a role can rely on it as soon as it has the answer.
func (s *Server) await(ctx context.Context, objects *cache.Resource, rev int64) {
	if objects.Prefix() != crd.Prefix+"/" {
		s.authz.await(ctx, objects, rev)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, awaited)
	defer cancel()
	s.crds.Wait(ctx, rev)
}

// catchingUp bounds the wait of a request for the writes of other servers.
const catchingUp = time.Second

// catchUp returns a function that waits until kinds and permissions reflect every write that any
// server on the store has acknowledged. Without it, a server could refuse what another one has just
// allowed. It returns nil if there are no other servers.
func (s *Server) catchUp() func(context.Context) {
	if len(s.config.EtcdServers) == 0 {
		return nil
	}
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, catchingUp)
		defer cancel()
		definitions := s.cache.Resource(crd.Prefix)
		if definitions.Fresh(ctx) != nil { // Fresh covers all objects of the cache, not only definitions
			return
		}
		s.crds.Wait(ctx, definitions.Changed())
		s.authz.follower.CatchUp(ctx)
		if s.authz.nodes != nil {
			s.authz.nodes.CatchUp(ctx)
		}
	}
}

// awaitKinds returns the function that waits for the definitions that other servers have written up
// to a revision. It returns nil if there are no other servers.
func (s *Server) awaitKinds() func(context.Context, int64) {
	if len(s.config.EtcdServers) == 0 {
		return nil
	}
	return func(ctx context.Context, rev int64) {
		ctx, cancel := context.WithTimeout(ctx, catchingUp)
		defer cancel()
		definitions := s.cache.Resource(crd.Prefix)
		var err error
		if rev < 0 {
			err = definitions.Fresh(ctx)
		} else {
			err = definitions.WaitFor(ctx, rev) // which waits for all objects of the cache
		}
		if err == nil {
			s.crds.Wait(ctx, definitions.Changed())
		}
	}
}

// converters returns the function that makes the converter of a definition. The calls of webhooks
// are recorded in m.
func (s *Server) converters(m *conversion.Metrics) func(string, *apiextv1.WebhookConversion) (kind.Converter, error) {
	return func(name string, c *apiextv1.WebhookConversion) (kind.Converter, error) {
		w, err := conversion.New(name, c, m, s.hooks)
		if err != nil {
			return nil, err
		}
		return w, nil
	}
}

// announceStatus announces to the definition controller that the server itself changes the status
// of a definition.
func (s *Server) announceStatus(live, next *jsondoc.Doc) error {
	k := s.kinds.Load().Lookup(apiextv1.GroupName, "customresourcedefinitions")
	return s.writer(objects.ServerManager).Record(k, "status", live, next)
}
