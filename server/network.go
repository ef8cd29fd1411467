package server

import (
	"fmt"
	"net"
	"net/netip"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/keelson-io/keelson/controller/service"
)

// This file says where the server is found from pods: by the service default/kubernetes and its endpoints.

// DefaultServiceClusterIPRange is what Config.ServiceClusterIPRange is if it is empty.
const DefaultServiceClusterIPRange = "10.0.0.0/24"

// network is where pods find the server.
type network struct {
	clusterIP netip.Addr // of the service
	address   netip.Addr // among its endpoints; the zero Addr if there is none that others could reach
}

// newNetwork reads the configuration.
func newNetwork(c *Config) (network, error) {
	var n network
	text := c.ServiceClusterIPRange
	if text == "" {
		text = DefaultServiceClusterIPRange
	}
	all, err := netip.ParsePrefix(text)
	if err != nil {
		return n, fmt.Errorf("range of services: got %q, want an address and a length, such as %s", text, DefaultServiceClusterIPRange)
	}
	n.clusterIP = all.Masked().Addr().Next()
	if !all.Contains(n.clusterIP) {
		return n, fmt.Errorf("range of services: got %q, which has no address for the service of the server", text)
	}
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

// ownAddress is an address by which other machines reach a server that is bound to one, the zero Addr if there is none.
func ownAddress(bind string) netip.Addr {
	ip, err := utilnet.ResolveBindAddress(net.ParseIP(bind))
	if err != nil {
		return netip.Addr{}
	}
	address, _ := netip.AddrFromSlice(ip)
	return address.Unmap()
}

// names are those by which pods know the server.
func (n network) names() []string {
	names := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", n.clusterIP.String()}
	if n.address.IsValid() {
		names = append(names, n.address.String())
	}
	return names
}
