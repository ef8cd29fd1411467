package core

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file has the rules of the subresource resize of pods, which changes what containers request of
// CPU and memory.

// keepResized restores all of the containers but their resources, and fills in those of the pod as a
// whole. Containers that were renamed or moved stay as they are sent, for the check to refuse.
func keepResized(new, old *jsondoc.Doc) {
	now, was := describe.ReadAs[corev1.PodSpec](new.Root().Get("spec")), describe.ReadAs[corev1.PodSpec](old.Root().Get("spec"))
	for list, pair := range map[string][2][]corev1.Container{"initContainers": {now.InitContainers, was.InitContainers}, "containers": {now.Containers, was.Containers}} {
		is, all := pair[0], pair[1]
		same := slices.EqualFunc(is, all, func(a, b corev1.Container) bool { return a.Name == b.Name })
		if !same || len(is) == 0 {
			continue
		}
		for i := range all {
			all[i].Resources, all[i].ResizePolicy = is[i].Resources, is[i].ResizePolicy
		}
		describe.SetAs(new, all, "spec", list)
	}
	if r := old.Root().At("spec", "resources"); r.Exists() && !new.Root().At("spec", "resources").Exists() {
		new.Set(new.Import(r), "spec", "resources") // the client may not know the field
	}
	if spec := describe.ReadAs[corev1.PodSpec](new.Root().Get("spec")); fillWholeResources(spec) {
		describe.SetAs(new, spec.Resources, "spec", "resources")
	}
}

// checkResize adds to errs, which are those of the new specification, what a resize must not change.
func checkResize(new, old *corev1.Pod, errs field.ErrorList) field.ErrorList {
	if _, mirror := old.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	}
	if old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	path := field.NewPath("spec")
	if QOSClass(old) != qosClass(&new.Spec) {
		errs = append(errs, field.Invalid(path, new.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	if !nodeResizes(old) {
		errs = append(errs, field.Forbidden(path, "Pod running on node without support for resize"))
	}
	errs = append(errs, checkWholeResize(new.Spec.Resources, old.Spec.Resources, path)...)
	others := slices.Concat(
		checkSameContainers(new.Spec.Containers, old.Spec.Containers, path.Child("containers"), "containers"),
		checkSameContainers(new.Spec.InitContainers, old.Spec.InitContainers, path.Child("initContainers"), "initContainers"))
	if len(others) > 0 {
		return append(errs, others...)
	}
	for i := range texts.Each(&errs, old.Spec.InitContainers) {
		errs = append(errs, checkKept(&new.Spec.InitContainers[i].Resources, &old.Spec.InitContainers[i].Resources, path.Child("initContainers").Index(i).Child("resources"))...)
	}
	for i := range texts.Each(&errs, old.Spec.Containers) {
		errs = append(errs, checkKept(&new.Spec.Containers[i].Resources, &old.Spec.Containers[i].Resources, path.Child("containers").Index(i).Child("resources"))...)
	}
	for i := range texts.Each(&errs, old.Spec.Containers) {
		if !onlyComputeDiffers(&new.Spec.Containers[i], &old.Spec.Containers[i]) {
			errs = append(errs, field.Forbidden(path, "only cpu and memory resources are mutable"))
		}
	}
	for i := range texts.Each(&errs, old.Spec.InitContainers) {
		errs = append(errs, checkInitResize(&new.Spec.InitContainers[i], &old.Spec.InitContainers[i], path.Child("initContainers").Index(i))...)
	}
	return errs
}

// nodeResizes reports whether the node of a pod may be able to resize it: it says what running
// containers have.
func nodeResizes(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil {
			return c.Resources != nil
		}
	}
	return true
}

// checkWholeResize checks the resources of the pod as a whole.
func checkWholeResize(new, old *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	if old == nil && new == nil {
		return nil
	}
	if new == nil {
		return field.ErrorList{field.Forbidden(path.Child("resources"), "pod-level resources cannot be removed")}
	}
	var errs field.ErrorList
	if old == nil {
		old = &corev1.ResourceRequirements{}
	}
	if removed(new.Requests, old.Requests) {
		errs = append(errs, field.Forbidden(path.Child("resources", "requests"), "pod-level resource requests cannot be removed"))
	}
	if removed(new.Limits, old.Limits) {
		errs = append(errs, field.Forbidden(path.Child("resources", "limits"), "pod-level resource limits cannot be removed"))
	}
	if !equality.Semantic.DeepEqual(withComputeOf(*new, old), *old) {
		errs = append(errs, field.Forbidden(path, "only cpu and memory resources are mutable at pod-level"))
	}
	return errs
}

// checkSameContainers refuses to add, remove, rename or move containers.
func checkSameContainers(new, old []corev1.Container, path *field.Path, list string) (errs field.ErrorList) {
	if len(new) != len(old) {
		return field.ErrorList{field.Forbidden(path, list+" may not be added or removed on resize")}
	}
	for i := range old {
		if new[i].Name != old[i].Name {
			errs = append(errs, field.Forbidden(path.Index(i).Child("name"), list+" may not be renamed or reordered on resize"))
		}
	}
	return errs
}

// checkKept refuses to remove requests and limits of a container.
func checkKept(new, old *corev1.ResourceRequirements, path *field.Path) (errs field.ErrorList) {
	if removed(new.Requests, old.Requests) {
		errs = append(errs, field.Forbidden(path.Child("requests"), "resource requests cannot be removed"))
	}
	if removed(new.Limits, old.Limits) {
		errs = append(errs, field.Forbidden(path.Child("limits"), "resource limits cannot be removed"))
	}
	return errs
}

// removed reports whether a name of old is missing in new.
func removed(new, old corev1.ResourceList) bool {
	for name := range old {
		if _, ok := new[name]; !ok {
			return true
		}
	}
	return false
}

// checkInitResize checks the changes of a container that runs before the others or beside them.
func checkInitResize(new, old *corev1.Container, path *field.Path) (errs field.ErrorList) {
	if !onlyComputeDiffers(new, old) {
		errs = append(errs, field.Forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable"))
	}
	if sidecar := new.RestartPolicy != nil && *new.RestartPolicy == corev1.ContainerRestartPolicyAlways; sidecar || equality.Semantic.DeepEqual(new, old) {
		return errs
	}
	for _, p := range new.ResizePolicy {
		if p.RestartPolicy == corev1.RestartContainer {
			errs = append(errs, field.Forbidden(path, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"))
		}
	}
	return errs
}

// onlyComputeDiffers reports whether containers are equal but for CPU and memory.
func onlyComputeDiffers(new, old *corev1.Container) bool {
	c := *new
	c.Resources = withComputeOf(c.Resources, &old.Resources)
	return equality.Semantic.DeepEqual(&c, old)
}

// withComputeOf returns requests and limits with those of old for CPU and memory.
func withComputeOf(r corev1.ResourceRequirements, old *corev1.ResourceRequirements) corev1.ResourceRequirements {
	r.Requests, r.Limits = withCompute(r.Requests, old.Requests), withCompute(r.Limits, old.Limits)
	return r
}

func withCompute(list, old corev1.ResourceList) corev1.ResourceList {
	all := corev1.ResourceList{}
	maps.Copy(all, list)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		delete(all, name)
		if q, ok := old[name]; ok {
			all[name] = q
		}
	}
	return all
}
