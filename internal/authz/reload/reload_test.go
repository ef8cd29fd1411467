package reload

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/reloads"
	"github.com/keelson-io/keelson/internal/testcerts"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file changes files while they decide.

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n"

// reloaded is an authorizer with its files and its log.
type reloaded struct {
	*Authorizer
	t    *testing.T
	reg  *prometheus.Registry
	log  *lines
	file string
}

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.b.String()
	l.b.Reset()
	return s
}

// allowTo allows one user everything.
type allowTo string

func (u allowTo) Authorize(_ context.Context, a *authz.Attributes) authz.Result {
	if a.User.Name == string(u) {
		return authz.Result{Decision: authz.Allow}
	}
	return authz.Result{}
}

func start(t *testing.T, text string, required ...string) *reloaded {
	t.Helper()
	r := &reloaded{t: t, reg: prometheus.NewRegistry(), log: &lines{}, file: filepath.Join(t.TempDir(), "authz.yaml")}
	r.write(r.file, text)
	c, data, err := (&config.Flags{File: r.file}).Load()
	if err != nil {
		t.Fatal(err)
	}
	made := Config{Configuration: c, File: r.file, Text: data, Metrics: r.reg, ServerID: "x", Logger: slog.New(slog.NewTextHandler(r.log, nil))}
	if c.Has(config.RBAC) {
		made.RBAC = allowTo("rbac")
	}
	if r.Authorizer, err = New(made); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *reloaded) write(path, text string) {
	r.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// TestAlwaysAuthorizers checks reloads that add and remove authorizers with a fixed answer: those from
// the start must stay, others can come and go.
func TestAlwaysAuthorizers(t *testing.T) {
	for _, c := range []struct{ name, initial, added, missing string }{
		{"AlwaysAllow", allow, allow + deny, "missing required types: [AlwaysAllow]"},
		{"AlwaysDeny", deny, deny + allow, "missing required types: [AlwaysDeny]"},
	} {
		r := start(t, head+rbac+c.initial)
		r.check(head + rbac)
		r.counts(0, 1)
		if log := r.log.take(); !strings.Contains(log, c.missing) {
			t.Errorf("%s is removed: got log %s, want %q", c.name, log, c.missing)
		}
		r.check(head + rbac + c.added)
		r.check(head + c.initial + rbac)
		r.counts(2, 1)
	}
}

// expect is who decides now: a user that is asked about, and the answer's author.
func (r *reloaded) expect(user, by string) {
	r.t.Helper()
	got := r.Authorize(context.Background(), &authz.Attributes{User: &authn.User{Name: user}, Verb: "get", Path: "/x"})
	if got.By != by {
		r.t.Errorf("%s: got %+v, want an answer of %q", user, got, by)
	}
}

// counts returns the reloads that went well and that failed.
func (r *reloaded) counts(success, failure float64) {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "apiserver_authorization_config_controller_automatic_reloads_total" {
				got[m.GetLabel()[1].GetValue()] = m.GetCounter().GetValue()
			}
			if f.GetName() == "apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds" && m.GetGauge().GetValue() < 1e9 {
				r.t.Errorf("timestamp: got %v", m)
			}
		}
	}
	if got["success"] != success || got["failure"] != failure {
		r.t.Errorf("reloads: got %v, want %v that went well, %v that failed", got, success, failure)
	}
}

// info returns the hash of the configuration in force.
func (r *reloaded) info(text string) {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "apiserver_authorization_config_controller_last_config_info" {
			if m := f.GetMetric(); len(m) != 1 || m[0].GetLabel()[1].GetValue() != reloads.Hash(text) || !strings.HasPrefix(m[0].GetLabel()[0].GetValue(), "sha256:") {
				r.t.Errorf("info: got %v, want %s", m, reloads.Hash(text))
			}
			return
		}
	}
	r.t.Error("no info")
}

func (r *reloaded) check(text string) {
	r.t.Helper()
	r.write(r.file, text)
	r.Check(context.Background())
}

const (
	rbac  = "- {type: RBAC, name: rbac}\n"
	allow = "- {type: AlwaysAllow, name: alwaysallow}\n"
	deny  = "- {type: AlwaysDeny, name: alwaysdeny}\n"
)

