package server

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/keelson-io/keelson/internal/datadir"
	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/internal/reloads"
)

// This file manages the server's certificates, the administrator's kubeconfig, and the authorities
// of clients.

// renewEvery is the interval at which certificates are checked.
const renewEvery = time.Hour

// identity holds the server's certificates.
type identity struct {
	config         *Config
	pki            *pki
	host           string // by which clients on this machine reach the server
	url            string
	hosts          []string // in the serving certificate
	kubeconfigPath string

	mu    sync.Mutex // of refresh
	given *given     // the configured serving certificate; nil: one of the server's own authority

	changed    chan struct{} // has an element when the serving certificate was replaced
	trusted    *trusted      // authorities of clients
	serving    atomic.Pointer[tls.Certificate]
	kubeconfig atomic.Pointer[[]byte]
	trust      atomic.Pointer[[]byte] // PEM: the authorities with which clients verify the server
}

// given is a serving certificate from files.
type given struct {
	pair tls.Certificate
	pem  []byte // the certificate and its chain
}

// newIdentity loads or creates the certificates of a server for its hosts and the given names.
// first suppresses warnings about missing files, which are expected at the first start.
// files follows the files of the configuration; nil means that they are read once.
func newIdentity(c *Config, files *reloads.Files, port int, first bool, names ...string) (*identity, error) {
	id := &identity{config: c, host: localHost(c.BindAddress), changed: make(chan struct{}, 1)}
	id.url = "https://" + net.JoinHostPort(id.host, strconv.Itoa(port))
	id.hosts = []string{"localhost", "127.0.0.1", "::1", id.host}
	if name, err := os.Hostname(); err == nil && name != "" {
		id.hosts = append(id.hosts, name)
	}
	for _, name := range c.TLSNames {
		if net.ParseIP(name) == nil && len(validation.IsDNS1123Subdomain(strings.TrimPrefix(name, "*."))) > 0 {
			return nil, fmt.Errorf("names for the certificate: got %q, want a DNS name or an IP address", name)
		}
	}
	id.hosts = append(append(id.hosts, names...), c.TLSNames...)
	dir := ""
	if c.DataDir != "" {
		dir = datadir.PKI(c.DataDir)
		path, err := filepath.Abs(filepath.Join(c.DataDir, KubeconfigFile))
		if err != nil {
			return nil, err
		}
		id.kubeconfigPath = path
	}
	var err error
	if id.pki, err = openPKI(dir, c.lacksKeys(first)); err != nil {
		return nil, err
	}
	if from := id.pki.authority.cert.NotBefore; time.Now().Before(from) {
		c.Logger.Warn("the server's authority is not valid yet: the clock of this machine is wrong, or was when the authority was made; set the clock, "+
			"or stop the server and move the directory away for a new authority, which clients have to be told of", "directory", dir, "valid from", from, "clock", time.Now())
	}
	id.trusted = newTrusted(id.pki.authority.cert)
	if err := id.trusted.follow(c, files); err != nil {
		return nil, err
	}
	if c.TLSCertFile == "" && c.TLSKeyFile == "" {
		return id, id.refresh(time.Now())
	}
	return id, id.follow(files)
}

// follow reads the configured serving certificate, and follows its files.
func (id *identity) follow(files *reloads.Files) error {
	c := id.config
	if c.TLSCertFile == "" || c.TLSKeyFile == "" {
		return fmt.Errorf("TLS certificate %q and key %q: one does not go without the other", c.TLSCertFile, c.TLSKeyFile)
	}
	err := files.Add(reloads.File{Name: "tls-cert-file", Paths: reloads.Paths(c.TLSCertFile, c.TLSKeyFile), Use: func(texts map[string][]byte) error {
		certs := texts[c.TLSCertFile]
		loaded, err := keysize.KeyPair(certs, texts[c.TLSKeyFile])
		if err != nil {
			return err
		}
		id.mu.Lock()
		defer id.mu.Unlock()
		id.given = &given{loaded, certs}
		if err := id.renew(time.Now()); err != nil {
			return err // the kubeconfig was not written, which is tried again
		}
		select {
		case id.changed <- struct{}{}:
		default:
		}
		return nil
	}})
	if err != nil {
		return fmt.Errorf("TLS certificate %q and key %q: %w", c.TLSCertFile, c.TLSKeyFile, err)
	}
	return nil
}

