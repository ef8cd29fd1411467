package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// This file looks into the log for the reasons of refusals, at the default verbosity.

func TestRefusalsInTheLog(t *testing.T) {
	i, other := newIssuer(t), newIssuer(t)
	ours, theirs, proxies := newAuthority(t, "ours"), newAuthority(t, "theirs"), newAuthority(t, "proxies")
	const email = "  claimMappings: {username: {claim: email, prefix: ''}}\n"
	mail := newIssuer(t)
	hook := newTokenHook(t, "v1")
	kubeconfig := hook.kubeconfig(t)
	s := startServer(t, "--authentication-config", putFile(t, "authn.yaml", authenticationHead+i.entry(strictMappings)+mail.entry(email)),
		"--client-ca-file", ours.file, "--requestheader-client-ca-file", proxies.file, "--requestheader-allowed-names", "front", "--requestheader-username-headers", "X-Remote-User",
		"--authentication-token-webhook-config-file", kubeconfig, "--authentication-token-webhook-version", "v1", "--enable-bootstrap-token-auth",
		"--token-auth-file", putFile(t, "tokens.csv", "very-good,ann,7\n"))
	v := newVisitor(t, s, nil)
	eventually(t, "the issuers' keys", func() bool {
		return v.who(t, bearer(i.sign(nil))...) != "401" && v.who(t, bearer(mail.sign(map[string]any{"email": "a@example.com"}))...) != "401"
	})
	s.do(t, 201, "POST", "/api/v1/namespaces/kube-system/secrets", []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"bootstrap-token-abcdef"},"type":"bootstrap.kubernetes.io/token","stringData":{"token-id":"abcdef","token-secret":"0123456789abcdef","usage-bootstrap-authentication":"false"}}`))
	account := newAccountToken(t, s)
	hook.CloseClientConnections()
	hook.Close()
	for name, row := range map[string]struct {
		v     *visitor
		token string
		want  []string
	}{
		"email":         {v, mail.sign(map[string]any{"email": "a@example.com", "email_verified": false}), []string{"issuer " + mail.URL, "email not verified"}},
		"email is text": {v, mail.sign(map[string]any{"email": "a@example.com", "email_verified": "yes"}), []string{"issuer " + mail.URL, "parse 'email_verified' claim"}},
		"audience":      {v, i.sign(map[string]any{"aud": "you"}), []string{"issuer " + i.URL, "expected audience in", "you"}},
		"expired":       {v, i.sign(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), []string{"issuer " + i.URL, "token is expired"}},
		"claim":         {v, i.sign(map[string]any{"role": "guest"}), []string{"issuer " + i.URL, "required claim role value does not match"}},
		"claim rule":    {v, i.sign(map[string]any{"hd": "example.org"}), []string{"issuer " + i.URL, "claims.hd == 'example.com'", "only our own"}},
		"user rule":     {v, i.sign(map[string]any{"username": "system:admin"}), []string{"issuer " + i.URL, "!user.username.startsWith('system:')", "reserved"}},
		"signature":     {v, other.sign(map[string]any{"iss": i.URL}), []string{"issuer " + i.URL, "failed to verify"}},
		"issuer":        {v, other.sign(nil), []string{"the issuer ", other.URL, "is not configured"}},
		"static token":  {v, "very-bad", []string{"token webhook: ", "connection refused"}},
		"bootstrap":     {v, "abcdef.0123456789abcdef", []string{"bootstrap token: ", "usage-bootstrap-authentication is not true"}},
		"account":       {v, account, []string{"service account token: ", `serviceaccounts \"robot\" not found`}},
		"certificate":   {newVisitor(t, s, theirs.issue(nil)), "", []string{"client certificate: ", "unknown authority", "CN=ann"}},
		"proxy":         {newVisitor(t, s, proxies.issue(nil)), "proxy", []string{"request header proxy: ", "cn=ann is not in the allowed list"}},
	} {
		from := len(s.log.String())
		header := bearer(row.token)
		if name == "proxy" {
			header = []string{"X-Remote-User", "root"}
		}
		if row.token == "" {
			header = nil
		}
		if got := row.v.who(t, header...); got != "401" {
			t.Errorf("%s: got %s, want 401", name, got)
		}
		log := strings.ReplaceAll(s.log.String()[from:], `\\`, `\`)
		for _, want := range append(row.want, `level=WARN msg="Unable to authenticate the request"`) {
			if !strings.Contains(strings.ReplaceAll(log, `\"`, `"`), strings.ReplaceAll(want, `\"`, `"`)) {
				t.Errorf("%s: got log %s, want %s", name, log, want)
			}
		}
		for part := range strings.SplitSeq(row.token, ".") {
			if len(part) > 6 && strings.Contains(log, part) {
				t.Errorf("%s: the log has a part of the token: %s", name, log)
			}
		}
	}
	if log := s.log.String(); !strings.Contains(log, `level=ERROR msg="Failed to make webhook authenticator request"`) {
		t.Errorf("the webhook is down: got %s", log)
	}
	// A review that a webhook's outage keeps from an answer is logged, too.
	before := len(s.log.String())
	i.Close()
	code, body, err := s.try("POST", "/apis/authentication.k8s.io/v1/tokenreviews",
		fmt.Appendf(nil, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":%q}}`, other.sign(map[string]any{"iss": i.URL})))
	if err != nil || code != 201 || !strings.Contains(string(body), "fetching keys") {
		t.Errorf("review: got %d %s %v", code, body, err)
	}
	if log := s.log.String()[before:]; !strings.Contains(log, `level=ERROR msg="Failed to fetch the keys of a token issuer"`) || !strings.Contains(log, "issuer "+i.URL) {
		t.Errorf("the issuer is down: got %s", log)
	}
}

// newAccountToken returns a token of a service account that was deleted.
func newAccountToken(t *testing.T, s *server) string {
	t.Helper()
	s.do(t, 201, "POST", inDefault+"serviceaccounts", []byte(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"}}`))
	body := string(s.do(t, 201, "POST", inDefault+"serviceaccounts/robot/token", []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`)))
	_, rest, _ := strings.Cut(body, `"token":"`)
	token, _, _ := strings.Cut(rest, `"`)
	s.do(t, 200, "DELETE", inDefault+"serviceaccounts/robot", nil)
	return token
}
