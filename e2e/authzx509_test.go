package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/testcerts"
)

// This file is webhooks of authorization with certificates that are out of date.

// TestAuthzCertificates asks webhooks whose certificates have no names, or a SHA-1 signature, with certificates looked at and not:
// each question is counted, and those that fail are decided by the failure policy.
func TestAuthzCertificates(t *testing.T) {
	t.Parallel()
	authority := testcerts.Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	local := []net.IP{net.IPv4(127, 0, 0, 1)}
	rows := []struct {
		name        string
		cert        *x509.Certificate
		trusting    bool
		err         string
		names, sha1 float64 // counted of each question
	}{
		{name: "good", cert: &x509.Certificate{IPAddresses: local}},
		{name: "common-name", cert: &x509.Certificate{Subject: pkix.Name{CommonName: "localhost"}}, names: 1,
			err: "tls: failed to verify certificate: x509: certificate relies on legacy Common Name field, use SANs instead"},
		{name: "common-name-trusted", cert: &x509.Certificate{Subject: pkix.Name{CommonName: "localhost"}}, trusting: true, names: 1},
		{name: "sha1", cert: &x509.Certificate{IPAddresses: local, SignatureAlgorithm: x509.SHA1WithRSA}, sha1: 1,
			err: `tls: failed to verify certificate: x509: certificate signed by unknown authority (possibly because of "x509: cannot verify signature: insecure algorithm SHA1-RSA" while trying`},
		{name: "sha1-trusted", cert: &x509.Certificate{IPAddresses: local, SignatureAlgorithm: x509.SHA1WithRSA}, trusting: true, sha1: 1},
	}
	var entries, users []string
	for _, r := range rows {
		h := newReviewerWith(t, &tls.Config{Certificates: []tls.Certificate{testcerts.Sign(t, r.cert, &authority)}})
		h.on("/", rules(`{"allowed":true,"reason":"yes"}`))
		url := h.URL
		if r.cert.Subject.CommonName != "" {
			url = strings.Replace(url, "127.0.0.1", "localhost", 1)
		}
		trust := fmt.Sprintf(`"certificate-authority-data":%q`, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate[0]})))
		if r.trusting {
			trust = `"insecure-skip-tls-verify":true`
		}
		file := filepath.Join(t.TempDir(), "kubeconfig")
		overwrite(t, file, fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":%q,%s}}]}`, url, trust))
		for _, policy := range []string{"Deny", "NoOpinion"} {
			id := r.name + "-" + strings.ToLower(policy)
			users = append(users, id)
			entries = append(entries, entry(id, file, policy, uncached, "request.user == '"+id+"'"))
		}
	}
	g := startGuarded(t, authzConfig("v1", entries...), users)
	for _, r := range rows {
		for _, policy := range []string{"Deny", "NoOpinion"} {
			id := r.name + "-" + strings.ToLower(policy)
			counted, before := g.outOfDate(), g.samples()
			got := g.as(id, "GET", configMaps, "")
			verdict := g.review(fmt.Sprintf(`{"user":%q,"resourceAttributes":{"verb":"get","resource":"secrets","namespace":"x"}}`, id))
			wanted := map[string]float64{}
			event := func(what string, n float64) { wanted[fmt.Sprintf(what, id)] = n }
			if r.err == "" {
				if got.code != 200 || verdict != (reviewStatus{Allowed: true, Reason: "yes"}) {
					t.Errorf("%s: got %d %s and %+v", id, got.code, got.body, verdict)
				}
				event(`apiserver_authorization_decisions_total{decision="allowed",name=%q,type="Webhook"}`, 2)
				event(`apiserver_authorization_webhook_evaluations_total{name=%q,result="success"}`, 2)
			} else {
				if got.code != 500 || !strings.Contains(got.body, r.err) {
					t.Errorf("%s: got %d %s, want %q", id, got.code, got.body, r.err)
				}
				if verdict.Allowed || verdict.Denied != (policy == "Deny") || verdict.Reason != "" || !strings.Contains(verdict.EvaluationError, r.err) {
					t.Errorf("%s: got %+v, want %q", id, verdict, r.err)
				}
				event(`apiserver_authorization_webhook_evaluations_total{name=%q,result="error"}`, 2)
				if policy == "Deny" {
					event(`apiserver_authorization_decisions_total{decision="denied",name=%q,type="Webhook"}`, 2)
				} else {
					event(`apiserver_authorization_webhook_evaluations_fail_open_total{name=%q,result="error"}`, 2)
				}
			}
			now := g.since(before)
			for name := range now {
				if !strings.Contains(name, fmt.Sprintf("name=%q", id)) || strings.Contains(name, "_match_condition_") || strings.Contains(name, "_duration_") {
					delete(now, name)
				}
			}
			compare(t, id, now, wanted)
			if n := g.outOfDate(); n[0]-counted[0] != 2*r.names || n[1]-counted[1] != 2*r.sha1 {
				t.Errorf("%s: counted %v, then %v: want %v without names and %v with SHA-1 more", id, counted, n, 2*r.names, 2*r.sha1)
			}
		}
	}
}

// outOfDate is how many questions went to webhooks without names, and to such with SHA-1 signatures.
func (g *guarded) outOfDate() (found [2]float64) {
	g.t.Helper()
	text := "\n" + string(g.do(g.t, 200, "GET", "/metrics", nil))
	for i, name := range []string{"apiserver_webhooks_x509_missing_san_total", "apiserver_webhooks_x509_insecure_sha1_total"} {
		_, rest, _ := strings.Cut(text, "\n"+name+" ")
		value, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			g.t.Fatalf("%s: %v", name, err)
		}
		found[i] = n
	}
	return found
}