// localHost returns the host under which a server bound to an address is reached from its own
// machine.
func localHost(bind string) string {
	ip := net.ParseIP(bind)
	switch {
	case ip == nil:
		return bind
	case ip.IsUnspecified() && ip.To4() == nil:
		return "::1"
	case ip.IsUnspecified():
		return "127.0.0.1"
	}
	return bind
}

// certificate returns the serving certificate. It implements tls.Config.GetCertificate.
func (id *identity) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return id.serving.Load(), nil
}

// Kubeconfig returns the administrator's kubeconfig.
func (id *identity) Kubeconfig() []byte { return *id.kubeconfig.Load() }

// caPEM returns the authorities with which clients verify the server.
func (id *identity) caPEM() []byte { return *id.trust.Load() }

// refresh loads the certificates, renews those that expire soon, and writes the kubeconfig if its
// contents changed.
func (id *identity) refresh(now time.Time) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.renew(now)
}

// renew does the work of refresh. The caller holds the lock.
func (id *identity) renew(now time.Time) error {
	trust := id.pki.authority.certPEM
	serverName := ""
	if g := id.given; g != nil {
		defer id.serving.Store(&g.pair) // when the kubeconfig trusts it
		trust = bytes.Join([][]byte{trust, g.pem}, nil)
		if g.pair.Leaf.VerifyHostname(id.host) != nil && len(g.pair.Leaf.DNSNames) > 0 {
			serverName = g.pair.Leaf.DNSNames[0]
		}
	} else {
		serving, err := id.pki.serving(id.hosts, now)
		if err != nil {
			return err
		}
		defer id.serving.Store(serving.TLS())
	}
	admin, err := id.pki.admin(now)
	if err != nil {
		return err
	}
	id.trust.Store(&trust)
	text, err := adminKubeconfig(id.url, serverName, trust, admin)
	if err != nil {
		return err
	}
	id.kubeconfig.Store(&text)
	if id.kubeconfigPath == "" {
		return nil
	}
	return writeAtomically(id.kubeconfigPath, text, 0o600)
}

// adminKubeconfig returns a kubeconfig with embedded certificates.
func adminKubeconfig(url, serverName string, trust []byte, admin *pair) ([]byte, error) {
	const name = "keelson"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: url, TLSServerName: serverName, CertificateAuthorityData: trust}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{adminUser: {
			ClientCertificateData: admin.certPEM, ClientKeyData: admin.keyPEM}},
		Contexts: map[string]*clientcmdapi.Context{name: {
			Cluster: name, AuthInfo: adminUser}},
		CurrentContext: name,
	})
}

// renew refreshes the certificates until ctx ends.
func (s *Server) renew(ctx context.Context) {
	t := time.NewTicker(renewEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			if err := s.identity.refresh(now); err != nil {
				s.logger.Error("certificates were not renewed", "error", err)
			}
		case <-s.identity.changed:
		}
		if _, err := s.authorities.Load(ctx); err != nil {
			s.logger.Error("the server's authority was not published", "error", err)
		}
	}
}

// authority returns the certificate and the key by which client certificates are signed.
func (id *identity) authority() (*x509.Certificate, crypto.Signer) {
	return id.pki.authority.cert, id.pki.authority.key
}

// clientCertificate issues a client certificate for a user and groups. It returns the certificate
// and its key as PEM.
func (id *identity) clientCertificate(name string, groups []string) (cert, key []byte, err error) {
	template := adminTemplate(time.Now())
	template.Subject = pkix.Name{CommonName: name, Organization: groups}
	issuer := pki{authority: id.pki.authority} // without a directory, so that the certificate is not stored
	issued, err := issuer.issue(name, template, issuer.authority)
	if err != nil {
		return nil, nil, err
	}
	return issued.certPEM, issued.keyPEM, nil
}
