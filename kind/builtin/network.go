package builtin

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/kind/service"
	"github.com/keelson-io/keelson/schema"
)

// This file describes services and what leads to them.

// endpoints are deprecated, and clients still use them.
//
//lint:ignore SA1019 see above
type endpoints = corev1.Endpoints

func networkKinds() []description {
	docs := corev1.ServiceSpec{}.SwaggerDoc()
	return []description{{
		kind: "Service", plural: "services", short: []string{"svc"}, categories: all, prefix: "services/specs",
		versions: v1[corev1.Service](fillService), status: true, returned: true, createOnUpdate: true, name: validation.NameIsDNSLabel,
		fields: []kind.Selectable{kind.NewSelectable(".spec.clusterIP"), kind.NewSelectable(".spec.type")},
		columns: []kind.Column{
			at("Type", "string", ".spec.type", docs["type"]),
			cell("Cluster-IP", docs["clusterIP"], func(obj doc.Value) string {
				return either(obj.At("spec", "clusterIP").Text(), "<none>")
			}),
			cell("External-IP", docs["externalIPs"], externalIP),
			cell("Port(s)", docs["ports"], servicePorts),
			ageColumn(),
			wide(cell("Selector", docs["selector"], func(obj doc.Value) string { return mapText(obj.At("spec", "selector"), "<none>") })),
		},
		claims: true, check: checkService, complete: true, warnings: warnService, statusWarnings: warnServiceStatus,
	}, {
		kind: "Endpoints", plural: "endpoints", singular: "endpoints", short: []string{"ep"}, prefix: "services/endpoints",
		versions: v1[endpoints](nil), createOnUpdate: true, check: checkEndpoints,
		columns:    []kind.Column{cell("Endpoints", endpoints{}.SwaggerDoc()["subsets"], endpointsCell), ageColumn()},
		deprecated: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
	}, {
		group: "discovery.k8s.io", kind: "EndpointSlice", plural: "endpointslices", generation: true, counts: "labels", check: checkEndpointSlice, warnings: sliceWarnings,
		versions: v1[discoveryv1.EndpointSlice](nil),
		columns: []kind.Column{
			at("AddressType", "string", ".addressType", discoveryv1.EndpointSlice{}.SwaggerDoc()["addressType"]),
			cell("Ports", discoveryv1.EndpointSlice{}.SwaggerDoc()["ports"], func(obj doc.Value) string {
				var ports []string
				for _, p := range obj.Get("ports").Items() {
					ports = append(ports, either(textOf(p.Get("port")), "*"))
				}
				return firstFew(ports, 3)
			}),
			cell("Endpoints", discoveryv1.EndpointSlice{}.SwaggerDoc()["endpoints"], func(obj doc.Value) string {
				var ips []string
				for _, e := range obj.Get("endpoints").Items() {
					for _, a := range e.Get("addresses").Items() {
						ips = append(ips, a.Text())
					}
				}
				return firstFew(ips, 3)
			}),
			ageColumn(),
		},
	}, {
		group: "networking.k8s.io", kind: "Ingress", plural: "ingresses", short: []string{"ing"}, prefix: "ingress",
		versions: v1[networkingv1.Ingress](nil), status: true, generation: true,
		columns: []kind.Column{
			orNone("Class", "The name of the IngressClass resource that should be used for additional configuration", "<none>", "spec", "ingressClassName"),
			cell("Hosts", "Hosts that incoming requests are matched against before the ingress rule", ingressHosts),
			cell("Address", "Address is a list containing ingress points for the load-balancer", func(obj doc.Value) string { return balancers(obj) }),
			cell("Ports", "Ports of TLS configurations that open", func(obj doc.Value) string {
				if obj.At("spec", "tls").Len() > 0 {
					return "80, 443"
				}
				return "80"
			}),
			ageColumn(),
		},
		check: both(unlessStatus(checkIngress), checkIngressStatus),
	}, {
		group: "networking.k8s.io", kind: "IngressClass", plural: "ingressclasses", cluster: true, generation: true,
		check:    both(required("", "spec", "controller"), both(immutableAs(asText, "spec", "controller"), checkClassParameters)),
		versions: v1[networkingv1.IngressClass](nil),
		columns: []kind.Column{
			at("Controller", "string", ".spec.controller", "Controller that is responsible for handling this class"),
			cell("Parameters", "A reference to a resource with additional parameters", func(obj doc.Value) string {
				p := obj.At("spec", "parameters")
				if p.Kind() != doc.Object {
					return "<none>"
				}
				name := p.Get("kind").Text()
				if g := p.Get("apiGroup").Text(); g != "" {
					name += "." + g
				}
				return name + "/" + p.Get("name").Text()
			}),
			ageColumn(),
		},
	}, {
		group: "networking.k8s.io", kind: "NetworkPolicy", plural: "networkpolicies", short: []string{"netpol"}, generation: true,
		versions: v1[networkingv1.NetworkPolicy](fillNetworkPolicy), check: unlessStatus(checkNetworkPolicy),
		columns: []kind.Column{
			cell("Pod-Selector", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"], func(obj doc.Value) string {
				return selectorText(obj.At("spec", "podSelector"))
			}),
			ageColumn(),
		},
	}, {
		group: "networking.k8s.io", kind: "IPAddress", plural: "ipaddresses", short: []string{"ip"}, cluster: true, name: ipName, check: both(required("", "spec", "parentRef"), fixedParent),
		versions: v1[networkingv1.IPAddress](nil),
		columns: []kind.Column{
			cell("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"], func(obj doc.Value) string {
				ref, name := obj.At("spec", "parentRef"), ""
				for _, part := range []string{"group", "resource", "namespace", "name"} {
					if text := ref.Get(part).Text(); text != "" && name != "" && part != "resource" {
						name += "/" + text
					} else if text != "" && name != "" {
						name = text + "." + name
					} else if text != "" {
						name = text
					}
				}
				return name
			}),
		},
	}, {
		group: "networking.k8s.io", kind: "ServiceCIDR", plural: "servicecidrs", cluster: true, status: true, check: checkServiceCIDR,
		versions: v1[networkingv1.ServiceCIDR](nil), statusKeeps: wholeMetadata,
		columns: []kind.Column{
			cell("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"], func(obj doc.Value) string {
				return strings.Join(texts(obj.At("spec", "cidrs")), ",")
			}),
			ageColumn(),
		},
	}}
}

