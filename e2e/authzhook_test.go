package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file is what the tests of authorization share: a webhook that can be slow, wrong, closed or contradictory, and a server
// that asks it, with its configuration, its metrics, its log and its audit log.

// reviewer is a webhook that answers SubjectAccessReviews. Its answers, and the requests that it records, depend on the path.
type reviewer struct {
	*httptest.Server
	t     *testing.T
	mu    sync.Mutex
	modes map[string]mode
	asked map[string][]question
	sick  map[string]bool // these do not answer when the server asks how they are, either
}

// question is what the reviewer was asked.
type question struct {
	url, body string
	header    http.Header
	peer      string // the common name of the client's certificate
}

// mode is a way to answer; n counts the questions at a path from 1.
type mode func(w http.ResponseWriter, r *http.Request, n int)

func newReviewer(t *testing.T) *reviewer {
	return newReviewerWith(t, &tls.Config{ClientAuth: tls.RequestClientCert})
}

// newReviewerWith is a reviewer with a certificate of one's own.
func newReviewerWith(t *testing.T, config *tls.Config) *reviewer {
	h := &reviewer{t: t, modes: map[string]mode{}, asked: map[string][]question{}, sick: map[string]bool{}}
	h.Server = httptest.NewUnstartedServer(h)
	h.TLS = config
	h.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

// ServeHTTP records a review and answers it. The server's health checks of a webhook are not recorded.
func (h *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	q := question{url: r.Method + " " + r.URL.String(), body: string(body), header: r.Header.Clone()}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		q.peer = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	checkup := strings.Contains(q.body, `{"nonResourceAttributes":{"path":"/healthz","verb":"get"},"user":"system:apiserver"`)
	h.mu.Lock()
	answer := h.modes[r.URL.Path]
	switch {
	case checkup && h.sick[r.URL.Path]:
		answer = says(503, "")
	case checkup:
		answer = says(200, `{}`)
	default:
		h.asked[r.URL.Path] = append(h.asked[r.URL.Path], q)
	}
	n := len(h.asked[r.URL.Path])
	h.mu.Unlock()
	if answer == nil {
		answer = says(404, "")
	}
	answer(w, r, n)
}

// on sets what is answered at a path.
func (h *reviewer) on(path string, m mode) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.modes[path] = m
}

func (h *reviewer) makeSick(path string, sick bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sick[path] = sick
}

// questions are those at a path so far.
func (h *reviewer) questions(path string) []question {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.asked[path])
}

// says answers with a body of JSON; headers are names and values in turn.
func says(code int, body string, headers ...string) mode {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// rules answers with the status of a review, in the version that was asked with.
func rules(status string) mode { return says(200, `{"status":`+status+`}`) }

// inTurn answers with the first mode first, and with the last one ever after.
func inTurn(modes ...mode) mode {
	return func(w http.ResponseWriter, r *http.Request, n int) { modes[min(n, len(modes))-1](w, r, n) }
}

// slow answers after a while, unless the server has gone by then.
func slow(d time.Duration, m mode) mode {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		select {
		case <-time.After(d):
			m(w, r, n)
		case <-r.Context().Done():
		}
	}
}

// kubeconfig writes one that leads to a path; user is members of its user.
func (h *reviewer) kubeconfig(path, user string) string {
	h.t.Helper()
	return h.kubeconfigAt(h.URL+path, user)
}

func (h *reviewer) kubeconfigAt(url, user string) string {
	h.t.Helper()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}))
	if strings.HasPrefix(url, "http:") {
		ca = ""
	}
	file := filepath.Join(h.t.TempDir(), "kubeconfig")
	overwrite(h.t, file, fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],
"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}],"users":[{"name":"u","user":{%s}}]}`, url, ca, user))
	return file
}

// overwrite replaces a file as editors do.
func overwrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// entry is a webhook in a configuration. more are members of it in YAML's flow style, conditions its match conditions.
func entry(name, kubeconfig, policy, more string, conditions ...string) string {
	if !strings.Contains(more, "timeout") {
		more += ", timeout: 10s"
	}
	if !strings.Contains(more, "subjectAccessReviewVersion") {
		more += ", subjectAccessReviewVersion: v1"
	}
	if len(conditions) > 0 {
		text, err := json.Marshal(conditions)
		if err != nil {
			panic(err)
		}
		list := strings.ReplaceAll(string(text[1:len(text)-1]), `","`, `"}, {expression: "`)
		more += ", matchConditionSubjectAccessReviewVersion: v1, matchConditions: [{expression: " + list + "}]"
	}
	return fmt.Sprintf("- {type: Webhook, name: %s, webhook: {failurePolicy: %s, connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}, %s}}\n",
		name, policy, kubeconfig, strings.TrimPrefix(more, ", "))
}

// uncached keeps no answers.
const uncached = ", cacheAuthorizedRequests: false, cacheUnauthorizedRequests: false"

// plainEntry is an authorizer that is no webhook.
func plainEntry(kind string) string {
	return fmt.Sprintf("- {type: %s, name: %s}\n", kind, strings.ToLower(kind))
}

func authzConfig(version string, entries ...string) string {
	return "apiVersion: apiserver.config.k8s.io/" + version + "\nkind: AuthorizationConfiguration\nauthorizers:\n" + strings.Join(entries, "")
}

// guarded is a server whose authorizers are configured by a file.
type guarded struct {
	*server
	t        *testing.T
	file     string // the configuration
	auditLog string
	plain    *http.Client // without a certificate
}

