package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authz/match"
	"github.com/keelson-io/keelson/internal/kubehook"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file asks a service that can be slow, wrong, closed or contradictory.

// service answers reviews and remembers what it was sent.
type service struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
	answer   func(w http.ResponseWriter, n int) // n counts from 1
}

func newService(t *testing.T, answer func(w http.ResponseWriter, n int)) *service {
	s := &service{answer: answer}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
		n := len(s.bodies)
		s.mu.Unlock()
		s.answer(w, n)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *service) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bodies)
}

// says answers with a body of JSON.
func says(code int, body string, headers ...string) func(http.ResponseWriter, int) {
	return func(w http.ResponseWriter, _ int) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

const v1 = `"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview",`

// status answers with a status.
func status(s string) func(http.ResponseWriter, int) { return says(200, `{`+v1+`"status":`+s+`}`) }

// kubeconfig writes one for a server.
func kubeconfig(t *testing.T, server, more string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],
"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],"users":[{"name":"u","user":{%s}}]}`, server, more)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tried is a webhook with its metrics and its log.
type tried struct {
	*Webhook
	reg *prometheus.Registry
	log strings.Builder
}

func newWebhook(t *testing.T, file, version string, change func(*Config), timeout time.Duration) *tried {
	t.Helper()
	w := &tried{reg: prometheus.NewRegistry()}
	m := NewMetrics(w.reg)
	client, err := NewClient(ClientConfig{KubeConfigFile: file, Version: version, Timeout: timeout,
		Backoff: &wait.Backoff{Duration: time.Millisecond, Factor: 1.5, Steps: 5}})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Name: "hook", Asker: client, Metrics: m, CacheAuthorized: time.Minute, CacheUnauthorized: time.Minute,
		Logger: slog.New(slog.NewTextHandler(&w.log, nil))}
	if change != nil {
		change(&c)
	}
	w.Webhook = New(c)
	return w
}

// metric returns a counter's value, or how often a histogram was told something.
func (w *tried) metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := w.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if strings.Join(values, " ") == strings.Join(labels, " ") {
				if m.Histogram != nil {
					return float64(m.Histogram.GetSampleCount())
				}
				return m.Counter.GetValue()
			}
		}
	}
	return 0
}

func get() *authz.Attributes {
	return &authz.Attributes{User: &authn.User{Name: "ann", UID: "u1", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}},
		Verb: "list", ResourceRequest: true, Group: "g", Version: "v1", Resource: "foos", Subresource: "status", Namespace: "ns", Name: "n",
		FieldSelector: "a=b,c!=d", LabelSelector: "x in (1,2),!y,z>3"}
}

