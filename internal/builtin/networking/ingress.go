package networking

import (
	"fmt"
	"net/netip"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file checks ingresses and network policies.

// ingressClass is the annotation for the class that is older than the field.
const ingressClass = "kubernetes.io/ingress.class"

// checkIngress checks the spec of an ingress, and its class.
func checkIngress(new, old *jsondoc.Doc) field.ErrorList {
	spec, path := describe.ReadAs[networkingv1.IngressSpec](new.Root().Get("spec")), field.NewPath("spec")
	var errs field.ErrorList
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		errs = append(errs, field.Invalid(path, spec.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if spec.DefaultBackend != nil {
		errs = append(errs, checkBackend(spec.DefaultBackend, path.Child("defaultBackend"))...)
	}
	for i := range texts.Each(&errs, spec.Rules) {
		errs = append(errs, checkIngressRule(&spec.Rules[i], path.Child("rules").Index(i))...)
	}
	said := texts.Over(&errs)
	for i, t := range texts.EachOf(said, spec.TLS) {
		at := path.Child("tls").Index(i)
		for j, host := range texts.EachOf(said, t.Hosts) {
			errs = append(errs, checkHost(at.Child("hosts").Index(j), host)...)
		}
		errs = append(errs, describe.CheckName(at.Child("secretName"), t.SecretName, describe.Subdomain)...)
	}
	class := spec.IngressClassName
	if class != nil {
		errs = append(errs, describe.Invalid(path.Child("ingressClassName"), *class, describe.Subdomain(*class, false))...)
	}
	if said := new.Root().At("metadata", "annotations", ingressClass); old == nil && class != nil && said.Exists() && said.Text() != *class {
		errs = append(errs, field.Invalid(field.NewPath("annotations").Child(ingressClass), strings.Clone(said.Text()), "must match `ingressClassName` when both are specified"))
	}
	return errs
}

// warnIngress warns of a new ingress whose class is in the annotation only.
func warnIngress(new, old *jsondoc.Doc) []string {
	if old != nil || !new.Root().At("metadata", "annotations", ingressClass).Exists() || new.Root().At("spec", "ingressClassName").Exists() {
		return nil
	}
	return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", ingressClass)}
}

// checkHost checks the name of a host, or a wildcard for all hosts below a name.
func checkHost(path *field.Path, host string) field.ErrorList {
	if strings.Contains(host, "*") {
		return describe.Invalid(path, host, validation.IsWildcardDNS1123Subdomain(host))
	}
	return describe.Invalid(path, host, validation.IsDNS1123Subdomain(host))
}

// checkIngressRule checks the host and the paths of a rule.
func checkIngressRule(r *networkingv1.IngressRule, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Host != "" {
		if _, err := netip.ParseAddr(r.Host); err == nil {
			errs = append(errs, field.Invalid(path.Child("host"), r.Host, "must be a DNS name, not an IP address"))
		}
		errs = append(errs, checkHost(path.Child("host"), r.Host)...)
	}
	if r.HTTP == nil {
		return errs
	}
	paths := path.Child("http", "paths")
	if len(r.HTTP.Paths) == 0 {
		errs = append(errs, field.Required(paths, ""))
	}
	for i := range texts.Each(&errs, r.HTTP.Paths) {
		errs = append(errs, checkHTTPPath(&r.HTTP.Paths[i], paths.Index(i))...)
	}
	return errs
}

// Sequences that a path must not have, and suffixes that it must not end with.
var (
	badParts = []string{"//", "/./", "/../", "%2f", "%2F"}
	badEnds  = []string{"/..", "/."}
)

// checkHTTPPath checks a path by its type, and its backend.
func checkHTTPPath(p *networkingv1.HTTPIngressPath, path *field.Path) field.ErrorList {
	const exact, own, prefix = networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix
	if p.PathType == nil {
		return field.ErrorList{field.Required(path.Child("pathType"), "pathType must be specified")}
	}
	errs := describe.Among(path.Child("pathType"), *p.PathType, exact, own, prefix)
	at, compared := path.Child("path"), *p.PathType == exact || *p.PathType == prefix
	if !strings.HasPrefix(p.Path, "/") && (compared || *p.PathType == own && p.Path != "") {
		errs = append(errs, field.Invalid(at, p.Path, "must be an absolute path"))
	}
	if compared {
		for _, part := range badParts {
			if strings.Contains(p.Path, part) {
				errs = append(errs, field.Invalid(at, p.Path, fmt.Sprintf("must not contain '%s'", part)))
			}
		}
		for _, end := range badEnds {
			if strings.HasSuffix(p.Path, end) {
				errs = append(errs, field.Invalid(at, p.Path, fmt.Sprintf("cannot end with '%s'", end)))
			}
		}
	}
	return append(errs, checkBackend(&p.Backend, path.Child("backend"))...)
}

// checkBackend checks that a backend is either a service or another resource.
func checkBackend(b *networkingv1.IngressBackend, path *field.Path) field.ErrorList {
	switch {
	case b.Resource != nil && b.Service != nil:
		return field.ErrorList{field.Invalid(path, "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		errs := describe.NeedText(path.Child("resource", "kind"), b.Resource.Kind)
		return append(errs, describe.NeedText(path.Child("resource", "name"), b.Resource.Name)...)
	case b.Service == nil:
		return field.ErrorList{field.Invalid(path, "", "resource or service backend is required")}
	}
	at, port := path.Child("service"), b.Service.Port
	errs := describe.CheckLabel(at.Child("name"), b.Service.Name)
	switch {
	case port.Name != "" && port.Number != 0:
		errs = append(errs, field.Invalid(path, "", "cannot set both port name & port number"))
	case port.Name != "":
		errs = append(errs, describe.Invalid(at.Child("port", "name"), port.Name, validation.IsValidPortName(port.Name))...)
	case port.Number != 0:
		errs = append(errs, describe.Invalid(at.Child("port", "number"), port.Number, validation.IsValidPortNum(int(port.Number)))...)
	default:
		errs = append(errs, field.Required(path, "port name or number is required"))
	}
	return errs
}

// checkNetworkPolicy checks the rules of a network policy in both directions.
func checkNetworkPolicy(new, _ *jsondoc.Doc) field.ErrorList {
	spec, path := describe.ReadAs[networkingv1.NetworkPolicySpec](new.Root().Get("spec")), field.NewPath("spec")
	errs := describe.CheckTerms(&spec.PodSelector, path.Child("podSelector"))
	rule := func(at *field.Path, ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer, side string) {
		for i := range texts.Each(&errs, ports) {
			errs = append(errs, checkPolicyPort(&ports[i], at.Child("ports").Index(i))...)
		}
		for i := range texts.Each(&errs, peers) {
			errs = append(errs, checkPeer(&peers[i], at.Child(side).Index(i))...)
		}
	}
	for i, r := range spec.Ingress {
		rule(path.Child("ingress").Index(i), r.Ports, r.From, "from")
	}
	for i, r := range spec.Egress {
		rule(path.Child("egress").Index(i), r.Ports, r.To, "to")
	}
	types := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	if len(spec.PolicyTypes) > len(types) {
		return append(errs, field.Invalid(path.Child("policyTypes"), spec.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, t := range texts.Each(&errs, spec.PolicyTypes) {
		errs = append(errs, describe.Among(path.Child("policyTypes").Index(i), t, types...)...)
	}
	return errs
}

// checkPolicyPort checks a port, or a range of ports, of a rule.
func checkPolicyPort(p *networkingv1.NetworkPolicyPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Protocol != nil {
		errs = append(errs, describe.Among(path.Child("protocol"), *p.Protocol, "TCP", "UDP", "SCTP")...)
	}
	if p.Port != nil {
		errs = append(errs, describe.CheckPortOrName(path.Child("port"), *p.Port)...)
	}
	end, at := p.EndPort, path.Child("endPort")
	switch {
	case end == nil:
	case p.Port == nil:
		errs = append(errs, field.Invalid(at, *end, "may not be specified when `port` is not specified"))
	case p.Port.Type == intstr.String:
		errs = append(errs, field.Invalid(at, *end, "may not be specified when `port` is non-numeric"))
	default:
		if *end < p.Port.IntVal {
			errs = append(errs, field.Invalid(at, *end, "must be greater than or equal to `port`"))
		}
		errs = append(errs, describe.Invalid(at, *end, validation.IsValidPortNum(int(*end)))...)
	}
	return errs
}

// checkPeer checks that a peer is either a block of addresses or selected by labels.
func checkPeer(p *networkingv1.NetworkPolicyPeer, path *field.Path) field.ErrorList {
	errs := describe.CheckTerms(p.PodSelector, path.Child("podSelector"))
	errs = append(errs, describe.CheckTerms(p.NamespaceSelector, path.Child("namespaceSelector"))...)
	selected := p.PodSelector != nil || p.NamespaceSelector != nil
	switch {
	case p.IPBlock == nil && !selected:
		return append(errs, field.Required(path, "must specify a peer"))
	case p.IPBlock == nil:
		return errs
	case selected:
		errs = append(errs, field.Forbidden(path, "may not specify both ipBlock and another peer"))
	}
	return append(errs, checkBlock(p.IPBlock, path.Child("ipBlock"))...)
}

// checkBlock checks a block of addresses, and that its exceptions are inside.
func checkBlock(b *networkingv1.IPBlock, path *field.Path) field.ErrorList {
	if b.CIDR == "" {
		return field.ErrorList{field.Required(path.Child("cidr"), "")}
	}
	errs := validation.IsValidCIDRForLegacyField(path.Child("cidr"), b.CIDR, false, nil)
	all, err := netip.ParsePrefix(b.CIDR)
	if err != nil {
		return errs
	}
	for i, text := range texts.Each(&errs, b.Except) {
		at := path.Child("except").Index(i)
		errs = append(errs, validation.IsValidCIDRForLegacyField(at, text, false, nil)...)
		part, err := netip.ParsePrefix(text)
		if err == nil && (!all.Contains(part.Addr()) || all.Bits() >= part.Bits()) {
			errs = append(errs, field.Invalid(at, text, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}

// checkIngressStatus checks the addresses of an ingress.
func checkIngressStatus(_ *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
	if scope != schema.Status {
		return nil
	}
	had := sets.Set[string]{}
	for _, in := range old.Root().At("status", "loadBalancer", "ingress").Items() {
		had.Insert(in.Get("ip").Text())
	}
	var errs field.ErrorList
	for i, in := range texts.Until(&errs, new.Root().At("status", "loadBalancer", "ingress").Items()) {
		path := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		if ip := strings.Clone(in.Get("ip").Text()); ip != "" && !had.Has(ip) {
			errs = append(errs, validation.IsValidIPForLegacyField(path.Child("ip"), ip, true, nil)...)
		}
		host := strings.Clone(in.Get("hostname").Text())
		if host == "" {
			continue
		}
		errs = append(errs, describe.Invalid(path.Child("hostname"), host, validation.IsDNS1123Subdomain(host))...)
		if _, err := netip.ParseAddr(host); err == nil {
			errs = append(errs, field.Invalid(path.Child("hostname"), host, "must be a DNS name, not an IP address"))
		}
	}
	return errs
}
