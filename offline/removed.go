package offline

import "k8s.io/apimachinery/pkg/runtime/schema"

// This file lists APIs that Kubernetes does not serve any more, to say what replaces them.

// removal is the end of an API.
type removal struct {
	release     string // of Kubernetes, without the API
	replacement string // its apiVersion; "" if there is none
}

// removedKinds lists the removed versions of kinds, as in Kubernetes' deprecation guide.
var removedKinds = removals([]removedGroup{
	{"extensions/v1beta1", "1.16", "apps/v1", []string{"DaemonSet", "Deployment", "ReplicaSet"}},
	{"extensions/v1beta1", "1.16", "networking.k8s.io/v1", []string{"NetworkPolicy"}},
	{"extensions/v1beta1", "1.16", "", []string{"PodSecurityPolicy"}},
	{"extensions/v1beta1", "1.22", "networking.k8s.io/v1", []string{"Ingress"}},
	{"apps/v1beta1", "1.16", "apps/v1", []string{"Deployment", "StatefulSet", "ControllerRevision"}},
	{"apps/v1beta2", "1.16", "apps/v1", []string{"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet", "ControllerRevision"}},
	{"admissionregistration.k8s.io/v1beta1", "1.22", "admissionregistration.k8s.io/v1", []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}},
	{"apiregistration.k8s.io/v1beta1", "1.22", "apiregistration.k8s.io/v1", []string{"APIService"}},
	{"authentication.k8s.io/v1beta1", "1.22", "authentication.k8s.io/v1", []string{"TokenReview"}},
	{"authorization.k8s.io/v1beta1", "1.22", "authorization.k8s.io/v1", []string{"LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"}},
	{"certificates.k8s.io/v1beta1", "1.22", "certificates.k8s.io/v1", []string{"CertificateSigningRequest"}},
	{"coordination.k8s.io/v1beta1", "1.22", "coordination.k8s.io/v1", []string{"Lease"}},
	{"networking.k8s.io/v1beta1", "1.22", "networking.k8s.io/v1", []string{"Ingress", "IngressClass"}},
	{"rbac.authorization.k8s.io/v1beta1", "1.22", "rbac.authorization.k8s.io/v1", []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}},
	{"rbac.authorization.k8s.io/v1alpha1", "1.22", "rbac.authorization.k8s.io/v1", []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}},
	{"scheduling.k8s.io/v1beta1", "1.22", "scheduling.k8s.io/v1", []string{"PriorityClass"}},
	{"storage.k8s.io/v1beta1", "1.22", "storage.k8s.io/v1", []string{"CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"}},
	{"storage.k8s.io/v1beta1", "1.27", "storage.k8s.io/v1", []string{"CSIStorageCapacity"}},
	{"batch/v1beta1", "1.25", "batch/v1", []string{"CronJob"}},
	{"batch/v2alpha1", "1.21", "batch/v1", []string{"CronJob"}},
	{"discovery.k8s.io/v1beta1", "1.25", "discovery.k8s.io/v1", []string{"EndpointSlice"}},
	{"events.k8s.io/v1beta1", "1.25", "events.k8s.io/v1", []string{"Event"}},
	{"autoscaling/v2beta1", "1.25", "autoscaling/v2", []string{"HorizontalPodAutoscaler"}},
	{"autoscaling/v2beta2", "1.26", "autoscaling/v2", []string{"HorizontalPodAutoscaler"}},
	{"policy/v1beta1", "1.25", "policy/v1", []string{"PodDisruptionBudget"}},
	{"policy/v1beta1", "1.25", "", []string{"PodSecurityPolicy"}},
	{"node.k8s.io/v1beta1", "1.25", "node.k8s.io/v1", []string{"RuntimeClass"}},
	{"flowcontrol.apiserver.k8s.io/v1beta1", "1.26", "flowcontrol.apiserver.k8s.io/v1", []string{"FlowSchema", "PriorityLevelConfiguration"}},
	{"flowcontrol.apiserver.k8s.io/v1beta2", "1.29", "flowcontrol.apiserver.k8s.io/v1", []string{"FlowSchema", "PriorityLevelConfiguration"}},
	{"flowcontrol.apiserver.k8s.io/v1beta3", "1.32", "flowcontrol.apiserver.k8s.io/v1", []string{"FlowSchema", "PriorityLevelConfiguration"}},
})

// removedGroup is a row of the table.
type removedGroup struct {
	apiVersion, release, replacement string
	kinds                            []string
}

// removals returns the rows by kind.
func removals(rows []removedGroup) map[schema.GroupVersionKind]removal {
	out := map[schema.GroupVersionKind]removal{}
	for _, r := range rows {
		for _, kind := range r.kinds {
			out[schema.FromAPIVersionAndKind(r.apiVersion, kind)] = removal{r.release, r.replacement}
		}
	}
	return out
}
