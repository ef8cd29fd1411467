package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/admission/certificates"
	"github.com/keelson-io/keelson/admission/devices"
	"github.com/keelson-io/keelson/admission/eventrate"
	"github.com/keelson-io/keelson/admission/lookup"
	"github.com/keelson-io/keelson/admission/noderestriction"
	"github.com/keelson-io/keelson/admission/pods"
	"github.com/keelson-io/keelson/admission/podsecurity"
	"github.com/keelson-io/keelson/admission/policy"
	"github.com/keelson-io/keelson/admission/quota"
	"github.com/keelson-io/keelson/admission/services"
	"github.com/keelson-io/keelson/admission/storage"
	"github.com/keelson-io/keelson/admission/webhook"
	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/objects"
)

// This file chooses the admission steps.

// The plugins, under the names of kube-apiserver.
const (
	alwaysAdmit        = "AlwaysAdmit" // does nothing, as in kube-apiserver
	autoProvision      = "NamespaceAutoProvision"
	namespaceLifecycle = "NamespaceLifecycle"
	namespaceExists    = "NamespaceExists"
	hostAntiAffinity   = "LimitPodHardAntiAffinityTopology"
	limitRanger        = "LimitRanger"
	serviceAccount     = "ServiceAccount"
	nodeRestriction    = noderestriction.Name
	taintNodes         = "TaintNodesByCondition"
	alwaysPullImages   = "AlwaysPullImages"
	imagePolicyWebhook = "ImagePolicyWebhook"
	podSecurity        = "PodSecurity"
	podNodeSelector    = "PodNodeSelector"
	priority           = "Priority"
	tolerationDefaults = "DefaultTolerationSeconds"
	podTolerations     = "PodTolerationRestriction"
	eventRateLimit     = "EventRateLimit"
	extendedResources  = "ExtendedResourceToleration"
	storageClass       = "DefaultStorageClass"
	storageInUse       = "StorageObjectInUseProtection"
	podGroups          = "PodGroupProtection" // is for a kind that kube-apiserver serves only with a feature gate
	ownerReferences    = "OwnerReferencesPermissionEnforcement"
	claimResize        = "PersistentVolumeClaimResize"
	runtimeClass       = "RuntimeClass"
	approval           = "CertificateApproval"
	signing            = "CertificateSigning"
	bundleAttest       = "ClusterTrustBundleAttest"
	subjectRestriction = "CertificateSubjectRestriction"
	ingressClass       = "DefaultIngressClass"
	denyExternalIPs    = "DenyServiceExternalIPs"
	topologyLabels     = "PodTopologyLabels"
	declaredFeatures   = "NodeDeclaredFeatureValidator"
	podResize          = "PodResizeValidator"
	mutatingPolicy     = "MutatingAdmissionPolicy"
	mutatingWebhook    = "MutatingAdmissionWebhook"
	validatingPolicy   = "ValidatingAdmissionPolicy"
	validatingWebhook  = "ValidatingAdmissionWebhook"
	resourceQuota      = "ResourceQuota"
	alwaysDeny         = "AlwaysDeny"
)

// DefaultAdmission lists the plugins that run unless they are disabled, OptionalAdmission those that
// run if they are enabled. NodeRestriction also runs by default if the Node authorizer does.
var (
	DefaultAdmission = []string{
		namespaceLifecycle, limitRanger, serviceAccount, taintNodes, podSecurity, priority, tolerationDefaults, storageClass, storageInUse, podGroups, claimResize,
		runtimeClass, approval, signing, bundleAttest, subjectRestriction, ingressClass, topologyLabels, declaredFeatures, podResize,
		mutatingPolicy, mutatingWebhook, validatingPolicy, validatingWebhook, resourceQuota,
	}
	OptionalAdmission = []string{
		alwaysAdmit, autoProvision, namespaceExists, hostAntiAffinity, nodeRestriction, alwaysPullImages, podNodeSelector, podTolerations, eventRateLimit,
		extendedResources, ownerReferences, denyExternalIPs, alwaysDeny,
	}
)

// otherSteps lists kube-apiserver's plugins that this server lacks. Disabling one is accepted,
// enabling one is an error.
var otherSteps = []string{imagePolicyWebhook}

// knownPlugins lists all plugins of kube-apiserver.
var knownPlugins = slices.Concat(DefaultAdmission, OptionalAdmission, otherSteps)

// plugins is the set of the steps that run.
type plugins map[string]bool

