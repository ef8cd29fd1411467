package e2e

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// This file makes the services that webhooks are behind, and asks for conversions by a webhook behind a service.

// hookServices makes services for the webhooks at a port of this host: by an external name, and by endpoints.
func (x *hooked) hookServices(t *testing.T, port string) {
	t.Helper()
	const services, slices = "/api/v1/namespaces/default/services", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	make := func(path, name, text string) {
		x.do(t, 201, "POST", path, []byte(text))
		t.Cleanup(func() { x.do(t, 200, "DELETE", path+"/"+name, nil) })
	}
	for name, spec := range map[string]string{
		"hooks":    `{"type":"ExternalName","externalName":"localhost"}`,
		"impostor": `{"type":"ExternalName","externalName":"localhost"}`,
		"inside":   `{"ports":[{"name":"web","port":443}]}`,
		"unready":  `{"ports":[{"name":"web","port":443}]}`,
		"headless": `{"clusterIP":"None","ports":[{"port":443}]}`,
	} {
		make(services, name, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"`+name+`"},"spec":`+spec+`}`)
	}
	address, to := forwarded(t, "127.0.0.1:"+port)
	for name, endpoints := range map[string]string{
		"inside":  `[{"addresses":["192.0.2.1"],"conditions":{"ready":false}},{"addresses":["` + address + `"]}]`,
		"unready": `[{"addresses":["` + address + `"],"conditions":{"ready":false}}]`,
	} {
		make(slices, name, `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"`+name+`","labels":{"kubernetes.io/service-name":"`+name+`"}},
			"addressType":"IPv4","ports":[{"name":"web","port":`+to+`}],"endpoints":`+endpoints+`}`)
	}
	// As in Kubernetes, the loopback address is not an endpoint: a user of a namespace must not reach what only listens there.
	a := x.send(t, "POST", slices, `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"own"},"addressType":"IPv4","endpoints":[{"addresses":["127.0.0.1"]}]}`)
	if a.code != 422 || !strings.Contains(a.message, "may not be in the loopback range") {
		t.Errorf("a slice with a loopback address: got %d %s", a.code, a.body)
	}
}

// forwarded listens at an address of this host that is not a loopback address, and connects clients to another address.
func forwarded(t *testing.T, to string) (address, port string) {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			address = n.IP.String()
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				go func() { io.Copy(out, in); out.Close() }()
				io.Copy(in, out)
			}()
		}
	}()
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return address, port
}

// webhookConversions converts with a webhook behind a service.
func (x *hooked) webhookConversions(t *testing.T) {
	const definitions, gears = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/namespaces/default/gears"
	x.do(t, 201, "POST", definitions, fmt.Appendf(nil, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gears.demo.io"},"spec":{
		"group":"demo.io","scope":"Namespaced","names":{"plural":"gears","kind":"Gear"},
		"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"service":{"namespace":"default","name":"converts"},%s}}},"versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},
		{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, x.hooks.bundle()))
	defer x.do(t, 200, "DELETE", definitions+"/gears.demo.io", nil)
	x.do(t, 201, "POST", "/apis/demo.io/v1"+gears, []byte(`{"apiVersion":"demo.io/v1","kind":"Gear","metadata":{"name":"a"}}`))
	a := x.send(t, "GET", "/apis/demo.io/v2"+gears+"/a", "")
	if want := `conversion webhook for demo.io/v1, Kind=Gear failed: Post "https://converts.default.svc:443/?timeout=30s": service "converts" not found`; a.code != 500 || a.message != want {
		t.Errorf("got %d %s, want %s", a.code, a.body, want)
	}
}
