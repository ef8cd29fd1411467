package e2e

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
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

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// This file is what the tests of admission webhooks stand on: a server, the etcd below it, its audit log and its metrics; and
// webhooks that behave as a test says.

// hooked is a server, and webhooks that take part in its admission.
type hooked struct {
	*server
	t     *testing.T // the part that runs
	hooks *hookServer
	// public is a server of webhooks whose certificate is that of an authority that the system trusts.
	public *hookServer
	etcd   *clientv3.Client
	audit  string // file
	asked  int    // requests, to name them
}

// hookServer serves webhooks: each path behaves in its way.
type hookServer struct {
	*httptest.Server
	ca    []byte // PEM
	mu    sync.Mutex
	by    map[string]behave
	calls []hookReview
}

// hookReview is what a webhook was sent.
type hookReview struct {
	APIVersion, Kind string
	Request          struct {
		UID                             string
		Kind, RequestKind               map[string]string
		Resource, RequestResource       map[string]string
		SubResource, RequestSubResource string
		Name, Namespace, Operation      string
		UserInfo                        struct {
			Username string
			Groups   []string
		}
		Object, OldObject, Options map[string]any
		DryRun                     *bool
	}
	name, query, media, host string
	began                    time.Time
}

// behave is what a webhook answers to a review: a status, or 0 to hang up, and a body.
type behave func(r *hookReview) (code int, body string)

// answers is an AdmissionReview in the version asked, with a response; %s in it is the uid.
func answers(response string) behave {
	return func(r *hookReview) (int, string) {
		return 200, `{"apiVersion":"` + r.APIVersion + `","kind":"AdmissionReview","response":` + strings.ReplaceAll(response, "%s", r.Request.UID) + `}`
	}
}

// allows admits everything.
var allows = answers(`{"uid":"%s","allowed":true}`)

// patches answers with a JSON patch.
func patches(patch string) behave {
	b, _ := json.Marshal([]byte(patch))
	return answers(`{"uid":"%s","allowed":true,"patchType":"JSONPatch","patch":` + string(b) + `}`)
}

// replies answers with a body of its own.
func replies(code int, body string) behave {
	return func(*hookReview) (int, string) { return code, body }
}

// after waits first.
func after(d time.Duration, b behave) behave {
	return func(r *hookReview) (int, string) { time.Sleep(d); return b(r) }
}

func newHookServer(t *testing.T, names ...string) *hookServer {
	t.Helper()
	info, err := transport.SelfCert(zap.NewNop(), t.TempDir(), names, 1)
	if err != nil {
		t.Fatal(err)
	}
	h := &hookServer{by: map[string]behave{}}
	if h.ca, err = os.ReadFile(info.CertFile); err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(info.CertFile, info.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(h.serve))
	h.Config.ErrorLog = log.New(io.Discard, "", 0) // some clients do not trust it, and say so
	h.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

func (h *hookServer) serve(w http.ResponseWriter, r *http.Request) {
	v := hookReview{query: r.URL.RawQuery, media: r.Header.Get("Content-Type"), host: r.Host, name: strings.Trim(r.URL.Path, "/"), began: time.Now()}
	if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.calls = append(h.calls, v)
	do := h.by[v.name]
	h.mu.Unlock()
	if do == nil {
		http.NotFound(w, r)
		return
	}
	code, text := do(&v)
	if code == 0 {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	io.WriteString(w, text)
}

// on sets what a webhook does.
func (h *hookServer) on(name string, b behave) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.by[name] = b
}

// seen returns all calls since it was asked last.
func (h *hookServer) seen() []hookReview {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := h.calls
	h.calls = nil
	return calls
}

// called are the names of the webhooks that were called, in order.
func called(calls []hookReview) string {
	var names []string
	for i := range calls {
		names = append(names, calls[i].name)
	}
	return strings.Join(names, " ")
}

// bundle is the member caBundle that trusts the server.
func (h *hookServer) bundle() string {
	return `"caBundle":"` + base64.StdEncoding.EncodeToString(h.ca) + `"`
}

// hook is one webhook of a configuration, for widgets; more are members that replace others.
func (h *hookServer) hook(name string, more ...string) string {
	members := map[string]json.RawMessage{}
	for _, text := range append([]string{fmt.Sprintf(`"name":"%s.demo.io","admissionReviewVersions":["v1"],"sideEffects":"None","clientConfig":{"url":"%s/%s",%s}`,
		name, h.URL, name, h.bundle()), forRules("*", "demo.io", "*", "widgets")}, more...) {
		if err := json.Unmarshal([]byte("{"+text+"}"), &members); err != nil {
			panic(text + ": " + err.Error())
		}
	}
	b, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// forRules is the member for one rule; lists are separated by commas.
func forRules(operations, groups, versions, resources string) string {
	list := func(s string) string { return `["` + strings.ReplaceAll(s, ",", `","`) + `"]` }
	return fmt.Sprintf(`"rules":[{"operations":%s,"apiGroups":%s,"apiVersions":%s,"resources":%s}]`, list(operations), list(groups), list(versions), list(resources))
}

// The kinds of configurations, and where they are.
const (
	mutating      = "MutatingWebhookConfiguration"
	validating    = "ValidatingWebhookConfiguration"
	registrations = "/apis/admissionregistration.k8s.io/v1/"
)

// startHooked starts a server whose webhooks are on this host.
func startHooked(t *testing.T) *hooked {
	t.Helper()
	x := &hooked{t: t, hooks: newHookServer(t, "127.0.0.1:0", "hooks.default.svc:0", "inside.default.svc:0"), public: newHookServer(t, "127.0.0.1:0"), audit: filepath.Join(t.TempDir(), "audit.log")}
	dir := t.TempDir()
	policy, system := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "system.crt")
	for file, text := range map[string]string{
		policy: "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata, users: [ann]}, {level: Request}]\n",
		system: string(x.public.ca),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SSL_CERT_FILE", system)
	etcd := startMembers(t, 1)
	x.server = startServer(t, append(etcd.args(), "--audit-policy-file", policy, "--audit-log-path", x.audit,
		"--controllers", "clusterrole-aggregation-controller")...) // whoever else writes is heard by webhooks, too
	config, err := etcd.tls.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	if x.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{etcd.configs[0].ListenClientUrls[0].String()}, TLS: config, Logger: zap.NewNop()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.etcd.Close() })
	return x
}

