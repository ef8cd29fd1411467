package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/internal/authn/serviceaccount"
	"github.com/keelson-io/keelson/internal/controller/ensure"
	"github.com/keelson-io/keelson/internal/controller/expiry"
	"github.com/keelson-io/keelson/internal/controller/flows"
	"github.com/keelson-io/keelson/internal/controller/gc"
	"github.com/keelson-io/keelson/internal/controller/migration"
	"github.com/keelson-io/keelson/internal/controller/namespace"
	"github.com/keelson-io/keelson/internal/controller/policies"
	"github.com/keelson-io/keelson/internal/controller/protection"
	"github.com/keelson-io/keelson/internal/controller/quota"
	"github.com/keelson-io/keelson/internal/controller/roles"
	"github.com/keelson-io/keelson/internal/controller/service"
	"github.com/keelson-io/keelson/internal/controller/servicecidr"
	"github.com/keelson-io/keelson/internal/controller/signer"
	"github.com/keelson-io/keelson/internal/controller/systemmaps"
	"github.com/keelson-io/keelson/internal/controller/token"
	"github.com/keelson-io/keelson/internal/controller/trust"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/store"
)

// This file chooses the controllers that run.

// controllers maps the names of optional controllers, in kube-controller-manager's spelling, to
// their older names.
var controllers = map[string]string{
	gc.Name:                "garbagecollector",
	namespace.Name:         "namespace",
	ensure.ServiceAccounts: "serviceaccount",
	ensure.RootCA:          "root-ca-cert-publisher",
	roles.Name:             "clusterrole-aggregation",
	token.Name:             "serviceaccount-token",
	policies.Name:          "validatingadmissionpolicy-status",
	service.Name:           "kubernetes-service",
	signer.Name:            "csrsigning",
	quota.Name:             "resourcequota",
	migration.Name:         "svm",
	protection.Claims:      "pvc-protection",
	protection.Volumes:     "pv-protection",
	protection.Attributes:  protection.Attributes, // it is too new to have an older name
	servicecidr.Name:       servicecidr.Name,      // as is this one
}

