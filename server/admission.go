package server

import (
	"fmt"
	"slices"
)

// This file is which admission steps run.

// namespaceLifecycle is the one step that there is.
const namespaceLifecycle = "NamespaceLifecycle"

// otherSteps are kube-apiserver's steps that this server has not got. It is no
// mistake to ask for one of them not to run.
var otherSteps = []string{
	"AlwaysAdmit", "AlwaysDeny", "AlwaysPullImages", "CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction",
	"ClusterTrustBundleAttest", "DefaultIngressClass", "DefaultStorageClass", "DefaultTolerationSeconds", "DenyServiceExternalIPs",
	"EventRateLimit", "ExtendedResourceToleration", "ImagePolicyWebhook", "LimitPodHardAntiAffinityTopology", "LimitRanger",
	"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "NamespaceAutoProvision", "NamespaceExists", "NodeRestriction",
	"OwnerReferencesPermissionEnforcement", "PersistentVolumeClaimResize", "PodNodeSelector", "PodSecurity", "PodTolerationRestriction",
	"PodTopologyLabels", "Priority", "ResourceQuota", "RuntimeClass", "ServiceAccount", "StorageObjectInUseProtection",
	"TaintNodesByCondition", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook",
}

// withoutNamespaceStep reports whether the life cycle of namespaces is among
// the steps that are not to run.
func withoutNamespaceStep(disabled []string) (bool, error) {
	for _, name := range disabled {
		if name != namespaceLifecycle && !slices.Contains(otherSteps, name) {
			return false, fmt.Errorf("admission plugin %q to be disabled: there is none of that name", name)
		}
	}
	return slices.Contains(disabled, namespaceLifecycle), nil
}
