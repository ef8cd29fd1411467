package core

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file sets the fields of new pods.

// createPod sets the first status of a new pod, adds the values of its own labels to the selectors
// of its placement, and fills in the resources of the pod as a whole.
func createPod(d *jsondoc.Doc) {
	spec := describe.ReadAs[corev1.PodSpec](d.Root().Get("spec"))
	if len(spec.SchedulingGates) > 0 {
		describe.SetAs(d, []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates", LastTransitionTime: metav1.Now(),
		}}, "status", "conditions")
	}
	own := describe.ReadAs[metav1.ObjectMeta](d.Root().Get("metadata")).Labels
	if placeByLabels(spec, own) {
		describe.SetAs(d, spec, "spec")
	}
	if fillWholeResources(spec) {
		describe.SetAs(d, spec.Resources, "spec", "resources")
	}
	d.Set(d.NewString(string(corev1.PodPending)), "status", "phase")
	d.Set(d.NewString(string(qosClass(spec))), "status", "qosClass")
}

// placeByLabels adds requirements to selectors, for the keys of matchLabelKeys and
// mismatchLabelKeys. It reports whether there are any.
func placeByLabels(spec *corev1.PodSpec, own map[string]string) bool {
	changed := false
	add := func(s *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator) {
		for _, key := range keys {
			if value, ok := own[key]; ok && s != nil {
				s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
				changed = true
			}
		}
	}
	near := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms := make([]*corev1.PodAffinityTerm, 0, len(required)+len(preferred))
		for i := range required {
			terms = append(terms, &required[i])
		}
		for i := range preferred {
			terms = append(terms, &preferred[i].PodAffinityTerm)
		}
		for _, t := range terms {
			add(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn)
			add(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
		}
	}
	if a := spec.Affinity; a != nil && a.PodAffinity != nil {
		near(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		near(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	for i := range spec.TopologySpreadConstraints {
		add(spec.TopologySpreadConstraints[i].LabelSelector, spec.TopologySpreadConstraints[i].MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
	return changed
}

// qosClass returns the quality of service of a pod. It depends on the requests and limits for CPU
// and memory: those of the pod, else those of its containers together.
func qosClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	if r := spec.Resources; r != nil && (slices.ContainsFunc(slices.Collect(maps.Keys(r.Requests)), isPodLevel) || slices.ContainsFunc(slices.Collect(maps.Keys(r.Limits)), isPodLevel)) {
		return qosOf(r)
	}
	var class corev1.PodQOSClass
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			switch own := qosOf(&list[i].Resources); {
			case class == "":
				class = own
			case class != own:
				return corev1.PodQOSBurstable
			}
		}
	}
	if class == "" {
		return corev1.PodQOSBestEffort
	}
	return class
}

// QOSClass returns a pod's quality of service, from its status if that has it.
func QOSClass(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	return qosClass(&pod.Spec)
}

// isPodLevel reports whether a resource may be set for a pod as a whole.
func isPodLevel(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || isHugePages(name)
}

// usesCompute reports whether a container has requests or limits for CPU or memory.
func usesCompute(r *corev1.ResourceRequirements) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if !r.Requests.Name(name, resource.DecimalSI).IsZero() || !r.Limits.Name(name, resource.DecimalSI).IsZero() {
			return true
		}
	}
	return false
}

// qosOf returns the class of one container: guaranteed if requests equal limits, best effort if it
// has neither.
func qosOf(r *corev1.ResourceRequirements) corev1.PodQOSClass {
	if !usesCompute(r) {
		return corev1.PodQOSBestEffort
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := r.Requests.Name(name, resource.DecimalSI), r.Limits.Name(name, resource.DecimalSI)
		if limit.IsZero() || request.Cmp(*limit) != 0 {
			return corev1.PodQOSBurstable
		}
	}
	return corev1.PodQOSGuaranteed
}
