package networking

import (
	"fmt"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/texts"
)

// This file checks services by the rules and in the order of upstream.

// topologyHints is the older name of an annotation. If a service has both, they must agree.
const topologyHints = corev1.DeprecatedAnnotationTopologyAwareHints

// Validate returns the errors of a service. old is nil for a new one. Of the metadata only
// annotations are checked.
func Validate(s, old *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	add := func(more ...*field.Error) { errs = append(errs, more...) }
	annotations := field.NewPath("metadata", "annotations")
	mode, moded := s.Annotations[corev1.AnnotationTopologyMode]
	if hints, hinted := s.Annotations[topologyHints]; moded && hinted && mode != hints {
		add(field.Invalid(annotations.Key(corev1.AnnotationTopologyMode), mode, fmt.Sprintf("must match annotations[%s] when both are specified", topologyHints)))
	}
	if len(s.Spec.Ports) == 0 && !Headless(s) && Addressed(s) {
		add(field.Required(specPath.Child("ports"), ""))
	}
	add(validateType(s)...)
	names := map[string]bool{}
	for i := range s.Spec.Ports {
		add(validatePort(&s.Spec.Ports[i], len(s.Spec.Ports) > 1, names, specPath.Child("ports").Index(i))...)
	}
	if s.Spec.Selector != nil {
		add(texts.Labels(s.Spec.Selector, specPath.Child("selector"))...)
	}
	add(validateAffinity(s)...)
	add(validateAddresses(s, old)...)
	add(validateExternalIPs(s, old)...)
	add(oneOf(specPath.Child("type"), s.Spec.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)...)
	add(validatePorts(s)...)
	add(validateRanges(s, old, annotations)...)
	add(validateBalancer(s)...)
	add(validateTraffic(s)...)
	if d := s.Spec.TrafficDistribution; d != nil {
		known := []string{corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode}
		if !slices.Contains(known, *d) {
			add(field.NotSupported(specPath.Child("trafficDistribution"), *d, known))
		}
	}
	return errs
}

// ValidateUpdate is Validate, and checks the fields that must not change first.
func ValidateUpdate(s, old *corev1.Service) field.ErrorList {
	errs := validateMoved(s, old)
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && old.Spec.Type == s.Spec.Type && !same(s.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass) {
		errs = append(errs, field.Invalid(specPath.Child("loadBalancerClass"), s.Spec.LoadBalancerClass, "may not change once set"))
	}
	errs = append(errs, validateClass(s)...)
	if Checked(s) && Checked(old) && s.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(specPath.Child("healthCheckNodePort"), "field is immutable"))
	}
	return append(errs, Validate(s, old)...)
}

// ValidateStatus returns the errors of a changed status.
func ValidateStatus(s, old *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("status", "loadBalancer", "ingress")
	all := s.Status.LoadBalancer.Ingress
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer && len(all) > 0 {
		return field.ErrorList{field.Forbidden(at, "may only be used when `spec.type` is 'LoadBalancer'")}
	}
	had := sets.Set[string]{}
	for _, in := range old.Status.LoadBalancer.Ingress {
		had.Insert(in.IP)
	}
	for i, in := range texts.Each(&errs, all) {
		p := at.Index(i)
		if in.IP != "" && !had.Has(in.IP) {
			errs = append(errs, validation.IsValidIPForLegacyField(p.Child("ip"), in.IP, true, nil)...)
		}
		switch mode := p.Child("ipMode"); {
		case in.IPMode == nil && in.IP != "":
			errs = append(errs, field.Required(mode, "must be specified when `ip` is set"))
		case in.IPMode == nil:
		case in.IP == "":
			errs = append(errs, field.Forbidden(mode, "may not be specified when `ip` is not set"))
		default:
			errs = append(errs, oneOf(mode, *in.IPMode, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)...)
		}
		if in.Hostname == "" {
			continue
		}
		errs = append(errs, invalid(p.Child("hostname"), in.Hostname, validation.IsDNS1123Subdomain(in.Hostname)...)...)
		if parseSloppy(in.Hostname) != nil {
			errs = append(errs, field.Invalid(p.Child("hostname"), in.Hostname, "must be a DNS name, not an IP address"))
		}
	}
	return errs
}

