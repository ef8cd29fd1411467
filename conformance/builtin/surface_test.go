package builtin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

// This file asks about what the matrix does not: forms of discovery, tokens, lists that are null, and who decides about a request for a
// certificate.

// surface asks about all that.
func (r *run) surface(objects map[string]map[string]any) {
	r.t.Helper()
	r.forms()
	r.tokens()
	r.nulls()
	r.approvals(objects["certificates.k8s.io/certificatesigningrequests"])
}

// forms asks for documents in forms that a router of upstream's understands in its own way.
func (r *run) forms() {
	r.t.Helper()
	for _, path := range []string{"/api", "/api/v1", "/api/v9", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/apps/v1/", "/apis/apps/v9", "/apis/apiextensions.k8s.io/v1", "/apis/nothing.io/v1", "/version", "/openapi/v2", "/openapi/v3/apis/apps/v1"} {
		for _, accept := range []string{"*", "*;q=0.5", "application", "application/*", "*/json", "text/*", "*, application/json", "application/yaml, *", " application/json", "APPLICATION/JSON"} {
			q := &request{method: "GET", path: path, accept: accept}
			r.requests++
			var got [2]*answer
			for side, p := range r.peers {
				got[side] = p.ask(q)
				if got[side].code < 300 { // what the documents say is compared elsewhere
					got[side].body = nil
				}
			}
			r.compare(path, "form", q, got)
		}
	}
}

// tokens asks for tokens of a service account, and compares all but the tokens.
func (r *run) tokens() {
	r.t.Helper()
	const account = "/api/v1/namespaces/default/serviceaccounts"
	entry := m{"manager": "x", "operation": "Update", "apiVersion": "authentication.k8s.io/v1", "fieldsType": "FieldsV1", "fieldsV1": m{"f:spec": m{}}}
	r.ask("serviceaccounts/token", "account", &request{method: "POST", path: account, body: m{"metadata": m{"name": "robot"}}})
	for _, body := range []m{
		{"spec": m{"expirationSeconds": 3600}},
		{"spec": m{}, "metadata": m{"labels": m{"a": "b"}}},
		{"spec": m{"expirationSeconds": 3600, "audiences": []string{"a"}}, "metadata": m{"managedFields": []any{entry}}},
		{"spec": m{"expirationSeconds": 3600}, "metadata": m{"managedFields": []any{m{"manager": "x", "operation": "Other"}}}},
		{"spec": m{"expirationSeconds": 1}},
	} {
		for _, query := range []string{"", "?fieldManager=m"} {
			q := &request{method: "POST", path: account + "/robot/token" + query, body: body}
			r.requests++
			var got [2]*answer
			for side, p := range r.peers {
				got[side] = p.ask(q)
				var review m
				if got[side].code < 300 && json.Unmarshal(got[side].body, &review) == nil {
					review["status"].(m)["token"] = "«token»"
					got[side].body = []byte(print(review))
				}
			}
			r.compare("serviceaccounts/token", "token", q, got)
		}
	}
	for _, name := range []string{"", "a"} {
		r.ask("authorization.k8s.io/selfsubjectaccessreviews", "managed fields", &request{method: "POST", path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			body: m{"metadata": m{"name": name, "managedFields": []any{entry}}, "spec": m{"nonResourceAttributes": m{"path": "/x", "verb": "get"}}}})
	}
}

// nulls asks about drivers of a node with lists that are null.
func (r *run) nulls() {
	r.t.Helper()
	const path = "/apis/storage.k8s.io/v1/csinodes"
	for _, driver := range []m{{"name": "a", "nodeID": "b", "topologyKeys": nil}, {"name": "a", "nodeID": "b"}, {"name": "a", "nodeID": "b", "topologyKeys": []string{"x"}}} {
		body := m{"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": m{"name": "nulls"}, "spec": m{"drivers": []any{driver}}}
		for _, q := range []request{
			{method: "POST", path: path, body: body},
			{method: "PATCH", path: path + "/nulls", kind: mergePatch, body: labels("a", "b")},
			{method: "PATCH", path: path + "/nulls?fieldManager=m&force=true", kind: applyPatch, body: body},
			{method: "GET", path: path + "/nulls"},
			{method: "DELETE", path: path + "/nulls"},
		} {
			r.ask("storage.k8s.io/csinodes", "nulls", &q)
		}
	}
}

