package networking

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// TestRoute finds the addresses of services.
// Ledger: webhook-services.
func TestRoute(t *testing.T) {
	no, yes, web, admin := false, true, "web", "admin"
	number := int32(8443)
	service := func(kind corev1.ServiceType, ip string, edit ...func(*corev1.Service)) *corev1.Service {
		s := &corev1.Service{Spec: corev1.ServiceSpec{Type: kind, ClusterIP: ip, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "admin", Port: 9}, {Name: "web", Port: 443}}}}
		s.Name = "s"
		for _, e := range edit {
			e(s)
		}
		return s
	}
	slice := func(kind discoveryv1.AddressType, port *string, ready *bool, addresses ...string) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{AddressType: kind, Ports: []discoveryv1.EndpointPort{{Name: &admin}, {Name: port, Port: &number}}}
		for _, a := range addresses {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}, Conditions: discoveryv1.EndpointConditions{Ready: ready}})
		}
		return s
	}
	of := func(s ...*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice { return s }
	where := func() string { _, _, line, _ := runtime.Caller(1); return fmt.Sprint("line ", line) }
	none := `no endpoints available for service "s"`
	for _, row := range []struct {
		where   string
		service *corev1.Service
		slices  []*discoveryv1.EndpointSlice
		port    int32
		want    string
	}{
		{where(), service("ClusterIP", "10.0.0.1"), nil, 443, "10.0.0.1:443"},
		{where(), service("NodePort", "fd00::1"), nil, 443, "[fd00::1]:443"},
		{where(), service("ClusterIP", "10.0.0.1"), of(slice("IPv4", &web, &yes, "1.2.3.4")), 443, "1.2.3.4:8443"},
		{where(), service("LoadBalancer", "10.0.0.1"), of(slice("IPv4", &web, nil, "1.2.3.4")), 443, "1.2.3.4:8443"},
		{where(), service("ClusterIP", "None"), of(slice("IPv4", &web, &yes, "1.2.3.4")), 443, "1.2.3.4:8443"},
		{where(), service("ClusterIP", "10.0.0.1"), of(slice("IPv6", &web, &yes, "fd00::4"), slice("IPv4", &web, &yes, "1.2.3.4")), 443, "1.2.3.4:8443"},
		{where(), service("ClusterIP", "10.0.0.1"), of(slice("IPv6", &web, &yes, "fd00::4"), slice("IPv4", &web, &no, "1.2.3.4")), 443, "[fd00::4]:8443"},
		{where(), service("ClusterIP", "10.0.0.1"), of(slice("IPv4", &web, &no, "1.2.3.4")), 443, none},
		{where(), service("ClusterIP", "10.0.0.1"), of(slice("IPv4", &web, &yes)), 443, none},
		{where(), service("ClusterIP", "10.0.0.1"), of(slice("IPv4", &web, &yes, "1.2.3.4")), 9, none},
		{where(), service("ClusterIP", "10.0.0.1"), of(slice("IPv4", nil, &yes, "1.2.3.4")), 443, none},
		{where(), service("ClusterIP", "None"), nil, 443, none},
		{where(), service("ClusterIP", "10.0.0.1"), nil, 444, `no service port 444 found for service "s"`},
		{where(), service("ExternalName", "", func(s *corev1.Service) { s.Spec.ExternalName = "example.org" }), nil, 444, "example.org:444"},
		{where(), service("Other", ""), nil, 443, `unsupported service type "Other"`},
	} {
		got, err := Route(row.service, row.slices, row.port)
		if err != nil {
			got = err.Error()
		}
		if got != row.want || IsNoEndpoints(err) != (row.want == none) {
			t.Errorf("%s: got %s, want %s", row.where, got, row.want)
		}
	}
}
