package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// This file is tokens that are kept in Secrets.

// secretData is the data of a Secret.
func (s *server) secretData(t *testing.T, path string) map[string]string {
	t.Helper()
	var o struct{ Data map[string][]byte }
	if err := json.Unmarshal(s.do(t, 200, "GET", path, nil), &o); err != nil {
		t.Fatal(err)
	}
	data := map[string]string{}
	for k, v := range o.Data {
		data[k] = string(v)
	}
	return data
}

const accountSecret = `
apiVersion: v1
kind: Secret
metadata: {name: %s, annotations: {kubernetes.io/service-account.name: %s}}
type: kubernetes.io/service-account-token
`

func TestTokensOfSecrets(t *testing.T) {
	s := startServer(t)
	k := newKubectl(t, s)
	v := newVisitor(t, s, nil)
	k.ok(t, []string{"create", "serviceaccount", "robot"})
	k.in(t, fmt.Sprintf(accountSecret, "kept", "robot"), []string{"create", "-f", "-"}, "secret/kept created")
	const path = inDefault + "secrets/kept"
	var data map[string]string
	eventually(t, "the token", func() bool { data = s.secretData(t, path); return data["token"] != "" })
	token := data["token"]
	if data["namespace"] != "default" || !strings.Contains(data["ca.crt"], "BEGIN CERTIFICATE") {
		t.Errorf("got %v", data)
	}
	k.ok(t, []string{"describe", "secret", "kept"}, "kubernetes.io/service-account.uid", "Type:  kubernetes.io/service-account-token", "namespace:  7 bytes", token)
	if got := v.who(t, bearer(token)...); !strings.HasPrefix(got, "system:serviceaccount:default:robot ") || !strings.HasSuffix(got, "[system:serviceaccounts system:serviceaccounts:default system:authenticated]") {
		t.Errorf("got %s", got)
	}
	if text := string(s.do(t, 200, "GET", path, nil)); !strings.Contains(text, `"kubernetes.io/legacy-token-last-used":"`+time.Now().UTC().Format(time.DateOnly)) {
		t.Errorf("the use is not noted: %s", text)
	}
	if s.metric(t, "serviceaccount_legacy_manual_token_uses_total") != "1" || s.metric(t, "serviceaccount_legacy_tokens_total") != "1" {
		t.Error("uses are not counted")
	}
	parts := strings.Split(token, ".")
	for what, bad := range map[string]string{"no signature": parts[0] + "." + parts[1] + ".", "algorithm none": b64(`{"alg":"none"}`) + "." + parts[1] + ".", "cut": token[:len(token)-1]} {
		if got := v.who(t, bearer(bad)...); got != "401" {
			t.Errorf("%s: got %s", what, got)
		}
	}
	// What somebody takes away is filled in; a token that was taken away is another one afterwards.
	s.do(t, 200, "PATCH", path, []byte(`{"data":{"ca.crt":null,"namespace":null}}`), "Content-Type", "application/merge-patch+json")
	eventually(t, "the rest", func() bool { data = s.secretData(t, path); return data["namespace"] != "" && data["ca.crt"] != "" })
	if data["token"] != token {
		t.Error("the token was replaced")
	}
	// A secret for nobody goes, and one of an account that goes with it.
	k.in(t, fmt.Sprintf(accountSecret, "lost", "nobody"), []string{"create", "-f", "-"})
	gone := func(name string) func() bool {
		return func() bool { code, _, _ := s.try("GET", inDefault+"secrets/"+name, nil); return code == 404 }
	}
	eventually(t, "a secret for nobody is deleted", gone("lost"))
	k.in(t, fmt.Sprintf(accountSecret, "more", "robot"), []string{"create", "-f", "-"})
	eventually(t, "another token", func() bool { data = s.secretData(t, inDefault+"secrets/more"); return data["token"] != "" })
	more := data["token"]
	s.do(t, 200, "PATCH", inDefault+"serviceaccounts/robot", []byte(`{"secrets":[{"name":"more"},{"name":"other"}]}`), "Content-Type", "application/merge-patch+json")
	s.do(t, 200, "DELETE", inDefault+"secrets/more", nil)
	if got := v.who(t, bearer(more)...); got != "401" {
		t.Errorf("after its secret is gone: got %s", got)
	}
	eventually(t, "the secret is taken off the list", func() bool {
		return strings.Contains(string(s.do(t, 200, "GET", inDefault+"serviceaccounts/robot", nil)), `"secrets":[{"name":"other"}]`)
	})
	// A secret that nobody made for tokens, with one in it, is none.
	s.do(t, 201, "POST", inDefault+"secrets", fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"more"},"data":{"token":%q}}`, base64.StdEncoding.EncodeToString([]byte("x"))))
	s.do(t, 200, "DELETE", inDefault+"serviceaccounts/robot", nil)
	eventually(t, "secrets go with their account", gone("kept"))
	k.ok(t, []string{"create", "serviceaccount", "robot"})
	if got := v.who(t, bearer(more)...); got != "401" {
		t.Errorf("an account of the same name: got %s", got)
	}
	s.do(t, 200, "GET", inDefault+"secrets/more", nil)

	without := startServer(t, "--controllers", "*,-serviceaccount-token")
	without.do(t, 201, "POST", inDefault+"secrets", []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"kept","annotations":{"kubernetes.io/service-account.name":"default"}},"type":"kubernetes.io/service-account-token"}`))
	without.passes(t)
	if data := without.secretData(t, inDefault+"secrets/kept"); data["token"] != "" {
		t.Error("a token without the controller")
	}
}

func TestBootstrapTokens(t *testing.T) {
	const secret = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"bootstrap-token-abcdef","namespace":%q},"type":"bootstrap.kubernetes.io/token","stringData":{"token-id":"abcdef","token-secret":"0123456789abcdef","usage-bootstrap-authentication":"true","auth-extra-groups":"system:bootstrappers:workers"}}`
	const token = "abcdef.0123456789abcdef"
	s := startServer(t, "--enable-bootstrap-token-auth")
	v := newVisitor(t, s, nil)
	if got := v.who(t, bearer(token)...); got != "401" {
		t.Errorf("before there is a secret: got %s", got)
	}
	s.do(t, 201, "POST", inDefault+"secrets", fmt.Appendf(nil, secret, "default"))
	if got := v.who(t, bearer(token)...); got != "401" {
		t.Errorf("in another namespace: got %s", got)
	}
	const path = "/api/v1/namespaces/kube-system/secrets"
	s.do(t, 201, "POST", path, fmt.Appendf(nil, secret, "kube-system"))
	if got := v.who(t, bearer(token)...); got != "system:bootstrap:abcdef [system:bootstrappers system:bootstrappers:workers system:authenticated]" {
		t.Errorf("got %s", got)
	}
	if got := v.who(t, bearer("abcdef.0123456789abcdeg")...); got != "401" {
		t.Errorf("another secret: got %s", got)
	}
	without := startServer(t)
	without.do(t, 201, "POST", path, fmt.Appendf(nil, secret, "kube-system"))
	if got := newVisitor(t, without, nil).who(t, bearer(token)...); got != "401" {
		t.Errorf("without the flag: got %s", got)
	}
}
