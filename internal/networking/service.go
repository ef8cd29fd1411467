// Package networking has the rules for the fields of a Service: which fields follow from others,
// and which exclude each other.
//
// # Model
//
// The type of a Service decides which of its fields make sense. Several fields have the same
// content (clusterIP and clusterIPs), or follow from what the server allocates (addresses, node
// ports). [Keep], [Normalize], [Families] and [Drop] complete the service that a client sent, given
// the old service. [Validate] and [ValidateUpdate] then check the result. Package allocator
// allocates: nothing here depends on which addresses are free.
//
// # Terms
//
//   - A headless service has the cluster IP "None".
//   - The health check port is the port at which each node reports whether it has a pod of the
//     service. A load balancer with the external traffic policy Local has one.
//
// # Invariants
//
//   - A nil old service means that the service is new.
//   - The order of the calls is that of upstream: Keep, Normalize, Families, allocation, Drop,
//     validation.
package networking

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Addressed reports whether a service of this type has a cluster IP, which may be "None".
func Addressed(s *corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeExternalName }

// Headless reports whether the only cluster IP is "None".
func Headless(s *corev1.Service) bool {
	return len(s.Spec.ClusterIPs) == 1 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// OnNodes reports whether a service of this type has node ports.
func OnNodes(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// GivenPorts reports whether the server allocates node ports that the service does not set.
func GivenPorts(s *corev1.Service) bool {
	allocate := s.Spec.AllocateLoadBalancerNodePorts
	return OnNodes(s) && (s.Spec.Type == corev1.ServiceTypeNodePort || allocate == nil || *allocate)
}

// Checked reports whether a service has a health check port.
func Checked(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// External reports whether a service is reached from outside of the cluster.
func External(s *corev1.Service) bool {
	return OnNodes(s) || s.Spec.Type == corev1.ServiceTypeClusterIP && len(s.Spec.ExternalIPs) > 0
}

// NodePorts returns the node ports of a service without the health check port.
func NodePorts(s *corev1.Service) []int32 {
	var all []int32
	for i := range s.Spec.Ports {
		if p := s.Spec.Ports[i].NodePort; p != 0 {
			all = append(all, p)
		}
	}
	return all
}

// Keep copies the allocated fields of the old service that the client did not send.
func Keep(s, old *corev1.Service) {
	if Addressed(s) && Addressed(old) {
		if s.Spec.ClusterIP == "" {
			s.Spec.ClusterIP = old.Spec.ClusterIP
		}
		if len(s.Spec.ClusterIPs) == 0 {
			s.Spec.ClusterIPs = old.Spec.ClusterIPs
		}
	}
	if GivenPorts(s) && GivenPorts(old) {
		keepPorts(s, old)
	}
	if Checked(s) && Checked(old) && s.Spec.HealthCheckNodePort == 0 {
		s.Spec.HealthCheckNodePort = old.Spec.HealthCheckNodePort
	}
}

// keepPorts copies node ports from the old service to ports of the same name, unless another port
// has them.
func keepPorts(s, old *corev1.Service) {
	before, now := sets.New(NodePorts(old)...), sets.New(NodePorts(s)...)
	named := map[string]int32{}
	for i := range old.Spec.Ports {
		named[old.Spec.Ports[i].Name] = old.Spec.Ports[i].NodePort
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		had := named[p.Name]
		if p.NodePort == 0 && !(before.Has(had) && now.Has(had)) {
			p.NodePort = had
		}
	}
}

// Normalize sets clusterIPs from clusterIP for clients that know only the latter.
func Normalize(s, old *corev1.Service) {
	spec := &s.Spec
	if old == nil {
		if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = []string{spec.ClusterIP}
		}
		return
	}
	was := &old.Spec
	if len(spec.ClusterIPs) == 0 && spec.ClusterIP == was.ClusterIP {
		spec.ClusterIPs = was.ClusterIPs
	}
	if spec.ClusterIP == was.ClusterIP || !slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
		return
	}
	if was.ClusterIP != "" && spec.ClusterIP == "" {
		spec.ClusterIPs = nil
	} else {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

// DropUnused removes the internal traffic policy of a service without cluster IP, which has no use
// for it. An invalid policy stays: validation refuses it.
func DropUnused(s *corev1.Service) {
	if p := s.Spec.InternalTrafficPolicy; p != nil && !Addressed(s) && (*p == corev1.ServiceInternalTrafficPolicyCluster || *p == corev1.ServiceInternalTrafficPolicyLocal) {
		s.Spec.InternalTrafficPolicy = nil
	}
}

// Drop removes the fields that the new type of a service does not have, if the client that changed
// the type left them as they were.
func Drop(s, old *corev1.Service) {
	spec, was := &s.Spec, &old.Spec
	if Addressed(old) && !Addressed(s) {
		if spec.ClusterIP == was.ClusterIP && slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
			spec.ClusterIP, spec.ClusterIPs = "", nil
		}
		if slices.Equal(spec.IPFamilies, was.IPFamilies) {
			spec.IPFamilies = nil
		}
		if same(spec.IPFamilyPolicy, was.IPFamilyPolicy) {
			spec.IPFamilyPolicy = nil
		}
	}
	if OnNodes(old) && !OnNodes(s) && sets.New(NodePorts(old)...).HasAll(NodePorts(s)...) {
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	}
	if Checked(old) && !Checked(s) && spec.HealthCheckNodePort == was.HealthCheckNodePort {
		spec.HealthCheckNodePort = 0
	}
	if External(old) && !External(s) && spec.ExternalTrafficPolicy == was.ExternalTrafficPolicy {
		spec.ExternalTrafficPolicy = ""
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		return
	}
	if was.Type == corev1.ServiceTypeLoadBalancer {
		if same(spec.AllocateLoadBalancerNodePorts, was.AllocateLoadBalancerNodePorts) {
			spec.AllocateLoadBalancerNodePorts = nil
		}
		if same(spec.LoadBalancerClass, was.LoadBalancerClass) {
			spec.LoadBalancerClass = nil
		}
	}
	s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
}

// same reports whether two pointers point to equal values, or are both nil.
func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }
