// Package testing starts servers for upstream's integration tests. It takes the place of upstream's
// package of this name: that one runs kube-apiserver in the process of the tests, this one runs the
// keelson binary under the name kube-apiserver, with the same flags.
package testing

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/csv"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/pflag"
	clientv3 "go.etcd.io/etcd/client/v3"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storageversion"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/test/e2e/invariants/metrics"
	testutil "k8s.io/kubernetes/test/utils"
	"k8s.io/kubernetes/test/utils/ktesting"
)

// The runner sets these environment variables.
const (
	binaryVariable  = "KEELSON_KUBE_APISERVER"    // the keelson binary, named kube-apiserver
	fixtureVariable = "KEELSON_TEST_CERTIFICATES" // upstream's folder of certificates for tests
	logVariable     = "KEELSON_LOG"               // if set, the servers' logs become part of the tests' output
)

// startLimit is how long a server may take to start, stopLimit to stop.
const (
	startLimit = time.Minute
	stopLimit  = 30 * time.Second
)

// issuer is the issuer of service account tokens.
const issuer = "https://foo.bar.example.com"

// TearDownFunc stops a server.
type TearDownFunc func()

// TestServerInstanceOptions are the options of a server. StorageVersionWrapFunc, BinaryVersion and
// RequestTimeout change upstream's server in its process, and are refused.
type TestServerInstanceOptions struct {
	SkipHealthzCheck       bool
	DisableInvariantChecks bool
	EnableCertAuth         bool
	StorageVersionWrapFunc func(storageversion.Manager) storageversion.Manager
	ProxyCA                *ProxyCA
	BinaryVersion          string
	RequestTimeout         time.Duration
}

// TestServer is a server that runs. ServerOpts has what the flags say.
type TestServer struct {
	ClientConfig      *rest.Config
	ServerOpts        *options.ServerRunOptions
	TearDownFn        TearDownFunc
	TmpDir            string
	EtcdClient        *clientv3.Client
	EtcdStoragePrefix string
}

// Logger is a test or a benchmark.
type Logger interface {
	Helper()
	Errorf(format string, args ...interface{})
	Fatalf(format string, args ...interface{})
	Logf(format string, args ...interface{})
	Cleanup(func())
}

// ProxyCA is the authority of front proxies.
type ProxyCA struct {
	ProxySigningCert *x509.Certificate
	ProxySigningKey  *rsa.PrivateKey
}

// NewDefaultTestServerOptions returns the options that a test gets if it gives none.
func NewDefaultTestServerOptions() *TestServerInstanceOptions {
	return &TestServerInstanceOptions{EnableCertAuth: true}
}

// StartTestServerOrDie starts a server, or ends the test.
func StartTestServerOrDie(t testing.TB, instance *TestServerInstanceOptions, flags []string, storage *storagebackend.Config) *TestServer {
	server, err := StartTestServer(t, instance, flags, storage)
	if err != nil {
		t.Fatalf("failed to launch server: %v", err)
	}
	return &server
}

// StartTestServer starts a server with the flags.
func StartTestServer(t ktesting.TB, instance *TestServerInstanceOptions, flags []string, storage *storagebackend.Config) (TestServer, error) {
	if instance == nil {
		instance = NewDefaultTestServerOptions()
	}
	switch {
	case instance.StorageVersionWrapFunc != nil:
		return TestServer{}, InProcess("TestServerInstanceOptions.StorageVersionWrapFunc")
	case instance.BinaryVersion != "":
		return TestServer{}, InProcess("TestServerInstanceOptions.BinaryVersion")
	}
	opts, set, err := parse(flags, storage)
	if err != nil {
		return TestServer{}, err
	}
	dir, err := os.MkdirTemp("", "kubernetes-kube-apiserver")
	if err != nil {
		return TestServer{}, err
	}
	args := without(flags, "token-auth-file", "cert-dir", "etcd-servers", "etcd-prefix", "bind-address", "secure-port", "service-cluster-ip-range")
	if instance.RequestTimeout > 0 {
		args = append(args, "--request-timeout="+instance.RequestTimeout.String())
	}
	if !set.Changed("authorization-mode") && !set.Changed("authorization-config") {
		args = append(args, "--authorization-mode=AlwaysAllow") // kube-apiserver's default
	}
	if !set.Changed("advertise-address") && !set.Changed("endpoint-reconciler-type") {
		args = append(args, "--endpoint-reconciler-type=none")
	}
	if instance.EnableCertAuth {
		more, err := frontProxy(dir, instance.ProxyCA, set)
		if err != nil {
			os.RemoveAll(dir)
			return TestServer{}, err
		}
		args = append(args, more...)
	}
	key, err := SigningKey(dir)
	if err != nil {
		os.RemoveAll(dir)
		return TestServer{}, err
	}
	opts.ServiceAccountSigningKeyFile = key
	opts.Authentication.ServiceAccounts.Issuers, opts.Authentication.ServiceAccounts.KeyFiles = []string{issuer}, []string{key}
	args = append(args, "--service-account-signing-key-file="+key, "--service-account-key-file="+key, "--service-account-issuer="+issuer,
		"--service-cluster-ip-range="+opts.ServiceClusterIPRanges)
	p, err := Run(t, dir, opts, args, !instance.SkipHealthzCheck)
	if err != nil {
		os.RemoveAll(dir)
		return TestServer{}, err
	}
	etcd, _, err := GetEtcdClients(opts.Etcd.StorageConfig.Transport)
	if err != nil {
		p.Stop(t)
		os.RemoveAll(dir)
		return TestServer{}, err
	}
	config := rest.CopyConfig(p.Config)
	config.QPS, config.Burst = 1000, 10000
	return TestServer{ClientConfig: config, ServerOpts: opts, TmpDir: dir, EtcdClient: etcd, EtcdStoragePrefix: opts.Etcd.StorageConfig.Prefix,
		TearDownFn: func() {
			if !instance.DisableInvariantChecks {
				p.CheckInvariants(t)
			}
			etcd.Close()
			p.Stop(t)
			os.RemoveAll(dir)
		}}, nil
}

// InProcess returns the error for what only upstream's server in the process of the test has.
func InProcess(symbol string) error {
	return fmt.Errorf("the test needs upstream's server in its own process: %s", symbol)
}

// parse reads flags into upstream's options, as kube-apiserver does.
func parse(flags []string, storage *storagebackend.Config) (*options.ServerRunOptions, *pflag.FlagSet, error) {
	opts := options.NewServerRunOptions()
	registry := basecompatibility.NewComponentGlobalsRegistry()
	gate := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	if err := registry.Register(basecompatibility.DefaultKubeComponent, compatibility.DefaultKubeEffectiveVersionForTest(), gate); err != nil {
		return nil, nil, err
	}
	opts.GenericServerRunOptions.ComponentGlobalsRegistry = registry
	set := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	named := opts.Flags()
	for _, group := range named.FlagSets {
		set.AddFlagSet(group)
	}
	opts.ServiceClusterIPRanges = "10.0.0.0/16"
	opts.Etcd.StorageConfig = *storage
	if err := set.Parse(flags); err != nil {
		return nil, nil, err
	}
	return opts, set, registry.Set()
}

// without returns flags without those of the names.
func without(flags []string, names ...string) []string {
	var kept []string
	for i := 0; i < len(flags); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(flags[i], "-"), "=")
		if !slices.Contains(names, name) || !strings.HasPrefix(flags[i], "-") {
			kept = append(kept, flags[i])
		} else if !joined {
			i++
		}
	}
	return kept
}

// frontProxy writes the certificates of the authority of front proxies and of clients, and returns
// the flags that name them.
func frontProxy(dir string, ca *ProxyCA, set *pflag.FlagSet) ([]string, error) {
	if ca == nil {
		key, err := testutil.NewPrivateKey()
		if err != nil {
			return nil, err
		}
		crt, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "front-proxy-ca"}, key)
		if err != nil {
			return nil, err
		}
		ca = &ProxyCA{ProxySigningCert: crt, ProxySigningKey: key}
	}
	file := filepath.Join(dir, "proxy-ca.crt")
	if err := os.WriteFile(file, testutil.EncodeCertPEM(ca.ProxySigningCert), 0o644); err != nil {
		return nil, err
	}
	defaults := serveroptions.NewDelegatingAuthenticationOptions().RequestHeader
	args := []string{"--requestheader-client-ca-file=" + file, "--requestheader-allowed-names=ash,misty,brock"}
	for name, values := range map[string][]string{
		"requestheader-username-headers": defaults.UsernameHeaders, "requestheader-uid-headers": defaults.UIDHeaders,
		"requestheader-group-headers": defaults.GroupHeaders, "requestheader-extra-headers-prefix": defaults.ExtraHeaderPrefixes,
	} {
		if !set.Changed(name) && len(values) > 0 {
			args = append(args, "--"+name+"="+strings.Join(values, ","))
		}
	}
	if set.Changed("client-ca-file") {
		return args, nil
	}
	key, err := testutil.NewPrivateKey()
	if err != nil {
		return nil, err
	}
	crt, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "client-ca"}, key)
	if err != nil {
		return nil, err
	}
	clients := filepath.Join(dir, "client-ca.crt")
	return append(args, "--client-ca-file="+clients), os.WriteFile(clients, testutil.EncodeCertPEM(crt), 0o644)
}

// SigningKey writes a key that signs service account tokens.
func SigningKey(dir string) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "service-account.key")
	return file, keyutil.WriteKey(file, text)
}

// Process is a server that runs.
type Process struct {
	Config *rest.Config // the server's own client, as upstream's loopback client
	client kubernetes.Interface
	stop   func(t Logger)
	once   sync.Once
}

// Run starts the binary, and waits until it is ready unless wait is false. The flags that options
// and folder imply are added to args.
func Run(t Logger, dir string, opts *options.ServerRunOptions, args []string, wait bool) (*Process, error) {
	t.Helper()
	token := uuid.NewString()
	more, crt, err := identity(dir, opts, token)
	if err != nil {
		return nil, err
	}
	storage := opts.Etcd.StorageConfig
	args = append(slices.Clone(args), more...)
	args = append(args, "--etcd-servers="+strings.Join(storage.Transport.ServerList, ","), "--etcd-prefix="+storage.Prefix)
	cmd := exec.Command(os.Getenv(binaryVariable), args...)
	log := &logged{}
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.Logf("%s %q", cmd.Path, args)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	file, ok := strings.CutPrefix(strings.TrimSpace(line), "export KUBECONFIG=")
	if err != nil || !ok {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, fmt.Errorf("keelson did not start: %s", log)
	}
	p := &Process{stop: func(t Logger) { end(t, cmd, log) }}
	host, err := address(file)
	if err == nil {
		_, port, _ := net.SplitHostPort(host)
		opts.SecureServing.BindPort, err = strconv.Atoi(port)
	}
	if err == nil {
		p.Config = &rest.Config{Host: "https://" + host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: crt},
			ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}, DisableCompression: true}
		p.client, err = kubernetes.NewForConfig(p.Config)
	}
	if err == nil && wait {
		err = p.ready()
	}
	if err != nil {
		p.Stop(t)
		return nil, fmt.Errorf("%w\n%s", err, log)
	}
	return p, nil
}

// identity writes the certificate of a server and the token of its own client. It returns the
// flags for them, and the certificate.
func identity(dir string, opts *options.ServerRunOptions, token string) ([]string, []byte, error) {
	crt, key, err := cert.GenerateSelfSignedCertKeyWithFixtures("127.0.0.1", []net.IP{net.IPv4(10, 0, 0, 1).To4()},
		[]string{"kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost"}, os.Getenv(fixtureVariable))
	if err != nil {
		return nil, nil, err
	}
	pair := &opts.SecureServing.ServerCert.CertKey
	pair.CertFile, pair.KeyFile = filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key")
	if err := cert.WriteCert(pair.CertFile, crt); err != nil {
		return nil, nil, err
	}
	if err := keyutil.WriteKey(pair.KeyFile, key); err != nil {
		return nil, nil, err
	}
	var tokens bytes.Buffer
	w := csv.NewWriter(&tokens)
	w.Write([]string{token, "system:apiserver", uuid.NewString(), "system:masters"})
	w.Flush()
	if given := opts.Authentication.TokenFile; given != nil && given.TokenFile != "" {
		text, err := os.ReadFile(given.TokenFile)
		if err != nil {
			return nil, nil, err
		}
		tokens.Write(text)
	}
	file := filepath.Join(dir, "tokens.csv")
	return []string{"--cert-dir=" + dir, "--bind-address=127.0.0.1", "--secure-port=0", "--token-auth-file=" + file}, crt,
		os.WriteFile(file, tokens.Bytes(), 0o600)
}

// address reads the address of the server from its kubeconfig.
func address(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if server, ok := strings.CutPrefix(strings.TrimSpace(line), "server: "); ok {
			u, err := url.Parse(strings.Trim(server, `"`))
			if err != nil {
				return "", err
			}
			return u.Host, nil
		}
	}
	return "", fmt.Errorf("%s names no server", file)
}

// ready waits until the server is healthy and has the namespaces default and kube-system.
func (p *Process) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		status := 0
		err := p.client.Discovery().RESTClient().Get().AbsPath("/healthz").Do(ctx).StatusCode(&status).Error()
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/healthz: %d", status)
		}
		for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
			if err == nil {
				_, err = p.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			}
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready within %v: %w", startLimit, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// CheckInvariants fails the test if metrics say that something went wrong that must not.
func (p *Process) CheckInvariants(t Logger) {
	if err := metrics.CheckMetricInvariants(context.Background(), p.client, false); err != nil {
		t.Errorf("Invariant check failed: %v", err)
	}
}

// Stop stops the server.
func (p *Process) Stop(t Logger) { p.once.Do(func() { p.stop(t) }) }

// end stops a process, and fails the test if it does not end as it should.
func end(t Logger, cmd *exec.Cmd, log *logged) {
	cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("keelson: %v\n%s", err, log)
		}
	case <-time.After(stopLimit):
		cmd.Process.Kill()
		<-done
		t.Errorf("keelson did not stop within %v\n%s", stopLimit, log)
	}
	if os.Getenv(logVariable) != "" {
		t.Logf("keelson's log:\n%s", log)
	}
}

// logged is the log of a process.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// GetEtcdClients returns a client of etcd.
func GetEtcdClients(config storagebackend.TransportConfig) (*clientv3.Client, clientv3.KV, error) {
	if config.CertFile != "" || config.KeyFile != "" || config.TrustedCAFile != "" {
		return nil, nil, fmt.Errorf("etcd with TLS: got %s, want http", config.ServerList)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: config.ServerList, DialTimeout: 20 * time.Second})
	if err != nil {
		return nil, nil, err
	}
	return client, clientv3.NewKV(client), nil
}
