package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/internal/controller/ensure"
	"github.com/keelson-io/keelson/internal/store/etcd"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file starts and stops whole servers.

// running is a server that runs.
type running struct {
	*Server
	t      *testing.T
	client *http.Client // the administrator's
	stop   context.CancelFunc
	done   chan error
	ended  sync.Once
}

// start starts a server with its data in dir.
func start(t *testing.T, c Config) *running {
	t.Helper()
	return startWith(t, c, func(*Server) {})
}

// startWith is start with something done before the server runs.
func startWith(t *testing.T, c Config, before func(*Server)) *running {
	t.Helper()
	c.SecurePort = -1
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if c.Store == nil && c.Database == nil {
		c.Database = etcd.Database{}
	}
	ctx, stop := context.WithCancel(context.Background())
	s, err := New(ctx, c)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	before(s)
	r := &running{Server: s, t: t, stop: stop, done: make(chan error, 1)}
	go func() { r.done <- s.Run(ctx) }()
	config, err := clientcmd.RESTConfigFromKubeConfig(s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if r.client, err = rest.HTTPClientFor(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.end() })
	return r
}

// end stops the server and waits until it has.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	r.ended.Do(func() {
		select {
		case err := <-r.done:
			if err != nil {
				r.t.Errorf("run: %v", err)
			}
		case <-time.After(time.Minute):
			r.t.Error("run does not return")
		}
	})
}

// call sends a request with a client's credentials.
func (r *running) call(client *http.Client, method, path, body string, headers ...string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequest(method, "https://"+r.Addr()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// must is call as the administrator, for requests that have to succeed.
func (r *running) must(method, path, body string, headers ...string) string {
	r.t.Helper()
	code, text := r.call(r.client, method, path, body, headers...)
	if code >= 300 {
		r.t.Fatalf("%s %s: got %d %s", method, path, code, text)
	}
	return text
}

const crdBody = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.demo.io"},
"spec":{"group":"demo.io","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",
"properties":{"color":{"type":"string"}}}}}}}]}}`

const widgetsPath = "/apis/demo.io/v1/namespaces/default/widgets"

// serves waits until a path is served.
func (r *running) serves(path string) {
	r.t.Helper()
	testkit.EventuallySay(r.t, func() (string, bool) {
		code, text := r.call(r.client, "GET", path, "")
		return fmt.Sprintf("GET %s: got %d %s, want 200", path, code, text), code == 200
	})
}

// define installs the definition of widgets and waits until they are served.
func (r *running) define() {
	r.t.Helper()
	r.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crdBody)
	r.serves(widgetsPath)
}

func TestRestartKeepsEverything(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	r := start(t, Config{DataDir: dir})
	for _, name := range ensure.SystemNamespaces {
		r.must("GET", "/api/v1/namespaces/"+name, "")
	}
	r.define()
	made := r.must("POST", widgetsPath, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"color":"red"}}`)
	old := r.client
	ca, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	r.end()

	r = start(t, Config{DataDir: dir})
	if got := r.must("GET", widgetsPath+"/a", ""); got != made {
		t.Errorf("after a restart: got %s, want %s", got, made)
	}
	// Who could speak to the server before still can.
	if code, text := r.call(old, "GET", widgetsPath+"/a", ""); code != 200 {
		t.Errorf("with the kubeconfig of before: got %d %s", code, text)
	}
	if now, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt")); err != nil || !bytes.Equal(now, ca) {
		t.Errorf("the authority has changed (%v)", err)
	}
}

func TestFilesAreTheOwnersOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{DataDir: dir})
	for path, want := range map[string]fs.FileMode{"": 0o755, "etcd": 0o700, "admin.kubeconfig": 0o600, "pki/ca.key": 0o600, "pki/admin.key": 0o600, "pki": 0o700} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s: got mode %o, want %o", path, got, want)
		}
	}
	text, err := os.ReadFile(r.KubeconfigPath())
	if err != nil || !bytes.Equal(text, r.Kubeconfig()) {
		t.Errorf("kubeconfig on disk differs (%v)", err)
	}
}

func TestOneServerPerDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	start(t, Config{DataDir: dir})
	_, err := New(context.Background(), Config{DataDir: dir, SecurePort: -1, Database: etcd.Database{}})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("second server: got %v", err)
	}
}

func TestMistakesAreErrorsOfNew(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	missing := filepath.Join(t.TempDir(), "missing")
	bad := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(bad, []byte("token,user\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		c    Config
		want string
	}{
		"busy port":          {Config{SecurePort: busy.Addr().(*net.TCPAddr).Port}, "address already in use"},
		"no client CA":       {Config{SecurePort: -1, ClientCAFile: missing}, missing},
		"no certificate":     {Config{SecurePort: -1, TLSCertFile: missing, TLSKeyFile: missing}, missing},
		"no PEM in it":       {Config{SecurePort: -1, TLSCertFile: bad, TLSKeyFile: bad}, fmt.Sprintf("TLS certificate %q and key %q: ", bad, bad)},
		"name with a space":  {Config{SecurePort: -1, TLSNames: []string{"a.example", "b c"}}, `names for the certificate: got "b c", want a DNS name or an IP address`},
		"half a certificate": {Config{SecurePort: -1, TLSCertFile: missing}, "one does not go without the other"},
		"no tokens":          {Config{SecurePort: -1, TokenAuthFile: missing}, missing},
		"wrong tokens":       {Config{SecurePort: -1, TokenAuthFile: bad}, "must have at least 3 columns (token, user name, user uid), found 2"},
		"unknown plugin":     {Config{SecurePort: -1, DisableAdmission: []string{"Namespacelifecycle"}}, `disable-admission-plugins plugin "Namespacelifecycle" is unknown`},
		"CA without a PEM":   {Config{SecurePort: -1, ClientCAFile: bad}, "no certificate in it"},
	} {
		row.c.Store = mem.New(mem.Options{})
		s, err := New(context.Background(), row.c)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got error %v, want one with %q", name, err, row.want)
		}
	}
}

func TestInMemoryWritesNoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	began := time.Now()
	r := start(t, Config{Store: mem.New(mem.Options{})})
	t.Logf("in memory: ready after %v", time.Since(began))
	r.must("GET", "/api/v1/namespaces/default", "")
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("files: got %v (%v)", files, err)
	}
}

