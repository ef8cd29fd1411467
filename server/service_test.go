package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/keelson-io/keelson/store/etcd"
	"github.com/keelson-io/keelson/store/mem"
)

// This file looks at the service that stands for the server.

const (
	servicePath   = "/api/v1/namespaces/default/services/kubernetes"
	endpointsPath = "/api/v1/namespaces/default/endpoints/kubernetes"
	slicePath     = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
)

// withoutOwn is an object as it is printed, without what differs from server to server.
func withoutOwn(t *testing.T, text string) string {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
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

// TestServiceOfTheServer holds that the service is there, as kube-apiserver makes it, with its endpoints, and stays.
func TestServiceOfTheServer(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{}), ServiceClusterIPRange: "10.9.8.0/24", AdvertiseAddress: "192.0.2.1"})
	_, port, _ := net.SplitHostPort(r.Addr())
	service := `{"apiVersion":"v1","kind":"Service","metadata":{"labels":{"component":"apiserver","provider":"kubernetes"},"name":"kubernetes","namespace":"default"},` +
		`"spec":{"clusterIP":"10.9.8.1","clusterIPs":["10.9.8.1"],"internalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack",` +
		`"ports":[{"name":"https","port":443,"protocol":"TCP","targetPort":` + port + `}],"sessionAffinity":"None","type":"ClusterIP"},"status":{"loadBalancer":{}}}`
	sliceText := func(generation, port string) string {
		return `{"addressType":"IPv4","apiVersion":"discovery.k8s.io/v1","endpoints":[{"addresses":["192.0.2.1"],"conditions":{"ready":true}}],"kind":"EndpointSlice",` +
			`"metadata":{"generation":` + generation + `,"labels":{"kubernetes.io/service-name":"kubernetes"},"name":"kubernetes","namespace":"default"},` +
			`"ports":[{"name":"https","port":` + port + `,"protocol":"TCP"}]}`
	}
	r.shows(servicePath, service)
	r.shows(endpointsPath, endpointsText(port, "192.0.2.1"))
	r.shows(slicePath, sliceText("1", port))
	for _, path := range []string{servicePath, endpointsPath, slicePath} {
		if got := strings.Join(r.writers(path), "\n"); !strings.HasPrefix(got, "kube-apiserver Update  ") {
			t.Errorf("%s was written by %s", path, got)
		}
	}
	// What is deleted or spoiled is made good, but for the service, which is an administrator's to change.
	r.must("DELETE", servicePath, "")
	r.shows(servicePath, service)
	const merge = "application/merge-patch+json"
	r.must("PATCH", servicePath, `{"spec":{"sessionAffinity":"ClientIP"}}`, "Content-Type", merge)
	r.must("PATCH", endpointsPath, `{"subsets":[]}`, "Content-Type", merge)
	r.shows(endpointsPath, endpointsText(port, "192.0.2.1"))
	r.must("PATCH", endpointsPath, `{"metadata":{"labels":null},"subsets":[{"addresses":[{"ip":"192.0.2.9"}],"ports":[{"name":"https","port":1,"protocol":"TCP"}]}]}`, "Content-Type", merge)
	r.shows(endpointsPath, endpointsText("1", "192.0.2.1"))
	r.shows(slicePath, sliceText("2", "1")) // it follows the endpoints
	r.must("DELETE", endpointsPath, "")
	r.shows(endpointsPath, endpointsText(port, "192.0.2.1"))
	r.shows(slicePath, sliceText("3", port))
	r.must("PATCH", slicePath, `{"metadata":{"labels":{"a":"b"}},"endpoints":[]}`, "Content-Type", merge)
	r.shows(slicePath, sliceText("5", port))
	r.must("DELETE", slicePath, "")
	r.shows(slicePath, sliceText("1", port))
	if text := r.must("GET", servicePath, ""); !strings.Contains(text, `"sessionAffinity":"ClientIP"`) {
		t.Errorf("the service was put back: %s", text)
	}
}

// TestServiceWithoutEndpoints holds that the controller can be switched, and endpoints left to others.
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
	for _, c := range []Config{{ServiceClusterIPRange: "10.0.0.1"}, {ServiceClusterIPRange: "10.0.0.1/32"}, {ServiceClusterIPRange: "10.0.0.0/31"}, {ServiceClusterIPRange: "10.0.0.0/24,fd00::/112"},
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

// TestServersShareAuthorities holds that servers of one store with authorities of their own publish all of them, and then leave it at that.
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
	// Were they to put back one another's, there would be new versions in so many requests.
	after, _ := published()
	for range 100 {
		first.must("GET", "/api/v1/namespaces", "")
	}
	if again, _ := published(); again != after || before == after {
		t.Errorf("versions %s, %s, %s: want a change that is put right, and then none", before, after, again)
	}
}

// TestBundle holds that servers with certificates of any sort come to an end with what they publish.
func TestBundle(t *testing.T) {
	certificate := func(authority bool, until time.Time) []byte {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: authority, BasicConstraintsValid: true, NotAfter: until}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	later := time.Now().Add(time.Hour)
	leaf, expired := certificate(false, later), certificate(true, time.Now().Add(-time.Hour))
	all := [][]byte{certificate(true, later), leaf, append(certificate(true, later), leaf...), expired}
	publish := func(own []byte, have string) string {
		id := &identity{config: &Config{EtcdServers: []string{"x"}}}
		id.trust.Store(&own)
		return id.bundle(have)
	}
	said := "no certificate\n" + string(expired)
	for range 3 {
		for _, own := range all {
			said = publish(own, said)
		}
	}
	for _, own := range all {
		if again := publish(own, said); again != said {
			t.Errorf("got\n%s\nafter\n%s", again, said)
		}
	}
	if n := strings.Count(said, "BEGIN"); n != 3 {
		t.Errorf("got %d certificates, want 3:\n%s", n, said)
	}
	if got := publish(leaf, strings.Repeat(string(leaf), 2)); got != string(leaf) {
		t.Errorf("got\n%s\nwant the certificate once", got)
	}
}

// TestServersAreEndpoints holds that servers of one store are the endpoints together, for as long as they are there.
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
