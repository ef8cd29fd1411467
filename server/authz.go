package server

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-io/keelson/authz/abac"
	"github.com/keelson-io/keelson/authz/config"
	"github.com/keelson-io/keelson/authz/node"
	"github.com/keelson-io/keelson/authz/rbac"
	"github.com/keelson-io/keelson/authz/reload"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/controller/roles"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/store"
)

// This file puts together who may do what: the chain of authorizers, and the
// roles that it decides by.

// authorization is what decides, and what keeps it up to date.
type authorization struct {
	chain    *reload.Authorizer
	follower *rbac.Follower // of roles and bindings, which bound who may write such, also without RBAC
	byRoles  bool           // RBAC decides
	defaults roles.Config
	gather   *roles.Aggregator
}

// openAuthz makes the authorizers of the configuration. RBAC grants nothing
// before syncRoles.
func (s *Server) openAuthz(c *config.AuthorizationConfiguration, text []byte, kinds *kind.Registry, cached *cache.Cache, st store.Store) error {
	z := &s.authz
	z.defaults = roles.Config{Kinds: kinds, Cache: cached, Store: st}
	z.gather = &roles.Aggregator{Config: z.defaults, Logger: s.logger}
	made := reload.Config{Configuration: c, File: s.config.Authorization.File, Text: text, Metrics: s.metrics, ServerID: s.id, Logger: s.logger}
	z.byRoles = c.Has(config.RBAC)
	z.follower = &rbac.Follower{Index: rbac.NewIndex(), Logger: s.logger}
	for _, plural := range []string{"roles", "clusterroles", "rolebindings", "clusterrolebindings"} {
		k := kinds.Load().Lookup(rbacv1.GroupName, plural)
		if k == nil {
			return fmt.Errorf("RBAC: %s are not served", plural)
		}
		z.follower.Sources = append(z.follower.Sources, rbac.Source{
			Kind: k.Name, Objects: cached.Resource(k.StoragePrefix), Renderer: k.Storage,
		})
	}
	if z.byRoles {
		made.RBAC = z.follower.Index
	}
	if c.Has(config.Node) {
		made.Node = &node.Authorizer{}
	}
	if c.Has(config.ABAC) {
		policies, err := abac.Load(s.config.Authorization.PolicyFile, s.logger)
		if err != nil {
			return fmt.Errorf("invalid authorization config: %w", err)
		}
		made.ABAC = policies
	}
	var err error
	z.chain, err = reload.New(made)
	return err
}

// syncRoles writes the default roles that are missing, and reads all there are.
func (s *Server) syncRoles(ctx context.Context) error {
	if s.authz.byRoles {
		if err := roles.Ensure(ctx, s.authz.defaults); err != nil {
			return fmt.Errorf("unable to initialize roles: %w", err)
		}
	}
	return s.authz.follower.Sync(ctx)
}

// workers keep the authorizers up to date until their context ends.
func (z *authorization) workers() []func(context.Context) {
	return []func(context.Context){z.chain.Run, z.follower.Run}
}
