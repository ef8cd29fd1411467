package e2e

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// This file changes the configuration of authorization under a running server.

const reloadMetric = "apiserver_authorization_config_controller_"

// serverHash is how metrics name the server of this machine.
func serverHash(t *testing.T) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("\x00" + string(rune(len(host))) + host + "\x00\x0ekube-apiserver"))
	id := "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(id)))
}

// changes are the metrics of reloads, and the lines that the log has got.
type changes struct {
	g       *guarded
	hash    string
	log     int
	success float64
	failure float64
	last    map[string]float64 // times of the last success and failure
}

// logged is what has been logged since it was asked last.
func (c *changes) logged() string {
	text := c.g.log.String()[c.log:]
	c.log += len(text)
	return text
}

// expect waits until so many reloads have gone well and failed, and compares everything else.
func (c *changes) expect(what, inForce string, success, failure float64) {
	t := c.g.t
	t.Helper()
	c.success, c.failure = c.success+success, c.failure+failure
	name := func(metric, status string) string {
		return fmt.Sprintf(`%s%s{apiserver_id_hash=%q,status=%q}`, reloadMetric, metric, c.hash, status)
	}
	var now map[string]float64
	eventually(t, what, func() bool {
		now = c.g.samples()
		return now[name("automatic_reloads_total", "success")] == c.success && now[name("automatic_reloads_total", "failure")] == c.failure
	})
	want := map[string]float64{fmt.Sprintf(`%slast_config_info{apiserver_id_hash=%q,hash="sha256:%x"}`, reloadMetric, c.hash, sha256.Sum256([]byte(inForce))): 1}
	for status, n := range map[string]float64{"success": c.success, "failure": c.failure} {
		if n > 0 {
			want[name("automatic_reloads_total", status)] = n
		}
	}
	times := map[string]float64{}
	maps.DeleteFunc(now, func(metric string, n float64) bool {
		if strings.Contains(metric, "timestamp") {
			times[metric] = n
			return true
		}
		return !strings.HasPrefix(metric, reloadMetric)
	})
	compare(t, what, now, want)
	for status, n := range map[string]float64{"success": success, "failure": failure} {
		at := name("automatic_reload_last_timestamp_seconds", status)
		if moved := times[at] > c.last[at]; moved != (n > 0) || moved && time.Since(time.Unix(int64(times[at]), 0)) > time.Minute {
			t.Errorf("%s: time of the last %s: got %v after %v", what, status, times[at], c.last[at])
		}
	}
	c.last = times
}

