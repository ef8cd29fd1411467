package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/keelson-io/keelson/api"
	"github.com/keelson-io/keelson/authz/abac"
	"github.com/keelson-io/keelson/authz/config"
	"github.com/keelson-io/keelson/authz/follow"
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
	follower *rbac.Follower   // of roles and bindings, which bound who may write such, also without RBAC
	byRoles  bool             // RBAC decides
	nodes    *follow.Follower // of what nodes are related to; nil without the Node authorizer
	defaults roles.Config
	gather   *roles.Aggregator
	rolesAre atomic.Bool // the default ones, there
}

// checks are those of a server that decides by roles, as kube-apiserver names
// them.
func (z *authorization) checks() []api.Check {
	if !z.byRoles {
		return nil
	}
	return []api.Check{{Name: "poststarthook/rbac/bootstrap-roles", Do: func(context.Context) error {
		if !z.rolesAre.Load() {
			return errors.New("not finished")
		}
		return nil
	}}}
}

// keepStrangersOut lets nobody in without a credential where the flags say that
// everybody may do everything, as kube-apiserver does. A configuration's file
// means what it says.
func (s *Server) keepStrangersOut() {
	z, believed := &s.config.Authorization, &s.config.Authentication
	if z.File == "" && !believed.NoAnonymous && slices.Contains(z.Modes, config.AlwaysAllow) {
		s.logger.Warn("AnonymousAuth is not allowed with the AlwaysAllow authorizer. Resetting AnonymousAuth to false. You should use a different authorizer")
		believed.NoAnonymous = true
	}
}

// openAuthz makes the authorizers of the configuration. RBAC grants nothing
// before syncRoles.
func (s *Server) openAuthz(c *config.AuthorizationConfiguration, text []byte, kinds *kind.Registry, cached *cache.Cache, st store.Store) error {
	z := &s.authz
	z.defaults = roles.Config{Kinds: kinds, Cache: cached, Store: st}
	z.gather = &roles.Aggregator{Config: z.defaults, Logger: s.logger}
	made := reload.Config{Configuration: c, File: s.config.Authorization.File, Text: text, Interval: s.config.ReloadInterval,
		Metrics: s.metrics, ServerID: s.id, Logger: s.logger}
	z.byRoles = c.Has(config.RBAC)
	sources, err := sourcesOf(kinds, cached, rbacv1.GroupName+"/roles", rbacv1.GroupName+"/clusterroles", rbacv1.GroupName+"/rolebindings", rbacv1.GroupName+"/clusterrolebindings")
	if err != nil {
		return err
	}
	z.follower = rbac.NewFollower(sources, s.logger)
	if z.byRoles {
		made.RBAC = z.follower.Index
	}
	if c.Has(config.Node) {
		sources, err := sourcesOf(kinds, cached, "/pods", "/persistentvolumes", storagev1.GroupName+"/volumeattachments")
		if err != nil {
			return err
		}
		graph := node.NewGraph(s.metrics)
		z.nodes = &follow.Follower{Keeper: graph, Sources: sources, Logger: s.logger}
		made.Node = &node.Authorizer{Graph: graph}
	}
	if c.Has(config.ABAC) {
		policies, err := abac.Load(s.config.Authorization.PolicyFile, s.logger)
		if err != nil {
			return fmt.Errorf("invalid authorization config: %w", err)
		}
		made.ABAC = policies
	}
	z.chain, err = reload.New(made)
	return err
}

// sourcesOf are where the objects of some resources are: each is a group and a
// plural.
func sourcesOf(kinds *kind.Registry, cached *cache.Cache, resources ...string) ([]follow.Source, error) {
	var sources []follow.Source
	for _, r := range resources {
		group, plural, _ := strings.Cut(r, "/")
		k := kinds.Load().Lookup(group, plural)
		if k == nil {
			return nil, fmt.Errorf("authorization: %s are not served", plural)
		}
		sources = append(sources, follow.Source{Kind: k.Name, Objects: cached.Resource(k.StoragePrefix), Renderer: k.Storage})
	}
	return sources, nil
}

// syncRoles writes the default roles that are missing, and reads all there are;
// and what nodes are related to.
func (s *Server) syncRoles(ctx context.Context) error {
	if s.authz.byRoles {
		if err := roles.Ensure(ctx, s.authz.defaults); err != nil {
			return fmt.Errorf("unable to initialize roles: %w", err)
		}
		s.authz.rolesAre.Store(true)
	}
	if s.authz.nodes != nil {
		if err := s.authz.nodes.Sync(ctx); err != nil {
			return err
		}
	}
	return s.authz.follower.Sync(ctx)
}

// awaited is how long an answer to a write waits for what follows from it; then it is given all the same.
const awaited = 10 * time.Second

// await waits until the authorizers know what was written to objects at a
// revision: a role that a client made lets requests pass as soon as it is told.
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

// workers keep the authorizers up to date until their context ends.
func (z *authorization) workers() []func(context.Context) {
	all := []func(context.Context){z.chain.Run, z.follower.Run}
	if z.nodes != nil {
		all = append(all, z.nodes.Run)
	}
	return all
}
