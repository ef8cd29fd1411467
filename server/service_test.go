package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/controller/trust"
	"github.com/keelson-io/keelson/internal/store/etcd"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file looks at the service that stands for the server.

const (
	servicePath   = "/api/v1/namespaces/default/services/kubernetes"
	endpointsPath = "/api/v1/namespaces/default/endpoints/kubernetes"
	slicePath     = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
)

// withoutOwn returns an object as it is printed, without what differs from server to server.
func withoutOwn(t *testing.T, text string) string {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
		delete(o["metadata"].(map[string]any), name)
	}
	out, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// shows waits until an object is as wanted.
func (r *running) shows(path, want string) {
	r.t.Helper()
	var last string
	defer func() {
		if r.t.Failed() {
			r.t.Logf("last was\n%s\nwanted\n%s", last, want)
		}
	}()
	r.until(path, func() bool {
		code, text := r.call(r.client, "GET", path, "")
		if last = text; code == 200 {
			last = withoutOwn(r.t, text)
		}
		return last == want
	})
}

func endpointsText(port string, addresses ...string) string {
	return `{"apiVersion":"v1","kind":"Endpoints","metadata":{"labels":{"endpointslice.kubernetes.io/skip-mirror":"true"},"name":"kubernetes","namespace":"default"},` +
		`"subsets":[{"addresses":[{"ip":"` + strings.Join(addresses, `"},{"ip":"`) + `"}],"ports":[{"name":"https","port":` + port + `,"protocol":"TCP"}]}]}`
}

// TestServiceOfTheServer holds that default/kubernetes exists as kube-apiserver creates it, with
// endpoints, and is restored.
func TestServiceOfTheServer(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{}), ServiceClusterIPRange: "10.9.8.0/24", AdvertiseAddress: "192.0.2.1"})
	_, port, _ := net.SplitHostPort(r.Addr())
	service := `{"apiVersion":"v1","kind":"Service","metadata":{"labels":{"component":"apiserver","provider":"kubernetes"},"name":"kubernetes","namespace":"default"},` +
		`"spec":{"clusterIP":"10.9.8.1","clusterIPs":["10.9.8.1"],"internalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack",` +
		`"ports":[{"name":"https","port":443,"protocol":"TCP","targetPort":` + port + `}],"sessionAffinity":"None","type":"ClusterIP"},"status":{"loadBalancer":{}}}`
	sliceText := func(port string) string {
		return `{"addressType":"IPv4","apiVersion":"discovery.k8s.io/v1","endpoints":[{"addresses":["192.0.2.1"],"conditions":{"ready":true}}],"kind":"EndpointSlice",` +
			`"metadata":{"labels":{"kubernetes.io/service-name":"kubernetes"},"name":"kubernetes","namespace":"default"},` +
			`"ports":[{"name":"https","port":` + port + `,"protocol":"TCP"}]}`
	}
	r.shows(servicePath, service)
	r.shows(endpointsPath, endpointsText(port, "192.0.2.1"))
	r.shows(slicePath, sliceText(port))
	for _, path := range []string{servicePath, endpointsPath, slicePath} {
		if got := strings.Join(r.writers(path), "\n"); !strings.HasPrefix(got, "kube-apiserver Update  ") {
			t.Errorf("%s was written by %s", path, got)
		}
	}
	// What is deleted or spoiled is made good, but for the service, which is an administrator's to
	// change.
	r.must("DELETE", servicePath, "")
	r.shows(servicePath, service)
	const merge = "application/merge-patch+json"
	r.must("PATCH", servicePath, `{"spec":{"sessionAffinity":"ClientIP"}}`, "Content-Type", merge)
	r.must("PATCH", endpointsPath, `{"subsets":[]}`, "Content-Type", merge)
	r.shows(endpointsPath, endpointsText(port, "192.0.2.1"))
	r.must("PATCH", endpointsPath, `{"metadata":{"labels":null},"subsets":[{"addresses":[{"ip":"192.0.2.9"}],"ports":[{"name":"https","port":1,"protocol":"TCP"}]}]}`, "Content-Type", merge)
	r.shows(endpointsPath, endpointsText("1", "192.0.2.1"))
	r.shows(slicePath, sliceText("1")) // it follows the endpoints
	r.must("DELETE", endpointsPath, "")
	r.shows(endpointsPath, endpointsText(port, "192.0.2.1"))
	r.shows(slicePath, sliceText(port))
	r.must("PATCH", slicePath, `{"metadata":{"labels":{"a":"b"}},"endpoints":[]}`, "Content-Type", merge)
	r.shows(slicePath, sliceText(port))
	r.must("DELETE", slicePath, "")
	r.shows(slicePath, sliceText(port))
	if text := r.must("GET", servicePath, ""); !strings.Contains(text, `"sessionAffinity":"ClientIP"`) {
		t.Errorf("the service was put back: %s", text)
	}
}