// invalid are texts about a value.
func invalid(at *field.Path, value any, msgs ...string) (errs field.ErrorList) {
	for _, text := range msgs {
		errs = append(errs, field.Invalid(at, value, text))
	}
	return errs
}

// parseSloppy parses an address in any of the forms that older versions of Kubernetes accepted,
// such as numbers with leading zeros. It returns nil for anything else.
func parseSloppy(text string) net.IP {
	if strings.Contains(text, ":") {
		return net.ParseIP(text)
	}
	parts := strings.Split(text, ".")
	for i, p := range parts {
		if p != "" {
			if parts[i] = strings.TrimLeft(p, "0"); parts[i] == "" {
				parts[i] = "0"
			}
		}
	}
	return net.ParseIP(strings.Join(parts, "."))
}

// validateType checks that the fields are allowed for the type of the service.
func validateType(s *corev1.Service) (errs field.ErrorList) {
	spec := &s.Spec
	switch {
	case OnNodes(s) && Headless(s):
		return field.ErrorList{field.Invalid(ipsPath.Index(0), corev1.ClusterIPNone, fmt.Sprintf("may not be set to 'None' for %s services", spec.Type))}
	case Addressed(s):
		return nil
	}
	const not = "may not be set for ExternalName services"
	if len(spec.ClusterIPs) > 0 {
		errs = append(errs, field.Forbidden(ipsPath, not))
	}
	if len(spec.IPFamilies) > 0 {
		errs = append(errs, field.Forbidden(familiesPath, not))
	}
	if spec.IPFamilyPolicy != nil {
		errs = append(errs, field.Forbidden(policyPath, not))
	}
	at := specPath.Child("externalName")
	name := strings.TrimSuffix(spec.ExternalName, ".")
	if name == "" {
		return append(errs, field.Required(at, ""))
	}
	return append(errs, invalid(at, name, validation.IsDNS1123Subdomain(name)...)...)
}

