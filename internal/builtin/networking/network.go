// Package networking describes the kinds of the API group networking.k8s.io: ingresses, network
// policies, addresses and their ranges. Package allocator creates and deletes the objects for
// addresses of services. Nothing here routes or filters traffic: the objects are stored and checked
// for programs that do.
package networking

import (
	"net/netip"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes the kinds of the group.

// Kinds returns the descriptions of the kinds of the group.
func Kinds() []describe.Description {
	return []describe.Description{{
		Group: "networking.k8s.io", Kind: "Ingress", Plural: "ingresses", ShortNames: []string{"ing"}, StoragePrefix: "ingress",
		Versions: describe.V1[networkingv1.Ingress](nil), Status: true, Generation: true,
		Columns: []kind.Column{
			describe.OrNone("Class", "The name of the IngressClass resource that should be used for additional configuration", "<none>", "spec", "ingressClassName"),
			describe.Cell("Hosts", "Hosts that incoming requests are matched against before the ingress rule", ingressHosts),
			describe.Cell("Address", "Address is a list containing ingress points for the load-balancer", func(obj jsondoc.Value) string { return describe.Balancers(obj) }),
			describe.Cell("Ports", "Ports of TLS configurations that open", func(obj jsondoc.Value) string {
				if obj.At("spec", "tls").Len() > 0 {
					return "80, 443"
				}
				return "80"
			}),
			describe.AgeColumn(),
		},
		Warnings: warnIngress,
		Check:    describe.Both(describe.UnlessStatus(checkIngress), checkIngressStatus),
	}, {
		Group: "networking.k8s.io", Kind: "IngressClass", Plural: "ingressclasses", ClusterScoped: true, Generation: true,
		Check:    describe.Both(describe.Required("", "spec", "controller"), describe.Both(describe.ImmutableAs(describe.AsText, "spec", "controller"), checkClassParameters)),
		Versions: describe.V1[networkingv1.IngressClass](nil),
		Columns: []kind.Column{
			describe.At("Controller", "string", ".spec.controller", "Controller that is responsible for handling this class"),
			describe.Cell("Parameters", "A reference to a resource with additional parameters", func(obj jsondoc.Value) string {
				p := obj.At("spec", "parameters")
				if p.Kind() != jsondoc.Object {
					return "<none>"
				}
				name := p.Get("kind").Text()
				if g := p.Get("apiGroup").Text(); g != "" {
					name += "." + g
				}
				return name + "/" + p.Get("name").Text()
			}),
			describe.AgeColumn(),
		},
	}, {
		Group: "networking.k8s.io", Kind: "NetworkPolicy", Plural: "networkpolicies", ShortNames: []string{"netpol"}, Generation: true,
		Versions: describe.V1[networkingv1.NetworkPolicy](fillNetworkPolicy), Check: describe.UnlessStatus(checkNetworkPolicy),
		Columns: []kind.Column{
			describe.Cell("Pod-Selector", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"], func(obj jsondoc.Value) string {
				return describe.SelectorText(obj.At("spec", "podSelector"))
			}),
			describe.AgeColumn(),
		},
	}, {
		Group: "networking.k8s.io", Kind: "IPAddress", Plural: "ipaddresses", ShortNames: []string{"ip"}, ClusterScoped: true, ValidName: ipName, Check: describe.Both(describe.Required("", "spec", "parentRef"), fixedParent),
		Versions: describe.V1[networkingv1.IPAddress](nil),
		Columns: []kind.Column{
			describe.Cell("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"], func(obj jsondoc.Value) string {
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
		Group: "networking.k8s.io", Kind: "ServiceCIDR", Plural: "servicecidrs", ClusterScoped: true, Status: true, Check: checkServiceCIDR,
		Versions: describe.V1[networkingv1.ServiceCIDR](nil), Traits: kind.Traits{StatusKeeps: kind.WritableMetadata},
		Columns: []kind.Column{
			describe.Cell("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"], func(obj jsondoc.Value) string {
				return strings.Join(describe.Texts(obj.At("spec", "cidrs")), ",")
			}),
			describe.AgeColumn(),
		},
	}}
}

// ipName returns the rule for names that are IP addresses in canonical form.
func ipName(name string, prefix bool) []string {
	var out []string
	for _, err := range validation.IsValidIP(nil, name) {
		out = append(out, err.Detail)
	}
	if ip, err := netip.ParseAddr(name); out == nil && (err != nil || ip.String() != name) {
		out = append(out, "must be in canonical form (\""+ip.String()+"\")")
	}
	return out
}

// ingressHosts returns the hosts of an ingress as tables show them.
func ingressHosts(obj jsondoc.Value) string {
	var out []string
	for _, r := range obj.At("spec", "rules").Items() {
		if h := r.Get("host").Text(); h != "" {
			out = append(out, h)
		}
	}
	if out == nil {
		return "*"
	}
	return describe.FirstFew(out, 3)
}

// checkClassParameters checks the scope of the parameters of a class.
func checkClassParameters(_ *kind.Version, d, _ *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	p, path := d.Root().At("spec", "parameters"), field.NewPath("spec", "parameters")
	if p.Kind() != jsondoc.Object {
		return nil
	}
	return describe.Among(path.Child("scope"), strings.Clone(p.Get("scope").Text()), "Cluster", "Namespace")
}

// checkServiceCIDR refuses a range without addresses, and changes of a range. A range of the other
// family may be added.
func checkServiceCIDR(v *kind.Version, d, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
	path := field.NewPath("spec", "cidrs")
	now := describe.Texts(d.Root().At("spec", "cidrs"))
	if old == nil {
		return describe.Required("at least one CIDR required", "spec", "cidrs")(v, d, nil, scope)
	}
	was := describe.Texts(old.Root().At("spec", "cidrs"))
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

// fixedParent refuses to change the parent of an address. Upstream's error does not print the
// parent.
func fixedParent(_ *kind.Version, new, old *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	if old == nil || jsondoc.Equal(new.Root().At("spec", "parentRef"), old.Root().At("spec", "parentRef")) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "parentRef"), nil, "field is immutable")}
}

// fillNetworkPolicy sets the default directions of a policy and the default protocols of its ports.
func fillNetworkPolicy(n *networkingv1.NetworkPolicy) {
	if len(n.Spec.PolicyTypes) > 0 {
		return
	}
	n.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	if len(n.Spec.Egress) > 0 {
		n.Spec.PolicyTypes = append(n.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
}
