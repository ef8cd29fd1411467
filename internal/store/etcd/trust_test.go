package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.uber.org/zap"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/testcerts"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file replaces the certificates of a client of a cluster.

// TestTrust replaces the authorities of the cluster, and the client's certificate and key, between
// handshakes.
func TestTrust(t *testing.T) {
	authority := func(name string) tls.Certificate {
		return testcerts.Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true}, nil)
	}
	text := func(c tls.Certificate) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
	}
	dir := t.TempDir()
	ca, cert, key := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")
	put := func(path string, text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	identify := func(name string) {
		t.Helper()
		made := testcerts.Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}}, nil)
		der, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		put(cert, text(made))
		put(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	right, wrong := authority("right"), authority("wrong")
	serving := testcerts.Sign(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, &right)
	put(ca, text(wrong))
	identify("first")
	config, err := clientTLS(Config{Endpoints: []string{"https://127.0.0.1:1"}, CAFile: ca, CertFile: cert, KeyFile: key})
	if err != nil {
		t.Fatal(err)
	}
	credentials := newTrusting(config)
	// shake makes a connection and returns the name of the client in its certificate.
	shake := func() (string, error) {
		t.Helper()
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		name := make(chan string, 1)
		go func() {
			defer close(name)
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			if server := conn.(*tls.Conn); server.HandshakeContext(context.Background()) == nil {
				name <- server.ConnectionState().PeerCertificates[0].Subject.CommonName
			}
		}()
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, _, err := credentials.Clone().ClientHandshake(t.Context(), "127.0.0.1", conn); err != nil {
			return "", err
		}
		return <-name, nil
	}
	if name, err := shake(); err == nil {
		t.Errorf("another authority: got a connection of %s", name)
	}
	if err := credentials.trust(text(right)); err != nil {
		t.Fatal(err)
	}
	if name, err := shake(); name != "first" {
		t.Errorf("the authority: got %q, %v", name, err)
	}
	if err := credentials.trust([]byte("x")); err == nil {
		t.Error("no authority: got no error")
	}
	identify("second")
	if name, err := shake(); name != "second" {
		t.Errorf("another client certificate: got %q, %v", name, err)
	}
	if err := credentials.trust(text(wrong)); err != nil {
		t.Fatal(err)
	}
	if name, err := shake(); err == nil {
		t.Errorf("another authority again: got a connection of %s", name)
	}
}

// TestTrustOfCluster holds that a store uses new authorities when it connects again.
func TestTrustOfCluster(t *testing.T) {
	info, err := transport.SelfCert(zap.NewNop(), t.TempDir(), []string{"127.0.0.1:0"}, 1, x509.ExtKeyUsageClientAuth)
	if err != nil {
		t.Fatal(err)
	}
	p := startProxy(t, strings.TrimPrefix(listen(t, openTest(t, Config{Fast: true}), &info), "https://"))
	s := openTest(t, Config{Endpoints: []string{"https://" + p.Addr().String()}, CAFile: info.CertFile, Logger: slog.New(slog.DiscardHandler)})
	right, err := os.ReadFile(info.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	made := testcerts.Sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true}, nil)
	wrong := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]})
	read := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Get(ctx, "g/p/a")
		return err
	}
	trust := func(authorities []byte) {
		t.Helper()
		if err := s.(store.Truster).Trust(authorities); err != nil {
			t.Fatal(err)
		}
		p.cut()
	}
	trust(wrong)
	if err := read(); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("another authority: got an answer, %v", err)
	}
	trust(right)
	testkit.Eventually(t, "an answer with the authority", func() bool { return errors.Is(read(), store.ErrNotFound) })
}

var _ store.Truster = (*client)(nil)