func TestFilesThatChange(t *testing.T) {
	r := start(t, head+rbac)
	r.info(head + rbac)
	r.counts(0, 0)
	r.Check(context.Background())
	r.counts(0, 0)
	r.check(head + rbac + allow)
	r.expect("rbac", "rbac")
	r.expect("ann", "alwaysallow")
	r.counts(1, 0)
	r.info(head + rbac + allow)
	log := r.log.take()
	for _, line := range []string{"found new authorization config data", "found new authorization config", "constructed new authorizer", "reloaded authz config"} {
		if !strings.Contains(log, line) {
			t.Errorf("log has no %q: %s", line, log)
		}
	}
	// Every way of being wrong leaves what was good.
	failures := 0.0
	for _, row := range []struct{ text, want string }{
		{"", "authorizers: Required value: at least one authorization mode must be defined"},
		{"{", "failed to load AuthorizationConfiguration from file"},
		{head, "at least one authorization mode"},
		{head + allow, "missing required types: [RBAC]"},
		{head + rbac + "- {type: Node, name: node}", "authorizer type Node is not allowed if it was not enabled at initial server startup"},
		{head + rbac + "- {type: ABAC, name: abac}", "authorizer type ABAC is not allowed if it was not enabled at initial server startup"},
		{head + rbac + hook("w", "/no/such/file"), "no such file or directory"},
	} {
		for range 2 { // the second time, nothing is new
			r.check(row.text)
		}
		failures++
		r.expect("ann", "alwaysallow")
		r.counts(1, failures)
		if log := r.log.take(); strings.Count(log, "reloading authorization config") != 1 || !strings.Contains(log, row.want) {
			t.Errorf("%q: log %s", row.text, log)
		}
		r.info(head + rbac + allow)
	}
	// Back to what is in force: nothing to do.
	r.check(head + rbac + allow)
	r.counts(1, failures)
	if log := r.log.take(); !strings.Contains(log, "found new authorization config data") || strings.Contains(log, "reloaded") {
		t.Errorf("log: %s", log)
	}
	// A comment changes the text, not the configuration.
	r.check(head + rbac + allow + "# more\n")
	r.counts(1, failures)
	r.info(head + rbac + allow)
	// In another order; removed types that were added.
	r.check(head + deny + rbac)
	r.counts(2, failures)
	r.expect("ann", "")
	if err := os.Remove(r.file); err != nil {
		t.Fatal(err)
	}
	r.Check(context.Background())
	r.Check(context.Background())
	r.counts(2, failures+1)
	r.expect("rbac", "rbac")
}

// hook returns a webhook's entry.
func hook(name, kubeconfig string) string {
	return fmt.Sprintf(`- type: Webhook
  name: %s
  webhook: {timeout: 1s, subjectAccessReviewVersion: v1, failurePolicy: Deny, connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}}
`, name, kubeconfig)
}

// service answers every review with yes, or with an error.
func service(t *testing.T) (url string, well *atomic.Bool, asked *atomic.Int32) {
	well, asked = new(atomic.Bool), new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if !well.Load() {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		io.WriteString(w, `{"status":{"allowed":true}}`)
	}))
	t.Cleanup(s.Close)
	return s.URL, well, asked
}

func kubeconfig(url string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":%q}}]}`, url)
}

// A webhook that does not answer keeps the new configuration out until it does.
// Ledger: reload-health.
func TestHealthIsAwaited(t *testing.T) {
	url, well, asked := service(t)
	r := start(t, head+rbac)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	r.write(file, kubeconfig(url))
	text := head + hook("hook", file) + rbac
	r.check(text)
	r.counts(0, 1)
	r.expect("ann", "")
	if log := r.log.take(); !strings.Contains(log, "webhook hook is not healthy: the server could not find the requested resource") {
		t.Errorf("log: %s", log)
	}
	r.Check(context.Background())
	r.counts(0, 1)
	if asked.Load() != 2 {
		t.Errorf("asked %d times", asked.Load())
	}
	well.Store(true)
	r.Check(context.Background())
	r.counts(1, 1)
	r.info(text)
	r.expect("ann", "hook")
	asked.Store(0)
	r.Check(context.Background())
	if asked.Load() != 0 {
		t.Error("what is in force is asked without need")
	}
}

// What a rejected configuration lacked is repaired: it comes into force without
// a change of its file.
// Ledger: reload-retries.
func TestRepairedDependency(t *testing.T) {
	url, well, _ := service(t)
	well.Store(true)
	r := start(t, head+rbac)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	r.check(head + hook("hook", file) + rbac)
	r.counts(0, 1)
	r.write(file, "not a kubeconfig")
	r.Check(context.Background())
	r.counts(0, 2) // for another reason
	r.write(file, kubeconfig(url))
	r.Check(context.Background())
	r.counts(1, 2)
	r.expect("ann", "hook")
}