// approvals asks which subresource of a request for a certificate may set which condition, and when it says that it was.
func (r *run) approvals(minimal m) {
	r.t.Helper()
	const path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	condition := func(typ, status string, more ...m) m {
		c := m{"type": typ, "status": status}
		for _, add := range more {
			merge(c, add)
		}
		return c
	}
	approved, denied, failed, other := condition("Approved", "True"), condition("Denied", "True"), condition("Failed", "True"), condition("Other", "Unknown")
	long := m{"lastUpdateTime": "2020-01-01T00:00:00Z", "lastTransitionTime": "2020-01-02T00:00:00Z"}
	certificate := newCertificate(r.t)
	steps := []struct {
		name, part string
		status     m
	}{
		{"a", "", m{"conditions": []m{approved}}},
		{"a", "/status", m{"conditions": []m{approved}}},
		{"a", "/status", m{"conditions": []m{denied, denied}}},
		{"a", "/status", m{"conditions": []m{other}}},
		{"a", "/status", m{"conditions": []m{condition("Other", "Unknown", m{"message": "n"})}}},
		{"a", "/status", m{"certificate": "eA=="}},
		{"a", "/status", m{"conditions": []m{other, failed}, "certificate": certificate}},
		{"a", "/status", m{"conditions": []m{other}}},
		{"a", "/status", m{"certificate": "eA=="}},
		{"a", "/status", m{"certificate": nil}},
		{"a", "/approval", m{"conditions": []m{other, failed, condition("Approved", "True", long)}, "certificate": "eA=="}},
		{"a", "/approval", m{"conditions": []m{other, failed}}},
		{"a", "/approval", m{"conditions": []m{other, failed, condition("Approved", "True", m{"message": "changed"})}}},
		{"a", "/status", m{"conditions": []m{failed, condition("Approved", "True", m{"message": "again"}), other}}},
		{"a", "/status", m{"conditions": []m{other, failed}}},
		{"a", "/status", m{"conditions": []m{other, failed, approved, denied}}},
		{"a", "/approval", m{"conditions": []m{other, failed, approved, denied}}},
		{"b", "/approval", m{"certificate": certificate}},
		{"b", "/approval", m{"conditions": []m{condition("", "True"), condition("Approved", "False"), condition("Approved", "True")}}},
		{"b", "/approval", m{"conditions": []m{denied, denied}}},
		{"b", "/approval", m{"conditions": []m{denied}}},
		{"b", "/status", m{"conditions": []m{condition("Denied", "True", m{"message": "x"}), approved}}},
		{"b", "/status", m{"conditions": []m{}}},
		{"b", "/approval", m{"conditions": nil}},
	}
	const of = "certificates.k8s.io/certificatesigningrequests"
	names := []string{"a", "b", "c"}
	for _, name := range names {
		body := clone(minimal)
		body["metadata"] = m{"name": name}
		r.ask(of, "approvals", &request{method: "POST", path: path, body: body})
	}
	for _, s := range steps {
		r.ask(of, "approvals", &request{method: "PATCH", path: path + "/" + s.name + s.part + "?fieldManager=m", kind: mergePatch, body: m{"status": s.status, "metadata": m{"labels": m{"of": "x" + strings.TrimPrefix(s.part, "/")}}}})
	}
	for _, s := range []struct {
		part   string
		status m
	}{{"/approval", m{"conditions": []m{approved}}}, {"/status", m{"conditions": []m{failed}}}, {"/status", m{"conditions": []m{denied}}}, {"/approval", m{"conditions": []m{}}}} {
		r.ask(of, "approvals", &request{method: "PATCH", path: path + "/c" + s.part + "?fieldManager=by" + s.part[1:], kind: applyPatch,
			body: m{"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "status": s.status}})
	}
	for _, name := range names {
		r.ask(of, "approvals", &request{method: "GET", path: path + "/" + name})
		r.ask(of, "approvals", &request{method: "DELETE", path: path + "/" + name})
	}
}

// newCertificate is a certificate in PEM, as JSON has its bytes.
func newCertificate(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
