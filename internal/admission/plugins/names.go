package plugins

import (
	"fmt"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-io/keelson/internal/admission/noderestriction"
)

// This file has the names of the plugins, and which of them run.

// The plugins, under the names of kube-apiserver.
const (
	alwaysAdmit        = "AlwaysAdmit" // does nothing, as in kube-apiserver
	autoProvision      = "NamespaceAutoProvision"
	namespaceLifecycle = "NamespaceLifecycle"
	namespaceExists    = "NamespaceExists"
	hostAntiAffinity   = "LimitPodHardAntiAffinityTopology"
	limitRanger        = "LimitRanger"
	ServiceAccount     = "ServiceAccount"
	NodeRestriction    = noderestriction.Name
	taintNodes         = "TaintNodesByCondition"
	alwaysPullImages   = "AlwaysPullImages"
	imagePolicyWebhook = "ImagePolicyWebhook"
	podSecurity        = "PodSecurity"
	podNodeSelector    = "PodNodeSelector"
	Priority           = "Priority"
	tolerationDefaults = "DefaultTolerationSeconds"
	podTolerations     = "PodTolerationRestriction"
	eventRateLimit     = "EventRateLimit"
	extendedResources  = "ExtendedResourceToleration"
	storageClass       = "DefaultStorageClass"
	storageInUse       = "StorageObjectInUseProtection"
	podGroups          = "PodGroupProtection" // is for a kind that kube-apiserver serves only with a feature gate
	ownerReferences    = "OwnerReferencesPermissionEnforcement"
	claimResize        = "PersistentVolumeClaimResize"
	RuntimeClass       = "RuntimeClass"
	approval           = "CertificateApproval"
	signing            = "CertificateSigning"
	bundleAttest       = "ClusterTrustBundleAttest"
	subjectRestriction = "CertificateSubjectRestriction"
	ingressClass       = "DefaultIngressClass"
	denyExternalIPs    = "DenyServiceExternalIPs"
	topologyLabels     = "PodTopologyLabels"
	declaredFeatures   = "NodeDeclaredFeatureValidator"
	podResize          = "PodResizeValidator"
	MutatingPolicy     = "MutatingAdmissionPolicy"
	MutatingWebhook    = "MutatingAdmissionWebhook"
	ValidatingPolicy   = "ValidatingAdmissionPolicy"
	ValidatingWebhook  = "ValidatingAdmissionWebhook"
	resourceQuota      = "ResourceQuota"
	alwaysDeny         = "AlwaysDeny"
)

// Default lists the plugins that run unless they are disabled, Optional those that run if they are
// enabled. NodeRestriction also runs by default if the Node authorizer does.
var (
	Default = []string{
		namespaceLifecycle, limitRanger, ServiceAccount, taintNodes, podSecurity, Priority, tolerationDefaults, storageClass, storageInUse, podGroups, claimResize,
		RuntimeClass, approval, signing, bundleAttest, subjectRestriction, ingressClass, topologyLabels, declaredFeatures, podResize,
		MutatingPolicy, MutatingWebhook, ValidatingPolicy, ValidatingWebhook, resourceQuota,
	}
	Optional = []string{
		alwaysAdmit, autoProvision, namespaceExists, hostAntiAffinity, NodeRestriction, alwaysPullImages, podNodeSelector, podTolerations, eventRateLimit,
		extendedResources, ownerReferences, denyExternalIPs, alwaysDeny,
	}
)

// otherSteps lists kube-apiserver's plugins that this server lacks. Disabling one is accepted,
// enabling one is an error.
var otherSteps = []string{imagePolicyWebhook}

// known lists all plugins of kube-apiserver.
var known = slices.Concat(Default, Optional, otherSteps)

// Set is the set of the plugins that run.
type Set map[string]bool

// Choose returns the steps that run, given those that the flags enable and disable. nodes is
// set if the Node authorizer runs. The error lists all wrong names.
func Choose(enabled, disabled []string, nodes bool) (Set, error) {
	var errs []error
	ours := func(name string) bool {
		return slices.Contains(Default, name) || slices.Contains(Optional, name)
	}
	on := Set{}
	for _, name := range Default {
		on[name] = true
	}
	if nodes {
		on[NodeRestriction] = true
	}
	for _, name := range enabled {
		switch {
		case slices.Contains(otherSteps, name):
			errs = append(errs, fmt.Errorf("enable-admission-plugins plugin %q: this server has no such step; it has %s",
				name, strings.Join(slices.Concat(Default, Optional), ", ")))
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
