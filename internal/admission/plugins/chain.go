// Package plugins builds the chain of admission: kube-apiserver's plugins, under their names and in their order.
//
// # Model
//
// [Choose] returns the [Set] of the plugins that run, [Load] the configurations of those that have one. A [Config] makes
// a chain of them for the verbs on objects. Steps without a plugin's name always run: escalation of roles, access to the
// parameters of policies, and claims of devices.
//
// # Calls
//
// [Choose], [Load], [Config.Chain].
package plugins

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/certificates"
	"github.com/keelson-io/keelson/internal/admission/devices"
	"github.com/keelson-io/keelson/internal/admission/eventrate"
	"github.com/keelson-io/keelson/internal/admission/lookup"
	"github.com/keelson-io/keelson/internal/admission/manifests"
	"github.com/keelson-io/keelson/internal/admission/noderestriction"
	"github.com/keelson-io/keelson/internal/admission/pods"
	"github.com/keelson-io/keelson/internal/admission/podsecurity"
	"github.com/keelson-io/keelson/internal/admission/policy"
	"github.com/keelson-io/keelson/internal/admission/quota"
	"github.com/keelson-io/keelson/internal/admission/services"
	"github.com/keelson-io/keelson/internal/admission/storage"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/kind"
)

// This file builds the chain of the plugins that run.

