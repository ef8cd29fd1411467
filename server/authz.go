package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/keelson-io/keelson/internal/api/health"
	"github.com/keelson-io/keelson/internal/authz/abac"
	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/authz/feed"
	"github.com/keelson-io/keelson/internal/authz/node"
	"github.com/keelson-io/keelson/internal/authz/rbac"
	"github.com/keelson-io/keelson/internal/authz/reload"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/roles"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
)

// This file builds the authorizers, and writes the default roles.

// authorization has the authorizers and what keeps them current.
type authorization struct {
	chain             *reload.Authorizer
	follower          *rbac.Follower // of roles and bindings, which bound who may write such, also without RBAC
	rbacEnabled       bool           // RBAC decides
	nodes             *feed.Feed     // of what nodes are related to; nil without the Node authorizer
	defaults          roles.Config
	aggregator        *roles.Aggregator
	defaultRolesExist atomic.Bool // the default roles exist
}

// checks returns the health checks of RBAC, named as kube-apiserver names them.
func (z *authorization) checks() []health.Check {
	if !z.rbacEnabled {
		return nil
	}
	return []health.Check{{Name: "poststarthook/rbac/bootstrap-roles", Do: func(context.Context) error {
		if !z.defaultRolesExist.Load() {
			return errors.New("not finished")
		}
		return nil
	}}}
}

// disableAnonymousWithAlwaysAllow refuses anonymous requests if the flags allow everything to everybody, as
// kube-apiserver does. An authentication file overrides this.
func (s *Server) disableAnonymousWithAlwaysAllow() {
	z, authentication := &s.config.Authorization, &s.config.Authentication
	if z.File == "" && !authentication.NoAnonymous && slices.Contains(z.Modes, config.AlwaysAllow) {
		s.logger.Warn("AnonymousAuth is not allowed with the AlwaysAllow authorizer. Resetting AnonymousAuth to false. You should use a different authorizer")
		authentication.NoAnonymous = true
	}
}

// openAuthz builds the authorizers. RBAC allows nothing before syncRoles.
func (s *Server) openAuthz(c *config.AuthorizationConfiguration, text []byte, kinds *kind.Registry, cached *cache.Cache, st store.Store) error {
	z := &s.authz
	z.defaults = roles.Config{Kinds: kinds, Cache: cached, Store: s.recording(st, objects.ServerManager)}
	z.aggregator = &roles.Aggregator{Config: z.defaults, Logger: s.logger}
	reloadConfig := reload.Config{Configuration: c, File: s.config.Authorization.File, Text: text, Interval: s.config.ReloadInterval,
		Metrics: s.metrics, Certificates: s.hooks.Certificates, ServerID: s.id, Logger: s.logger}
	z.rbacEnabled = c.Has(config.RBAC)
	sources, err := feed.SourcesOf(kinds.Load(), cached, rbacv1.GroupName+"/roles", rbacv1.GroupName+"/clusterroles", rbacv1.GroupName+"/rolebindings", rbacv1.GroupName+"/clusterrolebindings")
	if err != nil {
		return err
	}
	z.follower = rbac.NewFollower(sources, s.logger)
	if z.rbacEnabled {
		reloadConfig.RBAC = z.follower.Index
		s.background = append(s.background, s.writeComponentRoles)
	}
	if c.Has(config.Node) {
		sources, err := feed.SourcesOf(kinds.Load(), cached, "/pods", "/persistentvolumes", storagev1.GroupName+"/volumeattachments")
		if err != nil {
			return err
		}
		graph := node.NewGraph(s.metrics)
		z.nodes = &feed.Feed{Keeper: graph, Sources: sources, Logger: s.logger}
		reloadConfig.Node = &node.Authorizer{Graph: graph}
	}
	if c.Has(config.ABAC) {
		policies, err := abac.Load(s.config.Authorization.PolicyFile, s.logger)
		if err != nil {
			return fmt.Errorf("invalid authorization config: %w", err)
		}
		reloadConfig.ABAC = policies
	}
	z.chain, err = reload.New(reloadConfig)
	return err
}

// syncRoles creates missing default roles, but not those of components, and waits until RBAC and the Node authorizer have read
// all their objects.
func (s *Server) syncRoles(ctx context.Context) error {
	if s.authz.rbacEnabled {
		if err := roles.Ensure(ctx, s.authz.defaults); err != nil {
			return fmt.Errorf("unable to initialize roles: %w", err)
		}
		s.authz.defaultRolesExist.Store(true)
	}
	if s.authz.nodes != nil {
		if err := s.authz.nodes.Sync(ctx); err != nil {
			return err
		}
	}
	return s.authz.follower.Sync(ctx)
}

// retryRoles is the time between two attempts to write the roles of components.
const retryRoles = 10 * time.Second

// writeComponentRoles creates the missing roles of components.
func (s *Server) writeComponentRoles(ctx context.Context) {
	for {
		err := roles.EnsureComponents(ctx, s.authz.defaults)
		if err == nil || ctx.Err() != nil {
			return
		}
		s.logger.Error("unable to initialize the roles of components", "error", err, "retry", retryRoles)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryRoles):
		}
	}
}

// awaited bounds the wait of a write's answer for its effect on the authorizers. After that, the
// answer is sent nevertheless.
const awaited = 10 * time.Second

// await waits until the authorizers have applied a write to objects at a revision, so that a new
// role is in effect when its creator gets the answer.
func (z *authorization) await(ctx context.Context, objects *cache.Resource, rev int64) {
	if !z.follower.Follows(objects) && (z.nodes == nil || !z.nodes.Follows(objects)) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, awaited)
	defer cancel()
	if z.nodes != nil {
		z.nodes.Wait(ctx, objects, rev)
	}
	z.follower.Wait(ctx, objects, rev)
}

// workers returns the functions that keep the authorizers current until their context ends.
func (z *authorization) workers() []func(context.Context) {
	all := []func(context.Context){z.chain.Run, z.follower.Run}
	if z.nodes != nil {
		all = append(all, z.nodes.Run)
	}
	return all
}
