package core

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file checks the status of pods.

// updatePodStatus keeps the metadata that a status update does not write, and status fields that an older client may not know.
func updatePodStatus(new, old *jsondoc.Doc) {
	for _, name := range []string{"qosClass", "resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses", "observedGeneration"} {
		if !new.Root().At("status", name).Exists() {
			kind.Keep(new, old, "status", name)
		}
	}
	keepObserved(new, old)
}

// keepObserved copies observedGeneration from the old conditions, if there are as many conditions
// of the type.
func keepObserved(new, old *jsondoc.Doc) {
	list := describe.ReadAs[corev1.PodStatus](new.Root().Get("status")).Conditions
	seen := map[corev1.PodConditionType][]int64{}
	for _, c := range describe.ReadAs[corev1.PodStatus](old.Root().Get("status")).Conditions {
		seen[c.Type] = append(seen[c.Type], c.ObservedGeneration)
	}
	changed := false
	for i := range list {
		c := &list[i]
		if was := seen[c.Type]; len(was) > 0 {
			seen[c.Type] = was[1:]
			if c.ObservedGeneration == 0 && was[0] != 0 {
				c.ObservedGeneration, changed = was[0], true
			}
		}
	}
	if changed {
		describe.SetAs(new, list, "status", "conditions")
	}
}

// checkPodStatus checks an update of a pod's status.
func checkPodStatus(now, was *corev1.Pod) field.ErrorList {
	path, s := field.NewPath("status"), &now.Status
	var errs field.ErrorList
	for i, c := range texts.Each(&errs, s.Conditions) {
		at := path.Child("conditions").Index(i)
		if c.ObservedGeneration < 0 {
			errs = append(errs, field.Invalid(at.Child("observedGeneration"), c.ObservedGeneration, "must be a non-negative integer"))
		}
		if c.Type != corev1.PodScheduled && c.Type != corev1.PodReady && c.Type != corev1.PodInitialized {
			errs = append(errs, describe.Invalid(at.Child("Type"), string(c.Type), validation.IsQualifiedName(string(c.Type)))...)
		}
	}
	if name := s.NominatedNodeName; name != "" && name != was.Status.NominatedNodeName {
		errs = append(errs, describe.Invalid(path.Child("nominatedNodeName"), name, apivalidation.NameIsDNSSubdomain(name, false))...)
		if was.Spec.NodeName != "" {
			errs = append(errs, field.Forbidden(path.Child("nominatedNodeName"), "may not be set on pods that are already bound to a node"))
		}
	}
	if s.ObservedGeneration < 0 {
		errs = append(errs, field.Invalid(path.Child("observedGeneration"), s.ObservedGeneration, "must be a non-negative integer"))
	}
	if s.QOSClass != was.Status.QOSClass {
		errs = append(errs, field.Invalid(path.Child("qosClass"), s.QOSClass, "field is immutable").WithOrigin("immutable"))
	}
	errs = append(errs, checkTransitions(now, was, path)...)
	errs = append(errs, checkClaimStatuses(s.ResourceClaimStatuses, now.Spec.ResourceClaims, path.Child("resourceClaimStatuses"))...)
	errs = append(errs, checkPodIPs(now, was, path.Child("podIPs"))...)
	errs = append(errs, checkHostIPs(now, was, path.Child("hostIPs"))...)
	errs = append(errs, checkAllocated(s.ContainerStatuses, now.Spec.Containers, path.Child("containerStatuses"))...)
	errs = append(errs, checkAllocated(s.InitContainerStatuses, now.Spec.InitContainers, path.Child("initContainerStatuses"))...)
	for i, c := range texts.Each(&errs, s.EphemeralContainerStatuses) {
		if len(c.AllocatedResourcesStatus) > 0 {
			errs = append(errs, field.Forbidden(path.Child("ephemeralContainerStatuses").Index(i).Child("allocatedResourcesStatus"), "must not be specified in container status"))
		}
	}
	return errs
}