func TestAuthzReload(t *testing.T) {
	t.Parallel()
	h := newReviewer(t)
	h.on("/one", rules(`{"allowed":true,"reason":"one"}`))
	h.on("/two", rules(`{"allowed":true,"reason":"two"}`))
	file := h.kubeconfig("/one", "")
	one := authzConfig("v1", entry("hook", file, "Deny", ""), plainEntry("RBAC"), plainEntry("Node"))
	g := startGuarded(t, one, []string{"ann"})
	c := &changes{g: g, hash: serverHash(t), last: map[string]float64{}}
	by := func(what, reason string) {
		t.Helper()
		r := g.as("ann", "GET", configMaps, "")
		if got := g.annotations(r)["authorization.k8s.io/reason"]; got != reason || (r.code == 200) != (reason != "") {
			t.Errorf("%s: got %d, reason %q, want %q", what, r.code, got, reason)
		}
	}
	quiet := func(what string) {
		t.Helper()
		if text := c.logged(); strings.Contains(text, "authoriz") && strings.Contains(text, "config") {
			t.Errorf("%s: log has %s", what, text)
		}
	}
	c.expect("at first", one, 0, 0)
	by("at first", "one")
	c.logged()

	// A valid configuration takes effect, and drops the cached answers of webhooks.
	two := authzConfig("v1beta1", plainEntry("Node"), entry("hook", h.kubeconfig("/two", ""), "Deny", ""), plainEntry("AlwaysDeny"), plainEntry("RBAC"))
	overwrite(t, g.file, two)
	c.expect("another", two, 1, 0)
	by("another", "two")
	log := c.logged()
	at := 0
	for _, line := range []string{`msg="found new authorization config data"`, `msg="found new authorization config"`, `msg="constructed new authorizer"`, `msg="reloaded authz config"`} {
		i := strings.Index(log[at:], "level=INFO "+line)
		if i < 0 {
			t.Fatalf("log has no %s after\n%s\nin\n%s", line, log[:at], log)
		}
		at += i
	}

	// What is not good leaves everything as it was, once for each content.
	invalid := map[string]string{
		"empty":             "",
		"truncated":         two[:len(two)/2],
		"no YAML":           "{",
		"without a type":    authzConfig("v1", plainEntry("RBAC"), plainEntry("AlwaysAllow")),
		"with a new type":   authzConfig("v1", plainEntry("RBAC"), plainEntry("Node"), plainEntry("ABAC")),
		"no kubeconfig":     authzConfig("v1", plainEntry("RBAC"), plainEntry("Node"), entry("x", filepath.Join(t.TempDir(), "none"), "Deny", "")),
		"broken expression": authzConfig("v1", plainEntry("RBAC"), plainEntry("Node"), entry("x", file, "Deny", "", "request.user.groups == []")),
		"in cluster":        authzConfig("v1", plainEntry("RBAC"), plainEntry("Node"), strings.Replace(entry("x", file, "Deny", ""), "{type: KubeConfigFile, kubeConfigFile: "+file+"}", "{type: InClusterConfig}", 1)),
	}
	why := map[string]string{
		"empty":             "authorizers: Required value: at least one authorization mode must be defined",
		"truncated":         "failed to load AuthorizationConfiguration from file: ",
		"no YAML":           "failed to load AuthorizationConfiguration from file: ",
		"without a type":    "missing required types: [Node]",
		"with a new type":   "authorizer type ABAC is not allowed if it was not enabled at initial server startup",
		"no kubeconfig":     "authorizers[2].connectionInfo.kubeConfigFile: Invalid value: ",
		"broken expression": "authorizers[2].matchConditions[0].expression: Invalid value: ",
		"in cluster":        "authorizers[2].connectionInfo.type: Invalid value: ",
	}
	for what, text := range invalid {
		overwrite(t, g.file, text)
		c.expect(what, two, 0, 1)
		by(what, "two")
		if log := c.logged(); !strings.Contains(log, `level=ERROR msg="reloading authorization config" err=`) || !strings.Contains(strings.ReplaceAll(log, `\"`, `"`), why[what]) || strings.Count(log, "reloading authorization config") != 1 {
			t.Errorf("%s: log has %s", what, log)
		}
	}
	if err := os.Remove(g.file); err != nil {
		t.Fatal(err)
	}
	c.expect("no file", two, 0, 1)
	by("no file", "two")
	if log := c.logged(); !strings.Contains(log, "no such file or directory") {
		t.Errorf("no file: log has %s", log)
	}
	// Back to what is in force: there is nothing to do. The same holds for what differs in nothing but its text.
	overwrite(t, g.file, two)
	eventually(t, "reading", func() bool {
		return strings.Contains(g.log.String()[c.log:], "found new authorization config data")
	})
	overwrite(t, g.file, two+"# and so on\n")
	eventually(t, "reading again", func() bool {
		return strings.Count(g.log.String()[c.log:], "found new authorization config data") == 2
	})
	c.expect("a comment", two, 0, 0)
	if log := c.logged(); strings.Contains(log, "found new authorization config\"") || strings.Contains(log, "reloaded") {
		t.Errorf("a comment: log has %s", log)
	}

	// A webhook that is not well keeps the configuration out until it is.
	third := filepath.Join(t.TempDir(), "later")
	overwrite(t, third, mustRead(t, h.kubeconfig("/three", "")))
	h.on("/three", rules(`{"allowed":true,"reason":"three"}`))
	h.makeSick("/three", true)
	three := authzConfig("v1", entry("hook", third, "Deny", ""), plainEntry("RBAC"), plainEntry("Node"))
	overwrite(t, g.file, three)
	c.expect("a sick webhook", two, 0, 1)
	by("a sick webhook", "two")
	if log := c.logged(); !strings.Contains(log, "webhook hook is not healthy: the server is currently unable to handle the request") {
		t.Errorf("a sick webhook: log has %s", log)
	}
	h.makeSick("/three", false)
	c.expect("a webhook that is well again", three, 1, 0)
	by("a webhook that is well again", "three")
	// A kubeconfig with other contents, broken ones first, is another configuration.
	overwrite(t, third, "not a kubeconfig")
	c.expect("a broken kubeconfig", three, 0, 1)
	by("a broken kubeconfig", "three")
	overwrite(t, third, mustRead(t, file))
	c.expect("another kubeconfig", three, 1, 0)
	by("another kubeconfig", "one")
	// What a rejected configuration needed is repaired.
	absent := filepath.Join(t.TempDir(), "kubeconfig")
	four := authzConfig("v1", plainEntry("RBAC"), plainEntry("Node"), entry("late", absent, "Deny", ""))
	overwrite(t, g.file, four)
	c.expect("an absent kubeconfig", three, 0, 1)
	overwrite(t, absent, mustRead(t, h.kubeconfig("/two", "")))
	c.expect("a repaired kubeconfig", four, 1, 0)
	by("a repaired kubeconfig", "two")
	c.logged()

	// Who has been asked about decides about what is under way.
	release := make(chan bool)
	arrived := make(chan bool, 1)
	h.on("/two", func(w http.ResponseWriter, r *http.Request, n int) {
		arrived <- true
		<-release
		rules(`{"allowed":true,"reason":"two, late"}`)(w, r, n)
	})
	answer := make(chan reply)
	go func() { answer <- g.as("ann", "GET", "/api/v1/namespaces/default/secrets", "") }()
	<-arrived
	h.on("/two", rules(`{"denied":true,"reason":"two, new"}`))
	five := authzConfig("v1", entry("early", absent, "Deny", ""), plainEntry("RBAC"), plainEntry("Node"))
	overwrite(t, g.file, five)
	c.expect("a request under way", five, 1, 0)
	if r := g.as("ann", "GET", configMaps, ""); r.code != 403 || !strings.Contains(r.body, "two, new") {
		t.Errorf("after the reload: got %d %s", r.code, r.body)
	}
	close(release)
	if r := <-answer; r.code != 200 || g.annotations(r)["authorization.k8s.io/reason"] != "two, late" {
		t.Errorf("the request under way: got %d %s", r.code, r.body)
	}
	c.logged()
	quiet("at the end")
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
