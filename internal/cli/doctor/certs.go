package doctor

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/keelson-io/keelson/internal/datadir"
	"github.com/keelson-io/keelson/internal/keysize"
)

// This file checks certificates: those that the server makes, and those that flags name. It also
// checks the clock, which decides whether they are valid.

// soon is the time before the end of a certificate from which a warning is due. The server renews
// its own certificates at the same time.
const soon = 30 * 24 * time.Hour

// advices say what to do about a certificate.
type advices struct {
	ending   string // it has expired, or expires soon
	unusable string // it cannot be read, or its key does not fit
}

// certificateChecks returns the checks of all certificates.
func (d *doctor) certificateChecks(running bool) []check {
	const next = "The next start replaces it"
	restart := next + "; a running server does so within an hour."
	checks := []check{d.ownPair("ca", datadir.Authority, problem, advices{
		ending:   "The next start makes a new authority, which clients do not trust yet: then give them new kubeconfigs (keelson kubeconfig).",
		unusable: "Put copies of ca.crt and ca.key in their places. If there are none, remove both: the next start makes a new authority, which clients do not trust yet.",
	})}
	if running {
		restart = "Read the log of the server, which should have replaced it, and restart it."
	}
	own := advices{ending: restart, unusable: next + "."}
	if d.tlsCertFile == "" {
		checks = append(checks, d.ownPair("serving-cert", datadir.Serving, warning, own))
	}
	checks = append(checks, d.ownPair("admin-cert", datadir.Admin, warning, own))
	given := advices{ending: "Replace the file. A running server reads it again by itself.", unusable: "Correct the file or the flag. The server does not start with it."}
	if d.tlsCertFile != "" {
		checks = append(checks, d.givenPair("tls-cert-file", d.tlsCertFile, d.tlsKeyFile, given))
	}
	if d.clientCAFile != "" {
		checks = append(checks, d.givenAuthorities("client-ca-file", d.clientCAFile, given))
	}
	if d.etcdCAFile != "" {
		checks = append(checks, d.givenAuthorities("etcd-cafile", d.etcdCAFile, given))
	}
	if d.etcdCertFile != "" {
		checks = append(checks, d.givenPair("etcd-certfile", d.etcdCertFile, d.etcdKeyFile, given))
	}
	return checks
}

// ownPair returns the check of a certificate that the server makes. unusable is the status of the
// finding if the pair is damaged or incomplete.
func (d *doctor) ownPair(name, pair, unusable string, a advices) check {
	return check{name, func(context.Context) finding {
		pki := datadir.PKI(d.dataDir)
		certFile, keyFile := filepath.Join(pki, pair+".crt"), filepath.Join(pki, pair+".key")
		certs, err := readPair(certFile, keyFile)
		switch {
		case errors.Is(err, fs.ErrNotExist) && (pair != datadir.Authority || !isThere(certFile) && !isThere(keyFile) && len(filesNamed(pki, "", ".crt")) == 0):
			return finding{Status: ok, Found: "there is none yet; the next start creates it"}
		case errors.Is(err, fs.ErrPermission):
			return finding{Status: problem, Found: err.Error(), Advice: "Run the command and the server as the user who owns the file."}
		case err != nil:
			return finding{Status: unusable, Found: err.Error(), Advice: a.unusable}
		}
		return d.checkValidity(certFile, certs, a)
	}}
}

// givenPair returns the check of a certificate with its key that flags name.
func (d *doctor) givenPair(name, certFile, keyFile string, a advices) check {
	return check{name, func(context.Context) finding {
		certs, err := readPair(certFile, keyFile)
		if err != nil {
			return finding{Status: problem, Found: err.Error(), Advice: a.unusable}
		}
		return d.checkValidity(certFile, certs, a)
	}}
}

// givenAuthorities returns the check of a file of authorities that a flag names.
func (d *doctor) givenAuthorities(name, file string, a advices) check {
	return check{name, func(context.Context) finding {
		text, err := os.ReadFile(file)
		var certs []*x509.Certificate
		if err == nil {
			certs, err = parseCertificates(text)
			if err != nil {
				err = fmt.Errorf("%s: %w", file, err)
			}
		}
		if err != nil {
			return finding{Status: problem, Found: err.Error(), Advice: a.unusable}
		}
		return d.checkValidity(file, certs, a)
	}}
}

