package quota

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	helpers "k8s.io/component-helpers/resource"

	"github.com/keelson-io/keelson/internal/admission/pods"
	"github.com/keelson-io/keelson/internal/builtin/core"
)

// This file measures pods.

const podCount = "count/pods"

// podNames are the names under which pods count, besides those of huge pages and extended resources.
var podNames = []corev1.ResourceName{
	podCount, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage, corev1.ResourcePods,
}

// mustRequest are the names that every container of a pod must request if a quota has them.
var mustRequest = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
}

// podTracks reports whether a quota for a resource name counts pods.
func podTracks(name corev1.ResourceName) bool {
	s := string(name)
	if slices.Contains(podNames, name) || strings.HasPrefix(s, corev1.ResourceHugePagesPrefix) || strings.HasPrefix(s, corev1.ResourceRequestsHugePagesPrefix) {
		return true
	}
	native := !strings.Contains(s, "/") || strings.Contains(s, corev1.ResourceDefaultNamespacePrefix)
	implicit := strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix+resourcev1.ResourceDeviceClassPrefix)
	return (!native || implicit) && strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix)
}

// podUse returns what a pod uses. One that has ended counts as an object only.
func podUse(object any) corev1.ResourceList {
	pod := object.(*corev1.Pod)
	used := corev1.ResourceList{podCount: count(1)}
	if !chargeable(pod, time.Now()) {
		return used
	}
	options := helpers.PodResourcesOptions{UseStatusResources: true}
	return Add(used, computeUse(helpers.PodRequests(pod, options), helpers.PodLimits(pod, options)))
}

// computeUse returns requests and limits under the names of quotas.
func computeUse(requests, limits corev1.ResourceList) corev1.ResourceList {
	used := corev1.ResourceList{corev1.ResourcePods: count(1)}
	for name, q := range requests {
		prefixed := corev1.DefaultResourceRequestsPrefix + name
		switch {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage, strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			used[name], used[prefixed] = q, q
		case pods.IsExtended(name), strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix):
			used[prefixed] = q
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := limits[name]; ok {
			used["limits."+name] = q
		}
	}
	return used
}

// podRequires returns an error if a container requests nothing of a resource of which it must.
func podRequires(tracked []corev1.ResourceName, object any) error {
	pod := object.(*corev1.Pod)
	if helpers.IsPodLevelResourcesSet(pod) {
		return nil
	}
	lacking := map[corev1.ResourceName][]string{}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			used := computeUse(list[i].Resources.Requests, list[i].Resources.Limits)
			for _, name := range tracked {
				if _, ok := used[name]; !ok && slices.Contains(mustRequest, name) {
					lacking[name] = append(lacking[name], list[i].Name)
				}
			}
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		containers := lacking[name]
		slices.Sort(containers)
		parts = append(parts, fmt.Sprintf("%s for: %s", name, strings.Join(slices.Compact(containers), ",")))
	}
	return errors.New("must specify " + strings.Join(parts, "; "))
}

// podInScope reports whether a pod is in a scope.
func podInScope(s *corev1.ScopedResourceSelectorRequirement, object any) (bool, error) {
	pod := object.(*corev1.Pod)
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return isTerminating(pod), nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return !isTerminating(pod), nil
	case corev1.ResourceQuotaScopeBestEffort:
		return core.QOSClass(pod) == corev1.PodQOSBestEffort, nil
	case corev1.ResourceQuotaScopeNotBestEffort:
		return core.QOSClass(pod) != corev1.PodQOSBestEffort, nil
	case corev1.ResourceQuotaScopePriorityClass:
		if name := pod.Spec.PriorityClassName; name != "" {
			return selects(s, []string{name})
		}
		return selects(s, nil)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(pod.Spec.Affinity), nil
	}
	return false, nil
}

// selects reports whether a scope selects one of some names.
func selects(s *corev1.ScopedResourceSelectorRequirement, names []string) (bool, error) {
	if s.Operator == corev1.ScopeSelectorOpExists {
		return len(names) > 0, nil
	}
	var op selection.Operator
	switch s.Operator {
	case corev1.ScopeSelectorOpIn:
		op = selection.In
	case corev1.ScopeSelectorOpNotIn:
		op = selection.NotIn
	case corev1.ScopeSelectorOpDoesNotExist:
		op = selection.DoesNotExist
	default:
		return false, fmt.Errorf("failed to parse and convert selector: %q is not a valid scope selector operator", s.Operator)
	}
	required, err := labels.NewRequirement(string(s.ScopeName), op, s.Values)
	if err != nil {
		return false, fmt.Errorf("failed to parse and convert selector: %w", err)
	}
	if len(names) == 0 {
		return required.Matches(labels.Set{}), nil
	}
	return slices.ContainsFunc(names, func(name string) bool { return required.Matches(labels.Set{string(s.ScopeName): name}) }), nil
}

// isTerminating reports whether a pod has a deadline.
func isTerminating(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
}

// crossesNamespaces reports whether affinities are about pods of other namespaces.
func crossesNamespaces(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	crosses := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) bool {
		for i := range preferred {
			required = append(required[:len(required):len(required)], preferred[i].PodAffinityTerm)
		}
		return slices.ContainsFunc(required, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
	}
	return a.PodAffinity != nil && crosses(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) ||
		a.PodAntiAffinity != nil && crosses(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
}
