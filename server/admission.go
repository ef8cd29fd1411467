package server

import (
	"fmt"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/admission/policy"
	"github.com/keelson-io/keelson/admission/webhook"
	"github.com/keelson-io/keelson/api"
	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/kind"
)

// This file is which admission steps run.

// The steps that there are, by the names of kube-apiserver's plugins.
const (
	alwaysAdmit        = "AlwaysAdmit" // a step that does nothing, there as here
	namespaceLifecycle = "NamespaceLifecycle"
	namespaceExists    = "NamespaceExists"
	ownerReferences    = "OwnerReferencesPermissionEnforcement"
	mutatingPolicy     = "MutatingAdmissionPolicy"
	mutatingWebhook    = "MutatingAdmissionWebhook"
	validatingPolicy   = "ValidatingAdmissionPolicy"
	validatingWebhook  = "ValidatingAdmissionWebhook"
)

// DefaultAdmission are the steps that run unless they are switched off,
// OptionalAdmission those that run if they are asked for.
var (
	DefaultAdmission  = []string{namespaceLifecycle, mutatingPolicy, mutatingWebhook, validatingPolicy, validatingWebhook}
	OptionalAdmission = []string{alwaysAdmit, namespaceExists, ownerReferences}
)

// otherSteps are kube-apiserver's steps that this server has not got. It is no
// mistake to ask for one of them not to run; to ask for one to run is.
var otherSteps = []string{
	"AlwaysDeny", "AlwaysPullImages", "CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "ClusterTrustBundleAttest",
	"DefaultIngressClass", "DefaultStorageClass", "DefaultTolerationSeconds", "DenyServiceExternalIPs", "EventRateLimit",
	"ExtendedResourceToleration", "ImagePolicyWebhook", "LimitPodHardAntiAffinityTopology", "LimitRanger", "NamespaceAutoProvision",
	"NodeDeclaredFeatureValidator", "NodeRestriction", "PersistentVolumeClaimResize", "PodGroupProtection", "PodNodeSelector",
	"PodResizeValidator", "PodSecurity", "PodTolerationRestriction", "PodTopologyLabels", "Priority", "ResourceQuota", "RuntimeClass",
	"ServiceAccount", "StorageObjectInUseProtection", "TaintNodesByCondition",
}

// plugins are the steps that run.
type plugins map[string]bool

// choosePlugins reads the names of steps that are to run, and not to run. Its
// error says all that is wrong with them.
func choosePlugins(enabled, disabled []string) (plugins, error) {
	var errs []error
	ours := func(name string) bool {
		return slices.Contains(DefaultAdmission, name) || slices.Contains(OptionalAdmission, name)
	}
	on := plugins{}
	for _, name := range DefaultAdmission {
		on[name] = true
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

// admission makes the steps, in the order of kube-apiserver's.
func (s *Server) admission(on plugins, kinds *kind.Registry, cached *cache.Cache, chain authz.Authorizer) api.Admission {
	return func(h admission.Host) *admission.Chain {
		m := admission.NewMetrics(s.metrics)
		hooks := webhook.Config{Kinds: kinds.Load, Cache: cached, Namespaces: h, Authorizer: chain, Metrics: m, Logger: s.logger}
		policies := policy.Config{
			Kinds: kinds.Load, Cache: cached, Host: h, Authorizer: chain,
			Metrics: m, Checks: policy.NewMetrics(s.metrics), Logger: s.logger,
		}
		steps := admission.NewChain(m)
		mutates := func(name string, step func() admission.Mutator) {
			if on[name] {
				steps.Mutates(name, step())
			}
		}
		validates := func(name string, step func() admission.Validator) {
			if on[name] {
				steps.Validates(name, step())
			}
		}
		mutates(namespaceLifecycle, func() admission.Mutator { return admission.NamespaceLifecycle(h) })
		validates(namespaceExists, func() admission.Validator { return admission.NamespaceExists(h) })
		validates(ownerReferences, func() admission.Validator { return admission.OwnerReferences(chain, kinds.Load) })
		mutates(mutatingPolicy, func() admission.Mutator { return policy.Mutating(policies) })
		mutates(mutatingWebhook, func() admission.Mutator { return webhook.Mutating(hooks) })
		validates(validatingPolicy, func() admission.Validator { return policy.Validating(policies) })
		validates(validatingWebhook, func() admission.Validator { return webhook.Validating(hooks) })
		steps.First(policy.Access(kinds.Load, cached, chain))
		steps.Finally(admission.Escalation(chain, s.authz.follower)) // what others make of a role counts, too
		return steps
	}
}