// readPair reads a certificate, with its chain, and checks that the key fits it.
func readPair(certFile, keyFile string) ([]*x509.Certificate, error) {
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, err
	}
	if _, err := keysize.KeyPair(certPEM, keyPEM); err != nil {
		return nil, fmt.Errorf("%s with %s: %w", certFile, keyFile, err)
	}
	certs, err := parseCertificates(certPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certFile, err)
	}
	return certs, nil
}

// parseCertificates returns the certificates in a PEM file, which are one or more.
func parseCertificates(text []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	block, rest := pem.Decode(text)
	for ; block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := keysize.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, cert)
	}
	if bytes.Contains(rest, []byte("-----BEGIN ")) {
		return nil, errors.New("the last certificate is incomplete")
	}
	if len(certs) == 0 {
		return nil, errors.New("no certificate in it")
	}
	return certs, nil
}

// checkValidity returns the finding for the certificates of a file: that of the one which expires
// first.
func (d *doctor) checkValidity(file string, certs []*x509.Certificate, a advices) finding {
	now := d.now()
	first := certs[0]
	for _, c := range certs {
		if now.Before(c.NotBefore) {
			return finding{Status: problem, Found: fmt.Sprintf("%s is not valid before %s", file, formatTime(c.NotBefore)),
				Advice: "Set the clock of this machine. If it is right, replace the certificate."}
		}
		if c.NotAfter.Before(first.NotAfter) {
			first = c
		}
	}
	which := file
	if len(certs) > 1 {
		which = fmt.Sprintf("%s: %s", file, first.Subject)
	}
	left := first.NotAfter.Sub(now)
	switch {
	case left <= 0:
		return finding{Status: problem, Found: fmt.Sprintf("%s expired on %s", which, formatTime(first.NotAfter)), Advice: a.ending}
	case left < soon:
		return finding{Status: warning, Found: fmt.Sprintf("%s expires on %s, in %d days", which, formatTime(first.NotAfter), int(left.Hours()/24)), Advice: a.ending}
	}
	return finding{Status: ok, Found: fmt.Sprintf("%s is valid until %s", file, formatTime(first.NotAfter))}
}

// formatTime returns a time as findings show it.
func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// clockTolerance is by how much the clock of a file server may be ahead.
const clockTolerance = time.Minute

// filesLooked is the largest number of files whose times checkClock compares.
const filesLooked = 20000

// checkClock checks that the clock is not behind the build of this program, the files of the data
// directory, or the certificates there. A clock that is ahead cannot be noticed.
func (d *doctor) checkClock(ctx context.Context) finding {
	now := d.now()
	const advice = "Set the clock of this machine, for example with timedatectl set-ntp true. Certificates, tokens and the order of events depend on it."
	behind := func(what string, at time.Time) finding {
		return finding{Status: problem, Found: fmt.Sprintf("the clock says %s, and %s %s", formatTime(now), what, formatTime(at)), Advice: advice}
	}
	if now.Before(d.built) {
		return behind("this program is of", d.built)
	}
	for _, file := range filesNamed(datadir.PKI(d.dataDir), "", ".crt") {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the check of the certificate reports it
		}
		certs, err := parseCertificates(text)
		if err == nil && now.Before(certs[0].NotBefore) {
			return behind(file+" is valid from", certs[0].NotBefore)
		}
	}
	if file, written := newest(ctx, d.dataDir); written.After(now.Add(clockTolerance)) {
		return behind(file+" was written at", written)
	}
	if d.built.IsZero() {
		return finding{Status: ok, Found: formatTime(now)}
	}
	return finding{Status: ok, Found: formatTime(now) + ", this program is of " + formatTime(d.built)}
}

// newest returns the file below a directory that was written last, among the first filesLooked. The
// time is zero if there is none.
func newest(ctx context.Context, dir string) (file string, written time.Time) {
	looked := 0
	walk := func(path string, e fs.DirEntry, err error) error {
		if looked++; looked > filesLooked || ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil {
			return nil // it is missing or not readable, which other checks report
		}
		if info, err := e.Info(); err == nil && info.ModTime().After(written) {
			file, written = path, info.ModTime()
		}
		return nil
	}
	if err := filepath.WalkDir(dir, walk); err != nil {
		panic("BUG: " + err.Error())
	}
	return file, written
}