// TestServiceWithoutEndpoints holds that the controller can be disabled, and its endpoints be
// maintained elsewhere.
// Ledger: advertise-address.
func TestServiceWithoutEndpoints(t *testing.T) {
	for _, c := range []struct {
		config Config
		code   int // of the service
	}{
		{Config{EndpointReconciler: "none"}, 200},
		{Config{AdvertiseAddress: "127.0.0.1"}, 200},
		{Config{Controllers: []string{"*", "-kubernetes-service"}}, 404},
	} {
		c.config.Store = mem.New(mem.Options{})
		r := start(t, c.config)
		r.until("the other controllers work", func() bool {
			service, _ := r.call(r.client, "GET", servicePath, "")
			account, _ := r.call(r.client, "GET", "/api/v1/namespaces/default/serviceaccounts/default", "")
			return service == c.code && account == 200
		})
		for _, path := range []string{endpointsPath, slicePath} {
			if code, text := r.call(r.client, "GET", path, ""); code != 404 {
				t.Errorf("%+v: got %d %s", c.config, code, text)
			}
		}
		r.end()
	}
	for _, c := range []Config{{ServiceClusterIPRange: "10.0.0.1"}, {ServiceClusterIPRange: "10.0.0.1/32"}, {ServiceClusterIPRange: "10.0.0.0/31"}, {ServiceClusterIPRange: "10.0.0.0/24,10.1.0.0/24"}, {ServiceClusterIPRange: "10.0.0.0/24,fd00::/112,fd01::/112"}, {ServiceClusterIPRange: "10.0.0.0/24,"}, {ServiceClusterIPRange: "10.0.0.0/24,fd00::/48"},
		{ServiceClusterIPRange: "fd00::/48"}, {ServiceNodePortRange: "x"}, {ServiceNodePortRange: "0-5"}, {ServiceNodePortRange: "30000-80000"}, {AdvertiseAddress: "here"}, {EndpointReconciler: "master-count"}} {
		c.Store, c.SecurePort = mem.New(mem.Options{}), -1
		if s, err := New(context.Background(), c); err == nil {
			s.Close()
			t.Errorf("%+v: got no error", c)
		}
	}
}

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

// sharedEtcd starts an etcd for several servers, and returns its URL.
func sharedEtcd(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- etcd.Serve(ctx, etcd.Config{DataDir: t.TempDir(), Fast: true, Logger: silent}, l) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return "http://" + l.Addr().String()
}