// The contents of a kubeconfig are a part of the configuration.
// Ledger: kubeconfig-reload.
func TestChangedKubeconfig(t *testing.T) {
	first, well1, _ := service(t)
	second, well2, asked2 := service(t)
	well1.Store(true)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig(first)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, head+hook("hook", file))
	r.expect("ann", "hook")
	r.write(file, kubeconfig(second))
	r.Check(context.Background())
	r.counts(0, 1) // the second service is not well
	r.expect("ann", "hook")
	well2.Store(true)
	r.Check(context.Background())
	r.counts(1, 1)
	before := asked2.Load()
	r.expect("ann", "hook")
	if asked2.Load() != before+1 {
		t.Error("the second service is not asked: the answers of the first one were kept")
	}
}

// TestFilesOfKubeconfigs changes the authority that a kubeconfig names, with a configuration of flags.
// Ledger: kubeconfig-reload.
func TestFilesOfKubeconfigs(t *testing.T) {
	first, well1, _ := service(t)
	second, well2, asked2 := service(t)
	well1.Store(true)
	well2.Store(true)
	dir := t.TempDir()
	file, ca := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "ca.crt")
	made := testcerts.Sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true}, nil)
	good := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]}))
	named := func(url string) string {
		return strings.Replace(kubeconfig(url), `"server":`, `"certificate-authority": "ca.crt", "server":`, 1)
	}
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(ca, good)
	put(file, named(first))
	c, err := config.Load([]byte(head + hook("hook", file)))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	z, err := New(Config{Configuration: c, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if got := z.paths(); !slices.Equal(got, []string{ca, file}) {
		t.Errorf("watched files: got %v", got)
	}
	for _, row := range []struct{ what, path, text, want string }{
		{"another authority", ca, good + "\n", "reloaded authz config"},
		{"another kubeconfig", file, named(second), "reloaded authz config"},
	} {
		log.Reset()
		put(row.path, row.text)
		z.Check(t.Context())
		if !strings.Contains(log.String(), row.want) {
			t.Errorf("%s: got log %s", row.what, log.String())
		}
	}
	if asked2.Load() == 0 {
		t.Error("the second service was not asked")
	}
}

// TestMissingKubeconfig removes a kubeconfig, and puts it back.
func TestMissingKubeconfig(t *testing.T) {
	url, well, _ := service(t)
	well.Store(true)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig(url)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, head+hook("hook", file))
	remove := func() {
		t.Helper()
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	check := func(failures float64) {
		t.Helper()
		r.Check(t.Context())
		r.counts(0, failures)
		r.expect("ann", "hook")
	}
	remove()
	check(0) // it may come back at once
	check(1)
	check(1) // the same again
	r.write(file, kubeconfig(url))
	check(1)
	remove()
	check(1)
	check(2)
}

// Run notices by itself; requests that are under way end on the chain that they
// began with.
func TestRun(t *testing.T) {
	release, arrived := make(chan bool), make(chan bool)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "slow") {
			close(arrived)
			<-release
		}
		io.WriteString(w, `{"status":{"allowed":true}}`)
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig(s.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, strings.Replace(head+hook("hook", file), "timeout: 1s", "timeout: 30s", 1))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan bool)
	go func() { r.Run(ctx); close(done) }()
	slow := make(chan authz.Result)
	go func() {
		slow <- r.Authorize(context.Background(), &authz.Attributes{User: &authn.User{Name: "slow"}, Verb: "get", Path: "/x"})
	}()
	<-arrived
	// As an editor replaces a file.
	next := r.file + ".new"
	r.write(next, head+deny)
	if err := os.Rename(next, r.file); err != nil {
		t.Fatal(err)
	}
	testkit.EventuallySay(t, func() (string, bool) {
		got := r.Authorize(context.Background(), &authz.Attributes{User: &authn.User{Name: "ann"}, Verb: "get", Path: "/x"})
		return fmt.Sprintf("got %+v, want a refusal by the file", got), got.By == "" && strings.Contains(got.Reason, "alwaysdeny")
	})
	close(release)
	if got := <-slow; got.By != "hook" || got.Decision != authz.Allow {
		t.Errorf("a request that was under way: got %+v", got)
	}
	cancel()
	<-done
}

func TestBrokenFromTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load([]byte(head + hook("hook", file)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(Config{Configuration: c, Logger: slog.Default()})
	if err == nil || !strings.HasPrefix(err.Error(), "invalid authorization config: invalid configuration: no configuration has been provided") {
		t.Errorf("got %v", err)
	}
}
