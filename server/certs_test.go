package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// This file tests when certificates are kept and when they are made anew.

func TestCertificatesAreKeptWhileTheyFit(t *testing.T) {
	dir := t.TempDir()
	p, err := openPKI(dir)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	hosts := []string{"localhost", "127.0.0.1"}
	first, err := p.serving(append(hosts, hosts...), now)
	if err != nil {
		t.Fatal(err)
	}
	if c := first.cert; len(c.IPAddresses) != 1 || len(c.DNSNames) != 1 {
		t.Errorf("got %v, %v, want each of %v once", c.DNSNames, c.IPAddresses, hosts)
	}
	rows := []struct {
		name  string
		hosts []string
		now   time.Time
		kept  bool
	}{
		{"the same", hosts, now, true},
		{"fewer names", hosts[:1], now, true},
		{"long before its end", hosts, first.cert.NotAfter.Add(-2 * renewBefore), true},
		{"another name", []string{"localhost", "192.0.2.1"}, now, false},
		{"near its end", hosts, now.Add(issuedLife), false},
	}
	for _, row := range rows {
		again, err := openPKI(dir)
		if err != nil {
			t.Fatal(err)
		}
		before, err := again.load("serving")
		if err != nil {
			t.Fatal(err)
		}
		got, err := again.serving(row.hosts, row.now)
		if err != nil {
			t.Fatal(err)
		}
		if kept := got.cert.Equal(before.cert); kept != row.kept {
			t.Errorf("%s: kept: got %v, want %v", row.name, kept, row.kept)
		}
	}
}

func TestDamagedCertificateIsAnError(t *testing.T) {
	dir := t.TempDir()
	if _, err := openPKI(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.key"), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A new authority would lock out everybody who trusts the old one.
	if _, err := openPKI(dir); err == nil {
		t.Error("a damaged key is replaced silently")
	}
}