// TestServersShareAuthorities holds that servers of one store publish the authorities of all of
// them and no others, whatever is written to the config maps, and that they write nothing when all
// is published.
// Ledger: root-ca-bundle.
func TestServersShareAuthorities(t *testing.T) {
	url := sharedEtcd(t)
	var servers []*running
	for range 3 {
		servers = append(servers, start(t, Config{DataDir: t.TempDir(), EtcdServers: []string{url}}))
	}
	first := servers[0]
	const path = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"
	published := func() (version, ca string) {
		code, text := first.call(first.client, "GET", path, "")
		var o struct {
			Metadata struct{ ResourceVersion string }
			Data     map[string]string
		}
		if code == 200 && json.Unmarshal([]byte(text), &o) != nil {
			t.Fatal(text)
		}
		return o.Metadata.ResourceVersion, o.Data["ca.crt"]
	}
	whole := func() bool {
		_, ca := published()
		for _, r := range servers {
			if !strings.Contains(ca, string(r.identity.caPEM())) {
				return false
			}
		}
		return strings.Count(ca, "BEGIN CERTIFICATE") == len(servers)
	}
	first.until("all authorities are published", whole)
	before, _ := published()
	first.must("PATCH", path, `{"data":{"ca.crt":"nothing","more":"data"}}`, "Content-Type", "application/merge-patch+json")
	first.until("all authorities are back", whole)
	hostile, err := openPKI("", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, good := published()
	data, err := json.Marshal(map[string]any{"data": map[string]string{"ca.crt": good + string(hostile.authority.certPEM)}, "metadata": map[string]any{"annotations": nil}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range servers {
		r.must("PATCH", path, string(data), "Content-Type", "application/merge-patch+json")
		first.until("a hostile authority is not published", whole)
	}
	if text := first.must("GET", path, ""); !strings.Contains(text, "kubernetes.io/description") {
		t.Errorf("what the config map is for is not on it again: %s", text)
	}
	// What is made from then on has the servers' authorities and nobody else's, too.
	first.must("POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"later"}}`)
	first.must("POST", "/api/v1/namespaces/default/secrets", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"kept","annotations":{"kubernetes.io/service-account.name":"default"}},
		"type":"kubernetes.io/service-account-token","data":{"ca.crt":"`+base64.StdEncoding.EncodeToString(hostile.authority.certPEM)+`"}}`)
	field := func(path string) string {
		var o struct{ Data map[string]string }
		if code, text := first.call(first.client, "GET", path, ""); code == 200 && json.Unmarshal([]byte(text), &o) != nil {
			t.Fatal(text)
		}
		return o.Data["ca.crt"]
	}
	first.until("a new namespace has them", func() bool { return field("/api/v1/namespaces/later/configmaps/kube-root-ca.crt") == good })
	first.until("a secret has them", func() bool {
		return field("/api/v1/namespaces/default/secrets/kept") == base64.StdEncoding.EncodeToString([]byte(good))
	})
	// Those of a server that joins later come to where the others' are already.
	servers = append(servers, start(t, Config{DataDir: t.TempDir(), EtcdServers: []string{url}}))
	first.until("a fourth server's is published", whole)
	_, good = published()
	first.until("and in the other namespace", func() bool { return field("/api/v1/namespaces/later/configmaps/kube-root-ca.crt") == good })
	first.until("and in the secret", func() bool {
		return field("/api/v1/namespaces/default/secrets/kept") == base64.StdEncoding.EncodeToString([]byte(good))
	})
	// An administrator takes away what there is; the servers that run are there again.
	st, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{url}, Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	kept, err := st.Get(t.Context(), trust.Key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Delete(t.Context(), trust.Key, kept.Rev); err != nil {
		t.Fatal(err)
	}
	first.until("the servers that run are there again, and published", func() bool {
		again, err := st.Get(t.Context(), trust.Key)
		_, ca := published()
		return err == nil && again.Rev > kept.Rev && whole() && ca == string(again.Value)
	})
	// Were they to put back one another's, there would be new versions in so many requests.
	after, _ := published()
	for range 100 {
		first.must("GET", "/api/v1/namespaces", "")
	}
	if again, _ := published(); again != after || before == after {
		t.Errorf("versions %s, %s, %s: want a change that is put right, and then none", before, after, again)
	}
}

// TestAuthoritiesAreOutOfReach holds that no kind, present or future, stores objects at the key of
// the authorities.
// Ledger: root-ca-bundle.
func TestAuthoritiesAreOutOfReach(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	for k := range r.kinds.Load().All() {
		if strings.HasPrefix(trust.Key, k.StoragePrefix+"/") || strings.HasPrefix(k.StoragePrefix+"/", trust.Prefix) {
			t.Errorf("objects of %s are at %s", k.Plural, k.StoragePrefix)
		}
	}
	for _, group := range []string{"keelson", ""} {
		code, text := r.call(r.client, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
			"metadata":{"name":"authorities.`+group+`"},"spec":{"group":"`+group+`","scope":"Cluster","names":{"plural":"authorities","kind":"Authority"},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
		if code != 422 || !strings.Contains(text, "spec.group") {
			t.Errorf("a definition of the group %q: got %d %s", group, code, text)
		}
	}
}

// TestRenewedAuthorityIsPublished holds that the config maps follow when the server's authority
// changes.
func TestRenewedAuthorityIsPublished(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	published := func() bool {
		_, text := r.call(r.client, "GET", "/api/v1/namespaces/default/configmaps/kube-root-ca.crt", "")
		var o struct{ Data map[string]string }
		return json.Unmarshal([]byte(text), &o) == nil && o.Data["ca.crt"] == string(r.identity.caPEM())
	}
	r.until("the authority is published", published)
	other, err := openPKI("", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.identity.trust.Store(&other.authority.certPEM)
	if _, err := r.authorities.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.until("the other one is published", published)
	// What says what the config map is for is part of it.
	const path = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"
	r.must("PATCH", path, `{"metadata":{"annotations":null}}`, "Content-Type", "application/merge-patch+json")
	r.until("the description is back", func() bool {
		return strings.Contains(r.must("GET", path, ""), `"kubernetes.io/description":"Contains a CA bundle`)
	})
}

// TestServersAreEndpoints holds that the running servers of one store are the endpoints of
// default/kubernetes.
// Ledger: kubernetes-endpoints.
func TestServersAreEndpoints(t *testing.T) {
	ctx, url := t.Context(), sharedEtcd(t)
	at := func(address string) *running {
		return start(t, Config{DataDir: t.TempDir(), EtcdServers: []string{url}, AdvertiseAddress: address})
	}
	first := at("192.0.2.1")
	_, port, _ := net.SplitHostPort(first.Addr())
	first.shows(endpointsPath, endpointsText(port, "192.0.2.1"))
	second := at("192.0.2.2")
	both := endpointsText(port, "192.0.2.1", "192.0.2.2")
	first.shows(endpointsPath, both)
	second.shows(endpointsPath, both)
	third := at("192.0.2.2") // of the same machine, at another port
	third.end()              // takes the key away that is both servers'
	first.must("DELETE", slicePath, "")
	first.until("the slice is back", func() bool {
		code, _ := first.call(first.client, "GET", slicePath, "")
		return code == 200
	})
	second.shows(endpointsPath, both)
	first.end()
	second.shows(endpointsPath, endpointsText(port, "192.0.2.2"))
	second.end()
	st, err := etcd.Open(ctx, etcd.Config{Endpoints: []string{url}, Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	left, err := st.Get(ctx, "services/endpoints/default/kubernetes")
	if err != nil || !strings.Contains(string(left.Value), `{"ip":"192.0.2.2"}`) {
		t.Errorf("after the last server: got %s, %v", left.Value, err)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
	last := at("192.0.2.3")
	_, port, _ = net.SplitHostPort(last.Addr())
	last.shows(endpointsPath, endpointsText(port, "192.0.2.3"))
}
