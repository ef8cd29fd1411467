// Package http sends the same HTTP requests to Keelson and to the API server
// for custom resources of Kubernetes, and compares the answers.
//
// The requests are scripts, testdata/*.http, and what matrix_test.go generates.
// A script is a list of requests, separated by empty lines; see script_test.go.
// An answer is compared in its status code, in the headers that clients see and
// in its body, byte by byte after [sameness] took out what differs from server
// to server (uids, times, resource versions). Differences that are intended
// stand in ledger_test.go with their reason; each must be there, and no other.
package http

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	upstream "k8s.io/apiextensions-apiserver/pkg/cmd/server"
	"k8s.io/client-go/rest"

	"github.com/keelson-io/keelson/internal/store/etcd"
	"github.com/keelson-io/keelson/internal/testpeers"
	"github.com/keelson-io/keelson/internal/testports"
	"github.com/keelson-io/keelson/server"
	"github.com/keelson-io/keelson/servertest"
)

// This file starts both servers: Keelson in the test's process, upstream and
// its etcd in a child process, which is this test's binary again.

func TestMain(m *testing.M) { testpeers.Main(m, child) }

// child serves upstream until it is killed.
func child(dir string) error {
	ports, err := testports.Free(3)
	if err != nil {
		return err
	}
	e, err := testpeers.StartEtcd(filepath.Join(dir, "etcd"), ports[0], ports[1], testpeers.NoSync)
	if err != nil {
		return err
	}
	defer e.Close()
	clients := testpeers.EtcdURL(ports[0])
	if err := os.WriteFile(filepath.Join(dir, "etcd-url"), []byte(clients.String()), 0o600); err != nil {
		return err
	}
	nowhere, err := testpeers.Nowhere(dir)
	if err != nil {
		return err
	}
	if err := testpeers.Announce(dir, ports[2]); err != nil {
		return err
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	cmd := upstream.NewServerCommand(context.Background(), io.Discard, os.Stderr)
	cmd.SilenceUsage = true
	cmd.SetArgs([]string{
		"--etcd-servers", clients.String(), "--etcd-prefix", "/registry", "--etcd-compaction-interval", "0",
		"--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(ports[2]),
		"--tls-cert-file", file("tls.crt"), "--tls-private-key-file", file("tls.key"), "--client-ca-file", file("ca.crt"),
		"--authentication-skip-lookup", "--authentication-kubeconfig", nowhere, "--authorization-kubeconfig", nowhere, "--kubeconfig", nowhere,
		"--enable-priority-and-fairness=false",
		"--disable-admission-plugins", "NamespaceLifecycle,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,ValidatingAdmissionPolicy,MutatingAdmissionPolicy",
	})
	return cmd.Execute()
}

// peer is one of the two servers.
type peer struct {
	name         string
	base         string // https://host:port
	tls          *tls.Config
	*http.Client // speaks HTTP/1.1, or HTTP/2 if a request's Proto says so

	compact func(ctx context.Context, rev int64) error // makes the store forget what was before a revision

	greeting string // of connections of HTTP/2
}

// newPeer is a server that clients reach with a TLS configuration.
func newPeer(name string, config *tls.Config) *peer {
	two := testpeers.Client(config.Clone()).Transport.(*http.Transport)
	two.ForceAttemptHTTP2 = true
	client := testpeers.Client(config.Clone())
	client.Transport = &bothProtocols{one: client.Transport, two: two}
	return &peer{name: name, tls: config, Client: client}
}

// bothProtocols sends a request in the version of HTTP that it says it is of.
type bothProtocols struct{ one, two http.RoundTripper }

func (b *bothProtocols) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.ProtoMajor == 2 {
		return b.two.RoundTrip(r)
	}
	return b.one.RoundTrip(r)
}

// startUpstream starts the child and waits until it serves.
func startUpstream(t *testing.T) *peer {
	t.Helper()
	dir := t.TempDir()
	pki, err := testpeers.NewPKI(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer("upstream", pki.Admin)
	p.compact = func(ctx context.Context, rev int64) error {
		url, err := os.ReadFile(filepath.Join(dir, "etcd-url"))
		if err != nil {
			return err
		}
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{string(url)}, DialTimeout: patience})
		if err != nil {
			return err
		}
		defer client.Close()
		_, err = client.Compact(ctx, rev, clientv3.WithCompactPhysical())
		return err
	}
	testpeers.Start(t, "upstream", dir, func(address string) bool {
		p.base = "https://" + address
		// The informer of Services never has its list without the server of the built-in types.
		resp, err := p.Get(p.base + "/readyz?exclude=informer-sync")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return p
}

// startKeelson starts Keelson.
func startKeelson(t *testing.T) *peer {
	t.Helper()
	st, err := etcd.Open(context.Background(), etcd.Config{DataDir: t.TempDir(), CompactInterval: -1, Fast: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := servertest.Start(t, servertest.Controllers(), servertest.Configure(func(c *server.Config) {
		c.DisableAdmission = []string{"NamespaceLifecycle"}
		c.Store = st
		c.DisableFairness = true // as upstream's, whose answers say which objects of its own decided about them
	}))
	tlsConfig, err := rest.TLSConfigFor(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer("keelson", tlsConfig)
	p.base, p.compact = s.Config.Host, st.Compact
	return p
}