// startGuarded starts a server with authorizers, and with users who are their own tokens; groups follow a name after a slash.
func startGuarded(t *testing.T, config string, users []string, args ...string) *guarded {
	t.Helper()
	dir := t.TempDir()
	g := &guarded{t: t, file: filepath.Join(dir, "authz.yaml"), auditLog: filepath.Join(dir, "audit.log")}
	var tokens strings.Builder
	for _, u := range users {
		name, groups, _ := strings.Cut(u, "/")
		fmt.Fprintf(&tokens, "%s,%s,%s-uid,\"%s\"\n", name, name, name, groups)
	}
	overwrite(t, filepath.Join(dir, "tokens.csv"), tokens.String())
	overwrite(t, filepath.Join(dir, "audit.yaml"), `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[
		{"level":"None","users":["keelson-admin"]},{"level":"Metadata"}]}`)
	args = append(args, "--token-auth-file", filepath.Join(dir, "tokens.csv"), "--audit-policy-file", filepath.Join(dir, "audit.yaml"), "--audit-log-path", g.auditLog)
	if config != "" {
		overwrite(t, g.file, config)
		args = append(args, "--authorization-config", g.file)
	}
	g.server = startServer(t, args...)
	g.plain = &http.Client{Timeout: time.Minute, Transport: withoutCertificate(t, g.server)}
	return g
}

// reply is what a user got.
type reply struct {
	code   int
	body   string
	header http.Header
}

// as sends a request as a user; "" for nobody.
func (g *guarded) as(user, method, path, body string, header ...string) reply {
	g.t.Helper()
	r, err := g.send(context.Background(), user, method, path, body, header...)
	if err != nil {
		g.t.Errorf("%s: %s %s: %v", user, method, path, err)
	}
	return r
}

func (g *guarded) send(ctx context.Context, user, method, path, body string, header ...string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, g.url(path), strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if user != "" {
		req.Header.Set("Authorization", "Bearer "+user)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := g.plain.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, string(text), resp.Header}, err
}

// reviewStatus is the status of a SubjectAccessReview.
type reviewStatus struct {
	Allowed         bool
	Denied          bool
	Reason          string
	EvaluationError string
}

// review asks, as the administrator, what somebody may do; spec is JSON.
func (g *guarded) review(spec string) reviewStatus {
	g.t.Helper()
	text := g.do(g.t, 201, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", []byte(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":`+spec+`}`))
	var out struct{ Status reviewStatus }
	if err := json.Unmarshal(text, &out); err != nil {
		g.t.Fatal(err)
	}
	return out.Status
}

// samples are the metrics that are about authorization.
func (g *guarded) samples() map[string]float64 {
	g.t.Helper()
	found := map[string]float64{}
	for line := range strings.Lines(string(g.do(g.t, 200, "GET", "/metrics", nil))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if !strings.HasPrefix(name, "apiserver_authorization_") && !strings.HasPrefix(name, "authorization_") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			g.t.Fatalf("%q: %v", line, err)
		}
		found[name+"}"] = n
	}
	return found
}

// since is what has been counted since; times and buckets of histograms are left out.
func (g *guarded) since(before map[string]float64) map[string]float64 {
	g.t.Helper()
	changed := map[string]float64{}
	for name, n := range g.samples() {
		if n != before[name] && !strings.Contains(name, "_bucket{") && !strings.Contains(name, "_sum{") && !strings.Contains(name, "_timestamp_") {
			changed[name] = n - before[name]
		}
	}
	// Reading metrics is a request, too.
	for _, name := range []string{`authorization_attempts_total{result="allowed"}`, `authorization_duration_seconds_count{result="allowed"}`} {
		if changed[name]--; changed[name] == 0 {
			delete(changed, name)
		}
	}
	return changed
}

// inForce reports whether a text is the configuration in force.
func (g *guarded) inForce(text string) bool {
	g.t.Helper()
	want := fmt.Sprintf(`hash="sha256:%x"}`, sha256.Sum256([]byte(text)))
	for name := range g.samples() {
		if strings.HasPrefix(name, "apiserver_authorization_config_controller_last_config_info{") {
			return strings.HasSuffix(name, want)
		}
	}
	return false
}

// reload makes other authorizers those of the server, and waits until they are.
func (g *guarded) reload(entries ...string) {
	g.t.Helper()
	text := authzConfig("v1", entries...)
	overwrite(g.t, g.file, text)
	eventually(g.t, "configuration in force", func() bool { return g.inForce(text) })
}

// annotations are those of the event of a request that was answered.
func (g *guarded) annotations(r reply) map[string]string {
	g.t.Helper()
	var found map[string]string
	eventually(g.t, "audit event", func() bool {
		text, err := os.ReadFile(g.auditLog)
		if err != nil {
			return false
		}
		for line := range bytes.Lines(text) {
			var e struct {
				AuditID, Stage string
				Annotations    map[string]string
			}
			if json.Unmarshal(line, &e) == nil && e.Stage == "ResponseComplete" && e.AuditID == r.header.Get("Audit-Id") {
				found = e.Annotations
				return true
			}
		}
		return false
	})
	return found
}

// compare reports what differs between counts; names that end with a star stand for all that begin so, together.
func compare(t *testing.T, what string, got, want map[string]float64) {
	t.Helper()
	left := map[string]float64{}
	for name, n := range got {
		left[name] = n
	}
	for name, n := range want {
		if left[name] != n {
			t.Errorf("%s: %s: got %v, want %v", what, name, left[name], n)
		}
		delete(left, name)
	}
	for name, n := range left {
		t.Errorf("%s: %s: got %v, want none", what, name, n)
	}
}
