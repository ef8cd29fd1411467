package authn

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/internal/testkit"
	"github.com/keelson-io/keelson/server"
	"github.com/keelson-io/keelson/server/etcd"
)

// This file is another API server, which lets Keelson authenticate its requests: with upstream's options for it, which read the config
// map extension-apiserver-authentication and send token reviews.

// authorityOf creates an authority, and writes its certificate into a file.
func authorityOf(t *testing.T, file string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	c, key := certificateOf(t, pkix.Name{CommonName: "front-proxy-ca"}, nil, nil)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return c, key
}

// certificateOf creates a certificate that an authority signs; without one, it is an authority itself.
func certificateOf(t *testing.T, name pkix.Name, by *x509.Certificate, with *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: name, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: by == nil, BasicConstraintsValid: by == nil}
	if by == nil {
		by, with = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, key.Public(), with)
	if err == nil {
		c, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, key
}

func TestDelegatedAuthentication(t *testing.T) {
	dir := t.TempDir()
	ca, caKey := authorityOf(t, filepath.Join(dir, "proxies.crt"))
	proxy, _ := certificateOf(t, pkix.Name{CommonName: "proxy"}, ca, caKey)
	stranger, _ := certificateOf(t, pkix.Name{CommonName: "stranger"}, ca, caKey)
	ctx, stop := context.WithCancel(t.Context())
	s, err := server.New(ctx, server.Config{Database: etcd.Database{}, DataDir: filepath.Join(dir, "data"), SecurePort: -1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Authentication: server.Authentication{RequestHeader: server.RequestHeader{ClientCAFile: filepath.Join(dir, "proxies.crt"), AllowedNames: []string{"proxy"},
			UsernameHeaders: []string{"X-Remote-User"}, GroupHeaders: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"}}}})
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
	o := options.NewDelegatingAuthenticationOptions()
	o.RemoteKubeConfigFile = s.KubeconfigPath()
	var info genericserver.AuthenticationInfo
	serving := new(genericserver.SecureServingInfo)
	testkit.Eventually(t, "the config map", func() bool { return o.ApplyTo(&info, serving, nil) == nil })
	run, ok := serving.ClientCA.(dynamiccertificates.ControllerRunner)
	if !ok {
		t.Fatalf("the authorities are a %T, which does not read the config map", serving.ClientCA)
	}
	following, stopFollowing := context.WithCancel(ctx)
	t.Cleanup(stopFollowing)
	go run.Run(following, 1)
	testkit.Eventually(t, "both authorities", func() bool {
		_, loaded := serving.ClientCA.VerifyOptions()
		return loaded && bytes.Count(serving.ClientCA.CurrentCABundleContent(), []byte("BEGIN CERTIFICATE")) == 2
	})
	config, err := clientcmd.BuildConfigFromFlags("", s.KubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	jane := http.Header{"X-Remote-User": {"jane"}, "X-Remote-Group": {"devs"}}
	for _, c := range []struct {
		what, user, group string
		cert              *x509.Certificate
		header            http.Header
	}{
		{"a certificate of the server's authority", pair.Leaf.Subject.CommonName, "system:masters", pair.Leaf, nil},
		{"a front proxy", "jane", "devs", proxy, jane},
		{"a name that is not allowed", "system:anonymous", "system:unauthenticated", stranger, jane},
		{"headers without a certificate", "system:anonymous", "system:unauthenticated", nil, jane},
		{"a token", "system:serviceaccount:default:robot", "system:serviceaccounts", nil, http.Header{"Authorization": {"Bearer " + token.Status.Token}}},
	} {
		r := (&http.Request{Method: "GET", Header: c.header, TLS: &tls.ConnectionState{}}).WithContext(ctx)
		if c.header == nil {
			r.Header = http.Header{}
		}
		if c.cert != nil {
			r.TLS.PeerCertificates = []*x509.Certificate{c.cert}
		}
		r.Header = r.Header.Clone()
		got, ok, err := info.Authenticator.AuthenticateRequest(r)
		switch {
		case c.what == "a name that is not allowed" && err != nil:
		case err != nil || !ok:
			t.Errorf("%s: got %v %v", c.what, ok, err)
		case got.User.GetName() != c.user || !slices.Contains(got.User.GetGroups(), c.group):
			t.Errorf("%s: got %v, want %s in %s", c.what, got.User, c.user, c.group)
		}
	}
}