func TestWhatIsSent(t *testing.T) {
	s := newService(t, status(`{"allowed":true}`))
	file := kubeconfig(t, s.URL+"/authorize/it/?x=y", `"token":"secret"`)
	w := newWebhook(t, file, "v1", nil, 3*time.Second)
	w.Authorize(context.Background(), get())
	w.Authorize(context.Background(), &authz.Attributes{User: &authn.User{Name: "bob"}, Verb: "get", Path: "/healthz"})
	beta := newWebhook(t, file, "v1beta1", nil, 3*time.Second)
	s.answer = says(200, strings.ReplaceAll(`{`+v1+`"status":{"allowed":true}}`, "/v1", "/v1beta1"))
	beta.Authorize(context.Background(), get())
	const spec = `"spec":{"resourceAttributes":{"namespace":"ns","verb":"list","group":"g","version":"v1","resource":"foos","subresource":"status","name":"n",` +
		`"fieldSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]},{"key":"c","operator":"NotIn","values":["d"]}]},` +
		`"labelSelector":{"requirements":[{"key":"x","operator":"In","values":["1","2"]},{"key":"y","operator":"DoesNotExist"}]}},"user":"ann","groups":["dev"],"extra":{"k":["v"]},"uid":"u1"}`
	want := []string{
		`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},` + spec + `,"status":{"allowed":false}}` + "\n",
		`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"nonResourceAttributes":{"path":"/healthz","verb":"get"},"user":"bob"},"status":{"allowed":false}}` + "\n",
		`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1beta1","metadata":{},` + strings.Replace(spec, `"groups"`, `"group"`, 1) + `,"status":{"allowed":false}}` + "\n",
	}
	for i, body := range s.bodies {
		if body != want[i] {
			t.Errorf("request %d:\n got %s\nwant %s", i, body, want[i])
		}
		r := s.requests[i]
		if got := r.Method + " " + r.URL.String(); got != "POST /authorize/it?timeout=3s" {
			t.Errorf("request %d: got %s", i, got)
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, */*", "Authorization": "Bearer secret", "Accept-Encoding": "gzip"} {
			if r.Header.Get(name) != value {
				t.Errorf("request %d: %s: got %q, want %q", i, name, r.Header.Get(name), value)
			}
		}
	}
}

// Ledger: authorizer-answers.
func TestAnswers(t *testing.T) {
	const both = "webhook subject access review returned both allow and deny response"
	for name, row := range map[string]struct {
		answer func(http.ResponseWriter, int)
		want   authz.Decision
		reason string
		err    string // part of the error; then the decision is the failure policy's, tried with both
		calls  int    // 0: 1
		result string // of the metric, "" for success
	}{
		"allowed":        {answer: status(`{"allowed":true,"reason":"r","evaluationError":"e"}`), want: authz.Allow, reason: "r"},
		"denied":         {answer: status(`{"denied":true,"reason":"r"}`), want: authz.Deny, reason: "r"},
		"neither":        {answer: status(`{"allowed":false,"reason":"r"}`), reason: "r"},
		"created":        {answer: says(201, `{"status":{"allowed":true}}`), want: authz.Allow},
		"no kind":        {answer: says(200, `{"status":{"allowed":true},"foo":1}`), want: authz.Allow},
		"empty object":   {answer: says(200, `{}`)},
		"wrong version":  {answer: says(200, `{"apiVersion":"authorization.k8s.io/v1beta1","kind":"SubjectAccessReview","status":{"allowed":true}}`), err: "converting (v1beta1.SubjectAccessReview) to (v1.SubjectAccessReview)", result: "error"},
		"nothing":        {answer: says(200, ``), err: "0-length response with status code: 200 and content type: application/json", result: "error"},
		"no JSON":        {answer: says(200, `yes`), err: "couldn't get version/kind", result: "error"},
		"half an answer": {answer: says(200, `{"status":{"allowed":tr`), err: "json parse error", result: "error"},
		"400":            {answer: says(400, ``), err: "the server rejected our request for an unknown reason", result: "error"},
		"401":            {answer: says(401, ``), err: "the server has asked for the client to provide credentials", result: "error"},
		"403":            {answer: says(403, ``), err: "unknown", result: "error"},
		"404":            {answer: says(404, ``), err: "the server could not find the requested resource", result: "error"},
		"429":            {answer: says(429, ``), err: "the server has received too many requests and has asked us to try again later", calls: 5, result: "error"},
		"500":            {answer: says(500, `boom`, "Content-Type", "text/plain"), err: `an error on the server ("boom") has prevented the request from succeeding`, calls: 5, result: "error"},
		"502":            {answer: says(502, `boom`, "Content-Type", "text/plain"), err: `an error on the server ("boom") has prevented the request from succeeding`, calls: 5, result: "error"},
		"503":            {answer: says(503, ``), err: "the server is currently unable to handle the request", result: "error"},
		"504":            {answer: says(504, ``), err: "the server was unable to return a response in the time allotted, but may still be processing the request", calls: 5, result: "timeout"},
		"a Status":       {answer: says(400, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"not like this","reason":"BadRequest","code":400}`), err: "not like this", result: "error"},
		"500, then yes": {answer: func(w http.ResponseWriter, n int) {
			if n%2 == 1 {
				says(500, "")(w, n)
				return
			}
			status(`{"allowed":true}`)(w, n)
		}, want: authz.Allow, calls: 2},
		"a redirect": {answer: says(302, ``, "Location", "/elsewhere"), err: "", result: "error"},
		"too much":   {answer: says(200, `{"status":{"reason":"`+strings.Repeat("x", kubehook.MaxAnswer)+`"}}`), err: "the answer has more than 1048576 bytes", result: "error"},
		"dies in the middle": {answer: func(w http.ResponseWriter, _ int) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"status":{"allowed":true}`)
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, err: "unexpected EOF", result: "error"},
		"closes the connection": {answer: func(w http.ResponseWriter, _ int) { panic(http.ErrAbortHandler) }, err: "EOF", result: "error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, row.answer)
			for _, onError := range []authz.Decision{authz.NoOpinion, authz.Deny} {
				w := newWebhook(t, kubeconfig(t, s.URL, ""), "v1", func(c *Config) { c.OnError = onError }, 10*time.Second)
				before := s.calls()
				r := w.Authorize(context.Background(), get())
				if name == "a redirect" {
					if r.Err == nil || r.Decision != onError {
						t.Errorf("got %+v", r)
					}
					continue
				}
				calls, result := row.calls, row.result
				if calls == 0 {
					calls = 1
				}
				if result == "" {
					result = "success"
				}
				want := row.want
				if row.err != "" {
					want = onError
				}
				if r.Decision != want || r.Reason != row.reason || (r.Err != nil) != (row.err != "") || r.Err != nil && !strings.Contains(r.Err.Error(), row.err) {
					t.Errorf("got %+v", r)
				}
				if got := s.calls() - before; got != calls {
					t.Errorf("%d calls, want %d", got, calls)
				}
				rounds := calls
				if row.calls == 2 {
					rounds = 1 // of each result
				}
				if got := w.metric(t, "apiserver_authorization_webhook_evaluations_total", "hook", result); got != float64(rounds) {
					t.Errorf("evaluations with result %s: got %v, want %d", result, got, rounds)
				}
				if got := w.metric(t, "apiserver_authorization_webhook_duration_seconds", "hook", result); got != float64(rounds) {
					t.Errorf("durations with result %s: got %v, want %d", result, got, rounds)
				}
				open := 0.0
				if row.err != "" && onError == authz.NoOpinion {
					open = 1
				}
				if got := w.metric(t, "apiserver_authorization_webhook_evaluations_fail_open_total", "hook", result); got != open {
					t.Errorf("failed open with result %s: got %v, want %v", result, got, open)
				}
				if logged := strings.Contains(w.log.String(), "Failed to make webhook authorizer request: "); logged != (row.err != "") {
					t.Errorf("log: %s", w.log.String())
				}
				// An answer is kept, an error is not.
				again := s.calls()
				second := w.Authorize(context.Background(), get())
				if kept := s.calls() == again; kept != (row.err == "") {
					t.Errorf("second request: kept %v", kept)
				}
				if row.err == "" && (second.Decision != r.Decision || second.Reason != r.Reason) {
					t.Errorf("second request: got %+v", second)
				}
			}
		})
	}
	t.Run("contradiction", func(t *testing.T) {
		s := newService(t, status(`{"allowed":true,"denied":true,"reason":"r"}`))
		w := newWebhook(t, kubeconfig(t, s.URL, ""), "v1", nil, time.Second)
		for range 2 {
			if r := w.Authorize(context.Background(), get()); r.Decision != authz.Deny || r.Reason != "r" || r.Err == nil || r.Err.Error() != both {
				t.Errorf("got %+v", r)
			}
		}
		if s.calls() != 1 || w.metric(t, "apiserver_authorization_webhook_evaluations_total", "hook", "success") != 1 {
			t.Errorf("%d calls", s.calls())
		}
	})
}

// Retry-After is heeded within the timeout.
func TestRetryAfter(t *testing.T) {
	s := newService(t, func(w http.ResponseWriter, n int) {
		if n == 1 {
			says(503, "", "Retry-After", "0")(w, n)
			return
		}
		status(`{"allowed":true}`)(w, n)
	})
	w := newWebhook(t, kubeconfig(t, s.URL, ""), "v1", nil, 5*time.Second)
	if r := w.Authorize(context.Background(), get()); r.Decision != authz.Allow || s.calls() != 2 {
		t.Errorf("got %+v after %d calls", r, s.calls())
	}
}

func TestSlowAndClosed(t *testing.T) {
	t.Parallel()
	release := make(chan bool)
	s := newService(t, func(w http.ResponseWriter, _ int) { <-release })
	defer close(release)
	w := newWebhook(t, kubeconfig(t, s.URL, ""), "v1", nil, 50*time.Millisecond)
	r := w.Authorize(context.Background(), get())
	if r.Decision != authz.NoOpinion || r.Err == nil || s.calls() != 1 {
		t.Errorf("slow: got %+v, %d calls", r, s.calls())
	}
	if w.metric(t, "apiserver_authorization_webhook_evaluations_total", "hook", "timeout") != 1 ||
		w.metric(t, "apiserver_authorization_webhook_evaluations_fail_open_total", "hook", "timeout") != 1 {
		t.Error("slow: metrics")
	}
	// Who asked goes away: that is not the webhook's failure.
	w = newWebhook(t, kubeconfig(t, s.URL, ""), "v1", nil, 5*time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if r := w.Authorize(ctx, get()); r.Err == nil {
		t.Errorf("canceled: got %+v", r)
	}
	if w.metric(t, "apiserver_authorization_webhook_evaluations_total", "hook", "canceled") != 1 ||
		w.metric(t, "apiserver_authorization_webhook_evaluations_fail_open_total", "hook", "canceled") != 0 {
		t.Error("canceled: metrics")
	}
	// Nobody listens.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	w = newWebhook(t, kubeconfig(t, "https://"+l.Addr().String(), ""), "v1", nil, time.Second)
	if r := w.Authorize(context.Background(), get()); r.Err == nil || !strings.Contains(r.Err.Error(), "connection refused") {
		t.Errorf("closed: got %+v", r)
	}
	if w.metric(t, "apiserver_authorization_webhook_evaluations_total", "hook", "error") != 1 {
		t.Error("closed: it is tried more than once")
	}
}

func TestCache(t *testing.T) {
	s := newService(t, status(`{"allowed":true}`))
	ask := func(w *tried, a *authz.Attributes, more int) {
		t.Helper()
		before := s.calls()
		w.Authorize(context.Background(), a)
		if got := s.calls() - before; got != more {
			t.Errorf("got %d calls, want %d", got, more)
		}
	}
	file := kubeconfig(t, s.URL, "")
	w := newWebhook(t, file, "v1", nil, time.Second)
	ask(w, get(), 1)
	ask(w, get(), 0)
	for _, change := range []func(*authz.Attributes){
		func(a *authz.Attributes) { a.Name = "m" }, func(a *authz.Attributes) { a.Namespace = "m" }, func(a *authz.Attributes) { a.Verb = "watch" },
		func(a *authz.Attributes) { a.LabelSelector = "x=1" }, func(a *authz.Attributes) { a.FieldSelector = "" },
		func(a *authz.Attributes) { a.User = &authn.User{Name: "ann", UID: "u2", Groups: []string{"dev"}} },
		func(a *authz.Attributes) { a.User = &authn.User{Name: "ann", Groups: []string{"dev", "ops"}} },
		func(a *authz.Attributes) { a.User = &authn.User{Name: "ann", Groups: []string{"ops", "dev"}} },
	} {
		a := get()
		change(a)
		ask(w, a, 1)
	}
	long := get()
	long.Name = strings.Repeat("x", maxKeptInput)
	ask(w, long, 1)
	ask(w, long, 1)
	ask(newWebhook(t, file, "v1", nil, time.Second), get(), 1) // its own cache
	w = newWebhook(t, file, "v1", func(c *Config) { c.CacheAuthorized = 0 }, time.Second)
	ask(w, get(), 1)
	ask(w, get(), 1)
	w = newWebhook(t, file, "v1", func(c *Config) { c.CacheAuthorized = 20 * time.Millisecond }, time.Second)
	ask(w, get(), 1)
	testkit.Eventually(t, "the answer expires, so that the webhook is called", func() bool {
		before := s.calls()
		w.Authorize(context.Background(), get())
		return s.calls() > before
	})
	s.answer = status(`{"allowed":false}`)
	w = newWebhook(t, file, "v1", func(c *Config) { c.CacheUnauthorized = 0 }, time.Second)
	ask(w, get(), 1)
	ask(w, get(), 1)
}

func TestConditionsDecideWhoIsAsked(t *testing.T) {
	s := newService(t, status(`{"allowed":true}`))
	compile := func(expressions ...string) *match.Conditions {
		c, errs := match.Compile(expressions, field.NewPath("x"))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return c
	}
	const yes, no, bad = `request.user == 'ann'`, `request.user == 'bob'`, `request.nonResourceAttributes.path == 'x'`
	for _, row := range []struct {
		list                []string
		onError             authz.Decision
		want                authz.Decision
		calls               int
		err                 string
		excluded, undecided float64
	}{
		{[]string{yes}, authz.Deny, authz.Allow, 1, "", 0, 0},
		{[]string{yes, no}, authz.Deny, authz.NoOpinion, 0, "", 1, 0},
		{[]string{bad, no}, authz.Deny, authz.NoOpinion, 0, "", 1, 1},
		{[]string{yes, bad}, authz.Deny, authz.Deny, 0, "resulted in error: no such key: nonResourceAttributes", 0, 1},
		{[]string{yes, bad}, authz.NoOpinion, authz.NoOpinion, 0, "resulted in error: no such key: nonResourceAttributes", 0, 1},
	} {
		w := newWebhook(t, kubeconfig(t, s.URL, ""), "v1", func(c *Config) { c.Conditions, c.OnError = compile(row.list...), row.onError }, time.Second)
		a, before := get(), s.calls()
		a.Trace = &authz.Trace{}
		r := w.Authorize(context.Background(), a)
		if r.Decision != row.want || s.calls()-before != row.calls || (r.Err != nil) != (row.err != "") || r.Err != nil && !strings.Contains(r.Err.Error(), row.err) {
			t.Errorf("%q: got %+v", row.list, r)
		}
		if skipped := len(a.Trace.Skipped) == 1 && a.Trace.Skipped[0] == "hook"; skipped != (row.excluded == 1) {
			t.Errorf("%q: skipped %q", row.list, a.Trace.Skipped)
		}
		for name, want := range map[string]float64{"match_condition_exclusions_total": row.excluded, "match_condition_evaluation_errors_total": row.undecided, "match_condition_evaluation_seconds": 1} {
			if got := w.metric(t, "apiserver_authorization_"+name, "hook", "Webhook"); got != want {
				t.Errorf("%q: %s: got %v, want %v", row.list, name, got, want)
			}
		}
		if w.metric(t, "apiserver_authorization_webhook_evaluations_fail_open_total", "hook", "error") != 0 {
			t.Errorf("%q: counts as failed open", row.list)
		}
	}
}

func TestKubeconfigs(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, row := range map[string]struct{ path, want string }{
		"missing":    {filepath.Join(dir, "no"), "no such file"},
		"empty":      {write("empty", ""), "invalid configuration: no configuration has been provided"},
		"no context": {write("bare", `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"https://x"}}]}`), "invalid configuration: no configuration has been provided"},
		"no YAML":    {write("bad", "{"), "error loading config file"},
	} {
		if _, err := NewClient(ClientConfig{KubeConfigFile: row.path, Version: "v1"}); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, err := NewClient(ClientConfig{KubeConfigFile: kubeconfig(t, "https://x", ""), Version: "v2"})
	if err == nil || err.Error() != `unsupported webhook authorizer version "v2", supported versions are "v1", "v1beta1"` {
		t.Errorf("version: got %v", err)
	}
}

func TestCheck(t *testing.T) {
	s := newService(t, status(`{"denied":true}`))
	file := kubeconfig(t, s.URL, "")
	if err := newWebhook(t, file, "v1", nil, time.Second).Check(context.Background()); err != nil {
		t.Errorf("answers: got %v", err)
	}
	var sent authorizationv1.SubjectAccessReview
	if json.Unmarshal([]byte(s.bodies[0]), &sent) != nil || sent.Spec.User != "system:apiserver" {
		t.Errorf("asked %s", s.bodies[0])
	}
	s.answer = says(500, "")
	if err := newWebhook(t, file, "v1", nil, time.Second).Check(context.Background()); err == nil || s.calls() != 2 {
		t.Errorf("broken: got %v after %d calls", err, s.calls())
	}
}

func TestNoRulesAreListed(t *testing.T) {
	r := (&Webhook{}).RulesFor(context.Background(), nil, "")
	if !r.Incomplete || r.Err == nil || r.Err.Error() != "webhook authorizer does not support user rule resolution" {
		t.Errorf("got %+v", r)
	}
}
