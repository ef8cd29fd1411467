package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/keelson-io/keelson/internal/controller/servicecidr"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/etcd"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file tests what services get; that they get it as kube-apiserver gives it is
// conformance/builtin's to show.

const (
	servicesPath  = "/api/v1/namespaces/default/services"
	addressesPath = "/apis/networking.k8s.io/v1/ipaddresses"
)

// service asks for a service and returns what there is then.
func (r *running) service(method, path, body string, headers ...string) *corev1.Service {
	r.t.Helper()
	s := new(corev1.Service)
	if err := json.Unmarshal([]byte(r.must(method, path, body, headers...)), s); err != nil {
		r.t.Fatal(err)
	}
	return s
}

// addresses returns the reserved addresses with their owners.
func (r *running) addresses() string {
	r.t.Helper()
	var list networkingv1.IPAddressList
	if err := json.Unmarshal([]byte(r.must("GET", addressesPath, "")), &list); err != nil {
		r.t.Fatal(err)
	}
	var all []string
	for _, a := range list.Items {
		all = append(all, a.Name+" "+a.Spec.ParentRef.Namespace+"/"+a.Spec.ParentRef.Name)
	}
	return strings.Join(all, ", ")
}

// written returns the keys of the store and the revisions of their last writes, but those that a server writes by itself after its start.
func written(t *testing.T, st store.Store) string {
	t.Helper()
	page, err := st.List(t.Context(), "/registry/", store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, o := range page.Items {
		if key := o.Key; !strings.Contains(key, "role") && !strings.HasPrefix(key, "/registry/configmaps/") {
			all = append(all, fmt.Sprint(key, " ", o.Rev))
		}
	}
	return strings.Join(all, ", ")
}

// serviceText returns a service with a spec.
func serviceText(name, spec string) string {
	return `{"apiVersion":"v1","kind":"Service","metadata":{"name":"` + name + `"},"spec":{"ports":[{"port":80}],` + spec + `"selector":{"a":"b"}}}`
}

// TestServicesGetAddresses holds that Services get addresses and ports, keep them, and release
// them.
func TestServicesGetAddresses(t *testing.T) {
	st := mem.New(mem.Options{})
	r := start(t, Config{Store: st, ServiceClusterIPRange: "10.9.8.0/29", ServiceNodePortRange: "31000-31001", EndpointReconciler: "none"})
	r.until("the server's own service is there", func() bool {
		code, _ := r.call(r.client, "GET", servicePath, "")
		return code == 200
	})
	r.until("the default range is ready", func() bool {
		cidr := r.must("GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", "")
		return strings.Contains(cidr, `"cidrs":["10.9.8.0/29"]`) && strings.Contains(cidr, `"message":"Kubernetes Service CIDR is ready"`)
	})
	const own = "10.9.8.1 default/kubernetes"
	if got := r.addresses(); got != own {
		t.Errorf("at first: %s", got)
	}
	a := r.service("POST", servicesPath, serviceText("a", ""))
	if a.Spec.ClusterIP == "" || !slices.Equal(a.Spec.ClusterIPs, []string{a.Spec.ClusterIP}) || !slices.Equal(a.Spec.IPFamilies, []corev1.IPFamily{"IPv4"}) || *a.Spec.IPFamilyPolicy != "SingleStack" {
		t.Errorf("got %+v", a.Spec)
	}
	if kept := r.service("PUT", servicesPath+"/a", serviceText("a", "")); kept.Spec.ClusterIP != a.Spec.ClusterIP {
		t.Errorf("an update without an address: %s, was %s", kept.Spec.ClusterIP, a.Spec.ClusterIP)
	}
	code, text := r.call(r.client, "POST", servicesPath, serviceText("b", `"clusterIP":"`+a.Spec.ClusterIP+`",`))
	if want := fmt.Sprintf(`spec.clusterIPs: Invalid value: [\"%s\"]: failed to allocate IP %s: provided IP is already allocated`, a.Spec.ClusterIP, a.Spec.ClusterIP); code != 422 || !strings.Contains(text, want) {
		t.Errorf("got %d %s, want %s", code, text, want)
	}
	r.service("PATCH", servicesPath+"/a", `{"spec":{"type":"NodePort"}}`, "Content-Type", mergePatch)
	code, text = r.call(r.client, "POST", servicesPath, serviceText("b", `"type":"LoadBalancer","externalTrafficPolicy":"Local",`))
	if code != 500 || !strings.Contains(text, "failed to allocate a HealthCheck NodePort") {
		t.Errorf("without a port for health checks: got %d %s", code, text)
	}
	// What was taken for it is free again: an address, and one of the two ports.
	b := r.service("POST", servicesPath, serviceText("b", `"type":"NodePort",`))
	if got := strings.Count(r.addresses(), "default/"); got != 3 || b.Spec.Ports[0].NodePort == 0 {
		t.Errorf("got %+v and %d addresses: %s", b.Spec, got, r.addresses())
	}
	code, text = r.call(r.client, "POST", servicesPath, serviceText("c", `"type":"NodePort",`))
	if code != 500 || !strings.Contains(text, "failed to allocate a nodePort: range is full") {
		t.Errorf("without a port: got %d %s", code, text)
	}
	before := written(t, st)
	if dry := r.service("POST", servicesPath+"?dryRun=All", serviceText("c", `"type":"NodePort",`)); dry.Spec.ClusterIP != "10.9.8.0" || dry.Spec.Ports[0].NodePort != 32769 {
		t.Errorf("a dry run: %+v", dry.Spec)
	}
	if after := written(t, st); after != before {
		t.Errorf("a dry run wrote: got %s, was %s", after, before)
	}
	gone := r.service("PATCH", servicesPath+"/a", `{"spec":{"type":"ExternalName","externalName":"a.io"}}`, "Content-Type", mergePatch)
	if gone.Spec.ClusterIP != "" || gone.Spec.Ports[0].NodePort != 0 || strings.Contains(r.addresses(), "default/a") {
		t.Errorf("of a name elsewhere: %+v, %s", gone.Spec, r.addresses())
	}
	r.must("DELETE", servicesPath+"/b", "")
	if got := r.addresses(); got != own {
		t.Errorf("in the end: %s", got)
	}
	for range 2 {
		r.service("POST", servicesPath, `{"metadata":{"generateName":"n-","finalizers":["a.io/b"]},"spec":{"type":"NodePort","ports":[{"port":80}]}}`)
	}
	r.must("DELETE", servicesPath, "")
	if got := strings.Count(r.addresses(), "default/n-"); got != 2 {
		t.Errorf("%d addresses of services that wait for a finalizer, want 2", got)
	}
	var list corev1.ServiceList
	if err := json.Unmarshal([]byte(r.must("GET", servicesPath, "")), &list); err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Items {
		if len(s.Finalizers) > 0 {
			r.must("PATCH", servicesPath+"/"+s.Name+"/status", `{"metadata":{"finalizers":null}}`, "Content-Type", mergePatch)
		}
	}
	r.until("the last address is free", func() bool { return !strings.Contains(r.addresses(), "default/n-") })
	r.service("POST", servicesPath, serviceText("all", `"type":"LoadBalancer","externalTrafficPolicy":"Local",`))
}

// TestDualStack holds that services get addresses of both families if there are two ranges, and
// release the second one.
func TestDualStack(t *testing.T) {
	// The store was used with one range. The second one is new.
	st := mem.New(mem.Options{})
	for key, value := range map[string]string{
		"servicecidrs/kubernetes": `{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"kubernetes","uid":"1","creationTimestamp":"2020-01-01T00:00:00Z"},` +
			`"spec":{"cidrs":["10.9.8.0/29"]},"status":{"conditions":[{"type":"Ready","status":"True","reason":"","message":"","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`,
		"services/specs/default/old": `{"apiVersion":"v1","kind":"Service","metadata":{"name":"old","namespace":"default","uid":"2","creationTimestamp":"2020-01-01T00:00:00Z"},` +
			`"spec":{"type":"ClusterIP","clusterIP":"10.9.8.2","clusterIPs":["10.9.8.2"],"ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","ports":[{"port":80,"protocol":"TCP","targetPort":80}],` +
			`"selector":{"a":"b"},"sessionAffinity":"None","internalTrafficPolicy":"Cluster"}}`,
	} {
		if _, err := st.Create(context.Background(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	r := start(t, Config{Store: st, ServiceClusterIPRange: "10.9.8.0/29,fd00::/125", EndpointReconciler: "none"})
	r.until("the second range is in the default ServiceCIDR", func() bool {
		_, text := r.call(r.client, "GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", "")
		return strings.Contains(text, `"cidrs":["10.9.8.0/29","fd00::/125"]`)
	})
	families := func(s *corev1.Service) string {
		var of []string
		for _, ip := range s.Spec.ClusterIPs {
			if strings.HasPrefix(ip, "fd00::") {
				of = append(of, "IPv6")
			} else if strings.HasPrefix(ip, "10.9.8.") {
				of = append(of, "IPv4")
			}
		}
		return fmt.Sprint(of, s.Spec.IPFamilies, s.Spec.ClusterIP == s.Spec.ClusterIPs[0])
	}
	for _, c := range []struct{ name, method, spec, want string }{
		// First, because those that follow get any address that is free.
		{"turned", "POST", `"ipFamilyPolicy":"PreferDualStack","clusterIP":"fd00::6",`, "[IPv6 IPv4] [IPv6 IPv4] true"},
		{"single", "POST", "", "[IPv4] [IPv4] true"},
		{"six", "POST", `"ipFamilies":["IPv6"],`, "[IPv6] [IPv6] true"},
		{"both", "POST", `"ipFamilyPolicy":"RequireDualStack",`, "[IPv4 IPv6] [IPv4 IPv6] true"},
		{"old", "PUT", `"ipFamilyPolicy":"PreferDualStack",`, "[IPv4 IPv6] [IPv4 IPv6] true"},
		{"both", "PUT", `"ipFamilyPolicy":"SingleStack",`, "[IPv4] [IPv4] true"},
	} {
		path := servicesPath
		if c.method == "PUT" {
			path += "/" + c.name
		}
		s := r.service(c.method, path, serviceText(c.name, c.spec))
		if got := families(s); got != c.want {
			t.Errorf("%s %s %s: got %s, want %s: %v", c.method, c.name, c.spec, got, c.want, s.Spec.ClusterIPs)
		}
		for _, ip := range s.Spec.ClusterIPs {
			if !strings.Contains(r.addresses(), ip+" default/"+c.name) {
				t.Errorf("%s: %s is not reserved: %s", c.name, ip, r.addresses())
			}
		}
	}
	if got := strings.Count(r.addresses(), "default/both"); got != 1 {
		t.Errorf("a service of one family has %d addresses: %s", got, r.addresses())
	}
	// The range of IPv4 has one address left. A service that cannot get its second address must
	// release the first.
	code, text := r.call(r.client, "POST", servicesPath, serviceText("taken", `"ipFamilyPolicy":"RequireDualStack","clusterIPs":["10.9.8.6","fd00::6"],"clusterIP":"10.9.8.6",`))
	if code != 422 || !strings.Contains(text, "failed to allocate IP fd00::6: provided IP is already allocated") && !strings.Contains(text, "failed to allocate IP 10.9.8.6") {
		t.Errorf("got %d %s", code, text)
	}
	if strings.Contains(r.addresses(), "default/taken") {
		t.Errorf("a refused service has an address: %s", r.addresses())
	}
	r.must("DELETE", servicesPath+"/turned", "")
	if strings.Contains(r.addresses(), "default/turned") {
		t.Errorf("a deleted service has an address: %s", r.addresses())
	}
}

// TestServicesAreTakenOver holds that unrecorded addresses and ports of existing Services are not
// given to others, and recorded ones without a Service are released.
// Ledger: service-repair.
func TestServicesAreTakenOver(t *testing.T) {
	st, ctx := mem.New(mem.Options{}), context.Background()
	put := func(key, value string) {
		if _, err := st.Create(ctx, key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	put("services/specs/default/old", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"old","namespace":"default","uid":"1","creationTimestamp":"2020-01-01T00:00:00Z"},`+
		`"spec":{"type":"NodePort","clusterIP":"10.9.8.2","ports":[{"port":80,"protocol":"TCP","targetPort":80,"nodePort":31000}],"sessionAffinity":"None","externalTrafficPolicy":"Cluster","internalTrafficPolicy":"Cluster"}}`)
	put("ipaddresses/10.9.8.3", `{"apiVersion":"networking.k8s.io/v1","kind":"IPAddress","metadata":{"name":"10.9.8.3","uid":"2","creationTimestamp":"2020-01-01T00:00:00Z",`+
		`"labels":{"ipaddress.kubernetes.io/managed-by":"ipallocator.k8s.io","ipaddress.kubernetes.io/ip-family":"IPv4"}},"spec":{"parentRef":{"resource":"services","namespace":"default","name":"none"}}}`)
	put("ipaddresses/10.9.8.4", `{"apiVersion":"networking.k8s.io/v1","kind":"IPAddress","metadata":{"name":"10.9.8.4","uid":"3","creationTimestamp":"2020-01-01T00:00:00Z"},`+
		`"spec":{"parentRef":{"resource":"gateways","group":"a.io","name":"g"}}}`)
	// As kube-apiserver has it, of a range that was another one: 30999, 31001.
	all := corev1.RangeAllocation{Range: "30999-31001", Data: []byte{5}}
	raw, err := all.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	put("ranges/servicenodeports", "k8s\x00\n\x15\n\x02v1\x12\x0fRangeAllocation\x12"+string(rune(len(raw)))+string(raw))
	r := start(t, Config{Store: st, ServiceClusterIPRange: "10.9.8.0/29", ServiceNodePortRange: "31000-31001", EndpointReconciler: "none"})
	const want = "10.9.8.1 default/kubernetes, 10.9.8.2 default/old, 10.9.8.4 /g"
	r.until("addresses are right", func() bool { return r.addresses() == want })
	if code, text := r.call(r.client, "POST", servicesPath, serviceText("a", `"type":"NodePort",`)); code != 500 || !strings.Contains(text, "range is full") {
		t.Errorf("both ports are taken: got %d %s", code, text)
	}
	if _, err := st.Get(ctx, "ranges/servicenodeports"); err != nil {
		t.Fatal(err)
	}
	if got := r.addresses(); got != want {
		t.Errorf("got %s", got)
	}
	// An address that a client takes from a service comes back.
	r.must("DELETE", addressesPath+"/10.9.8.2", "")
	r.until("the address is back", func() bool { return r.addresses() == want })
	r.until("the controller protects the default range", func() bool {
		_, text := r.call(r.client, "GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", "")
		return strings.Contains(text, servicecidr.Finalizer)
	})
	r.must("DELETE", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", "")
	r.until("the default range stays, because services have addresses of it", func() bool {
		_, text := r.call(r.client, "GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", "")
		return strings.Contains(text, `"reason":"Terminating"`) && strings.Contains(text, servicecidr.Finalizer)
	})
	// Another range is one more.
	r.must("POST", "/apis/networking.k8s.io/v1/servicecidrs", `{"metadata":{"name":"more"},"spec":{"cidrs":["10.9.9.0/30","fd00::/120"]}}`)
	if got := r.service("POST", servicesPath, serviceText("b", `"clusterIP":"10.9.9.2",`)); got.Spec.ClusterIP != "10.9.9.2" {
		t.Errorf("got %s", got.Spec.ClusterIP)
	}
}

// TestWhatNobodyHasIsGivenBack holds that an address and a port reserved for a Service that was
// never stored are released.
// Ledger: service-repair.
func TestWhatNobodyHasIsGivenBack(t *testing.T) {
	st := mem.New(mem.Options{})
	r := startWith(t, Config{Store: st, ServiceClusterIPRange: "10.9.8.0/30", ServiceNodePortRange: "31000-31000", EndpointReconciler: "none"}, func(s *Server) {
		s.allocator.Patience = 300 * time.Millisecond
	})
	r.until("the server's own service is there", func() bool {
		code, _ := r.call(r.client, "GET", servicePath, "")
		return code == 200
	})
	// As a server leaves it that ends while it stores a service.
	r.must("POST", addressesPath, `{"metadata":{"name":"10.9.8.2","labels":{"ipaddress.kubernetes.io/managed-by":"ipallocator.k8s.io","ipaddress.kubernetes.io/ip-family":"IPv4"}},`+
		`"spec":{"parentRef":{"resource":"services","namespace":"default","name":"a"}}}`)
	a := r.service("POST", servicesPath, `{"metadata":{"name":"a"},"spec":{"type":"ExternalName","externalName":"a.io"}}`)
	ctx := context.Background()
	item, err := st.Get(ctx, "ranges/servicenodeports")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := (&corev1.RangeAllocation{Range: "31000-31000", Data: []byte{1}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Update(ctx, item.Key, []byte("k8s\x00\n\x15\n\x02v1\x12\x0fRangeAllocation\x12"+string(rune(len(raw)))+string(raw)), item.Rev); err != nil {
		t.Fatal(err)
	}
	spec := `{"spec":{"type":"NodePort","ports":[{"port":80}]}}`
	if code, text := r.call(r.client, "PATCH", servicesPath+"/a", spec, "Content-Type", mergePatch); code != 500 || !strings.Contains(text, "range is full") {
		t.Errorf("at once: got %d %s", code, text)
	}
	r.until("both are free", func() bool {
		code, text := r.call(r.client, "PATCH", servicesPath+"/a", spec, "Content-Type", mergePatch)
		return code == 200 && json.Unmarshal([]byte(text), a) == nil && a.Spec.ClusterIP == "10.9.8.2" && a.Spec.Ports[0].NodePort == 31000
	})
	if got := r.addresses(); got != "10.9.8.1 default/kubernetes, 10.9.8.2 default/a" {
		t.Errorf("got %s", got)
	}
}

// TestServersShareAddresses holds that servers with one store never assign an address or port
// twice, and can assign all of them.
func TestServersShareAddresses(t *testing.T) {
	url := sharedEtcd(t)
	var servers []*running
	for range 3 {
		servers = append(servers, start(t, Config{DataDir: t.TempDir(), EtcdServers: []string{url}, ServiceClusterIPRange: "10.9.8.0/27", ServiceNodePortRange: "31000-31024", EndpointReconciler: "none"}))
	}
	for i, r := range servers {
		r.until(fmt.Sprintf("server %d sees the service", i), func() bool {
			code, _ := r.call(r.client, "GET", servicePath, "")
			return code == 200
		})
	}
	for _, c := range []struct {
		spec                   string
		services, given, ports int
	}{{"", 33, 29, 0}, {`"type":"NodePort",`, 28, 25, 25}, {"", 33, 29, 0}} {
		var mu sync.Mutex
		var wg sync.WaitGroup
		ips, ports, full := map[string]string{}, map[int32]string{}, 0
		for i := range c.services {
			r := servers[i%len(servers)]
			wg.Go(func() {
				name := fmt.Sprintf("s%d", i)
				code, text := r.call(r.client, "POST", servicesPath, serviceText(name, c.spec))
				var s corev1.Service
				mu.Lock()
				defer mu.Unlock()
				if code != http.StatusCreated {
					if full++; !strings.Contains(text, "range is full") {
						t.Errorf("%s: %d %s", name, code, text)
					}
					return
				}
				if err := json.Unmarshal([]byte(text), &s); err != nil {
					t.Error(err)
				}
				if other := ips[s.Spec.ClusterIP]; other != "" {
					t.Errorf("%s has the address of %s", name, other)
				}
				ips[s.Spec.ClusterIP] = name
				if p := s.Spec.Ports[0].NodePort; p != 0 {
					if other := ports[p]; other != "" {
						t.Errorf("%s has the port of %s", name, other)
					}
					ports[p] = name
				}
			})
		}
		wg.Wait()
		// One of 30 addresses is the server's own; of 25 ports none.
		if len(ips) != c.given || len(ports) != c.ports || full != c.services-c.given {
			t.Errorf("%+v: %d addresses, %d ports, %d refusals", c, len(ips), len(ports), full)
		}
		for i := range c.services {
			servers[(i+1)%len(servers)].call(servers[(i+1)%len(servers)].client, "DELETE", fmt.Sprintf("%s/s%d", servicesPath, i), "")
		}
	}
	if got := servers[0].addresses(); got != "10.9.8.1 default/kubernetes" {
		t.Errorf("in the end: %s", got)
	}
	st, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{url}, Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if item, err := st.Get(t.Context(), "ranges/servicenodeports"); err != nil || !strings.Contains(string(item.Value), "31000-31024") {
		t.Errorf("ports: %q %v", item.Value, err)
	}
}