func TestStopEndsWatchesInGoodOrder(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.define()
	req, err := http.NewRequest("GET", "https://"+r.Addr()+widgetsPath+"?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	began := time.Now()
	go r.end()
	rest, err := io.ReadAll(resp.Body)
	if err != nil || len(rest) > 0 {
		t.Errorf("watch at the end: got %q, %v", rest, err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("stopping took %v", took)
	}
}

// Nobody gets in without a credential that the server gave out.
// Ledger: anonymous-requests, basic-credentials.
func TestWhoGetsIn(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte("good,root,1,system:masters\nplain,ann,2,\"dev,ops\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{Store: mem.New(mem.Options{}), TokenAuthFile: tokens})
	other, err := openPKI("", nil)
	if err != nil {
		t.Fatal(err)
	}
	forged, err := other.admin(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	expired, err := r.identity.pki.admin(time.Now().Add(-2 * issuedLife))
	if err != nil {
		t.Fatal(err)
	}
	serving, err := r.identity.pki.serving([]string{"localhost"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	with := func(p *pair) *http.Client {
		c := &tls.Config{InsecureSkipVerify: true}
		if p != nil { // sent whatever authorities the server announces
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.TLS(), nil }
		}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}}
	}
	const secret = "/api/v1/namespaces"
	for _, row := range []struct {
		name   string
		client *http.Client
		path   string
		auth   string
		code   int
	}{
		{"administrator", r.client, secret, "", 200},
		{"nobody", with(nil), secret, "", 403},
		{"nobody, health", with(nil), "/healthz", "", 200},
		{"nobody, version", with(nil), "/version", "", 200},
		{"nobody, metrics", with(nil), "/metrics", "", 403},
		{"nobody, discovery", with(nil), "/apis", "", 403},
		{"certificate of another authority", with(forged), secret, "", 401},
		{"certificate of another authority, health", with(forged), "/healthz", "", 401},
		{"certificate that has expired", with(expired), secret, "", 401},
		{"certificate for serving", with(serving), secret, "", 401},
		{"good token", with(nil), secret, "Bearer good", 200},
		{"good token, wrong certificate", with(forged), secret, "Bearer good", 200},
		{"token of a nobody", with(nil), secret, "Bearer plain", 403},
		{"wrong token", with(nil), secret, "Bearer goo", 401},
		{"wrong token, health", with(nil), "/healthz", "Bearer goo", 401},
		{"empty token", with(nil), secret, "Bearer ", 401},
		{"password", with(nil), secret, "Basic cm9vdDpnb29k", 401},
		{"token as another scheme", with(nil), secret, "Token good", 401},
	} {
		var headers []string
		if row.auth != "" {
			headers = []string{"Authorization", row.auth}
		}
		if code, text := r.call(row.client, "GET", row.path, "", headers...); code != row.code {
			t.Errorf("%s: got %d %s, want %d", row.name, code, text, row.code)
		}
	}
}

// Whom the server does not know has one request for each HTTP/2 connection.
func TestStrangersConnections(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{}), TokenAuthFile: tokens(t, "ann")})
	const requests = 20
	for auth, closed := range map[string]bool{"": true, "Bearer wrong": true, "Bearer ann": false} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
		connections := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
			if !c.Reused {
				connections++
			}
		}})
		for range requests {
			req, err := http.NewRequestWithContext(ctx, "GET", "https://"+r.Addr()+"/version", nil)
			if err != nil {
				t.Fatal(err)
			}
			if auth != "" {
				req.Header.Set("Authorization", auth)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.ProtoMajor != 2 {
				t.Fatalf("got %s", resp.Proto)
			}
		}
		// A client may send once more before it reads that the connection ends.
		if got := connections > 1; got != closed {
			t.Errorf("%q: %d connections for %d requests", auth, connections, requests)
		}
	}
}

func TestNamespacesNeedNotExist(t *testing.T) {
	const body = `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a"}}`
	const nowhere = "/apis/demo.io/v1/namespaces/nowhere/widgets"
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.define()
	if code, text := r.call(r.client, "POST", nowhere, body); code != 404 {
		t.Errorf("in a namespace that does not exist: got %d %s", code, text)
	}
	r = start(t, Config{Store: mem.New(mem.Options{}), DisableAdmission: []string{"ServiceAccount", "NamespaceLifecycle"}})
	r.define()
	r.must("POST", nowhere, body)
}

func TestOldTLSIsRefused(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	_, err := tls.Dial("tcp", r.Addr(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11})
	if err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	for _, proto := range []string{"h2", "http/1.1"} {
		conn, err := tls.Dial("tcp", r.Addr(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{proto}})
		if err != nil {
			t.Fatal(err)
		}
		if got := conn.ConnectionState().NegotiatedProtocol; got != proto {
			t.Errorf("protocol: got %q, want %q", got, proto)
		}
		conn.Close()
	}
}

func TestReadyLineIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	r := start(t, Config{Store: mem.New(mem.Options{}), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	r.must("GET", "/readyz", "")
	addr := r.Addr()
	r.end()
	if n := strings.Count(log.String(), "msg=ready"); n != 1 || !strings.Contains(log.String(), fmt.Sprintf("url=https://%s", addr)) {
		t.Errorf("log: %s", log.String())
	}
}

// TestNoPlaceForData holds that a configuration without a place for the data is refused, with both places that there are.
func TestNoPlaceForData(t *testing.T) {
	_, err := New(t.Context(), Config{DataDir: t.TempDir(), SecurePort: -1})
	for _, want := range []string{"etcd.Database{}", "server.InMemory()"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that names %s", err, want)
		}
	}
}
