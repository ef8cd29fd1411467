package server

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/keelson-io/keelson/internal/allocator"
	"github.com/keelson-io/keelson/internal/controller/service"
)

// This file determines how pods find the server: by the Service default/kubernetes and its
// endpoints.

// DefaultServiceClusterIPRange is the default of Config.ServiceClusterIPRange.
const DefaultServiceClusterIPRange = allocator.DefaultRange

// DefaultServiceNodePortRange is the default of Config.ServiceNodePortRange.
const DefaultServiceNodePortRange = allocator.DefaultPorts

// network has the addresses of the server and the ranges of Services.
type network struct {
	services  []netip.Prefix // ranges of the addresses of Services, of different families
	nodePorts utilnet.PortRange
	clusterIP netip.Addr // of the Service default/kubernetes
	address   netip.Addr // its endpoint for this server; the zero Addr if no other machine could reach it
}

// newNetwork validates the configuration.
func newNetwork(c *Config) (network, error) {
	var n network
	var err error
	if n.services, err = serviceRanges(c.ServiceClusterIPRange); err != nil {
		return n, err
	}
	n.clusterIP = n.services[0].Addr().Next()
	text := c.ServiceNodePortRange
	if text == "" {
		text = DefaultServiceNodePortRange
	}
	ports, err := utilnet.ParsePortRange(text)
	if err != nil || ports.Size == 0 || ports.Base == 0 {
		return n, fmt.Errorf("range of ports of nodes: got %q, want two ports, such as %s", text, DefaultServiceNodePortRange)
	}
	n.nodePorts = *ports
	switch c.EndpointReconciler {
	case "", "lease":
	case "none":
		return n, nil
	default:
		return n, fmt.Errorf("endpoint reconciler: got %q, want lease or none", c.EndpointReconciler)
	}
	if text := c.AdvertiseAddress; text != "" {
		if n.address, err = netip.ParseAddr(text); err != nil {
			return n, fmt.Errorf("advertised address: got %q, want an IP address", text)
		}
	}
	if !n.address.IsValid() || n.address.IsUnspecified() {
		n.address = ownAddress(c.BindAddress)
	}
	if !service.Endpoints(n.address) {
		n.address = netip.Addr{}
	}
	return n, nil
}

// serviceRanges reads the configured ranges of the addresses of Services: one, or one of each IP
// family, separated by a comma.
func serviceRanges(text string) ([]netip.Prefix, error) {
	if text == "" {
		text = DefaultServiceClusterIPRange
	}
	var all []netip.Prefix
	for part := range strings.SplitSeq(text, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil || p.Addr().Is4In6() {
			return nil, fmt.Errorf("range of services: got %q, want an address and a length, such as %s", part, DefaultServiceClusterIPRange)
		}
		first := p.Masked().Addr().Next()
		switch last := allocator.Last(p.Masked()); {
		case !first.IsValid() || last.Less(first):
			return nil, fmt.Errorf("range of services: got %q, which has no address for a service", part)
		case p.Addr().Is6() && p.Bits() < 64:
			return nil, fmt.Errorf("range of services: got %q, want a length of 64 or more", part)
		}
		all = append(all, p.Masked())
	}
	if len(all) > 2 || len(all) == 2 && all[0].Addr().Is4() == all[1].Addr().Is4() {
		return nil, fmt.Errorf("range of services: got %q, want one range, or one of each IP family", text)
	}
	return all, nil
}

// ownAddress returns the address under which other machines reach a server bound to an address; the
// zero Addr if there is none.
func ownAddress(bind string) netip.Addr {
	ip, err := utilnet.ResolveBindAddress(net.ParseIP(bind))
	if err != nil {
		return netip.Addr{}
	}
	address, _ := netip.AddrFromSlice(ip)
	return address.Unmap()
}

// names returns the DNS names and the address under which pods know the server.
func (n network) names() []string {
	names := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", n.clusterIP.String()}
	if n.address.IsValid() {
		names = append(names, n.address.String())
	}
	return names
}
