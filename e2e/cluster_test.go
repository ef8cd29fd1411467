package e2e

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/snapshot"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// This file runs several servers before one etcd cluster of three members, which is reached with TLS and client certificates.

// members is an etcd cluster inside the test.
type members struct {
	t       *testing.T
	configs []*embed.Config
	running []*embed.Etcd
	tls     transport.TLSInfo
}

func startMembers(t *testing.T, n int) *members {
	t.Helper()
	dir := t.TempDir()
	info, err := transport.SelfCert(zap.NewNop(), dir, []string{"127.0.0.1:0"}, 1, x509.ExtKeyUsageClientAuth)
	if err != nil {
		t.Fatal(err)
	}
	info.ClientCertAuth, info.TrustedCAFile = true, info.CertFile
	m := &members{t: t, running: make([]*embed.Etcd, n), tls: info}
	var initial []string
	for i := range n {
		c := embed.NewConfig()
		c.Name, c.Dir = fmt.Sprintf("m%d", i), filepath.Join(dir, fmt.Sprintf("m%d", i))
		c.TickMs, c.ElectionMs = 20, 200
		c.UnsafeNoFsync = true
		c.LogLevel = "fatal"
		c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		peer := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", freePort(t))}
		client := url.URL{Scheme: "https", Host: fmt.Sprintf("127.0.0.1:%d", freePort(t))}
		c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
		c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
		c.ClientTLSInfo = info
		initial = append(initial, c.Name+"="+peer.String())
		m.configs = append(m.configs, c)
	}
	for _, c := range m.configs {
		c.InitialCluster = strings.Join(initial, ",")
	}
	t.Cleanup(func() {
		for i := range m.running {
			m.stop(i)
		}
	})
	for i := range n {
		m.start(i)
	}
	for i := range n {
		m.ready(i)
	}
	return m
}

func (m *members) start(i int) {
	m.t.Helper()
	e, err := embed.StartEtcd(m.configs[i])
	if err != nil {
		m.t.Fatal(err)
	}
	m.running[i] = e
}

func (m *members) ready(i int) {
	m.t.Helper()
	select {
	case <-m.running[i].Server.ReadyNotify():
	case <-time.After(time.Minute):
		m.t.Fatalf("etcd member %d is not ready", i)
	}
}

func (m *members) stop(i int) {
	if e := m.running[i]; e != nil {
		e.Server.HardStop() // without handing over leadership
		e.Close()
		m.running[i] = nil
		m.configs[i].ClusterState = embed.ClusterStateFlagExisting
	}
}

// args are the flags of a server before the cluster.
func (m *members) args() []string {
	var urls []string
	for _, c := range m.configs {
		urls = append(urls, c.ListenClientUrls[0].String())
	}
	return []string{"--etcd-servers", strings.Join(urls, ","), "--etcd-cafile", m.tls.CertFile, "--etcd-certfile", m.tls.CertFile,
		"--etcd-keyfile", m.tls.KeyFile, "--etcd-prefix", "/demo"}
}

const gadgetList = "/apis/demo.example.org/v1/namespaces/default/gadgets"

func TestServersShareACluster(t *testing.T) {
	t.Parallel()
	etcd := startMembers(t, 3)
	a, b := startServer(t, etcd.args()...), startServer(t, etcd.args()...)
	a.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", toJSON(t, gadgetCRD))
	for _, s := range []*server{a, b} {
		eventually(t, "gadgets served", func() bool {
			code, _, err := s.try("GET", gadgetList, nil)
			return err == nil && code == 200
		})
	}
	// A read that says nothing about versions is as new as any write that was acknowledged, whoever acknowledged it.
	for i := range 20 {
		from, to := a, b
		if i%2 == 1 {
			from, to = b, a
		}
		name := fmt.Sprintf("g%d", i)
		from.do(t, 201, "POST", gadgetList, toJSON(t, gadget(name, "red")))
		from.do(t, 200, "GET", gadgetList+"/"+name, nil)
		to.do(t, 200, "GET", gadgetList+"/"+name, nil)
		to.do(t, 200, "PATCH", gadgetList+"/"+name, []byte(`{"spec":{"color":"blue"}}`), "Content-Type", "application/merge-patch+json")
		if got := from.do(t, 200, "GET", gadgetList+"/"+name, nil); !strings.Contains(string(got), `"blue"`) {
			t.Fatalf("%s: got %s, want what the other server wrote", name, got)
		}
	}
	testOneServer(t, a, b)
	etcd.testSnapshot(t)
	etcd.testCutOff(t, a, b)
}

