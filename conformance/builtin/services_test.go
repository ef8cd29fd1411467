package builtin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/keelson-io/keelson/internal/testpeers"
)

// This file is what services get, keep and give back: their addresses and ports of nodes.

// turn is a request about one service: its spec, or a patch of it.
type turn struct {
	spec  m      // of a service that is created, or put in place of what is there
	patch m      // a merge patch of the spec
	gone  bool   // it is deleted
	query string // of the request
	put   bool
}

// tales are turns, each about a service of its own; it is deleted in the end.
var tales = map[string][]turn{
	"address":           {{spec: web()}, {spec: web(), put: true}, {patch: m{"clusterIP": nil}}, {patch: m{"clusterIP": nil, "clusterIPs": nil}}, {patch: m{"clusterIP": "10.0.0.77"}}, {patch: m{"clusterIP": ""}}, {patch: m{"clusterIPs": []string{}}}, {gone: true}},
	"asked":             {{spec: web(m{"clusterIP": "10.0.0.20"})}, {patch: m{"selector": m{"a": "b"}}}, {gone: true}, {spec: web(m{"clusterIP": "10.0.0.20"})}},
	"taken":             {{spec: web(m{"clusterIP": "10.0.0.1"})}},
	"outside":           {{spec: web(m{"clusterIP": "10.1.0.1"})}, {spec: web(m{"clusterIP": "10.0.0.0"})}, {spec: web(m{"clusterIP": "10.0.255.255"})}, {spec: web(m{"clusterIP": "10.0.255.255"}), query: "?dryRun=All"}},
	"no-address":        {{spec: web(m{"clusterIP": "here"})}, {spec: web(m{"clusterIP": "010.0.0.1"})}, {spec: web(m{"clusterIPs": []string{"10.0.0.30"}})}, {spec: web(m{"clusterIP": "10.0.0.30", "clusterIPs": []string{"10.0.0.31"}})}, {spec: web(m{"clusterIP": "10.0.0.30", "clusterIPs": []string{"10.0.0.30", "10.0.0.31"}})}, {spec: web(m{"clusterIP": "10.0.0.30", "clusterIPs": []string{"10.0.0.30", "fd00::1"}})}, {spec: web(m{"clusterIP": "None", "clusterIPs": []string{"None", "10.0.0.30"}})}, {spec: web(m{"clusterIP": "fd00::1"})}},
	"families":          {{spec: web(m{"ipFamilies": []string{"IPv6"}})}, {spec: web(m{"ipFamilies": []string{"IPv4", "IPv4"}})}, {spec: web(m{"ipFamilies": []string{"IPv4", "IPv6"}})}, {spec: web(m{"ipFamilies": []string{"IPv5"}})}, {spec: web(m{"ipFamilies": []string{"IPv6"}, "clusterIP": "10.0.0.30"})}, {spec: web(m{"ipFamilies": []string{"IPv4"}})}, {patch: m{"ipFamilies": nil}}, {patch: m{"ipFamilies": []string{"IPv6"}}}, {patch: m{"ipFamilies": []string{"IPv4", "IPv6"}}}},
	"policy":            {{spec: web(m{"ipFamilyPolicy": "RequireDualStack"})}, {spec: web(m{"ipFamilyPolicy": "Any"})}, {spec: web(m{"ipFamilyPolicy": "PreferDualStack", "ipFamilies": []string{"IPv4", "IPv6"}})}, {spec: web(m{"ipFamilyPolicy": "PreferDualStack"})}, {patch: m{"ipFamilyPolicy": nil}}, {patch: m{"selector": m{"a": "c"}}}, {patch: m{"ipFamilyPolicy": "RequireDualStack"}}, {patch: m{"ipFamilyPolicy": "SingleStack"}}},
	"headless":          {{spec: web(m{"clusterIP": "None"})}, {patch: m{"selector": nil}}, {patch: m{"ipFamilyPolicy": "PreferDualStack"}}, {patch: m{"clusterIP": "10.0.0.40"}}, {patch: m{"clusterIP": ""}}, {patch: m{"type": "NodePort"}}, {patch: m{"ports": nil}}},
	"headless-loose":    {{spec: web(m{"clusterIP": "None", "selector": nil})}, {patch: m{"ipFamilies": nil}}, {patch: m{"ipFamilyPolicy": "SingleStack"}}, {patch: m{"ipFamilyPolicy": "SingleStack", "ipFamilies": []string{"IPv6"}}}, {patch: m{"type": "ExternalName", "externalName": "a.io"}}},
	"external-name":     {{spec: m{"type": "ExternalName", "externalName": "a.io"}}, {patch: m{"clusterIP": "10.0.0.41"}}, {patch: m{"ipFamilies": []string{"IPv4"}, "ipFamilyPolicy": "SingleStack"}}, {patch: m{"type": "ClusterIP"}}, {patch: m{"type": "ClusterIP", "ports": ports(1)}}, {patch: m{"type": "ExternalName"}}, {patch: m{"type": "ClusterIP", "clusterIP": "10.0.0.41"}}, {patch: m{"type": "ExternalName", "clusterIP": nil}}, {patch: m{"type": "NodePort"}}, {patch: m{"type": "ExternalName"}}, {patch: m{"externalName": "."}}},
	"node-port":         {{spec: web(m{"type": "NodePort"})}, {spec: web(m{"type": "NodePort"}), put: true}, {patch: m{"ports": ports(2)}}, {patch: m{"ports": []m{{"port": 81, "name": "p1", "nodePort": 30005}, {"port": 80, "name": "p0"}}}}, {patch: m{"type": "ClusterIP"}}, {patch: m{"type": "NodePort"}}, {patch: m{"type": "LoadBalancer"}}, {patch: m{"type": "ClusterIP", "ports": []m{{"port": 80, "nodePort": 30006}}}}, {patch: m{"type": "ExternalName", "externalName": "a.io"}}, {patch: m{"type": "NodePort"}}},
	"node-port-asked":   {{spec: web(m{"type": "NodePort", "ports": []m{{"port": 80, "nodePort": 30007}}})}, {patch: m{"ports": []m{{"port": 80, "nodePort": 30008, "protocol": "TCP"}}}}, {patch: m{"ports": []m{{"port": 80, "nodePort": 29999, "protocol": "TCP"}}}}, {patch: m{"ports": []m{{"port": 80, "nodePort": 30007, "protocol": "TCP"}}}}, {patch: m{"ports": []m{{"name": "a", "port": 80, "nodePort": 30007, "protocol": "TCP"}, {"name": "b", "port": 81, "nodePort": 30007, "protocol": "TCP"}}}}},
	"node-port-outside": {{spec: web(m{"type": "NodePort", "ports": []m{{"port": 80, "nodePort": 29999}}})}, {spec: web(m{"type": "NodePort", "ports": []m{{"port": 80, "nodePort": 29999}}}), query: "?dryRun=All"}, {spec: web(m{"type": "NodePort", "ports": []m{{"port": 80, "nodePort": 99999}}})}, {spec: web(m{"type": "NodePort", "ports": []m{{"port": 80, "nodePort": -1}}})}, {spec: web(m{"ports": []m{{"port": 80, "nodePort": 30009}}})}},
	"node-port-twice":   {{spec: web(m{"type": "NodePort", "ports": []m{{"name": "a", "port": 80, "nodePort": 30010}, {"name": "b", "port": 81, "nodePort": 30010}}})}, {spec: web(m{"type": "NodePort", "ports": []m{{"name": "a", "port": 80, "nodePort": 30010}, {"name": "b", "port": 80, "nodePort": 30010, "protocol": "UDP"}}})}, {gone: true}, {spec: web(m{"type": "NodePort", "ports": []m{{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}}})}, {gone: true}, {spec: web(m{"type": "NodePort", "ports": []m{{"name": "a", "port": 53, "nodePort": 30012}, {"name": "b", "port": 53, "protocol": "UDP", "nodePort": 30013}}})}},
	"balancer":          {{spec: web(m{"type": "LoadBalancer"})}, {patch: m{"externalTrafficPolicy": "Local"}}, {patch: m{"healthCheckNodePort": 30020}}, {patch: m{"healthCheckNodePort": nil}}, {patch: m{"loadBalancerClass": "a.io/b"}}, {patch: m{"externalTrafficPolicy": "Cluster"}}, {patch: m{"type": "ClusterIP"}}, {patch: m{"type": "LoadBalancer", "loadBalancerClass": "a.io/b", "externalTrafficPolicy": "Local"}}, {patch: m{"loadBalancerClass": "a.io/c"}}, {patch: m{"type": "NodePort"}}, {patch: m{"type": "ExternalName", "externalName": "a.io"}}},
	"balancer-health":   {{spec: web(m{"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30021})}, {spec: web(m{"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30021}), query: "?dryRun=All"}, {gone: true}, {spec: web(m{"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 29000})}, {spec: web(m{"type": "LoadBalancer", "healthCheckNodePort": 30021})}, {spec: web(m{"type": "LoadBalancer", "externalTrafficPolicy": "Local"}), query: "?dryRun=All"}},
	"balancer-bare":     {{spec: web(m{"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false})}, {patch: m{"ports": ports(2)}}, {patch: m{"allocateLoadBalancerNodePorts": true}}, {patch: m{"allocateLoadBalancerNodePorts": false}}, {patch: m{"ports": []m{{"name": "p0", "port": 80}}}}, {patch: m{"allocateLoadBalancerNodePorts": nil}}, {patch: m{"type": "ClusterIP"}}},
	"dry":               {{spec: web(m{"type": "NodePort", "ports": ports(2)}), query: "?dryRun=All"}, {spec: web(m{"type": "NodePort", "ports": []m{{"name": "a", "port": 80, "nodePort": 30015}, {"name": "b", "port": 81}}}), query: "?dryRun=All"}, {spec: web(m{"clusterIP": "10.0.0.1"}), query: "?dryRun=All"}, {spec: web()}, {patch: m{"type": "NodePort"}, query: "?dryRun=All"}, {patch: m{"type": "ExternalName", "externalName": "a.io"}, query: "?dryRun=All"}},
	"rules": {{spec: m{}}, {spec: web(m{"ports": []m{{"port": 0}}})}, {spec: web(m{"ports": []m{{"port": 80}, {"port": 81}}})}, {spec: web(m{"ports": []m{{"name": "a", "port": 80}, {"name": "a", "port": 80, "protocol": "TCP", "targetPort": "_"}}})}, {spec: web(m{"ports": []m{{"port": 80, "protocol": "X", "targetPort": 70000, "appProtocol": "a b"}}})},
		{spec: web(m{"type": "None"})}, {spec: web(m{"sessionAffinity": "X"})}, {spec: web(m{"sessionAffinity": "ClientIP", "sessionAffinityConfig": m{"clientIP": m{"timeoutSeconds": 0}}})}, {spec: web(m{"externalIPs": []string{"127.0.0.1", "x", "0.0.0.0", "169.254.1.1", "010.0.0.1", "192.0.2.7"}})}, {spec: web(m{"externalIPs": []string{"192.0.2.7"}}), query: "?dryRun=All"},
		{spec: web(m{"loadBalancerSourceRanges": []string{"10.0.0.0/8", "x"}})}, {spec: web(m{"type": "LoadBalancer", "loadBalancerSourceRanges": []string{" 10.0.0.1/8", "x"}}), query: "?dryRun=All"}, {spec: web(m{"allocateLoadBalancerNodePorts": true, "loadBalancerClass": "a", "externalTrafficPolicy": "Local", "healthCheckNodePort": 5})}, {spec: web(m{"type": "LoadBalancer", "loadBalancerClass": "a b/", "externalTrafficPolicy": "X", "internalTrafficPolicy": "Y"})},
		{spec: web(m{"trafficDistribution": "X", "selector": m{"a b": "c d"}})}, {spec: web(m{"trafficDistribution": "PreferClose"}), query: "?dryRun=All"}, {spec: m{"type": "ExternalName"}}, {spec: m{"type": "ExternalName", "externalName": "a_b", "clusterIP": "10.0.0.50", "ipFamilies": []string{"IPv4"}, "ipFamilyPolicy": "SingleStack"}}, {spec: web(m{"clusterIP": "None", "loadBalancerIP": "1.2.3.4", "externalIPs": []string{"192.0.2.7"}, "sessionAffinity": "ClientIP", "externalName": "a.io"}), query: "?dryRun=All"}},
}

// web is the spec of a service with one port, and more.
func web(more ...m) m {
	spec := m{"ports": ports(1), "selector": m{"a": "b"}}
	for _, add := range more {
		for k, v := range add {
			spec[k] = v
		}
	}
	return spec
}

// ports are n ports.
func ports(n int) []m {
	var all []m
	for i := range n {
		all = append(all, m{"name": fmt.Sprintf("p%d", i), "port": 80 + i, "protocol": "TCP", "targetPort": 8080})
	}
	return all
}

// services tells the tales to both servers.
func (r *run) services() {
	const all = "/api/v1/namespaces/default/services"
	r.ask("services", "default range", &request{method: "GET", path: "/apis/networking.k8s.io/v1/servicecidrs/kubernetes"})
	var names []string
	for name := range tales {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		r.same.given = new(testpeers.Pairs)
		one := all + "/" + name
		for i, turn := range tales[name] {
			step := fmt.Sprintf("%s %d", name, i)
			object := m{"apiVersion": "v1", "kind": "Service", "metadata": m{"name": name}, "spec": turn.spec}
			switch {
			case turn.gone:
				r.ask("services", step, &request{method: "DELETE", path: one})
			case turn.put:
				r.ask("services", step, &request{method: "PUT", path: one + turn.query, body: object})
			case turn.patch != nil:
				r.ask("services", step, &request{method: "PATCH", path: one + turn.query, body: m{"spec": turn.patch}, kind: mergePatch})
			default:
				r.ask("services", step, &request{method: "POST", path: all + turn.query, body: object})
			}
			r.addresses(step)
		}
		r.ask("services", name+" end", &request{method: "DELETE", path: one})
		r.addresses(name + " end")
	}
}

// addresses compares which addresses are taken.
func (r *run) addresses(step string) {
	r.t.Helper()
	var said [2]string
	for side := range r.peers {
		var list networkingv1.IPAddressList
		r.read(side, "/apis/networking.k8s.io/v1/ipaddresses?labelSelector=ipaddress.kubernetes.io%2Fmanaged-by%3Dipallocator.k8s.io", &list)
		var lines []string
		for _, a := range list.Items {
			managers := ""
			for _, e := range a.ManagedFields {
				managers += fmt.Sprint(e.Manager, e.Operation, e.FieldsV1)
			}
			spec, err := json.Marshal(a.Spec)
			if err != nil {
				r.t.Fatal(err)
			}
			lines = append(lines, fmt.Sprint(string(spec), a.Labels, managers, r.same.text(side, a.Name, "", "")))
		}
		slices.Sort(lines)
		said[side] = strings.Join(lines, "\n")
	}
	r.requests++
	if said[0] != said[1] {
		r.differ++
		r.unintended++
		r.t.Errorf("services %s: addresses of upstream\n%s\nof keelson\n%s", step, said[0], said[1])
	}
}