// ipName is the rule for names that are addresses, in the one form that an address has.
func ipName(name string, prefix bool) []string {
	var out []string
	for _, err := range utilvalidation.IsValidIP(nil, name) {
		out = append(out, err.Detail)
	}
	if ip, err := netip.ParseAddr(name); out == nil && (err != nil || ip.String() != name) {
		out = append(out, "must be in canonical form (\""+ip.String()+"\")")
	}
	return out
}

// firstFew joins a few of the texts and says how many more there are.
func firstFew(all []string, few int) string {
	switch {
	case len(all) == 0:
		return "<unset>"
	case len(all) <= few:
		return strings.Join(all, ",")
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(all[:few], ","), len(all)-few)
}

// balancers are the addresses of the load balancers of a service or ingress.
func balancers(obj doc.Value) string {
	var out []string
	for _, in := range obj.At("status", "loadBalancer", "ingress").Items() {
		out = append(out, either(in.Get("ip").Text(), in.Get("hostname").Text()))
	}
	return strings.Join(out, ",")
}

func externalIP(obj doc.Value) string {
	ips := strings.Join(texts(obj.At("spec", "externalIPs")), ",")
	switch corev1.ServiceType(obj.At("spec", "type").Text()) {
	case corev1.ServiceTypeExternalName:
		return obj.At("spec", "externalName").Text()
	case corev1.ServiceTypeLoadBalancer:
		all := balancers(obj)
		switch {
		case ips != "" && all != "":
			return all + "," + ips
		case ips == "" && all == "":
			return "<pending>"
		}
		return all + ips
	}
	return either(ips, "<none>")
}

func servicePorts(obj doc.Value) string {
	var out []string
	for _, p := range obj.At("spec", "ports").Items() {
		out = append(out, portText(p))
	}
	return either(strings.Join(out, ","), "<none>")
}

