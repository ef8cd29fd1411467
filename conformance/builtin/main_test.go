// Package builtin sends the same requests about built-in kinds to Keelson and to kube-apiserver, and compares the answers.
//
// The requests are made of a matrix: for each kind that Keelson serves the steps of steps_test.go, with the objects of testdata. An
// answer is compared in its status code, in the headers that clients see, and in its body, as JSON, after [sameness] took out what
// differs from server to server; what a watch of the kind brought meanwhile is compared, too. Differences that are intended stand in
// ledger_test.go with their reason: each must be there, and no other.
//
// Each kind is asked about in objects in which every member is set, too (full_test.go), which are made of the published schemas. What
// upstream checks and Keelson does not stands in testdata/unchecked.txt, which resources upstream serves and Keelson does not in
// discovery_test.go.
//
// kube-apiserver is compiled into the test, which takes minutes.
package builtin

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/store/etcd"
	"github.com/keelson-io/keelson/internal/testcerts"
	"github.com/keelson-io/keelson/internal/testpeers"
	"github.com/keelson-io/keelson/server"
)

// This file starts both servers: Keelson in the test's process, kube-apiserver in a child process, which is this test's binary again.

func TestMain(m *testing.M) { testpeers.Main(m, child) }

// The range of the services' addresses, and what servers say of themselves.
const (
	serviceRange = "10.0.0.0/16"
	advertised   = "192.0.2.1"
)

// token is what the administrator shows, and tokens the file that says so.
const (
	token  = "conformance"
	tokens = token + `,admin,1,"system:masters"` + "\n"
)

// peer is one of the two servers.
type peer struct {
	name string
	base string // https://host:port
	*http.Client
}

// newPeer is a server whose certificate nobody looks at: it is on this machine.
func newPeer(name, address string) *peer {
	return &peer{name: name, base: "https://" + address, Client: testpeers.Client(&tls.Config{InsecureSkipVerify: true})}
}

// ready asks for what a server makes last when it starts.
var ready = &request{method: "GET", path: "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"}

// startUpstream starts the child and waits until it serves.
func startUpstream(t *testing.T) *peer { return startUpstreamIn(t, t.TempDir(), nil) }

// Files that change how the child is started.
const (
	authorizationFile = "authorization.kubeconfig"
	auditPolicyFile   = "audit.yaml"
	auditLogFile      = "audit.log"
	// disabledPluginsFile has the names of the admission plugins that are disabled, separated by commas.
	disabledPluginsFile = "disabled-plugins"
)

// startUpstreamIn starts the child with more files in its folder.
func startUpstreamIn(t *testing.T, dir string, files map[string][]byte) *peer {
	t.Helper()
	all := map[string][]byte{"tokens.csv": []byte(tokens), "sa.key": testcerts.SigningKey(t)}
	maps.Copy(all, files)
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var p *peer
	testpeers.Start(t, "kube-apiserver", dir, func(address string) bool {
		p = newPeer("upstream", address)
		return p.ask(&request{method: "GET", path: "/readyz"}).code == http.StatusOK && p.ask(ready).code == http.StatusOK
	})
	return p
}

// startKeelson starts Keelson, with those controllers that kube-apiserver has in it.
func startKeelson(t *testing.T) *peer {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(file, []byte(tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s, err := server.New(ctx, server.Config{
		Database: etcd.Database{}, DataDir: dir, SecurePort: -1, TokenAuthFile: file, Controllers: []string{"kubernetes-service"}, AdvertiseAddress: advertised,
		ServiceClusterIPRange: serviceRange, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), StopTimeout: time.Second,
		DisableFairness: true, // as upstream's, whose answers say which objects of its own decided about them
	})
	if err != nil {
		stop()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("keelson: %v", err)
		}
	})
	p := newPeer("keelson", s.Addr())
	for end := time.Now().Add(patience); p.ask(ready).code != http.StatusOK; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("keelson makes no service for itself")
		}
	}
	return p
}
