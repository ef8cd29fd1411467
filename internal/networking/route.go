package networking

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// This file finds the address at which a service answers.

// NoEndpointsError says that no endpoint of a service is ready.
type NoEndpointsError struct{ Service string }

// Error returns upstream's text.
func (e *NoEndpointsError) Error() string {
	return fmt.Sprintf("no endpoints available for service %q", e.Service)
}

// Route returns the address of a service's port, as host:port. all are the EndpointSlices of the service; they decide if there are any.
// If there are none, nobody maintains them: then the address is the cluster IP, which something outside of the server may route.
//
// kube-apiserver uses either the cluster IP or the slices, depending on --enable-aggregator-routing.
func Route(s *corev1.Service, all []*discoveryv1.EndpointSlice, port int32) (string, error) {
	switch s.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return hostPort(s.Spec.ExternalName, port), nil
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
	default:
		return "", fmt.Errorf("unsupported service type %q", s.Spec.Type)
	}
	i := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if i < 0 {
		return "", fmt.Errorf("no service port %d found for service %q", port, s.Name)
	}
	if len(all) == 0 && s.Spec.ClusterIP != corev1.ClusterIPNone && s.Spec.ClusterIP != "" {
		return hostPort(s.Spec.ClusterIP, port), nil
	}
	var preferred discoveryv1.AddressType
	if len(s.Spec.IPFamilies) > 0 {
		preferred = discoveryv1.AddressType(s.Spec.IPFamilies[0])
	}
	if address := endpoint(all, s.Spec.Ports[i].Name, func(t discoveryv1.AddressType) bool { return t == preferred }); address != "" {
		return address, nil
	}
	if address := endpoint(all, s.Spec.Ports[i].Name, func(t discoveryv1.AddressType) bool { return t != preferred }); address != "" {
		return address, nil
	}
	return "", &NoEndpointsError{s.Name}
}

// endpoint returns a random ready endpoint that has the named port, from slices of the wanted address types; "" if there is none.
func endpoint(all []*discoveryv1.EndpointSlice, port string, wanted func(discoveryv1.AddressType) bool) string {
	for _, at := range rand.Perm(len(all)) {
		s := all[at]
		if !wanted(s.AddressType) || len(s.Endpoints) == 0 {
			continue
		}
		i := slices.IndexFunc(s.Ports, func(p discoveryv1.EndpointPort) bool { return p.Name != nil && *p.Name == port && p.Port != nil })
		if i < 0 {
			continue
		}
		for _, n := range rand.Perm(len(s.Endpoints)) {
			e := &s.Endpoints[n]
			if ready := e.Conditions.Ready; (ready == nil || *ready) && len(e.Addresses) > 0 {
				return hostPort(e.Addresses[0], *s.Ports[i].Port)
			}
		}
	}
	return ""
}

// hostPort joins a host and a port.
func hostPort(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

// IsNoEndpoints reports whether an error says that no endpoint of a service is ready.
func IsNoEndpoints(err error) bool { return errors.As(err, new(*NoEndpointsError)) }
