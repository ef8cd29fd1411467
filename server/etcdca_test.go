package server

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"slices"
	"testing"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/etcd"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testcerts"
)

// This file changes the authorities of an etcd cluster under a running server.

// trustingStore is a store that records the authorities that it gets.
type trustingStore struct {
	store.Store
	got []string
}

func (s *trustingStore) Trust(authorities []byte) error {
	s.got = append(s.got, string(authorities))
	return nil
}

// trustingDatabase opens a trustingStore.
type trustingDatabase struct {
	etcd.Database
	opened *trustingStore
}

func (d trustingDatabase) Open(context.Context, store.Location) (store.Store, error) {
	return d.opened, nil
}

func TestAuthoritiesOfEtcdAreReadAgain(t *testing.T) {
	authority := func() string {
		c := testcerts.Sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true}, nil)
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}))
	}
	one, two := authority(), authority()
	path := writeFile(t, t.TempDir(), "ca.crt", one)
	d := trustingDatabase{opened: &trustingStore{Store: mem.New(mem.Options{})}}
	s, err := New(t.Context(), Config{DataDir: t.TempDir(), SecurePort: -1, Database: d, EtcdServers: []string{"https://127.0.0.1:1"}, EtcdCAFile: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.files.Check()
	}
	put("no certificate")
	put(two + one[:len(one)/2])
	put(two)
	if want := []string{one, two}; !slices.Equal(d.opened.got, want) {
		t.Errorf("got %q, want %q", d.opened.got, want)
	}
}
