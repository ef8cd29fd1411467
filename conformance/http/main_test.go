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
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	upstream "k8s.io/apiextensions-apiserver/pkg/cmd/server"
	"k8s.io/client-go/rest"

	"github.com/keelson-io/keelson/keelsontest"
	"github.com/keelson-io/keelson/server"
	"github.com/keelson-io/keelson/store/etcd"
)

// This file starts both servers: Keelson in the test's process, upstream and
// its etcd in a child process, which is this test's binary again.

// childDir, in the environment, makes a process the child and names its folder.
const childDir = "KEELSON_CONFORMANCE_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child serves upstream until it is killed.
func child(dir string) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	clients := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", ports[0])}
	peers := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", ports[1])}
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(dir, "etcd")
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.UnsafeNoFsync = true
	cfg.LogLevel = "error"
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	<-e.Server.ReadyNotify()
	address := fmt.Sprintf("127.0.0.1:%d", ports[2])
	for name, text := range map[string]string{"etcd-url": clients.String(), "address": address} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	nowhere := filepath.Join(dir, "nowhere.kubeconfig")
	if err := os.WriteFile(nowhere, []byte(kubeconfigNowhere), 0o600); err != nil {
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

// kubeconfigNowhere names a server that nobody connects with; the command
// insists on one.
const kubeconfigNowhere = `apiVersion: v1
kind: Config
clusters:
- {name: nowhere, cluster: {server: "http://127.1.2.3:1"}}
contexts:
- {name: nowhere, context: {cluster: nowhere, user: nobody}}
current-context: nowhere
users:
- {name: nobody, user: {}}
`

// peer is one of the two servers.
type peer struct {
	name string
	base string // https://host:port
	*http.Client

	compact func(ctx context.Context, rev int64) error // makes the store forget what was before a revision
}

// startUpstream starts the child and waits until it serves.
func startUpstream(t *testing.T) *peer {
	t.Helper()
	dir := t.TempDir()
	client, err := writePKI(dir)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		log.Close()
		if t.Failed() && testing.Verbose() {
			b, _ := os.ReadFile(log.Name())
			t.Logf("upstream's log ends with:\n%s", b[max(0, len(b)-3000):])
		}
	})
	p := &peer{name: "upstream", Client: newClient(client)}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- err
			b, _ := os.ReadFile(log.Name())
			t.Fatalf("upstream ended: %v\n%s", err, b[max(0, len(b)-3000):])
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("upstream is not ready after a minute")
		}
		address, err := os.ReadFile(filepath.Join(dir, "address"))
		if err != nil {
			continue
		}
		p.base = "https://" + string(address)
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
		// The informer of Services never has its list without the server of the built-in types.
		resp, err := p.Get(p.base + "/readyz?exclude=informer-sync")
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return p
		}
	}
}

// startKeelson starts Keelson.
func startKeelson(t *testing.T) *peer {
	t.Helper()
	st, err := etcd.Open(context.Background(), etcd.Config{DataDir: t.TempDir(), CompactInterval: -1, Fast: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := keelsontest.Start(t, keelsontest.Controllers(), keelsontest.Configure(func(c *server.Config) {
		c.DisableAdmission = []string{"NamespaceLifecycle"}
		c.Store = st
	}))
	tlsConfig, err := rest.TLSConfigFor(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	return &peer{name: "keelson", base: s.Config.Host, Client: newClient(tlsConfig), compact: st.Compact}
}

// newClient is a client that hands answers on as they are.
func newClient(c *tls.Config) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: c, DisableCompression: true, MaxIdleConnsPerHost: 4},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// freePorts asks the system for n loopback ports that nobody listens on.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// writePKI makes an authority, writes the certificates of a server into dir
// and gives back what an administrator connects with.
func writePKI(dir string) (*tls.Config, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := template(1, "conformance-ca")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	issue := func(c *x509.Certificate) (certPEM, keyPEM []byte, err error) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, nil, err
		}
		c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		der, err := x509.CreateCertificate(rand.Reader, c, ca, key.Public(), caKey)
		if err != nil {
			return nil, nil, err
		}
		k, err := x509.MarshalPKCS8PrivateKey(key)
		return encode("CERTIFICATE", der), encode("PRIVATE KEY", k), err
	}
	cert, key, err := issue(template(2, "upstream"))
	if err != nil {
		return nil, err
	}
	admin := template(3, "admin")
	admin.Subject.Organization = []string{"system:masters"}
	adminCert, adminKey, err := issue(admin)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(adminCert, adminKey)
	if err != nil {
		return nil, err
	}
	caPEM := encode("CERTIFICATE", caDER)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(caPEM)
	write := func(name string, b []byte) error { return os.WriteFile(filepath.Join(dir, name), b, 0o600) }
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
		errors.Join(write("ca.crt", caPEM), write("tls.crt", cert), write("tls.key", key))
}

func template(serial int64, name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
