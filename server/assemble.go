package server

import (
	"context"
	"fmt"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/allocator"
	"github.com/keelson-io/keelson/api"
	"github.com/keelson-io/keelson/audit"
	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/authz/config"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/controller/crd"
	"github.com/keelson-io/keelson/controller/ensure"
	"github.com/keelson-io/keelson/controller/roles"
	"github.com/keelson-io/keelson/conversion"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/kind/builtin"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/store"
)

// This file puts together what every server is made of, with a port or without:
// cache, kinds, authorizers, the API, and what has to be there before the first
// request.

// parts are what a server is made of and what its configuration decides.
type parts struct {
	store             store.Store
	plugins           plugins
	authorization     *config.AuthorizationConfiguration
	authorizationText []byte
	recorder          *audit.Auditor // nil: nothing is recorded
	converter         func(name string, c *apiextv1.WebhookConversion) (kind.Converter, error)
	// guards returns what decides about requests, and what answers policies, in
	// place of the chain of authorizers; nil: the chain does both.
	guards func(chain authz.Authorizer) (requests, policies authz.Authorizer)
}

// assemble makes a server of its parts. Who its clients are, s.authn, is decided
// before.
func (s *Server) assemble(ctx context.Context, p *parts) error {
	c := &s.config
	s.cache = cache.New(p.store, cache.Options{Logger: s.logger})
	s.opened = append(s.opened, closer(func() error { s.cache.Close(); return nil }))
	s.metrics.MustRegister(schema.Metrics()...)
	s.kinds = new(kind.Registry)
	for _, k := range builtin.All() {
		s.kinds.Put(k)
	}
	if err := s.openAuthz(p.authorization, p.authorizationText, s.kinds, s.cache, p.store); err != nil {
		return err
	}
	var requests, policies authz.Authorizer = s.authz.chain, s.authz.chain
	if p.guards != nil {
		requests, policies = p.guards(s.authz.chain)
	}
	s.handler = api.New(api.Config{
		Kinds: s.kinds,
		Store: p.store,
		Cache: s.cache,
		Authn: s.authn,
		Authz: requests,

		AwaitDecisions: s.await,
		CatchUp:        s.catchUp(),
		Checks:         append([]api.Check{{Name: "etcd", Do: p.store.Ping}}, s.authz.checks()...),
		Logger:         s.logger,

		Snapshot:  snapshotOf(p.store),
		Audiences: s.audiences,
		Tokens:    s.tokens,
		Audit:     p.recorder,
		Metrics:   s.metrics,
		MaxReads:  c.MaxRequestsInFlight,
		MaxWrites: c.MaxMutatingRequestsInFlight,
		Admission: s.admission(p.plugins, s.kinds, s.cache, policies),
	})
	s.opened = append(s.opened, closer(func() error { s.handler.Stop(); return nil }))
	s.allocator = &allocator.Allocator{Kinds: s.kinds, Cache: s.cache, Store: p.store, Logger: s.logger, API: s.handler.As(api.ServerManager),
		Status: s.handler.As(allocator.StatusManager), Range: s.network.services, Ports: s.network.nodePorts}
	s.handler.Claimer = s.allocator
	s.authz.gather.API = s.handler.As(roles.Manager)
	s.crds = &crd.Controller{Kinds: s.kinds, Cache: s.cache, Store: p.store, Logger: s.logger, Delete: s.handler.Delete, Converter: p.converter, Note: s.noteStatus}
	if err := s.crds.Sync(ctx); err != nil {
		return fmt.Errorf("loading custom resource definitions: %w", err)
	}
	for _, name := range ensure.SystemNamespaces {
		if err := s.handler.EnsureNamespace(ctx, name); err != nil {
			return fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	return s.syncRoles(ctx)
}

// await waits until what was written to objects at a revision has its effect: whoever made a definition or a role goes on with it as
// soon as it is answered.
func (s *Server) await(ctx context.Context, objects *cache.Resource, rev int64) {
	if objects.Prefix() != kind.DefinitionsPrefix+"/" {
		s.authz.await(ctx, objects, rev)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, awaited)
	defer cancel()
	s.crds.Wait(ctx, rev)
}

// catchingUp is how long a request waits for what other servers have written.
const catchingUp = time.Second

// catchUp waits until what is served and who may do what follow from every write that any server on the store has acknowledged, so that
// nobody is refused what somebody else's server has told them that they may do. nil: there are no other servers.
func (s *Server) catchUp() func(context.Context) {
	if len(s.config.EtcdServers) == 0 {
		return nil
	}
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, catchingUp)
		defer cancel()
		definitions := s.cache.Resource(kind.DefinitionsPrefix)
		if definitions.Fresh(ctx) != nil { // which is true of all that the cache has, or of none
			return
		}
		s.crds.Wait(ctx, definitions.Changed())
		s.authz.follower.CatchUp(ctx)
		if s.authz.nodes != nil {
			s.authz.nodes.CatchUp(ctx)
		}
	}
}

// converters makes the converters that definitions name. They count in m.
func converters(m *conversion.Metrics) func(string, *apiextv1.WebhookConversion) (kind.Converter, error) {
	return func(name string, c *apiextv1.WebhookConversion) (kind.Converter, error) {
		w, err := conversion.New(name, c, m)
		if err != nil {
			return nil, err
		}
		return w, nil
	}
}

// noteStatus notes that the server has changed the status of a definition.
func (s *Server) noteStatus(live, next *doc.Doc) error {
	k := s.kinds.Load().Lookup(apiextv1.GroupName, "customresourcedefinitions")
	return s.handler.As(api.ServerManager).Note(k, "status", live, next)
}