// Config is what a chain is built from. All fields are required that are not said to be optional.
type Config struct {
	On      Set
	Configs *Configs
	Kinds   *kind.Registry
	Cache   *cache.Cache
	Logger  *slog.Logger

	// Authorizer answers plugins that ask what a user may do, and Roles says which rules a role has.
	Authorizer authz.Authorizer
	Roles      admission.Roles

	Metrics  *admission.Metrics
	Policies *policy.Metrics
	Registry prometheus.Registerer // of further metrics

	// Static has the policies and webhooks that are in files, by plugin; it is optional.
	Static map[string]*manifests.Folder
	// Webhooks returns the steps of the plugin that calls webhooks. If nil, these plugins do not run.
	Webhooks func(plugin string, h admission.Host) (admission.Mutator, admission.Validator)

	// EnsureNamespace creates a namespace unless it exists.
	EnsureNamespace func(ctx context.Context, name string) error
	// ModifyStatus changes the stored status of an object by fn.
	ModifyStatus func(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error

	// NotReady and Unreachable are how many seconds pods tolerate such a node; nil: 300.
	NotReady, Unreachable *int64
	Version               string // of the server, such as v1.37.0
}

// chainOf is a chain that is being built.
type chainOf struct {
	*Config
	steps   *admission.Chain
	host    admission.Host
	objects *pods.Objects
	source  lookup.Source
}

// Chain builds the chain of steps, in kube-apiserver's order.
func (f *Config) Chain(h admission.Host) *admission.Chain {
	source := lookup.Source{Kinds: f.Kinds.Load, Cache: f.Cache}
	c := &chainOf{Config: f, steps: admission.NewChain(f.Metrics), host: h, objects: pods.NewObjects(source), source: source}
	c.early()
	c.late()
	if f.On[MutatingPolicy] {
		c.steps.Mutates(MutatingPolicy, policy.Mutating(c.policies(MutatingPolicy)))
	}
	if f.On[MutatingWebhook] && f.Webhooks != nil {
		mutate, _ := f.Webhooks(MutatingWebhook, h)
		c.steps.Mutates(MutatingWebhook, mutate)
	}
	if f.On[ValidatingPolicy] {
		c.steps.Validates(ValidatingPolicy, policy.Validating(c.policies(ValidatingPolicy)))
	}
	if f.On[ValidatingWebhook] && f.Webhooks != nil {
		_, validate := f.Webhooks(ValidatingWebhook, h)
		c.steps.Validates(ValidatingWebhook, validate)
	}
	if f.On[resourceQuota] {
		c.steps.Validates(resourceQuota, quota.New(source, &f.Configs.quota, f.charge))
	}
	if f.On[alwaysDeny] {
		c.all(alwaysDeny, admission.AlwaysDeny{}, admission.AlwaysDeny{})
	}
	c.steps.First(policy.Access(f.Kinds.Load, f.Cache, f.Authorizer))
	c.steps.Finally(admission.Escalation(f.Authorizer, f.Roles)) // after all mutators, since their changes to roles count, too
	c.steps.Finally(devices.Claims(f.Authorizer, h))
	return c.steps
}

// charge changes the stored status of a ResourceQuota.
func (f *Config) charge(ctx context.Context, namespace, name string, fn func(*corev1.ResourceQuota) error) error {
	k := f.Kinds.Load().Lookup("", "resourcequotas")
	if k == nil {
		return nil
	}
	return f.ModifyStatus(ctx, k, namespace, name, quota.On(fn))
}

// policies returns what a plugin for policies works with.
func (c *chainOf) policies(plugin string) policy.Config {
	return policy.Config{Kinds: c.Kinds.Load, Cache: c.Cache, Host: c.host, Authorizer: c.Authorizer, Metrics: c.Metrics, Checks: c.Policies, Logger: c.Logger,
		Static: c.Static[plugin]}
}

// all adds a plugin for all resources. Either step may be nil.
func (c *chainOf) all(plugin string, mutate admission.Mutator, validate admission.Validator) {
	if c.On[plugin] && mutate != nil {
		c.steps.Mutates(plugin, mutate)
	}
	if c.On[plugin] && validate != nil {
		c.steps.Validates(plugin, validate)
	}
}

// mutates adds a mutator for some resources.
func (c *chainOf) mutates(plugin string, step admission.Mutator, resources ...schema.GroupResource) {
	if c.On[plugin] {
		c.steps.MutatesOnly(plugin, step, resources...)
	}
}

// validates adds a validator for some resources.
func (c *chainOf) validates(plugin string, step admission.Validator, resources ...schema.GroupResource) {
	if c.On[plugin] {
		c.steps.ValidatesOnly(plugin, step, resources...)
	}
}

// both adds a plugin that changes and checks pods.
func (c *chainOf) both(plugin string, mutate, validate admission.Func) {
	c.mutates(plugin, mutate, pods.Resource)
	c.validates(plugin, validate, pods.Resource)
}

// early adds the first plugins, to Priority.
func (c *chainOf) early() {
	o := c.objects
	c.all(autoProvision, admission.NamespaceAutoProvision(c.host, c.EnsureNamespace), nil)
	c.all(namespaceLifecycle, admission.NamespaceLifecycle(c.host), nil)
	c.all(namespaceExists, nil, admission.NamespaceExists(c.host))
	c.validates(hostAntiAffinity, pods.HostAntiAffinity(), pods.Resource)
	c.mutates(limitRanger, pods.DefaultLimits(o), pods.Resource)
	c.validates(limitRanger, pods.Limits(o), pods.Resource)
	c.validates(limitRanger, pods.ClaimLimits(o), pods.Claims)
	mutate, validate := pods.ServiceAccount(o)
	c.both(ServiceAccount, mutate, validate)
	if c.On[NodeRestriction] {
		c.steps.Mutates(NodeRestriction, noderestriction.New(c.host, c.Authorizer))
	}
	c.mutates(taintNodes, pods.NotReady(), pods.Nodes)
	mutate, validate = pods.AlwaysPullImages()
	c.both(alwaysPullImages, mutate, validate)
	if c.On[podSecurity] {
		c.validates(podSecurity, podsecurity.New(c.source, &c.Configs.security, podsecurity.NewMetrics(c.Registry)), podsecurity.Resources()...)
	}
	mutate, validate = pods.NodeSelector(o, c.Configs.selectors.Plugin)
	c.both(podNodeSelector, mutate, validate)
	c.mutates(Priority, pods.Priority(o), pods.Resource)
	c.validates(Priority, pods.PriorityDefault(o), pods.PriorityClasses)
}

// late adds the plugins after Priority and before policies.
func (c *chainOf) late() {
	o := c.objects
	c.mutates(tolerationDefaults, pods.DefaultTolerationSeconds(tolerationSeconds(c.NotReady), tolerationSeconds(c.Unreachable)), pods.Resource)
	mutate, validate := pods.PodTolerationRestriction(o, c.Configs.tolerations.limits())
	c.both(podTolerations, mutate, validate)
	c.validates(eventRateLimit, eventrate.New(&c.Configs.events), eventrate.Resource)
	c.mutates(extendedResources, pods.ExtendedResourceToleration(), pods.Resource)
	classes := storage.NewClasses(c.source)
	c.mutates(storageClass, storage.DefaultClass(classes), storage.Claims)
	c.mutates(storageInUse, storage.InUse(), storage.Claims, storage.Volumes, storage.Attributes)
	c.all(ownerReferences, nil, admission.OwnerReferences(c.Authorizer, c.Kinds.Load))
	c.validates(claimResize, storage.Resize(classes), storage.Claims)
	mutate, validate = pods.RuntimeClass(o)
	c.both(RuntimeClass, mutate, validate)
	c.validates(approval, certificates.Approval(c.Authorizer), certificates.Requests)
	c.validates(signing, certificates.Signing(c.Authorizer), certificates.Requests)
	c.validates(bundleAttest, certificates.Attest(c.Authorizer), certificates.Bundles)
	c.validates(subjectRestriction, certificates.Subject(), certificates.Requests)
	c.mutates(ingressClass, services.DefaultClass(c.source), services.Ingresses)
	c.validates(denyExternalIPs, services.DenyExternalIPs(), services.Services)
	c.mutates(topologyLabels, pods.TopologyLabels(o), pods.Resource)
	c.validates(declaredFeatures, pods.DeclaredFeatures(o, version.MustParseGeneric(c.Version)), pods.Resource)
	c.validates(podResize, pods.Resize(o), pods.Resource)
}
