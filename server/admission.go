package server

import (
	"fmt"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/admission/noderestriction"
	"github.com/keelson-io/keelson/admission/policy"
	"github.com/keelson-io/keelson/admission/webhook"
	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/kind"
)

// This file chooses the admission steps.

// The available steps, under the names of kube-apiserver's plugins.
const (
	alwaysAdmit        = "AlwaysAdmit" // does nothing, as in kube-apiserver
	namespaceLifecycle = "NamespaceLifecycle"
	namespaceExists    = "NamespaceExists"
	ownerReferences    = "OwnerReferencesPermissionEnforcement"
	nodeRestriction    = noderestriction.Name
	mutatingPolicy     = "MutatingAdmissionPolicy"
	mutatingWebhook    = "MutatingAdmissionWebhook"
	validatingPolicy   = "ValidatingAdmissionPolicy"
	validatingWebhook  = "ValidatingAdmissionWebhook"
)

// DefaultAdmission lists the steps that run unless they are disabled, OptionalAdmission those that
// run if they are enabled. NodeRestriction also runs by default if the Node authorizer does.
var (
	DefaultAdmission  = []string{namespaceLifecycle, mutatingPolicy, mutatingWebhook, validatingPolicy, validatingWebhook}
	OptionalAdmission = []string{alwaysAdmit, namespaceExists, ownerReferences, nodeRestriction}
)

// otherSteps lists kube-apiserver's steps that this server lacks. Disabling one is accepted,
// enabling one is an error.
var otherSteps = []string{
	"AlwaysDeny", "AlwaysPullImages", "CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "ClusterTrustBundleAttest",
	"DefaultIngressClass", "DefaultStorageClass", "DefaultTolerationSeconds", "DenyServiceExternalIPs", "EventRateLimit",
	"ExtendedResourceToleration", "ImagePolicyWebhook", "LimitPodHardAntiAffinityTopology", "LimitRanger", "NamespaceAutoProvision",
	"NodeDeclaredFeatureValidator", "PersistentVolumeClaimResize", "PodGroupProtection", "PodNodeSelector",
	"PodResizeValidator", "PodSecurity", "PodTolerationRestriction", "PodTopologyLabels", "Priority", "ResourceQuota", "RuntimeClass",
	"ServiceAccount", "StorageObjectInUseProtection", "TaintNodesByCondition",
}

// plugins is the set of the steps that run.
type plugins map[string]bool

// choosePlugins returns the steps that run, given those that the flags enable and disable. nodes
// says whether the Node authorizer runs. The error lists all wrong names.
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

// admission builds the chain of steps, in kube-apiserver's order.
func (s *Server) admission(on plugins, kinds *kind.Registry, cached *cache.Cache, chain authz.Authorizer) func(admission.Host) *admission.Chain {
	return func(h admission.Host) *admission.Chain {
		m, checks := admission.NewMetrics(s.metrics), policy.NewMetrics(s.metrics)
		s.swept.admission, s.swept.policies = m, checks
		hooks := webhook.Config{Kinds: kinds.Load, Cache: cached, Namespaces: h, Authorizer: chain, Metrics: m, Logger: s.logger}
		policies := policy.Config{
			Kinds: kinds.Load, Cache: cached, Host: h, Authorizer: chain,
			Metrics: m, Checks: checks, Logger: s.logger,
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
		if on[nodeRestriction] {
			step := noderestriction.New(h, chain)
			steps.Inspects(step)
			steps.Mutates(nodeRestriction, step)
		}
		validates(ownerReferences, func() admission.Validator { return admission.OwnerReferences(chain, kinds.Load) })
		mutates(mutatingPolicy, func() admission.Mutator { return policy.Mutating(policies) })
		mutates(mutatingWebhook, func() admission.Mutator { return webhook.Mutating(hooks) })
		validates(validatingPolicy, func() admission.Validator { return policy.Validating(policies) })
		validates(validatingWebhook, func() admission.Validator { return webhook.Validating(hooks) })
		steps.First(policy.Access(kinds.Load, cached, chain))
		steps.Finally(admission.Escalation(chain, s.authz.follower)) // after all mutators, since their changes to roles count, too
		return steps
	}
}
