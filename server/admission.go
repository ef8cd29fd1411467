package server

import (
	"context"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/plugins"
	"github.com/keelson-io/keelson/internal/admission/policy"
	"github.com/keelson-io/keelson/internal/admission/webhook"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/kind"
)

// This file is the admission of this server: its plugins, with webhooks.

// DefaultAdmission lists the plugins that run unless they are disabled, OptionalAdmission those that
// run if they are enabled. NodeRestriction also runs by default if the Node authorizer does.
var (
	DefaultAdmission  = plugins.Default
	OptionalAdmission = plugins.Optional
)

// admission returns the function that builds the chain of steps.
func (s *Server) admission(on plugins.Set, configs *plugins.Configs, static *staticAdmission, chain authz.Authorizer) func(admission.Host) *admission.Chain {
	m, checks := admission.NewMetrics(s.metrics), policy.NewMetrics(s.metrics)
	s.swept.admission, s.swept.policies = m, checks
	c := &plugins.Config{
		On: on, Configs: configs, Kinds: s.kinds, Cache: s.cache, Logger: s.logger, Authorizer: chain, Roles: s.authz.follower,
		Metrics: m, Policies: checks, Registry: s.metrics, Static: static.folders,
		EnsureNamespace: func(ctx context.Context, name string) error {
			return s.writer(objects.ServerManager).EnsureNamespace(ctx, name)
		},
		ModifyStatus: func(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error {
			return s.writer(objects.ServerManager).ModifyPart(ctx, k, namespace, name, "status", fn)
		},
		NotReady: s.config.NotReadyTolerationSeconds, Unreachable: s.config.UnreachableTolerationSeconds, Version: Version().GitVersion,
	}
	c.Webhooks = func(plugin string, h admission.Host) (admission.Mutator, admission.Validator) {
		hooks := webhook.Config{Kinds: s.kinds.Load, Cache: s.cache, Namespaces: h, Authorizer: chain, Metrics: m, Logger: s.logger, Shared: s.hooks,
			Static: static.folders[plugin], Credentials: static.credentials[plugin]}
		if plugin == plugins.MutatingWebhook {
			return webhook.Mutating(hooks), nil
		}
		return nil, webhook.Validating(hooks)
	}
	return c.Chain
}
