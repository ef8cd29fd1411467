package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	helpers "k8s.io/component-helpers/resource"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
)

// This file fills in and checks the resources of a pod as a whole.

// fillWholeResources adds to the resources of the pod as a whole, if it has any, what its containers
// have together: limits for huge pages, then requests, then limits for what every container limits.
// A later step uses what an earlier one added. It reports whether the pod has such resources.
func fillWholeResources(spec *corev1.PodSpec) bool {
	r := spec.Resources
	if r == nil || len(r.Requests) == 0 && len(r.Limits) == 0 {
		return false
	}
	requests, limits := sumContainers(spec)
	for name, limit := range limits {
		if _, requested := r.Requests[name]; isHugePages(name) && !requested {
			addResource(&r.Limits, name, limit)
		}
	}
	for name, request := range requests {
		if isPodLevel(name) && !isHugePages(name) {
			addResource(&r.Requests, name, request)
		}
	}
	for name, limit := range r.Limits {
		if isPodLevel(name) {
			addResource(&r.Requests, name, limit)
		}
	}
	for name, request := range r.Requests {
		limit, ok := limits[name]
		if !ok || !isPodLevel(name) || !allLimit(spec, name) {
			continue
		}
		if request.Cmp(limit) > 0 { // a limit below the request would be refused
			limit = request
		}
		addResource(&r.Limits, name, limit)
	}
	return true
}

// sumContainers returns the requests and limits that the containers of a pod have together.
func sumContainers(spec *corev1.PodSpec) (requests, limits corev1.ResourceList) {
	containers := &corev1.Pod{Spec: corev1.PodSpec{Containers: spec.Containers, InitContainers: spec.InitContainers}}
	return helpers.AggregateContainerRequests(containers, helpers.PodResourcesOptions{}),
		helpers.AggregateContainerLimits(containers, helpers.PodResourcesOptions{})
}

// checkWholeResources checks the resources of the pod as a whole, by themselves and against those of
// its containers.
func (c *podCheck) checkWholeResources() field.ErrorList {
	r, path := c.Resources, c.path.Child("resources")
	if r == nil {
		return nil
	}
	if c.OS != nil && c.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(path, "may not be set for a windows pod")}
	}
	var errs field.ErrorList
	if r.Claims != nil {
		errs = append(errs, field.Forbidden(path.Child("claims"), "claims may not be set for Resources at pod-level"))
	}
	errs = append(errs, checkRequirements(r, path, checkWholeName)...)
	requests, limits := sumContainers(c.PodSpec)
	errs = append(errs, checkCovers(r.Requests, requests, path.Child("requests"), "requests")...)
	maps.DeleteFunc(limits, func(name corev1.ResourceName, _ resource.Quantity) bool { return !isHugePages(name) })
	errs = append(errs, checkCovers(r.Limits, limits, path.Child("limits"), "limits")...)
	said := texts.Over(&errs)
	for i := range texts.EachOf(said, c.Containers) {
		own := c.Containers[i].Resources.Limits
		for _, name := range texts.EachOf(said, slices.Sorted(maps.Keys(own))) {
			q := own[name]
			if limit, ok := r.Limits[name]; ok && q.Cmp(limit) > 0 {
				// Upstream reports this below the resources of the pod.
				errs = append(errs, field.Invalid(path.Child("containers").Index(i).Key(string(name)).Child("limits"), q.String(),
					"must be less than or equal to pod limits of "+limit.String()))
			}
		}
	}
	return errs
}

// checkCovers refuses quantities of the pod as a whole that are below the sums of its containers.
func checkCovers(whole, sums corev1.ResourceList, path *field.Path, what string) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[name]
		if q, ok := whole[name]; ok && sum.Cmp(q) > 0 {
			errs = append(errs, field.Invalid(path.Key(string(name)), q.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container %s of %s", what, sum.String())))
		}
	}
	return errs
}

// checkWholeName checks the name of a resource of a pod as a whole.
func checkWholeName(path *field.Path, name corev1.ResourceName) field.ErrorList {
	if errs := describe.Invalid(path, name, validation.IsQualifiedName(string(name))); errs != nil {
		return errs
	}
	if errs := checkStandard(path, name); errs != nil || isPodLevel(name) {
		return errs
	}
	return field.ErrorList{field.NotSupported(path, name, sets.List(helpers.SupportedPodLevelResources()))}
}

// isHugePages reports whether a resource is memory in huge pages.
func isHugePages(name corev1.ResourceName) bool { return strings.HasPrefix(string(name), hugePages) }

// addResource adds a quantity for a resource that has none.
func addResource(list *corev1.ResourceList, name corev1.ResourceName, quantity resource.Quantity) {
	if _, ok := (*list)[name]; ok {
		return
	}
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = quantity.DeepCopy()
}

// allLimit reports whether all containers limit a resource.
func allLimit(spec *corev1.PodSpec, name corev1.ResourceName) bool {
	unlimited := func(c corev1.Container) bool { _, ok := c.Resources.Limits[name]; return !ok }
	ephemeral := func(c corev1.EphemeralContainer) bool { _, ok := c.Resources.Limits[name]; return !ok }
	return !slices.ContainsFunc(spec.Containers, unlimited) && !slices.ContainsFunc(spec.InitContainers, unlimited) &&
		!slices.ContainsFunc(spec.EphemeralContainers, ephemeral)
}