// checkTransitions refuses a status in which a container runs again although its pod does not
// restart it.
func checkTransitions(now, was *corev1.Pod, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	never := func(list string, next, last []corev1.ContainerStatus, again func(name string, code int32) bool) {
		running := sets.Set[string]{}
		for i := range next {
			if next[i].State.Terminated == nil {
				running.Insert(next[i].Name)
			}
		}
		for i, s := range texts.Each(&errs, last) {
			if s.State.Terminated == nil || again(s.Name, s.State.Terminated.ExitCode) {
				continue
			}
			if running.Has(s.Name) {
				errs = append(errs, field.Forbidden(path.Child(list).Index(i).Child("state"), "may not be transitioned to non-terminated state"))
			}
		}
	}
	among := func(all []corev1.Container) func(string, int32) bool {
		named := describe.ByKey(all, containerName)
		return func(name string, code int32) bool {
			i, ok := named[name]
			return ok && startsAgain(&was.Spec, &all[i], code)
		}
	}
	n, w := &now.Status, &was.Status
	if !anyStartsAll(&was.Spec) {
		never("containerStatuses", n.ContainerStatuses, w.ContainerStatuses, among(was.Spec.Containers))
		never("initContainerStatuses", n.InitContainerStatuses, w.InitContainerStatuses, among(was.Spec.InitContainers))
	}
	never("ephemeralContainerStatuses", n.EphemeralContainerStatuses, w.EphemeralContainerStatuses, func(string, int32) bool { return false })
	return errs
}

// anyStartsAll reports whether a container has ended in a way for which its rules restart all
// containers.
func anyStartsAll(spec *corev1.PodSpec) bool {
	all := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	}
	return slices.ContainsFunc(spec.Containers, all) || slices.ContainsFunc(spec.InitContainers, all)
}

// startsAgain reports whether a container is restarted after an exit code, according to its rules,
// its policy, or the policy of the pod.
func startsAgain(spec *corev1.PodSpec, c *corev1.Container, code int32) bool {
	for _, r := range c.RestartPolicyRules {
		if r.ExitCodes == nil {
			continue
		}
		in := slices.Contains(r.ExitCodes.Values, code)
		if in == (r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			return r.Action == corev1.ContainerRestartRuleActionRestart
		}
	}
	policy := spec.RestartPolicy
	if c.RestartPolicy != nil {
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
}

// checkClaimStatuses checks that each status is for a claim of the pod.
func checkClaimStatuses(statuses []corev1.PodResourceClaimStatus, claims []corev1.PodResourceClaim, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	have := map[string]bool{}
	named := describe.ByKey(claims, func(c *corev1.PodResourceClaim) string { return c.Name })
	for i, s := range texts.Each(&errs, statuses) {
		at := path.Index(i)
		if _, ok := named[s.Name]; !ok {
			errs = append(errs, field.Invalid(at.Child("name"), s.Name, "must match the name of an entry in `spec.resourceClaims`"))
		}
		if have[s.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), s.Name))
		}
		have[s.Name] = true
		if s.ResourceClaimName != nil {
			errs = append(errs, describe.Invalid(at.Child("resourceClaimName"), *s.ResourceClaimName, validation.IsDNS1123Subdomain(*s.ResourceClaimName))...)
		}
	}
	return errs
}

// checkIPs checks addresses: one, or one of each family. Invalid addresses of the old status may
// stay.
func checkIPs(now, was []string, shown any, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	stored := sets.New(was...)
	for i, ip := range texts.Each(&errs, now) {
		if !stored.Has(ip) {
			errs = append(errs, validation.IsValidIPForLegacyField(path.Index(i), ip, true, nil)...)
		}
	}
	if len(now) < 2 {
		return errs
	}
	families, wrong := map[bool]bool{}, false
	for i, ip := range texts.Each(&errs, now) {
		if wrong = len(describe.CheckAddress(path, ip)) > 0; wrong {
			errs = append(errs, field.InternalError(path, fmt.Errorf("failed to check for dual stack with error:invalid IP[%d]: %s", i, ip)))
			break
		}
		a, err := netip.ParseAddr(ip)
		families[err == nil && a.Unmap().Is6()] = true
	}
	if wrong || len(families) < 2 || len(now) > 2 {
		errs = append(errs, field.Invalid(path, shown, "may specify no more than one IP for each IP family"))
	}
	return errs
}