// Controllers returns the names that Config.Controllers may contain, sorted.
func Controllers() []string {
	var names []string
	for name := range controllers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// enabled returns the controllers that a list enables, by kube-controller-manager's rules: "*"
// enables all that the list does not name, "name" enables one, "-name" disables one. The first
// entry for a name counts. An empty list enables all.
func enabled(list []string) (map[string]bool, error) {
	if list == nil {
		list = []string{"*"}
	}
	on, named := map[string]bool{}, map[string]bool{}
	for _, entry := range list {
		if entry == "*" {
			continue
		}
		name, off := strings.CutPrefix(entry, "-")
		known := false
		for full, short := range controllers {
			if name != full && name != short {
				continue
			}
			known = true
			if !named[full] { // the first entry counts
				on[full], named[full] = !off, true
			}
		}
		if !known {
			return nil, fmt.Errorf("controllers: got %q, want *, or one of %s with or without a minus sign before it", entry, strings.Join(Controllers(), ", "))
		}
	}
	if slices.Contains(list, "*") {
		for full := range controllers {
			if !named[full] {
				on[full] = true
			}
		}
	}
	return on, nil
}

// startControllers builds the enabled controllers. Run starts them.
func (s *Server) startControllers(st store.Store) {
	s.authorities = &trust.Bundle{Store: st, Own: s.identity.caPEM, Shared: len(s.config.EtcdServers) > 0}
	kinds, cached := s.kinds, s.cache
	as := func(account string) objects.Writer {
		return s.objects.Writer(s.own.controller(account), objects.ControllerManager)
	}
	add := func(run func(context.Context)) { s.controllers = append(s.controllers, run) }
	if s.enabled[namespace.Name] {
		add((&namespace.Controller{Kinds: kinds, Cache: cached, Store: st, Logger: s.logger, API: as(namespace.Name)}).Run)
	}
	if s.enabled[gc.Name] {
		add((&gc.Controller{Kinds: kinds, Cache: cached, Store: st, Logger: s.logger, API: as(gc.Account).Patches()}).Run)
	}
	if s.enabled[roles.Name] {
		add(s.authz.aggregator.Run)
	}
	if s.enabled[token.Name] {
		manager := s.objects.Writer(s.own.known(objects.Manager()), objects.ControllerManager)
		add((&token.Controller{Kinds: kinds, Cache: cached, Store: st, Logger: s.logger, API: manager, Authorities: s.authorities,
			Sign: func(namespace, account, uid, secret string) (string, error) {
				return s.tokens.Issuer.SignKept(namespace, serviceaccount.Reference{Name: account, UID: uid}, secret)
			}}).Run)
	}
	if s.enabled[signer.Name] {
		add((&signer.Controller{Kinds: kinds, Cache: cached, Store: st, Logger: s.logger, API: as(signer.Account), Authority: s.identity.authority}).Run)
	}
	if s.enabled[policies.Name] {
		add((&policies.Controller{Kinds: kinds, Cache: cached, Store: st, Logger: s.logger, API: s.objects.Writer(s.own.controller(policies.Name), policies.Manager)}).Run)
	}
	if s.enabled[service.Name] {
		add((&service.Controller{Kinds: kinds, Cache: cached, Store: st, Logger: s.logger, API: s.writer(objects.ServerManager),
			ClusterIP: s.network.clusterIP, Port: s.port(), Address: s.network.address}).Run)
	}
	if s.flow != nil {
		add(s.flow.Run)
	}
	add((&flows.Controller{Kinds: kinds, Cache: cached, Store: st, Logger: s.logger, Flow: s.flow, Producer: s.writer(flows.Producer), Consumer: s.writer(flows.Consumer)}).Run)
	if s.enabled[quota.Name] {
		add((&quota.Controller{Kinds: kinds, Cache: cached, Store: st, Logger: s.logger, API: as(quota.Name)}).Run)
	}
	if s.enabled[migration.Name] {
		migrator := s.own.controller(migration.Name)
		add((&migration.Controller{Kinds: kinds, Cache: cached, Store: st, Logger: s.logger, Objects: s.objects.Writer(migrator, migration.Name).Patches(),
			Definitions: s.objects.Writer(migrator, migration.Runner), Status: s.objects.Writer(migrator, objects.ControllerManager)}).Run)
	}
	protect := &protection.Controller{Kinds: kinds, Cache: cached, Store: st, Logger: s.logger}
	if s.enabled[protection.Claims] {
		protect.Claims = as(protection.AccountOfClaims)
	}
	if s.enabled[protection.Volumes] {
		protect.Volumes = as(protection.AccountOfVolumes)
	}
	if s.enabled[protection.Attributes] {
		protect.Attributes = as(protection.AccountOfAttributes)
	}
	if protect.Claims != nil || protect.Volumes != nil || protect.Attributes != nil {
		add(protect.Run)
	}
	keep := &ensure.Controller{Kinds: kinds, Cache: cached, Store: st, Logger: s.logger, EnsureNamespace: s.writer(objects.ServerManager).EnsureNamespace,
		Authorities: s.authorities}
	if s.enabled[ensure.ServiceAccounts] {
		keep.Accounts = as(ensure.AccountOfAccounts)
	}
	if s.enabled[ensure.RootCA] {
		keep.Maps = as(ensure.AccountOfRootCA)
	}
	add(keep.Run)
	add((&systemmaps.Controller{Kinds: kinds, Cache: cached, Store: st, Logger: s.logger, API: s.writer(objects.ServerManager), Own: s.authenticationSettings}).Run)
	add(s.allocator.Run)
	if s.enabled[servicecidr.Name] {
		add((&servicecidr.Controller{Kinds: kinds, Cache: cached, Store: st, Logger: s.logger, API: as(servicecidr.Account),
			Status: s.objects.Writer(s.own.controller(servicecidr.Account), servicecidr.Name)}).Run)
	}
	add((&expiry.Controller{Kinds: kinds, Cache: cached, Store: st, Logger: s.logger, TTL: s.config.EventTTL}).Run)
}