// validatePort checks one port. names has the names of the ports before it.
func validatePort(p *corev1.ServicePort, named bool, names map[string]bool, at *field.Path) (errs field.ErrorList) {
	switch name := at.Child("name"); {
	case p.Name == "" && named:
		errs = append(errs, field.Required(name, ""))
	case p.Name != "":
		errs = append(errs, invalid(name, p.Name, validation.IsDNS1123Label(p.Name)...)...)
		if names[p.Name] {
			errs = append(errs, field.Duplicate(name, p.Name))
		}
		names[p.Name] = true
	}
	errs = append(errs, invalid(at.Child("port"), p.Port, validation.IsValidPortNum(int(p.Port))...)...)
	if p.Protocol == "" {
		errs = append(errs, field.Required(at.Child("protocol"), ""))
	} else {
		errs = append(errs, oneOf(at.Child("protocol"), p.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
	}
	if t := p.TargetPort; t.Type == intstr.Int {
		errs = append(errs, invalid(at.Child("targetPort"), t.IntValue(), validation.IsValidPortNum(t.IntValue())...)...)
	} else {
		errs = append(errs, invalid(at.Child("targetPort"), t.StrVal, validation.IsValidPortName(t.StrVal)...)...)
	}
	if p.AppProtocol != nil {
		errs = append(errs, invalid(at.Child("appProtocol"), *p.AppProtocol, validation.IsQualifiedName(*p.AppProtocol)...)...)
	}
	return errs
}

// validatePorts checks that no two ports are the same.
func validatePorts(s *corev1.Service) (errs field.ErrorList) {
	at := specPath.Child("ports")
	if s.Spec.Type == corev1.ServiceTypeClusterIP {
		for i := range texts.Each(&errs, s.Spec.Ports) {
			if s.Spec.Ports[i].NodePort != 0 {
				errs = append(errs, field.Forbidden(at.Index(i).Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
			}
		}
	}
	type pair struct {
		protocol corev1.Protocol
		port     int32
	}
	onNodes, all := map[pair]bool{}, map[pair]bool{}
	for i := range texts.Each(&errs, s.Spec.Ports) {
		p := &s.Spec.Ports[i]
		if key := (pair{p.Protocol, p.NodePort}); p.NodePort != 0 {
			if onNodes[key] {
				errs = append(errs, field.Duplicate(at.Index(i).Child("nodePort"), p.NodePort))
			}
			onNodes[key] = true
		}
	}
	for i := range texts.Each(&errs, s.Spec.Ports) {
		p := &s.Spec.Ports[i]
		if key := (pair{p.Protocol, p.Port}); all[key] {
			errs = append(errs, field.Duplicate(at.Index(i), quotedPort{Protocol: p.Protocol, Port: p.Port}))
		} else {
			all[key] = true
		}
	}
	return errs
}

// quotedPort has the fields of a port by upstream's names, for error messages that print a port.
type quotedPort struct {
	Name        string
	Protocol    corev1.Protocol
	AppProtocol *string
	Port        int32
	TargetPort  intstr.IntOrString
	NodePort    int32
}

// maxAffinity is the longest session affinity, in seconds: one day.
const maxAffinity = 86400

// validateAffinity checks the session affinity and its timeout.
func validateAffinity(s *corev1.Service) field.ErrorList {
	at, config := specPath.Child("sessionAffinityConfig"), s.Spec.SessionAffinityConfig
	if s.Spec.SessionAffinity == "" {
		return field.ErrorList{field.Required(specPath.Child("sessionAffinity"), "")}
	}
	errs := oneOf(specPath.Child("sessionAffinity"), s.Spec.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	const needed = "when session affinity type is ClientIP"
	switch {
	case s.Spec.SessionAffinity == corev1.ServiceAffinityNone && config != nil:
		errs = append(errs, field.Forbidden(at, "must not be set when session affinity is None"))
	case s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP:
	case config == nil:
		errs = append(errs, field.Required(at, needed))
	case config.ClientIP == nil:
		errs = append(errs, field.Required(at.Child("clientIP"), needed))
	case config.ClientIP.TimeoutSeconds == nil:
		errs = append(errs, field.Required(at.Child("clientIP", "timeoutSeconds"), needed))
	case *config.ClientIP.TimeoutSeconds <= 0 || *config.ClientIP.TimeoutSeconds > maxAffinity:
		errs = append(errs, field.Invalid(at.Child("clientIP", "timeoutSeconds"), *config.ClientIP.TimeoutSeconds, fmt.Sprintf("must be greater than 0 and less than %d", maxAffinity)))
	}
	return errs
}

// validateExternalIPs checks the external IPs. Those of the old service may have a form that is not
// allowed any more.
func validateExternalIPs(s, old *corev1.Service) (errs field.ErrorList) {
	had := sets.Set[string]{}
	if old != nil {
		had.Insert(old.Spec.ExternalIPs...)
	}
	for i, text := range texts.Each(&errs, s.Spec.ExternalIPs) {
		at := specPath.Child("externalIPs").Index(i)
		if bad := validation.IsValidIPForLegacyField(at, text, true, nil); len(bad) > 0 && !had.Has(text) {
			errs = append(errs, bad...)
			continue
		}
		ip := parseSloppy(text)
		if ip == nil {
			errs = append(errs, field.Invalid(at, text, "must be a valid IP address"))
			continue
		}
		for _, c := range []struct {
			is   bool
			text string
		}{
			{ip.IsUnspecified(), fmt.Sprintf("may not be unspecified (%v)", text)},
			{ip.IsLoopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
			{ip.IsLinkLocalUnicast(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
			{ip.IsLinkLocalMulticast(), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
		} {
			if c.is {
				errs = append(errs, field.Invalid(at, text, c.text))
			}
		}
	}
	return errs
}

// validateRanges checks the ranges of the clients of a load balancer, in the spec or in the
// annotation.
func validateRanges(s, old *corev1.Service, annotations *field.Path) (errs field.ErrorList) {
	at, ranges := specPath.Child("LoadBalancerSourceRanges"), s.Spec.LoadBalancerSourceRanges
	text, annotated := s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	if len(ranges) == 0 && !annotated {
		return nil
	}
	if len(ranges) == 0 {
		at = annotations.Key(corev1.AnnotationLoadBalancerSourceRangesKey)
	}
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Forbidden(at, "may only be used when `type` is 'LoadBalancer'"))
	}
	had := sets.Set[string]{}
	if old != nil {
		for _, r := range old.Spec.LoadBalancerSourceRanges {
			had.Insert(strings.TrimSpace(r))
		}
	}
	for i, r := range texts.Each(&errs, ranges) {
		if r = strings.TrimSpace(r); !had.Has(r) {
			errs = append(errs, validation.IsValidCIDRForLegacyField(at.Index(i), r, true, nil)...)
		}
	}
	if text = strings.TrimSpace(text); len(ranges) > 0 || text == "" || old != nil && old.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey] == s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey] {
		return errs
	}
	for r := range strings.SplitSeq(text, ",") {
		errs = append(errs, validation.IsValidCIDRForLegacyField(at, strings.TrimSpace(r), true, nil)...)
	}
	return errs
}

// validateBalancer checks the fields that only load balancers have.
func validateBalancer(s *corev1.Service) (errs field.ErrorList) {
	balanced, allocate := s.Spec.Type == corev1.ServiceTypeLoadBalancer, s.Spec.AllocateLoadBalancerNodePorts
	if allocate != nil && !balanced {
		errs = append(errs, field.Forbidden(specPath.Child("allocateLoadBalancerNodePorts"), "may only be used when `type` is 'LoadBalancer'"))
	}
	if allocate == nil && balanced {
		errs = append(errs, field.Required(field.NewPath("allocateLoadBalancerNodePorts"), ""))
	}
	return append(errs, validateClass(s)...)
}

// validateClass checks the class of a load balancer.
func validateClass(s *corev1.Service) field.ErrorList {
	at, class := specPath.Child("loadBalancerClass"), s.Spec.LoadBalancerClass
	switch {
	case class == nil:
		return nil
	case s.Spec.Type != corev1.ServiceTypeLoadBalancer:
		return field.ErrorList{field.Forbidden(at, "may only be used when `type` is 'LoadBalancer'")}
	}
	return invalid(at, *class, validation.IsQualifiedName(*class)...)
}

// validateTraffic checks the policies for traffic from outside and inside, and the health check
// port.
func validateTraffic(s *corev1.Service) (errs field.ErrorList) {
	spec := &s.Spec
	at := specPath.Child("externalTrafficPolicy")
	switch {
	case !External(s) && spec.ExternalTrafficPolicy != "":
		errs = append(errs, field.Invalid(at, spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
	case !External(s):
	case spec.ExternalTrafficPolicy == "":
		errs = append(errs, field.Required(at, ""))
	default:
		errs = append(errs, oneOf(at, spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	}
	at = specPath.Child("healthCheckNodePort")
	switch port := spec.HealthCheckNodePort; {
	case !Checked(s) && port != 0:
		errs = append(errs, field.Invalid(at, port, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	case !Checked(s):
	case port == 0:
		errs = append(errs, field.Required(at, ""))
	default:
		errs = append(errs, invalid(at, port, validation.IsValidPortNum(int(port))...)...)
	}
	at = specPath.Child("internalTrafficPolicy")
	switch p := spec.InternalTrafficPolicy; {
	case p == nil && (OnNodes(s) || spec.Type == corev1.ServiceTypeClusterIP):
		errs = append(errs, field.Required(at, ""))
	case p != nil:
		errs = append(errs, oneOf(at, *p, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
	}
	return errs
}

// validateMoved checks that an address or family does not change where it must not.
func validateMoved(s, old *corev1.Service) (errs field.ErrorList) {
	if !Addressed(s) || !Addressed(old) {
		return nil
	}
	const kept = "may not change once set"
	single := s.Spec.IPFamilyPolicy != nil && *s.Spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	refuse := func(at *field.Path, value any, text string) { errs = append(errs, field.Invalid(at, value, text)) }
	ips, was := s.Spec.ClusterIPs, old.Spec.ClusterIPs
	switch {
	case Headless(s) && Headless(old):
		return nil
	case len(ips) == len(was):
		for i := range was {
			if ips[i] != was[i] {
				refuse(ipsPath.Index(i), ips, kept)
			}
		}
	case len(ips) == 0:
		refuse(ipsPath.Index(0), ips, "primary clusterIP can not be unset")
	case len(was) > 0 && ips[0] != was[0]:
		refuse(ipsPath.Index(0), ips, kept)
	}
	if len(ips) == 1 && len(was) > 1 && !single {
		refuse(policyPath, s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary clusterIP")
	}
	families, had := s.Spec.IPFamilies, old.Spec.IPFamilies
	if Headless(s) || Headless(old) {
		return errs
	}
	switch {
	case len(families) == len(had):
		for i := range had {
			if families[i] != had[i] {
				refuse(familiesPath.Index(0), families, kept)
			}
		}
		return errs
	case len(families) < len(had) && len(ips) == 0:
		refuse(familiesPath.Index(0), families, "primary ipFamily can not be unset")
	}
	if len(families) > 0 && len(had) > 0 && families[0] != had[0] {
		refuse(familiesPath.Index(0), ips, kept)
	}
	if len(families) == 1 && len(had) > 1 && !single {
		refuse(policyPath, s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary ipFamily")
	}
	return errs
}

// Warnings returns the warnings for a valid service.
func Warnings(s *corev1.Service) []string {
	var out []string
	spec := &s.Spec
	if _, ok := s.Annotations[topologyHints]; ok {
		out = append(out, fmt.Sprintf("annotation %s is deprecated, please use %s instead", topologyHints, corev1.AnnotationTopologyMode))
	}
	ip := func(at *field.Path, text string) { out = append(out, validation.GetWarningsForIP(at, text)...) }
	if spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
		for i, text := range spec.ClusterIPs {
			ip(ipsPath.Index(i), text)
		}
	}
	headless := spec.Type == corev1.ServiceTypeClusterIP && spec.ClusterIP == corev1.ClusterIPNone
	for _, ignored := range []struct {
		is   bool
		name string
	}{{spec.LoadBalancerIP != "", "loadBalancerIP"}, {len(spec.ExternalIPs) > 0, "externalIPs"}, {spec.SessionAffinity != corev1.ServiceAffinityNone, "SessionAffinity"}} {
		if headless && ignored.is {
			out = append(out, fmt.Sprintf("spec.%s is ignored for headless services", ignored.name))
		}
	}
	for i, text := range spec.ExternalIPs {
		ip(specPath.Child("externalIPs").Index(i), text)
	}
	if len(spec.ExternalIPs) > 0 && !headless && Addressed(s) {
		out = append(out, "spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	if spec.LoadBalancerIP != "" {
		ip(specPath.Child("loadBalancerIP"), spec.LoadBalancerIP)
	}
	for i, text := range spec.LoadBalancerSourceRanges {
		out = append(out, validation.GetWarningsForCIDR(specPath.Child("loadBalancerSourceRanges").Index(i), text)...)
	}
	if !Addressed(s) && len(spec.ExternalIPs) > 0 {
		out = append(out, fmt.Sprintf("spec.externalIPs is ignored when spec.type is %q", corev1.ServiceTypeExternalName))
	}
	if Addressed(s) && spec.ExternalName != "" {
		out = append(out, fmt.Sprintf("spec.externalName is ignored when spec.type is not %q", corev1.ServiceTypeExternalName))
	}
	if d := spec.TrafficDistribution; d != nil && *d == corev1.ServiceTrafficDistributionPreferClose {
		out = append(out, fmt.Sprintf("spec.trafficDistribution: %q is deprecated; use %q", *d, corev1.ServiceTrafficDistributionPreferSameZone))
	}
	return out
}

// StatusWarnings returns the warnings for a valid status.
func StatusWarnings(s *corev1.Service) []string {
	var out []string
	for i, in := range s.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			out = append(out, validation.GetWarningsForIP(field.NewPath("status", "loadBalancer", "ingress").Index(i), in.IP)...)
		}
	}
	return out
}