// configure installs configurations, which are in force when it returns, and removes them at the end of the test.
func (x *hooked) configure(t *testing.T, kind, name string, hooks ...string) {
	t.Helper()
	path := registrations + strings.ToLower(kind) + "s"
	x.do(t, 201, "POST", path, []byte(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"`+kind+`","metadata":{"name":"`+name+`"},"webhooks":[`+strings.Join(hooks, ",")+`]}`))
	x.do(t, 200, "GET", path, nil) // the server's cache has what was written
	t.Cleanup(func() {
		x.do(t, 200, "DELETE", path+"/"+name, nil)
		x.do(t, 200, "GET", path, nil)
	})
}

// answer is what a client gets, and what the audit log says of it.
type answer struct {
	code     int
	body     string
	message  string // of a Status
	warnings []string
	id       string
}

// send sends a request as a client named e2e does; header lists names and values in turn.
func (x *hooked) send(t *testing.T, method, path, body string, header ...string) answer {
	t.Helper()
	x.asked++
	a := answer{id: fmt.Sprintf("request-%d", x.asked)}
	req, err := http.NewRequestWithContext(t.Context(), method, x.url(path), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	header = append([]string{"Content-Type", "application/json", "Audit-ID", a.id, "User-Agent", "e2e"}, header...)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := x.http.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a.code, a.body = resp.StatusCode, string(b)
	for _, w := range resp.Header.Values("Warning") {
		text, err := strconv.Unquote(strings.TrimPrefix(w, "299 - "))
		if err != nil {
			t.Errorf("warning %s: %v", w, err)
		}
		a.warnings = append(a.warnings, text)
	}
	var status struct{ Kind, Message string }
	if json.Unmarshal(b, &status) == nil && status.Kind == "Status" {
		a.message = status.Message
	}
	return a
}

// annotations are what the audit log says about a request, but for what authorization said and how long it took.
func (x *hooked) annotations(t *testing.T, a answer) map[string]string {
	t.Helper()
	var found map[string]string
	eventually(t, "request in the audit log", func() bool {
		b, err := os.ReadFile(x.audit)
		if err != nil {
			return false
		}
		for line := range bytes.Lines(b) {
			var event struct {
				AuditID     string
				Annotations map[string]string
			}
			if json.Unmarshal(line, &event) == nil && event.AuditID == a.id {
				found = event.Annotations
				return true
			}
		}
		return false
	})
	maps.DeleteFunc(found, func(key, _ string) bool {
		return strings.HasPrefix(key, "authorization.k8s.io/") || strings.HasPrefix(key, "apiserver.latency.k8s.io/")
	})
	return found
}

// metrics are the values that /metrics has for admission by webhooks, and the lines that explain them.
func (x *hooked) metrics(t *testing.T) (values map[string]float64, help []string) {
	t.Helper()
	values = map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(x.do(t, 200, "GET", "/metrics", nil)))
	for lines.Scan() {
		line := lines.Text()
		if !strings.Contains(line, "apiserver_admission_") {
			continue
		}
		if strings.HasPrefix(line, "#") {
			help = append(help, line)
			continue
		}
		name, value, _ := strings.Cut(line, "} ")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("metric %s: %v", line, err)
		}
		values[name+"}"] = v
	}
	return values, help
}

// hookCounts are the counters, and the counts of histograms, of webhooks and match conditions that went up, as name{labels} n.
func hookCounts(before, after map[string]float64) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(after)) {
		short := strings.TrimPrefix(key, "apiserver_admission_")
		up := after[key] - before[key]
		if up == 0 || strings.Contains(key, "_bucket{") || strings.Contains(key, "_sum{") ||
			!strings.HasPrefix(short, "webhook_") && !strings.HasPrefix(short, "match_") {
			continue
		}
		out = append(out, fmt.Sprintf("%s %v", short, up))
	}
	return out
}

// stored are the bytes that etcd has.
func (x *hooked) stored(t *testing.T, key string) string {
	t.Helper()
	r, err := x.etcd.Get(t.Context(), key)
	if err != nil || len(r.Kvs) != 1 {
		t.Fatalf("etcd, %s: %v, %v", key, r, err)
	}
	return string(r.Kvs[0].Value)
}
