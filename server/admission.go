package server

import (
	"fmt"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/admission/policy"
	"github.com/keelson-io/keelson/admission/webhook"
	"github.com/keelson-io/keelson/api"
	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/kind"
)

// This file is which admission steps run.

// The steps that there are, as kube-apiserver names them, in their order. All
// of them run unless they are switched off.
const (
	namespaceLifecycle = "NamespaceLifecycle"
	mutatingPolicy     = "MutatingAdmissionPolicy"
	mutatingWebhook    = "MutatingAdmissionWebhook"
	validatingPolicy   = "ValidatingAdmissionPolicy"
	validatingWebhook  = "ValidatingAdmissionWebhook"
)

var steps = []string{namespaceLifecycle, mutatingPolicy, mutatingWebhook, validatingPolicy, validatingWebhook}

// otherSteps are kube-apiserver's steps that this server has not got. It is no
// mistake to ask for one of them not to run.
var otherSteps = []string{
	"AlwaysAdmit", "AlwaysDeny", "AlwaysPullImages", "CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction",
	"ClusterTrustBundleAttest", "DefaultIngressClass", "DefaultStorageClass", "DefaultTolerationSeconds", "DenyServiceExternalIPs",
	"EventRateLimit", "ExtendedResourceToleration", "ImagePolicyWebhook", "LimitPodHardAntiAffinityTopology", "LimitRanger",
	"NamespaceAutoProvision", "NamespaceExists", "NodeRestriction",
	"OwnerReferencesPermissionEnforcement", "PersistentVolumeClaimResize", "PodNodeSelector", "PodSecurity", "PodTolerationRestriction",
	"PodTopologyLabels", "Priority", "ResourceQuota", "RuntimeClass", "ServiceAccount", "StorageObjectInUseProtection",
	"TaintNodesByCondition",
}

// plugins are the steps that run.
type plugins map[string]bool

// choosePlugins reads the names of steps that are to run, and not to run.
func choosePlugins(enabled, disabled []string) (plugins, error) {
	on := plugins{}
	for _, name := range steps {
		on[name] = true
	}
	for _, name := range enabled {
		switch {
		case slices.Contains(disabled, name):
			return nil, fmt.Errorf("[%s] in enable-admission-plugins and disable-admission-plugins overlapped", name)
		case slices.Contains(otherSteps, name):
			return nil, fmt.Errorf("enable-admission-plugins plugin %q: this server has no such step; it has %s", name, strings.Join(steps, ", "))
		case !on[name]:
			return nil, fmt.Errorf("enable-admission-plugins plugin %q is unknown", name)
		}
	}
	for _, name := range disabled {
		if !on[name] && !slices.Contains(otherSteps, name) {
			return nil, fmt.Errorf("disable-admission-plugins plugin %q is unknown", name)
		}
		delete(on, name)
	}
	return on, nil
}

// admission makes the steps after the life cycle of namespaces.
func (s *Server) admission(on plugins, kinds *kind.Registry, cached *cache.Cache, chain authz.Authorizer) api.Admission {
	return func(h admission.Host) admission.Chain {
		m := admission.NewMetrics(s.metrics)
		hooks := webhook.Config{Kinds: kinds.Load, Cache: cached, Namespaces: h, Authorizer: chain, Metrics: m, Logger: s.logger}
		policies := policy.Config{
			Kinds: kinds.Load, Cache: cached, Host: h, Authorizer: chain,
			Metrics: m, Checks: policy.NewMetrics(s.metrics), Logger: s.logger,
		}
		var steps admission.Chain
		if on[mutatingPolicy] {
			steps = append(steps, policy.Mutating(policies))
		}
		if on[mutatingWebhook] {
			steps = append(steps, webhook.Mutating(hooks))
		}
		if on[validatingPolicy] {
			steps = append(steps, policy.Validating(policies))
		}
		if on[validatingWebhook] {
			steps = append(steps, webhook.Validating(hooks))
		}
		// Last: what others make of a role counts, too.
		return append(steps, admission.Escalation(chain, s.authz.follower))
	}
}
