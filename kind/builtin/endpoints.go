package builtin

import (
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file checks where services lead to.

// checkReachable refuses addresses that lead nowhere else.
func checkReachable(path *field.Path, ip string) field.ErrorList {
	a, err := netip.ParseAddr(ip)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, ip, "must be a valid IP address")}
	case a.IsUnspecified():
		return field.ErrorList{field.Invalid(path, ip, "may not be unspecified (0.0.0.0 or ::)")}
	case a.IsLoopback():
		return field.ErrorList{field.Invalid(path, ip, "may not be in the loopback range (127.0.0.0/8, ::1/128)")}
	case a.IsLinkLocalUnicast():
		return field.ErrorList{field.Invalid(path, ip, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")}
	case a.IsLinkLocalMulticast():
		return field.ErrorList{field.Invalid(path, ip, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")}
	}
	return nil
}

func checkEndpointSlice(_ *kind.Version, new, old *doc.Doc, _ schema.Scope) field.ErrorList {
	s := readAs[discoveryv1.EndpointSlice](new.Root())
	kinds := []discoveryv1.AddressType{discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}
	if old != nil && old.Root().Get("addressType").Text() != string(s.AddressType) {
		return append(field.ErrorList{field.Invalid(field.NewPath("addressType"), nil, "field is immutable")}, needText(field.NewPath("addressType"), string(s.AddressType))...)
	}
	errs := needText(field.NewPath("addressType"), string(s.AddressType))
	errs = append(errs, among(field.NewPath("addressType"), s.AddressType, kinds...)...)
	for i := range s.Endpoints {
		errs = append(errs, checkEndpoint(&s.Endpoints[i], s.AddressType, field.NewPath("endpoints").Index(i))...)
	}
	names := map[string]bool{}
	for i, p := range s.Ports {
		at, name := field.NewPath("ports").Index(i), ""
		if p.Name != nil {
			name = *p.Name
		}
		errs = append(errs, checkName(at.Child("name"), name, dnsLabel)...)
		if names[name] {
			errs = append(errs, field.Duplicate(at.Child("name"), name))
		}
		names[name] = true
		if a := p.AppProtocol; a != nil {
			errs = append(errs, invalid(at.Child("appProtocol"), *a, validation.IsQualifiedName(*a))...)
		}
	}
	return errs
}

func checkEndpoint(e *discoveryv1.Endpoint, of discoveryv1.AddressType, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	addresses := path.Child("addresses")
	if len(e.Addresses) == 0 {
		errs = append(errs, field.Required(addresses, ""))
	}
	for i, address := range e.Addresses {
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
			errs = append(errs, checkAddress(at, address)...)
			continue
		case a.Is4() != (of == discoveryv1.AddressTypeIPv4):
			errs = append(errs, field.Invalid(addresses, address, "must be an "+string(of)+" address"))
		}
		errs = append(errs, checkReachable(at, address)...)
	}
	if e.NodeName != nil {
		errs = append(errs, invalid(path.Child("nodeName"), *e.NodeName, subdomain(*e.NodeName, false))...)
	}
	if e.Hostname != nil {
		errs = append(errs, checkName(path.Child("hostname"), *e.Hostname, dnsLabel)...)
	}
	return errs
}

func checkEndpoints(_ *kind.Version, new, _ *doc.Doc, _ schema.Scope) field.ErrorList {
	var errs field.ErrorList
	for i, s := range readAs[endpoints](new.Root()).Subsets {
		path := field.NewPath("subsets").Index(i)
		if len(s.Addresses)+len(s.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(path, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j, a := range s.Addresses {
			errs = append(errs, checkSubsetAddress(a.IP, path.Child("addresses").Index(j).Child("ip"))...)
		}
		for j, a := range s.NotReadyAddresses {
			errs = append(errs, checkSubsetAddress(a.IP, path.Child("notReadyAddresses").Index(j).Child("ip"))...)
		}
		for j, p := range s.Ports {
			at := path.Child("ports").Index(j)
			if p.Name == "" && len(s.Ports) > 1 {
				errs = append(errs, field.Required(at.Child("name"), ""))
			}
			errs = append(errs, checkName(at.Child("name"), p.Name, dnsLabel)...)
			errs = append(errs, invalid(at.Child("port"), p.Port, validation.IsValidPortNum(int(p.Port)))...)
		}
	}
	return errs
}

// checkSubsetAddress checks an address. That it is none is said twice.
func checkSubsetAddress(ip string, path *field.Path) field.ErrorList {
	return append(checkAddress(path, ip), checkReachable(path, ip)...)
}