func endpointsCell(obj doc.Value) string {
	var out []string
	for _, s := range obj.Get("subsets").Items() {
		for _, a := range s.Get("addresses").Items() {
			if s.Get("ports").Len() == 0 {
				out = append(out, a.Get("ip").Text())
			}
		}
		for _, p := range s.Get("ports").Items() {
			for _, a := range s.Get("addresses").Items() {
				out = append(out, net.JoinHostPort(a.Get("ip").Text(), number(p.Get("port"))))
			}
		}
	}
	if out == nil {
		return "<none>"
	}
	return firstFew(out, 3)
}

func ingressHosts(obj doc.Value) string {
	var out []string
	for _, r := range obj.At("spec", "rules").Items() {
		if h := r.Get("host").Text(); h != "" {
			out = append(out, h)
		}
	}
	if out == nil {
		return "*"
	}
	return firstFew(out, 3)
}

// checkClassParameters checks in what scope the parameters of a class are.
func checkClassParameters(_ *kind.Version, d, _ *doc.Doc, _ schema.Scope) field.ErrorList {
	p, path := d.Root().At("spec", "parameters"), field.NewPath("spec", "parameters")
	if p.Kind() != doc.Object {
		return nil
	}
	return among(path.Child("scope"), strings.Clone(p.Get("scope").Text()), "Cluster", "Namespace")
}

// checkServiceCIDR refuses a range of no addresses, and another one for one that is there, which may get one of the other family.
func checkServiceCIDR(v *kind.Version, d, old *doc.Doc, scope schema.Scope) field.ErrorList {
	path := field.NewPath("spec", "cidrs")
	now := texts(d.Root().At("spec", "cidrs"))
	if old == nil {
		return required("at least one CIDR required", "spec", "cidrs")(v, d, nil, scope)
	}
	was := texts(old.Root().At("spec", "cidrs"))
	if len(now) != len(was) && (len(was) != 1 || len(now) != 2) {
		return field.ErrorList{field.Invalid(path, now, "field is immutable")}
	}
	var errs field.ErrorList
	for i := range was {
		if now[i] != was[i] {
			errs = append(errs, field.Invalid(path.Index(i), now[i], "field is immutable"))
		}
	}
	return errs
}

// readService is a document as a service.
func readService(d *doc.Doc) (*corev1.Service, error) {
	s := new(corev1.Service)
	return s, json.Unmarshal(d.Root().AppendJSON(nil), s)
}

func checkService(_ *kind.Version, d, old *doc.Doc, scope schema.Scope) field.ErrorList {
	s, err := readService(d)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if old == nil {
		return service.Validate(s, nil)
	}
	was, err := readService(old)
	switch {
	case err != nil: // what was stored is no service: nothing of it is kept
		return service.Validate(s, nil)
	case scope == schema.Status:
		return service.ValidateStatus(s, was)
	}
	return service.ValidateUpdate(s, was)
}

func warnService(new, _ *doc.Doc) []string { return serviceWarnings(new, service.Warnings) }

func warnServiceStatus(new *doc.Doc) []string { return serviceWarnings(new, service.StatusWarnings) }

func serviceWarnings(d *doc.Doc, of func(*corev1.Service) []string) []string {
	s, err := readService(d)
	if err != nil {
		return nil
	}
	return of(s)
}

// fixedParent refuses another parent of an address; the error does not show it.
func fixedParent(_ *kind.Version, new, old *doc.Doc, _ schema.Scope) field.ErrorList {
	if old == nil || doc.Equal(new.Root().At("spec", "parentRef"), old.Root().At("spec", "parentRef")) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "parentRef"), nil, "field is immutable")}
}

// sliceWarnings are those about a kind of addresses that nobody uses any more; of a slice that is there it is too late.
func sliceWarnings(new, old *doc.Doc) []string {
	if old != nil || new.Root().Get("addressType").Text() != string(discoveryv1.AddressTypeFQDN) {
		return nil
	}
	return []string{"spec.addressType: FQDN endpoints are deprecated"}
}
