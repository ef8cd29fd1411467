package core

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-io/keelson/internal/builtin/describe"
)

// This file holds the defaults that depend on other fields.

// fillPod fills in defaults of a pod that depend on other fields.
func fillPod(p *corev1.Pod) {
	spec, status := &p.Spec, &p.Status
	FillPodSpec(spec)
	switch ip, ips := status.PodIP, status.PodIPs; {
	case ip == "" && len(ips) > 0:
		status.PodIP = ips[0].IP
	case ip != "" && (len(ips) == 0 || ips[0].IP != ip):
		status.PodIPs = []corev1.PodIP{{IP: ip}}
	}
	if grace := spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		*grace = 1
	}
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			r := &list[i].Resources
			for name, limit := range r.Limits {
				if _, ok := r.Requests[name]; !ok {
					if r.Requests == nil {
						r.Requests = corev1.ResourceList{}
					}
					r.Requests[name] = limit.DeepCopy()
				}
			}
			for j := range list[i].Ports {
				if port := &list[i].Ports[j]; spec.HostNetwork && port.HostPort == 0 {
					port.HostPort = port.ContainerPort
				}
			}
		}
	}
	describe.OrDefault(&spec.EnableServiceLinks, true)
}

// FillPodSpec sets the defaults of a pod or a template of pods that depend on other fields.
func FillPodSpec(spec *corev1.PodSpec) {
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = spec.DeprecatedServiceAccount
	}
	spec.DeprecatedServiceAccount = spec.ServiceAccountName // the older name of the field
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			fillPullPolicy(&list[i].ImagePullPolicy, list[i].Image)
		}
	}
	for i := range spec.EphemeralContainers {
		fillPullPolicy(&spec.EphemeralContainers[i].ImagePullPolicy, spec.EphemeralContainers[i].Image)
	}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if v.VolumeSource == (corev1.VolumeSource{}) {
			v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
		if v.Image != nil {
			fillPullPolicy(&v.Image.PullPolicy, v.Image.Reference)
		}
	}
}

// fillPullPolicy sets imagePullPolicy: Always for an image with the tag latest or no tag, else
// IfNotPresent.
func fillPullPolicy(p *corev1.PullPolicy, image string) {
	if *p != "" {
		return
	}
	*p = corev1.PullIfNotPresent
	if imageTag(image) == "latest" {
		*p = corev1.PullAlways
	}
}

// imageTag returns the tag of an image, "" if the reference has only a digest or is invalid.
func imageTag(image string) string {
	name, _, digest := strings.Cut(image, "@")
	at := strings.LastIndexByte(name, ':')
	switch {
	case name == "" || strings.ContainsAny(name, " \t\n"):
		return ""
	case at > strings.LastIndexByte(name, '/'):
		return name[at+1:]
	case digest:
		return ""
	}
	return "latest"
}

// fillTemplate sets the defaults of the pod in a template.
func fillTemplate(t *corev1.PodTemplate) { FillPodSpec(&t.Template.Spec) }

// fillReplicationController fills in the selector and the labels from the template's labels.
func fillReplicationController(c *corev1.ReplicationController) {
	t := c.Spec.Template
	if t == nil {
		return
	}
	FillPodSpec(&t.Spec)
	if t.Labels != nil {
		if len(c.Spec.Selector) == 0 {
			c.Spec.Selector = maps.Clone(t.Labels)
		}
		if len(c.Labels) == 0 {
			c.Labels = maps.Clone(t.Labels)
		}
	}
}

// fillNode fills in the ranges of pods, and the allocatable resources from the capacity.
func fillNode(n *corev1.Node) {
	// podCIDR is the older field for a single range. The list has its range too.
	if cidr := n.Spec.PodCIDR; cidr != "" && (len(n.Spec.PodCIDRs) == 0 || n.Spec.PodCIDRs[0] != cidr) {
		n.Spec.PodCIDRs = []string{cidr}
	} else if len(n.Spec.PodCIDRs) > 0 {
		n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
	}
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
}

// fillLimitRange sets the default limits and requests that follow from others.
func fillLimitRange(l *corev1.LimitRange) {
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		add := func(to *corev1.ResourceList, from corev1.ResourceList) {
			if *to == nil {
				*to = corev1.ResourceList{}
			}
			for name, q := range from {
				if _, ok := (*to)[name]; !ok {
					(*to)[name] = q.DeepCopy()
				}
			}
		}
		add(&item.Default, item.Max)
		add(&item.DefaultRequest, item.Default)
		add(&item.DefaultRequest, item.Min)
	}
}
