package server

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// TestTokensAreNotLogged sends tokens in every place where the server looks for one. Neither its
// log, at the most detailed level, nor the audit log contains any of them. CVE-2019-11250 and
// CVE-2020-8565 are tokens in logs.
func TestTokensAreNotLogged(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const known, unknown, unreadable = "known-tok-71", "unknown-tok-72", "e30.unreadable-tok-73.e30"
	var log bytes.Buffer // read after the server has ended
	r := start(t, Config{Store: mem.New(mem.Options{}), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 100})),
		TokenAuthFile:   write("tokens.csv", known+",ann,1,dev\n"),
		AuditPolicyFile: write("policy.yaml", `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"Metadata"}]}`),
		AuditLog:        audit.LogConfig{Path: filepath.Join(dir, "audit.log"), MaxSize: 1}})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	code, _ := r.call(client, "GET", "/version", "", "Authorization", "Bearer "+known)
	if code != 200 {
		t.Errorf("the known token: got %d, want 200", code)
	}
	for _, token := range []string{known, unknown, unreadable} {
		for _, value := range []string{"Bearer " + token, "Bearer  " + token, "bearer " + token, "Basic " + token, token} {
			r.call(client, "GET", "/api/v1/secrets", "", "Authorization", value)
		}
		r.call(client, "GET", "/api/v1/secrets?watch=1", "", "Connection", "Upgrade", "Upgrade", "websocket",
			"Sec-Websocket-Protocol", "base64url.bearer.authorization.k8s.io."+base64.RawURLEncoding.EncodeToString([]byte(token))+", base64.binary.k8s.io")
		r.must("POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"`+token+`"}}`)
	}
	r.end()
	recorded, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	if err != nil || !bytes.Contains(recorded, []byte("/api/v1/secrets")) {
		t.Fatalf("audit log: got %v, %s", err, recorded)
	}
	if !strings.Contains(log.String(), "msg=ready") {
		t.Fatalf("log: got %s", log.String())
	}
	for _, token := range []string{known, unknown, "unreadable-tok-73"} {
		for _, form := range []string{token, base64.RawURLEncoding.EncodeToString([]byte(token))} {
			for name, text := range map[string]string{"log": log.String(), "audit log": string(recorded)} {
				if i := strings.Index(text, form); i >= 0 {
					t.Errorf("%s contains %q: %s", name, form, text[max(0, i-200):min(len(text), i+100)])
				}
			}
		}
	}
}

// TestUnusedMessagesAreLogged checks that the log has each messageExpression that failed, at --v 2 and
// not below.
func TestUnusedMessagesAreLogged(t *testing.T) {
	for level, want := range map[slog.Level]int{-1: 0, -2: 1} {
		var log bytes.Buffer // read after the server has ended
		r := start(t, Config{Store: mem.New(mem.Options{}), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))})
		r.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
			"metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Cluster","names":{"kind":"Thing","plural":"things"},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",
			"properties":{"a":{"type":"string"}},"x-kubernetes-validations":[{"rule":"false","message":"m","messageExpression":"self.a"}]}}}}}]}}`)
		if code, body := r.call(r.client, "POST", "/apis/example.com/v1/things", `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"x"},"spec":{}}`); code != 422 || !strings.Contains(body, "spec: Invalid value: m") {
			t.Errorf("got %d %s", code, body)
		}
		r.end()
		const line = `msg="messageExpression evaluation failed" kind="example.com/v1, Kind=Thing" field=spec messageExpression=self.a error="messageExpression evaluation failed due to: no such key: a"`
		if n := strings.Count(log.String(), line); n != want {
			t.Errorf("level %d: got %d lines, want %d; log:\n%s", level, n, want, log.String())
		}
	}
}

// TestLogLinesAreFewAndWhole holds that clients can neither fill the log with requests nor write lines of their own into it.
func TestLogLinesAreFewAndWhole(t *testing.T) {
	var log bytes.Buffer // read after the server has ended
	r := start(t, Config{Store: mem.New(mem.Options{}), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 100}))})
	r.must("POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", `{"apiVersion":"admissionregistration.k8s.io/v1",
		"kind":"ValidatingWebhookConfiguration","metadata":{"name":"v"},"webhooks":[{"name":"nobody.example.com","admissionReviewVersions":["v1"],
		"sideEffects":"None","failurePolicy":"Ignore","clientConfig":{"url":"https://127.0.0.1:1/"},
		"rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]}]}`)
	for i := range 50 {
		r.must("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a%d"}}`, i))
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	r.call(client, "GET", "/x%0atime=1%20level=ERROR%20msg=forged%1b%5B2J%0d", "")
	r.end()
	if n := strings.Count(log.String(), "failing open"); n != 1 {
		t.Errorf("got %d lines about a webhook that cannot be reached, want 1 in a minute", n)
	}
	if !strings.Contains(log.String(), "msg=forged") {
		t.Errorf("no line names the path of the request that was refused")
	}
	for line := range strings.Lines(log.String()) {
		if !strings.HasPrefix(line, "time=2") || strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\r\x1b") {
			t.Errorf("not a line of the server's own: %q", line)
		}
	}
}