// testOneServer holds that nobody can tell that there are two: what a definition serves and a role allows at one of them is served and
// allowed by the other, at the first try.
func testOneServer(t *testing.T, servers ...*server) {
	const roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/role"
	for i := range 20 {
		from, to := servers[i%2], servers[(i+1)%2]
		group := fmt.Sprintf("g%d.example.com", i)
		objects := "/apis/" + group + "/v1/namespaces/default/things"
		from.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", toJSON(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
			metadata: {name: things.`+group+`}, spec: {group: `+group+`, scope: Namespaced, names: {plural: things, singular: thing, kind: Thing, listKind: ThingList},
			versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`))
		to.do(t, 200, "GET", objects, nil)
		for _, path := range []string{"/apis/" + group + "/v1", "/apis/" + group, "/openapi/v3/apis/" + group + "/v1"} {
			to.do(t, 200, "GET", path, nil)
		}
		user := fmt.Sprintf("user%d", i)
		to.do(t, 403, "GET", objects, nil, "Impersonate-User", user)
		from.do(t, 201, "POST", roles+"s", toJSON(t, `{metadata: {name: `+user+`}, rules: [{apiGroups: [`+group+`], resources: [things], verbs: [list]}]}`))
		from.do(t, 201, "POST", roles+"bindings", toJSON(t, `{metadata: {name: `+user+`}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: `+user+`},
			subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: `+user+`}]}`))
		to.do(t, 200, "GET", objects, nil, "Impersonate-User", user)
	}
}

// testSnapshot restores what etcd's own tools have saved of a member into the directory of a server by itself.
func (m *members) testSnapshot(t *testing.T) {
	tls, err := m.tls.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	file := filepath.Join(t.TempDir(), "backup.db")
	config := clientv3.Config{Endpoints: []string{m.configs[0].ListenClientUrls[0].String()}, TLS: tls}
	if _, err := snapshot.SaveWithVersion(ctx, zap.NewNop(), config, file); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, "--etcd-prefix", "/demo")
	if out, err := exec.Command(keelsonBin, "snapshot", "restore", "--data-dir", s.dir, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.start()
	if got := s.do(t, 200, "GET", gadgetList+"/g19", nil); !strings.Contains(string(got), `"blue"`) {
		t.Errorf("got %s, want what was saved", got)
	}
	s.do(t, 201, "POST", gadgetList, toJSON(t, gadget("restored", "red")))
}

// testCutOff takes all members away: requests fail with words that help, and everything comes back by itself.
func (m *members) testCutOff(t *testing.T, a, b *server) {
	for i := range m.running {
		m.stop(i)
	}
	for _, r := range []struct{ method, path, body string }{
		{"GET", gadgetList + "/g0", ""},
		{"POST", gadgetList, gadget("late", "red")},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var body io.Reader
		if r.body != "" {
			body = strings.NewReader(string(toJSON(t, r.body)))
		}
		req, err := http.NewRequestWithContext(ctx, r.method, a.url(r.path)+"?timeout=3s", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := a.http.Do(req)
		if err != nil {
			t.Errorf("%s without etcd: %v", r.method, err)
			continue
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		t.Logf("%s without etcd: %s, Retry-After %q: %s", r.method, resp.Status, resp.Header.Get("Retry-After"), text)
		if resp.StatusCode < 500 || resp.Header.Get("Retry-After") == "" && resp.StatusCode != 504 {
			t.Errorf("%s without etcd: got %s, Retry-After %q, want 5xx with Retry-After: %s", r.method, resp.Status, resp.Header.Get("Retry-After"), text)
		}
	}
	if code, body, err := a.try("GET", "/readyz/etcd", nil); err != nil || code != 500 || len(body) == 0 {
		t.Errorf("/readyz/etcd without etcd: got %d, %v: %s", code, err, body)
	} else {
		t.Logf("/readyz/etcd: %s", body)
	}
	// Reads of any age go on.
	a.do(t, 200, "GET", gadgetList+"/g0?resourceVersion=0", nil)
	for i := range m.running {
		m.start(i)
	}
	for _, s := range []*server{a, b} {
		eventually(t, "ready again", func() bool { return s.ready() == nil })
		eventually(t, "reads again", func() bool {
			code, _, err := s.try("GET", gadgetList+"/g0", nil)
			return err == nil && code == 200
		})
	}
	b.do(t, 201, "POST", gadgetList, toJSON(t, gadget("after", "red")))
	a.do(t, 200, "GET", gadgetList+"/after", nil)
}
