package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file reads what a server has recorded.

// auditLog reads the events of a log.
func auditLog(t *testing.T, path string) []audit.Event {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var events []audit.Event
	for line := range strings.Lines(string(text)) {
		var e audit.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		events = append(events, e)
	}
	return events
}

func TestAudit(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	r := start(t, Config{Store: mem.New(mem.Options{}),
		TokenAuthFile: write("tokens.csv", "good,root,1,system:masters\nplain,ann,2,dev\n"),
		AuditPolicyFile: write("policy.yaml", `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"omitManagedFields":true,"rules":[
			{"level":"None","users":["keelson-admin","system:apiserver"]},{"level":"None","userGroups":["system:serviceaccounts:kube-system"]},
			{"level":"RequestResponse","resources":[{"group":"demo.io"}]},{"level":"Metadata"}]}`),
		AuditLog: audit.LogConfig{Path: filepath.Join(dir, "audit.log"), MaxSize: 1}})
	r.define()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	call := func(method, path, body string, headers ...string) {
		t.Helper()
		r.call(client, method, path, body, headers...)
	}
	good := []string{"Authorization", "Bearer good"}
	call("POST", widgetsPath, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"color":"red","odd":1}}`, good...)
	call("PATCH", widgetsPath+"/a", "spec:\n  color: blue\n", append(good, "Content-Type", "application/merge-patch+json")...)
	call("GET", widgetsPath+"/a", "", "Authorization", "Bearer plain")
	call("GET", "/healthz", "", "Authorization", "Bearer wrong")
	call("GET", "/version", "")
	call("GET", "/api/v1/namespaces", "", "Authorization", "Bearer plain", "Impersonate-User", "root")
	call("GET", "/api/v1/namespaces", "", append(good, "Impersonate-User", "bob")...)
	call("DELETE", widgetsPath+"/a", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`, append(good, "Content-Type", "application/json")...)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "https://"+r.Addr()+widgetsPath+"?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer good")
	if resp, err := client.Do(req); err == nil {
		resp.Body.Close()
	}
	r.end()
	var got []string
	for _, e := range auditLog(t, filepath.Join(dir, "audit.log")) {
		line := []string{string(e.Stage), e.User.Username, e.Verb, e.RequestURI}
		if e.ImpersonatedUser != nil {
			line = append(line, "as "+e.ImpersonatedUser.Username)
		}
		line = append(line, e.ResponseStatus.Message, http.StatusText(int(e.ResponseStatus.Code)))
		a := e.Annotations
		decision := a["authorization.k8s.io/decision"]
		if _, ok := a["authorization.k8s.io/reason"]; ok != (decision != "") {
			t.Errorf("%v: decision without reason", a)
		}
		line = append(line, decision, string(e.RequestObject), string(e.ResponseObject))
		if e.AuditID == "" || e.RequestReceivedTimestamp.IsZero() || e.StageTimestamp.IsZero() || len(e.SourceIPs) != 1 || e.UserAgent == "" {
			t.Errorf("event lacks what it has to have: %+v", e)
		}
		got = append(got, strings.Join(line, "|"))
	}
	// What differs from object to object.
	uid := regexp.MustCompile(`"(uid|creationTimestamp|resourceVersion)":"[^"]*"`)
	want := []string{
		`ResponseComplete|root|create|` + widgetsPath + `||Created|allow|{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"color":"red"}}|` +
			`{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"creationTimestamp":"","generation":1,"name":"a","namespace":"default","resourceVersion":"","uid":""},"spec":{"color":"red"}}`,
		`ResponseComplete|root|patch|` + widgetsPath + `/a|invalid JSON patch|Bad Request|allow|"spec:\n  color: blue\n"|` +
			`{"apiVersion":"v1","code":400,"kind":"Status","message":"invalid JSON patch","metadata":{},"reason":"BadRequest","status":"Failure"}`,
		`ResponseComplete|ann|get|` + widgetsPath + `/a|widgets.demo.io "a" is forbidden: User "ann" cannot get resource "widgets" in API group "demo.io" in the namespace "default"|Forbidden|forbid||` +
			`{"apiVersion":"v1","code":403,"details":{"group":"demo.io","kind":"widgets","name":"a"},"kind":"Status","message":"widgets.demo.io \"a\" is forbidden: User \"ann\" cannot get resource \"widgets\" in API group \"demo.io\" in the namespace \"default\"","metadata":{},"reason":"Forbidden","status":"Failure"}`,
		`ResponseStarted||get|/healthz|Unauthorized|Unauthorized|||`,
		`ResponseComplete|system:anonymous|get|/version||OK|allow||`,
		`ResponseComplete|ann|list|/api/v1/namespaces|namespaces is forbidden: User "ann" cannot impersonate-on:user-info:list resource "namespaces" in API group "" at the cluster scope|Forbidden|||`,
		`ResponseComplete|root|list|/api/v1/namespaces|as bob|namespaces is forbidden: User "bob" cannot list resource "namespaces" in API group "" at the cluster scope|Forbidden|forbid||`,
		`ResponseComplete|root|delete|` + widgetsPath + `/a||OK|allow|{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}|` +
			`{"apiVersion":"v1","details":{"group":"demo.io","kind":"widgets","name":"a","uid":""},"kind":"Status","metadata":{},"status":"Success"}`,
		`ResponseStarted|root|watch|` + widgetsPath + `?watch=1||OK|allow||`,
		`ResponseComplete|root|watch|` + widgetsPath + `?watch=1||OK|allow||`,
	}
	if len(got) != len(want) {
		t.Errorf("got %d events, want %d: %s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range min(len(got), len(want)) {
		if text := uid.ReplaceAllString(got[i], `"$1":""`); text != want[i] {
			t.Errorf("event %d:\ngot  %s\nwant %s", i, text, want[i])
		}
	}
}
