package builtin

import (
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// This file holds the defaults that depend on other fields.

// orDefault sets what is not there.
func orDefault[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

func fillPod(p *corev1.Pod) {
	spec, status := &p.Spec, &p.Status
	fillPodSpec(spec)
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
	orDefault(&spec.EnableServiceLinks, true)
}

// fillPodSpec is for pods and templates of pods.
func fillPodSpec(spec *corev1.PodSpec) {
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = spec.DeprecatedServiceAccount
	}
	spec.DeprecatedServiceAccount = spec.ServiceAccountName // its name in older versions
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

// fillPullPolicy: what is tagged latest, or not at all, is pulled every time.
func fillPullPolicy(p *corev1.PullPolicy, image string) {
	if *p != "" {
		return
	}
	*p = corev1.PullIfNotPresent
	if imageTag(image) == "latest" {
		*p = corev1.PullAlways
	}
}

// imageTag is the tag of an image's reference, "" if it has a digest only or
// cannot be read.
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

func fillTemplate(t *corev1.PodTemplate) { fillPodSpec(&t.Template.Spec) }

func fillReplicationController(c *corev1.ReplicationController) {
	t := c.Spec.Template
	if t == nil {
		return
	}
	fillPodSpec(&t.Spec)
	if t.Labels != nil {
		if len(c.Spec.Selector) == 0 {
			c.Spec.Selector = maps.Clone(t.Labels)
		}
		if len(c.Labels) == 0 {
			c.Labels = maps.Clone(t.Labels)
		}
	}
}

func fillDeployment(d *appsv1.Deployment) {
	fillPodSpec(&d.Spec.Template.Spec)
	s := &d.Spec.Strategy
	if s.Type == "" {
		s.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	if s.Type == appsv1.RollingUpdateDeploymentStrategyType {
		orDefault(&s.RollingUpdate, appsv1.RollingUpdateDeployment{})
		orDefault(&s.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		orDefault(&s.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
}

func fillReplicaSet(r *appsv1.ReplicaSet) { fillPodSpec(&r.Spec.Template.Spec) }

func fillDaemonSet(d *appsv1.DaemonSet) {
	if d.Annotations[appsv1.DeprecatedTemplateGeneration] == "" { // the count is the server's
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, appsv1.DeprecatedTemplateGeneration, "0")
	}
	fillPodSpec(&d.Spec.Template.Spec)
	s := &d.Spec.UpdateStrategy
	if s.Type == "" {
		s.Type = appsv1.RollingUpdateDaemonSetStrategyType
	}
	if s.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		orDefault(&s.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		orDefault(&s.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		orDefault(&s.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
}

func fillStatefulSet(s *appsv1.StatefulSet) {
	fillPodSpec(&s.Spec.Template.Spec)
	u := &s.Spec.UpdateStrategy
	if u.Type == "" {
		u.Type = appsv1.RollingUpdateStatefulSetStrategyType
		orDefault(&u.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if u.Type == appsv1.RollingUpdateStatefulSetStrategyType && u.RollingUpdate != nil {
		orDefault(&u.RollingUpdate.Partition, 0)
		orDefault(&u.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
	}
	for i := range s.Spec.VolumeClaimTemplates {
		c := &s.Spec.VolumeClaimTemplates[i]
		c.APIVersion, c.Kind = "v1", "PersistentVolumeClaim"
	}
}

func fillJob(j *batchv1.Job) {
	fillJobSpec(&j.Spec)
	if labels := j.Spec.Template.Labels; labels != nil && len(j.Labels) == 0 {
		j.Labels = maps.Clone(labels)
	}
	if j.Spec.Completions == nil && j.Spec.Parallelism == nil {
		j.Spec.Completions = new(int32(1))
	}
	orDefault(&j.Spec.Parallelism, 1)
	orDefault(&j.Spec.CompletionMode, batchv1.NonIndexedCompletion)
	orDefault(&j.Spec.Suspend, false)
	orDefault(&j.Spec.ManualSelector, false)
	if j.Spec.BackoffLimitPerIndex != nil {
		orDefault(&j.Spec.BackoffLimit, 1<<31-1)
	}
	orDefault(&j.Spec.BackoffLimit, 6)
	replacement := batchv1.TerminatingOrFailed
	if j.Spec.PodFailurePolicy != nil {
		replacement = batchv1.Failed
	}
	orDefault(&j.Spec.PodReplacementPolicy, replacement)
}

// fillJobSpec is for jobs and for templates of jobs, which have few defaults.
func fillJobSpec(spec *batchv1.JobSpec) {
	fillPodSpec(&spec.Template.Spec)
	if spec.PodFailurePolicy == nil {
		return
	}
	for i := range spec.PodFailurePolicy.Rules {
		for j := range spec.PodFailurePolicy.Rules[i].OnPodConditions {
			if c := &spec.PodFailurePolicy.Rules[i].OnPodConditions[j]; c.Status == "" {
				c.Status = corev1.ConditionTrue
			}
		}
	}
}

func fillCronJob(c *batchv1.CronJob) { fillJobSpec(&c.Spec.JobTemplate.Spec) }

func fillService(s *corev1.Service) {
	spec := &s.Spec
	if spec.Type == "" {
		spec.Type = corev1.ServiceTypeClusterIP
	}
	switch spec.SessionAffinity {
	case "", corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		if c := spec.SessionAffinityConfig; c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
				ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(corev1.DefaultClientIPServiceAffinitySeconds)},
			}
		}
	}
	for i := range spec.Ports {
		if p := &spec.Ports[i]; p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	balanced := spec.Type == corev1.ServiceTypeLoadBalancer
	external := balanced || spec.Type == corev1.ServiceTypeNodePort ||
		spec.Type == corev1.ServiceTypeClusterIP && len(spec.ExternalIPs) > 0
	if external && spec.ExternalTrafficPolicy == "" {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	}
	if spec.Type != corev1.ServiceTypeExternalName {
		orDefault(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if !balanced {
		return
	}
	orDefault(&spec.AllocateLoadBalancerNodePorts, true)
	for i := range s.Status.LoadBalancer.Ingress {
		if in := &s.Status.LoadBalancer.Ingress[i]; in.IP != "" {
			orDefault(&in.IPMode, corev1.LoadBalancerIPModeVIP)
		}
	}
}

func fillNode(n *corev1.Node) {
	// One range has a field of its own, from before there could be several.
	if cidr := n.Spec.PodCIDR; cidr != "" && (len(n.Spec.PodCIDRs) == 0 || n.Spec.PodCIDRs[0] != cidr) {
		n.Spec.PodCIDRs = []string{cidr}
	} else if len(n.Spec.PodCIDRs) > 0 {
		n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
	}
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
}

// fillVolume fills in what a volume has that is an object of its own: one that is described where it is attached has not.
func fillVolume(v *corev1.PersistentVolume) {
	if v.Spec.PersistentVolumeReclaimPolicy == "" {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	orDefault(&v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
}

// fillCSINode makes no drivers none at all, as protobuf does.
func fillCSINode(n *storagev1.CSINode) {
	if len(n.Spec.Drivers) == 0 {
		n.Spec.Drivers = nil
	}
}

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

func fillNetworkPolicy(n *networkingv1.NetworkPolicy) {
	if len(n.Spec.PolicyTypes) > 0 {
		return
	}
	n.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	if len(n.Spec.Egress) > 0 {
		n.Spec.PolicyTypes = append(n.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
}

const defaultUtilization = 80 // per cent

func fillAutoscaler(h *autoscalingv2.HorizontalPodAutoscaler) {
	if len(h.Spec.Metrics) == 0 {
		h.Spec.Metrics = []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
				Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(defaultUtilization)),
			}},
		}}
	}
	if b := h.Spec.Behavior; b != nil {
		percent := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}
		pods := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15}
		fillScaling(&b.ScaleUp, pods, percent)
		orDefault(&b.ScaleUp.StabilizationWindowSeconds, 0)
		fillScaling(&b.ScaleDown, percent)
	}
}

func fillScaling(r **autoscalingv2.HPAScalingRules, policies ...autoscalingv2.HPAScalingPolicy) {
	orDefault(r, autoscalingv2.HPAScalingRules{})
	orDefault(&(*r).SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if (*r).Policies == nil {
		(*r).Policies = policies
	}
}