// choosePlugins returns the steps that run, given those that the flags enable and disable. nodes is
// set if the Node authorizer runs. The error lists all wrong names.
func choosePlugins(enabled, disabled []string, nodes bool) (plugins, error) {
	var errs []error
	ours := func(name string) bool {
		return slices.Contains(DefaultAdmission, name) || slices.Contains(OptionalAdmission, name)
	}
	on := plugins{}
	for _, name := range DefaultAdmission {
		on[name] = true
	}
	if nodes {
		on[nodeRestriction] = true
	}
	for _, name := range enabled {
		switch {
		case slices.Contains(otherSteps, name):
			errs = append(errs, fmt.Errorf("enable-admission-plugins plugin %q: this server has no such step; it has %s",
				name, strings.Join(slices.Concat(DefaultAdmission, OptionalAdmission), ", ")))
		case !ours(name):
			errs = append(errs, fmt.Errorf("enable-admission-plugins plugin %q is unknown", name))
		}
		on[name] = true
	}
	var both []string
	for _, name := range disabled {
		if !ours(name) && !slices.Contains(otherSteps, name) {
			errs = append(errs, fmt.Errorf("disable-admission-plugins plugin %q is unknown", name))
		}
		if slices.Contains(enabled, name) {
			both = append(both, name)
		}
		delete(on, name)
	}
	if slices.Sort(both); len(both) > 0 {
		errs = append(errs, fmt.Errorf("%v in enable-admission-plugins and disable-admission-plugins overlapped", slices.Compact(both)))
	}
	return on, utilerrors.NewAggregate(errs)
}

// chainOf has what the chain of steps is built from.
type chainOf struct {
	on      plugins
	configs *pluginConfigs
	steps   *admission.Chain
	host    admission.Host
	objects *pods.Objects
	source  lookup.Source
	authz   authz.Authorizer
}

// admission builds the chain of steps, in kube-apiserver's order.
func (s *Server) admission(on plugins, configs *pluginConfigs, static *staticAdmission, chain authz.Authorizer) func(admission.Host) *admission.Chain {
	return func(h admission.Host) *admission.Chain {
		kinds, cached := s.kinds, s.cache
		m, checks := admission.NewMetrics(s.metrics), policy.NewMetrics(s.metrics)
		s.swept.admission, s.swept.policies = m, checks
		source := lookup.Source{Kinds: kinds.Load, Cache: cached}
		c := &chainOf{on: on, configs: configs, steps: admission.NewChain(m), host: h, objects: pods.NewObjects(source), source: source, authz: chain}
		s.early(c)
		s.late(c)
		hooks := func(plugin string) webhook.Config {
			return webhook.Config{Kinds: kinds.Load, Cache: cached, Namespaces: h, Authorizer: chain, Metrics: m, Logger: s.logger, Shared: s.hooks,
				Static: static.folders[plugin], Credentials: static.credentials[plugin]}
		}
		policies := func(plugin string) policy.Config {
			return policy.Config{Kinds: kinds.Load, Cache: cached, Host: h, Authorizer: chain, Metrics: m, Checks: checks, Logger: s.logger,
				Static: static.folders[plugin]}
		}
		if on[mutatingPolicy] {
			c.steps.Mutates(mutatingPolicy, policy.Mutating(policies(mutatingPolicy)))
		}
		if on[mutatingWebhook] {
			c.steps.Mutates(mutatingWebhook, webhook.Mutating(hooks(mutatingWebhook)))
		}
		if on[validatingPolicy] {
			c.steps.Validates(validatingPolicy, policy.Validating(policies(validatingPolicy)))
		}
		if on[validatingWebhook] {
			c.steps.Validates(validatingWebhook, webhook.Validating(hooks(validatingWebhook)))
		}
		if on[resourceQuota] {
			c.steps.Validates(resourceQuota, quota.New(source, &configs.quota, s.chargeQuota))
		}
		if on[alwaysDeny] {
			c.all(alwaysDeny, admission.AlwaysDeny{}, admission.AlwaysDeny{})
		}
		c.steps.First(policy.Access(kinds.Load, cached, chain))
		c.steps.Finally(admission.Escalation(chain, s.authz.follower)) // after all mutators, since their changes to roles count, too
		c.steps.Finally(devices.Claims(chain, h))
		return c.steps
	}
}

// all adds a plugin for all resources. Either step may be nil.
func (c *chainOf) all(plugin string, mutate admission.Mutator, validate admission.Validator) {
	if c.on[plugin] && mutate != nil {
		c.steps.Mutates(plugin, mutate)
	}
	if c.on[plugin] && validate != nil {
		c.steps.Validates(plugin, validate)
	}
}

// mutates adds a mutator for some resources.
func (c *chainOf) mutates(plugin string, step admission.Mutator, resources ...schema.GroupResource) {
	if c.on[plugin] {
		c.steps.MutatesOnly(plugin, step, resources...)
	}
}

