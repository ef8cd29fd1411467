package server

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// This file tests when certificates are kept and when they are made anew.

func TestCertificatesAreKeptWhileTheyFit(t *testing.T) {
	dir := t.TempDir()
	p, err := openPKI(dir, nil)
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
		again, err := openPKI(dir, nil)
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

// TestAuthorityOfAnotherTime: a clock that was set back replaces no authority, and one that was set far forward keeps the old one.
func TestAuthorityOfAnotherTime(t *testing.T) {
	for _, row := range []struct {
		name  string
		from  time.Duration // when the authority was made, from now
		kept  bool
		aside bool
	}{
		{"made now", 0, true, false},
		{"made next year", 365 * 24 * time.Hour, true, false},
		{"made ten years ago", -authorityLife, false, true},
	} {
		dir := t.TempDir()
		p := &pki{dir: dir}
		made, err := p.issue("ca", authorityTemplate(time.Now().Add(row.from)), nil)
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		opened, err := openPKI(dir, func(_, consequence string) { said = consequence })
		if err != nil {
			t.Fatal(err)
		}
		if kept := opened.authority.cert.Equal(made.cert); kept != row.kept {
			t.Errorf("%s: kept: got %v, want %v", row.name, kept, row.kept)
		}
		old, err := p.load(oldAuthority)
		if err != nil {
			t.Fatal(err)
		}
		if aside := old != nil && old.cert.Equal(made.cert); aside != row.aside || strings.Contains(said, oldAuthority) != row.aside {
			t.Errorf("%s: the old authority is kept beside the new one: got %v, said %q, want %v", row.name, aside, said, row.aside)
		}
		if leaf, err := opened.serving([]string{"localhost"}, time.Now()); err != nil || time.Now().Before(leaf.cert.NotBefore) {
			t.Errorf("%s: the serving certificate is not valid now: %v", row.name, err)
		}
	}
}

func TestDamagedCertificateIsAnError(t *testing.T) {
	dir := t.TempDir()
	if _, err := openPKI(dir, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.key"), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A new authority would lock out everybody who trusts the old one.
	if _, err := openPKI(dir, nil); err == nil {
		t.Error("a damaged key is replaced silently")
	}
}

// TestPairThatWasBeingWritten holds that a start completes an interrupted write of a certificate
// and its key: both files are new, or both old.
func TestPairThatWasBeingWritten(t *testing.T) {
	now := time.Now()
	p, err := openPKI(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	old, err := p.serving([]string{"localhost"}, now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := openPKI("", nil)
	if err != nil {
		t.Fatal(err)
	}
	made, err := other.serving([]string{"localhost"}, now)
	if err != nil {
		t.Fatal(err)
	}
	next := string(made.keyPEM) + string(made.certPEM)
	for name, c := range map[string]struct {
		files map[string]string // what is there beside the old pair
		want  *pair             // nil if it is an error
	}{
		"nothing written":               {nil, old},
		"a part of a temporary file":    {map[string]string{"serving.next.tmp123": next[:100]}, old},
		"before the key":                {map[string]string{"serving.next": next}, made},
		"between key and certificate":   {map[string]string{"serving.next": next, "serving.key": string(made.keyPEM)}, made},
		"after the certificate":         {map[string]string{"serving.next": next, "serving.key": string(made.keyPEM), "serving.crt": string(made.certPEM)}, made},
		"another one's key":             {map[string]string{"serving.next": string(old.keyPEM) + string(made.certPEM)}, nil},
		"cut off, as nothing leaves it": {map[string]string{"serving.next": next[:len(next)/2]}, nil},
		"empty, as nothing leaves it":   {map[string]string{"serving.next": ""}, nil},
		"no certificate":                {map[string]string{"serving.next": string(made.keyPEM)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"serving.key": string(old.keyPEM), "serving.crt": string(old.certPEM)}
			maps.Copy(files, c.files)
			q := &pki{dir: t.TempDir()}
			for file, text := range files {
				if err := os.WriteFile(filepath.Join(q.dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // the second time there is nothing to finish
				got, err := q.load("serving")
				switch {
				case c.want == nil:
					if err == nil || !strings.Contains(err.Error(), filepath.Join(q.dir, "serving.next")+": it holds no certificate with its key; remove it") {
						t.Errorf("got %v, want an error that says what to remove", err)
					}
					continue
				case err != nil:
					t.Fatal(err)
				case !got.cert.Equal(c.want.cert):
					t.Error("it is the other certificate")
				}
				if _, err := os.Stat(filepath.Join(q.dir, "serving.next")); err == nil {
					t.Error("the file is left behind")
				}
			}
			if info, err := os.Stat(filepath.Join(q.dir, "serving.key")); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the key: %v, %v", info, err)
			}
		})
	}
}
