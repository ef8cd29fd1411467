package core

import (
	"encoding/json"
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/networking"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes services and the older kind of their endpoints.

// serviceKinds returns services and endpoints.
func serviceKinds() []describe.Description {
	docs := corev1.ServiceSpec{}.SwaggerDoc()
	return []describe.Description{{
		Kind: "Service", Plural: "services", ShortNames: []string{"svc"}, Categories: describe.AllCategory, StoragePrefix: "services/specs",
		Versions: describe.V1[corev1.Service](fillService), Status: true, Traits: kind.Traits{DeleteReturnsObject: true, CreateOnUpdate: true, Allocates: true}, ValidName: apivalidation.NameIsDNSLabel,
		Fields: []kind.Selectable{kind.NewSelectable(".spec.clusterIP"), kind.NewSelectable(".spec.type")},
		Columns: []kind.Column{
			describe.At("Type", "string", ".spec.type", docs["type"]),
			describe.Cell("Cluster-IP", docs["clusterIP"], func(obj jsondoc.Value) string {
				return describe.Either(obj.At("spec", "clusterIP").Text(), "<none>")
			}),
			describe.Cell("External-IP", docs["externalIPs"], externalIP),
			describe.Cell("Port(s)", docs["ports"], servicePorts),
			describe.AgeColumn(),
			describe.Wide(describe.Cell("Selector", docs["selector"], func(obj jsondoc.Value) string { return describe.MapText(obj.At("spec", "selector"), "<none>") })),
		},
		Check: checkService, Complete: true, Warnings: warnService, StatusWarnings: warnServiceStatus,
	}, {
		Kind: "Endpoints", Plural: "endpoints", Singular: "endpoints", ShortNames: []string{"ep"}, StoragePrefix: "services/endpoints",
		Versions: describe.V1[endpoints](nil), Traits: kind.Traits{CreateOnUpdate: true}, Check: checkEndpoints, Warnings: warnEndpoints,
		Columns:    []kind.Column{describe.Cell("Endpoints", endpoints{}.SwaggerDoc()["subsets"], endpointsCell), describe.AgeColumn()},
		Deprecated: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
	}}
}

// endpoints are deprecated, and clients still use them.
//
//lint:ignore SA1019 see above
type endpoints = corev1.Endpoints

// externalIP returns the external addresses of a service as tables show them.
func externalIP(obj jsondoc.Value) string {
	ips := strings.Join(describe.Texts(obj.At("spec", "externalIPs")), ",")
	switch corev1.ServiceType(obj.At("spec", "type").Text()) {
	case corev1.ServiceTypeExternalName:
		return obj.At("spec", "externalName").Text()
	case corev1.ServiceTypeLoadBalancer:
		all := describe.Balancers(obj)
		switch {
		case ips != "" && all != "":
			return all + "," + ips
		case ips == "" && all == "":
			return "<pending>"
		}
		return all + ips
	}
	return describe.Either(ips, "<none>")
}

// servicePorts returns the ports of a service as tables show them.
func servicePorts(obj jsondoc.Value) string {
	var out []string
	for _, p := range obj.At("spec", "ports").Items() {
		out = append(out, describe.PortText(p))
	}
	return describe.Either(strings.Join(out, ","), "<none>")
}

// endpointsCell returns the first few endpoints.
func endpointsCell(obj jsondoc.Value) string {
	var out []string
	for _, s := range obj.Get("subsets").Items() {
		for _, a := range s.Get("addresses").Items() {
			if s.Get("ports").Len() == 0 {
				out = append(out, a.Get("ip").Text())
			}
		}
		for _, p := range s.Get("ports").Items() {
			for _, a := range s.Get("addresses").Items() {
				out = append(out, net.JoinHostPort(a.Get("ip").Text(), describe.Number(p.Get("port"))))
			}
		}
	}
	if out == nil {
		return "<none>"
	}
	return describe.FirstFew(out, 3)
}

// readService decodes a service.
func readService(d *jsondoc.Doc) (*corev1.Service, error) {
	s := new(corev1.Service)
	return s, json.Unmarshal(d.Root().AppendJSON(nil), s)
}

// checkService checks a service; old is nil on create.
func checkService(_ *kind.Version, d, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
	s, err := readService(d)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if old == nil {
		return networking.Validate(s, nil)
	}
	was, err := readService(old)
	switch {
	case err != nil: // the stored object cannot be decoded as a Service: no field is kept from it
		return networking.Validate(s, nil)
	case scope == schema.Status:
		return networking.ValidateStatus(s, was)
	}
	return networking.ValidateUpdate(s, was)
}

// warnService returns warnings about a service.
func warnService(new, _ *jsondoc.Doc) []string { return serviceWarnings(new, networking.Warnings) }

// warnServiceStatus returns warnings about the status of a service.
func warnServiceStatus(new *jsondoc.Doc) []string {
	return serviceWarnings(new, networking.StatusWarnings)
}

// serviceWarnings returns the warnings of a function about a service.
func serviceWarnings(d *jsondoc.Doc, of func(*corev1.Service) []string) []string {
	s, err := readService(d)
	if err != nil {
		return nil
	}
	return of(s)
}

// fillService fills in defaults of a service that depend on its type.
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
		describe.OrDefault(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if !balanced {
		return
	}
	describe.OrDefault(&spec.AllocateLoadBalancerNodePorts, true)
	for i := range s.Status.LoadBalancer.Ingress {
		if in := &s.Status.LoadBalancer.Ingress[i]; in.IP != "" {
			describe.OrDefault(&in.IPMode, corev1.LoadBalancerIPModeVIP)
		}
	}
}

// checkEndpoints checks the addresses and ports of endpoints.
func checkEndpoints(_ *kind.Version, new, old *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	// Endpoints of older servers need not follow today's rules.
	if old != nil && jsondoc.Equal(new.Root().Get("subsets"), old.Root().Get("subsets")) {
		return nil
	}
	var errs field.ErrorList
	said := texts.Over(&errs)
	for i, s := range texts.EachOf(said, describe.ReadAs[endpoints](new.Root()).Subsets) {
		path := field.NewPath("subsets").Index(i)
		if len(s.Addresses)+len(s.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(path, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j := range texts.EachOf(said, s.Addresses) {
			errs = append(errs, checkSubsetAddress(&s.Addresses[j], path.Child("addresses").Index(j))...)
		}
		for j := range texts.EachOf(said, s.NotReadyAddresses) {
			errs = append(errs, checkSubsetAddress(&s.NotReadyAddresses[j], path.Child("notReadyAddresses").Index(j))...)
		}
		for j, p := range texts.EachOf(said, s.Ports) {
			at := path.Child("ports").Index(j)
			if p.Name == "" && len(s.Ports) > 1 {
				errs = append(errs, field.Required(at.Child("name"), ""))
			}
			errs = append(errs, describe.CheckName(at.Child("name"), p.Name, describe.DNSLabel)...)
			errs = append(errs, describe.Invalid(at.Child("port"), p.Port, validation.IsValidPortNum(int(p.Port)))...)
			if p.AppProtocol != nil {
				errs = append(errs, describe.Invalid(at.Child("appProtocol"), *p.AppProtocol, validation.IsQualifiedName(*p.AppProtocol))...)
			}
		}
	}
	return errs
}

// checkSubsetAddress checks an address. Upstream says twice that it is malformed.
func checkSubsetAddress(a *corev1.EndpointAddress, path *field.Path) field.ErrorList {
	errs := describe.CheckAddress(path.Child("ip"), a.IP)
	if a.Hostname != "" {
		errs = append(errs, describe.Invalid(path.Child("hostname"), a.Hostname, validation.IsDNS1123Label(a.Hostname))...)
	}
	if a.NodeName != nil {
		errs = append(errs, describe.Invalid(path.Child("nodeName"), *a.NodeName, validation.IsDNS1123Subdomain(*a.NodeName))...)
	}
	return append(errs, describe.CheckReachable(path.Child("ip"), a.IP)...)
}

// managedEndpoints is the label of endpoints whose controller has checked their addresses.
const managedEndpoints = "endpoints.kubernetes.io/managed-by"

// warnEndpoints returns warnings about addresses in other spellings than the standard one.
func warnEndpoints(new, _ *jsondoc.Doc) []string {
	e := describe.ReadAs[endpoints](new.Root())
	if e.Labels[managedEndpoints] == "endpoint-controller" {
		return nil
	}
	var warnings []string
	for i, s := range e.Subsets {
		path := field.NewPath("subsets").Index(i)
		for j, a := range s.Addresses {
			warnings = append(warnings, validation.GetWarningsForIP(path.Child("addresses").Index(j).Child("ip"), a.IP)...)
		}
		for j, a := range s.NotReadyAddresses {
			warnings = append(warnings, validation.GetWarningsForIP(path.Child("notReadyAddresses").Index(j).Child("ip"), a.IP)...)
		}
	}
	return warnings
}