// validates adds a validator for some resources.
func (c *chainOf) validates(plugin string, step admission.Validator, resources ...schema.GroupResource) {
	if c.on[plugin] {
		c.steps.ValidatesOnly(plugin, step, resources...)
	}
}

// both adds a plugin that changes and checks pods.
func (c *chainOf) both(plugin string, mutate, validate admission.Func) {
	c.mutates(plugin, mutate, pods.Resource)
	c.validates(plugin, validate, pods.Resource)
}

// early adds the first plugins, to Priority.
func (s *Server) early(c *chainOf) {
	o := c.objects
	c.all(autoProvision, admission.NamespaceAutoProvision(c.host, func(ctx context.Context, name string) error {
		return s.writer(objects.ServerManager).EnsureNamespace(ctx, name)
	}), nil)
	c.all(namespaceLifecycle, admission.NamespaceLifecycle(c.host), nil)
	c.all(namespaceExists, nil, admission.NamespaceExists(c.host))
	c.validates(hostAntiAffinity, pods.HostAntiAffinity(), pods.Resource)
	c.mutates(limitRanger, pods.DefaultLimits(o), pods.Resource)
	c.validates(limitRanger, pods.Limits(o), pods.Resource)
	c.validates(limitRanger, pods.ClaimLimits(o), pods.Claims)
	mutate, validate := pods.ServiceAccount(o)
	c.both(serviceAccount, mutate, validate)
	if c.on[nodeRestriction] {
		c.steps.Mutates(nodeRestriction, noderestriction.New(c.host, c.authz))
	}
	c.mutates(taintNodes, pods.NotReady(), pods.Nodes)
	mutate, validate = pods.AlwaysPullImages()
	c.both(alwaysPullImages, mutate, validate)
	if c.on[podSecurity] {
		c.validates(podSecurity, podsecurity.New(c.source, &c.configs.security, podsecurity.NewMetrics(s.metrics)), podsecurity.Resources()...)
	}
	mutate, validate = pods.NodeSelector(o, c.configs.selectors.Plugin)
	c.both(podNodeSelector, mutate, validate)
	c.mutates(priority, pods.Priority(o), pods.Resource)
	c.validates(priority, pods.PriorityDefault(o), pods.PriorityClasses)
}

// late adds the plugins after Priority and before policies.
func (s *Server) late(c *chainOf) {
	o := c.objects
	c.mutates(tolerationDefaults, pods.DefaultTolerationSeconds(tolerationSeconds(s.config.NotReadyTolerationSeconds),
		tolerationSeconds(s.config.UnreachableTolerationSeconds)), pods.Resource)
	mutate, validate := pods.PodTolerationRestriction(o, c.configs.tolerations.limits())
	c.both(podTolerations, mutate, validate)
	c.validates(eventRateLimit, eventrate.New(&c.configs.events), eventrate.Resource)
	c.mutates(extendedResources, pods.ExtendedResourceToleration(), pods.Resource)
	classes := storage.NewClasses(c.source)
	c.mutates(storageClass, storage.DefaultClass(classes), storage.Claims)
	c.mutates(storageInUse, storage.InUse(), storage.Claims, storage.Volumes, storage.Attributes)
	c.all(ownerReferences, nil, admission.OwnerReferences(c.authz, s.kinds.Load))
	c.validates(claimResize, storage.Resize(classes), storage.Claims)
	mutate, validate = pods.RuntimeClass(o)
	c.both(runtimeClass, mutate, validate)
	c.validates(approval, certificates.Approval(c.authz), certificates.Requests)
	c.validates(signing, certificates.Signing(c.authz), certificates.Requests)
	c.validates(bundleAttest, certificates.Attest(c.authz), certificates.Bundles)
	c.validates(subjectRestriction, certificates.Subject(), certificates.Requests)
	c.mutates(ingressClass, services.DefaultClass(c.source), services.Ingresses)
	c.validates(denyExternalIPs, services.DenyExternalIPs(), services.Services)
	c.mutates(topologyLabels, pods.TopologyLabels(o), pods.Resource)
	c.validates(declaredFeatures, pods.DeclaredFeatures(o, version.MustParseGeneric(Version().GitVersion)), pods.Resource)
	c.validates(podResize, pods.Resize(o), pods.Resource)
}

// chargeQuota changes the stored status of a ResourceQuota.
func (s *Server) chargeQuota(ctx context.Context, namespace, name string, fn func(*corev1.ResourceQuota) error) error {
	k := s.kinds.Load().Lookup("", "resourcequotas")
	if k == nil {
		return nil
	}
	return s.writer(objects.ServerManager).ModifyPart(ctx, k, namespace, name, "status", quota.On(fn))
}
