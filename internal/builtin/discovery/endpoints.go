// Package discovery describes slices of endpoints, of the API group discovery.k8s.io.
// Their predecessors, endpoints, are in package core.
package discovery

import (
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file checks endpoint slices.

// checkEndpointSlice checks a slice, whose type of addresses is immutable.
func checkEndpointSlice(_ *kind.Version, new, old *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	s := describe.ReadAs[discoveryv1.EndpointSlice](new.Root())
	kinds := []discoveryv1.AddressType{discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}
	if old != nil && old.Root().Get("addressType").Text() != string(s.AddressType) {
		return append(field.ErrorList{field.Invalid(field.NewPath("addressType"), nil, "field is immutable")}, describe.NeedText(field.NewPath("addressType"), string(s.AddressType))...)
	}
	errs := describe.NeedText(field.NewPath("addressType"), string(s.AddressType))
	errs = append(errs, describe.Among(field.NewPath("addressType"), s.AddressType, kinds...)...)
	for i := range texts.Each(&errs, s.Endpoints) {
		errs = append(errs, checkEndpoint(&s.Endpoints[i], s.AddressType, field.NewPath("endpoints").Index(i))...)
	}
	names := map[string]bool{}
	for i, p := range texts.Each(&errs, s.Ports) {
		at, name := field.NewPath("ports").Index(i), ""
		if p.Name != nil {
			name = *p.Name
		}
		errs = append(errs, describe.CheckName(at.Child("name"), name, describe.DNSLabel)...)
		if names[name] {
			errs = append(errs, field.Duplicate(at.Child("name"), name))
		}
		names[name] = true
		if a := p.AppProtocol; a != nil {
			errs = append(errs, describe.Invalid(at.Child("appProtocol"), *a, validation.IsQualifiedName(*a))...)
		}
	}
	return errs
}

// checkEndpoint checks the addresses of an endpoint, and its node and zone.
func checkEndpoint(e *discoveryv1.Endpoint, of discoveryv1.AddressType, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	addresses := path.Child("addresses")
	if len(e.Addresses) == 0 {
		errs = append(errs, field.Required(addresses, ""))
	}
	for i, address := range texts.Each(&errs, e.Addresses) {
		at := addresses.Index(i)
		if of == discoveryv1.AddressTypeFQDN {
			errs = append(errs, validation.IsFullyQualifiedDomainName(at, address)...)
			continue
		}
		a, err := netip.ParseAddr(address)
		switch {
		case of != discoveryv1.AddressTypeIPv4 && of != discoveryv1.AddressTypeIPv6:
			continue
		case err != nil:
			errs = append(errs, describe.CheckAddress(at, address)...)
			continue
		case a.Is4() != (of == discoveryv1.AddressTypeIPv4):
			errs = append(errs, field.Invalid(addresses, address, "must be an "+string(of)+" address"))
		}
		errs = append(errs, describe.CheckReachable(at, address)...)
	}
	if e.NodeName != nil {
		errs = append(errs, describe.Invalid(path.Child("nodeName"), *e.NodeName, describe.Subdomain(*e.NodeName, false))...)
	}
	if e.Hostname != nil {
		errs = append(errs, describe.CheckName(path.Child("hostname"), *e.Hostname, describe.DNSLabel)...)
	}
	return errs
}

// Kinds returns the description of endpoint slices.
func Kinds() []describe.Description {
	return []describe.Description{{
		Group: "discovery.k8s.io", Kind: "EndpointSlice", Plural: "endpointslices", Generation: true, Traits: kind.Traits{GenerationMember: "labels"}, Check: checkEndpointSlice, Warnings: sliceWarnings,
		Versions: describe.V1[discoveryv1.EndpointSlice](nil),
		Columns: []kind.Column{
			describe.At("AddressType", "string", ".addressType", discoveryv1.EndpointSlice{}.SwaggerDoc()["addressType"]),
			describe.Cell("Ports", discoveryv1.EndpointSlice{}.SwaggerDoc()["ports"], func(obj jsondoc.Value) string {
				var ports []string
				for _, p := range obj.Get("ports").Items() {
					ports = append(ports, describe.Either(describe.TextOf(p.Get("port")), "*"))
				}
				return describe.FirstFew(ports, 3)
			}),
			describe.Cell("Endpoints", discoveryv1.EndpointSlice{}.SwaggerDoc()["endpoints"], func(obj jsondoc.Value) string {
				var ips []string
				for _, e := range obj.Get("endpoints").Items() {
					for _, a := range e.Get("addresses").Items() {
						ips = append(ips, a.Text())
					}
				}
				return describe.FirstFew(ips, 3)
			}),
			describe.AgeColumn(),
		},
	}}
}

// sliceWarnings returns a warning for a new slice with the deprecated address type FQDN.
func sliceWarnings(new, old *jsondoc.Doc) []string {
	if old != nil || new.Root().Get("addressType").Text() != string(discoveryv1.AddressTypeFQDN) {
		return nil
	}
	return []string{"spec.addressType: FQDN endpoints are deprecated"}
}