// checkPodIPs checks the addresses of a pod.
func checkPodIPs(now, was *corev1.Pod, path *field.Path) field.ErrorList {
	ips := func(all []corev1.PodIP) (out []string) {
		for _, ip := range all {
			out = append(out, ip.IP)
		}
		return out
	}
	all, first := now.Status.PodIPs, now.Status.PodIP
	errs := checkIPs(ips(all), ips(was.Status.PodIPs), describe.InGoNames(all), path)
	switch {
	case (first != "") != (len(all) > 0):
		errs = append(errs, field.Invalid(path, describe.InGoNames(all), "podIP and podIPs must either both be set or both be unset"))
	case len(all) > 0 && all[0].IP != first:
		errs = append(errs, field.Invalid(path.Index(0).Child("ip"), all[0].IP, "must be equal to `podIP`"))
	}
	return errs
}

// checkHostIPs checks the addresses of a pod's node.
func checkHostIPs(now, was *corev1.Pod, path *field.Path) field.ErrorList {
	ips := func(all []corev1.HostIP) (out []string) {
		for _, ip := range all {
			out = append(out, ip.IP)
		}
		return out
	}
	all := now.Status.HostIPs
	if len(all) == 0 {
		return nil
	}
	var errs field.ErrorList
	if all[0].IP != now.Status.HostIP {
		errs = append(errs, field.Invalid(path.Index(0).Child("ip"), all[0].IP, "must be equal to `hostIP`"))
	}
	return append(errs, checkIPs(ips(all), ips(was.Status.HostIPs), describe.InGoNames(all), path)...)
}

// checkAllocated checks the devices that the status lists for containers, and their health.
func checkAllocated(statuses []corev1.ContainerStatus, containers []corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	said := texts.Over(&errs)
	named, claims := describe.ByKey(containers, containerName), map[int]sets.Set[string]{}
	for i, s := range texts.EachOf(said, statuses) {
		c, ok := named[s.Name]
		for j, r := range texts.EachOf(said, s.AllocatedResourcesStatus) {
			at := path.Index(i).Child("allocatedResourcesStatus").Index(j)
			if ok {
				if claims[c] == nil {
					claims[c] = claimKeys(&containers[c])
				}
				errs = append(errs, checkAllocatedName(r.Name, &containers[c], claims[c], at.Child("name"))...)
			}
			have := map[corev1.ResourceID]bool{}
			for k, h := range texts.EachOf(said, r.Resources) {
				one := at.Child("resources").Index(k)
				if healths := []corev1.ResourceHealthStatus{corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown}; !slices.Contains(healths, h.Health) {
					errs = append(errs, field.NotSupported(one.Child("health"), h.Health, healths))
				}
				if have[h.ResourceID] {
					errs = append(errs, field.Duplicate(one.Child("resourceID"), h.ResourceID))
				}
				have[h.ResourceID] = true
			}
		}
	}
	return errs
}

// containerName returns the name of a container.
func containerName(c *corev1.Container) string { return c.Name }

// claimKeys returns the claims that a container uses, each with its request if it has one.
func claimKeys(c *corev1.Container) sets.Set[string] {
	out := sets.Set[string]{}
	for _, r := range c.Resources.Claims {
		if r.Request != "" {
			r.Name += "/" + r.Request
		}
		out.Insert(r.Name)
	}
	return out
}

// checkAllocatedName checks that a container requests the resource with a name, or uses the claim.
func checkAllocatedName(name corev1.ResourceName, c *corev1.Container, claims sets.Set[string], path *field.Path) field.ErrorList {
	if claim, ok := strings.CutPrefix(string(name), "claim:"); ok {
		if claims.Has(claim) {
			return nil
		}
		return field.ErrorList{field.Invalid(path, name, "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when "+
			"container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty")}
	}
	if _, ok := c.Resources.Requests[name]; ok {
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, "must match one of the container's resource requests")}
}
