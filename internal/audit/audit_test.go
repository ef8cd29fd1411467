package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
)

// This file records requests.

var quiet = slog.New(slog.DiscardHandler)

func TestPolicies(t *testing.T) {
	const head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"
	for text, want := range map[string]string{
		head + "rules: [{level: Metadata}]":                     "",
		head + "rules: [{level: None, users: [a], unknown: x}]": "",
		"rules: [{level: Metadata}]":                            "unknown group version field /, Kind= in policy",
		"apiVersion: audit.k8s.io/v1beta1\nkind: Policy":        "unknown group version field audit.k8s.io/v1beta1, Kind=Policy in policy",
		head:                           "loaded illegal policy with 0 rules",
		head + "rules: [{}]":           "rules[0].level: Required value",
		head + "rules: [{level: All}]": `rules[0].level: Unsupported value: "All": supported values: "None", "Metadata", "Request", "RequestResponse"`,
		head + "rules: [{level: None, omitStages: [x]}]":                              `rules[0].omitStages[0]: Invalid value: "x": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic`,
		head + "rules: [{level: None, nonResourceURLs: [x, /*/y, '*']}]":              "must begin with a '/' character",
		head + "rules: [{level: None, nonResourceURLs: [/x], namespaces: [y]}]":       "rules cannot apply to both regular resources and non-resource URLs",
		head + "rules: [{level: None, resources: [{group: v1/x}]}]":                   "rules[0].resources.group: Invalid value",
		head + "rules: [{level: None, resources: [{group: '', resourceNames: [x]}]}]": "using resourceNames requires at least one resource",
		"{": "failed decoding",
	} {
		_, err := ParsePolicy([]byte(text), quiet)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	if _, err := LoadPolicy(filepath.Join(t.TempDir(), "x"), quiet); err == nil || !strings.Contains(err.Error(), "loading audit policy file: failed to read file path") {
		t.Errorf("no file: got %v", err)
	}
}

func FuzzParsePolicy(f *testing.F) {
	f.Add("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, resources: [{group: '', resources: [pods/*]}]}]", "pods", "log", "/x")
	f.Fuzz(func(t *testing.T, text, resource, subresource, path string) {
		p, err := ParsePolicy([]byte(text), quiet)
		if err != nil {
			return
		}
		c := compile(p)
		for _, a := range []*authz.Attributes{{ResourceRequest: true, Resource: resource, Subresource: subresource}, {Path: path}} {
			if c.find(a) == nil {
				t.Error("no rule at all")
			}
		}
	})
}

// kept is a backend that keeps events in memory.
type kept struct {
	mu    sync.Mutex
	lines []string
	full  bool
}

func (k *kept) Process(e *Event) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	text, err := json.Marshal(e)
	k.lines = append(k.lines, string(text))
	return err == nil && !k.full
}

func (k *kept) Close() error { return nil }

func newTest(t *testing.T, policy string) (*Auditor, *kept) {
	t.Helper()
	p, err := ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\n"+policy), quiet)
	if err != nil {
		t.Fatal(err)
	}
	k := &kept{}
	return NewAuditor(p, k, NewMetrics(prometheus.NewRegistry()), quiet), k
}

var ann = &authn.User{Name: "ann", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}}

func TestRecord(t *testing.T) {
	a, k := newTest(t, "omitStages: [RequestReceived]\nomitManagedFields: true\nrules:\n- {level: None, users: [eve]}\n- {level: RequestResponse, verbs: [create]}\n- {level: Metadata}")
	r := httptest.NewRequest("POST", "/api/v1/namespaces/n/secrets?x=y", nil)
	r.Header.Set("User-Agent", strings.Repeat("x", 2000))
	began := time.Date(2020, 1, 2, 3, 4, 5, 6000, time.UTC)
	attrs := &authz.Attributes{User: ann, Verb: "create", ResourceRequest: true, Resource: "secrets", Version: "v1", Namespace: "n"}
	rec := a.Start(r, "id", began, attrs, false)
	if !rec.Received() {
		t.Error("not received")
	}
	rec.Annotate("a", "1")
	rec.Annotate("a", "2")
	rec.Impersonated(&authn.User{Name: "bob"}, "impersonate:user-info")
	rec.RequestObject(Object{Name: "x", UID: "u"}, func() []byte { return []byte(`{"metadata":{"name":"x","managedFields":[1]}}`) })
	rec.ResponseObject(func() []byte {
		return []byte(`{"items":[{"metadata":{"managedFields":[1]}}],"rows":[{"object":{"metadata":{"managedFields":[1],"y":1}}}]}`)
	})
	rec.Took("authorization", time.Second)
	rec.Code(201)
	rec.Code(500)
	rec.Complete()
	want := `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"id","stage":"ResponseComplete",` +
		`"requestURI":"/api/v1/namespaces/n/secrets?x=y","verb":"create","user":{"username":"ann","groups":["dev"],"extra":{"k":["v"]}},` +
		`"impersonatedUser":{"username":"bob"},"authenticationMetadata":{"impersonationConstraint":"impersonate:user-info"},"sourceIPs":["192.0.2.1"],` +
		`"userAgent":"` + strings.Repeat("x", 1024) + `...TRUNCATED","objectRef":{"resource":"secrets","namespace":"n","name":"x","uid":"u","apiVersion":"v1"},` +
		`"responseStatus":{"metadata":{},"code":201},"requestObject":{"metadata":{"name":"x"}},` +
		`"responseObject":{"items":[{"metadata":{}}],"rows":[{"object":{"metadata":{"y":1}}}]},"requestReceivedTimestamp":"2020-01-02T03:04:05.000006Z","stageTimestamp":"`
	if len(k.lines) != 1 || !strings.HasPrefix(k.lines[0], want) {
		t.Errorf("got %s\nwant %s…", k.lines, want)
	}
	if !strings.Contains(k.lines[0], `"annotations":{"a":"1","apiserver.latency.k8s.io/authorization":"1s","apiserver.latency.k8s.io/total":"`) {
		t.Errorf("annotations: got %s", k.lines[0])
	}
	// Metadata only, of a watch that panics.
	k.lines = nil
	attrs = &authz.Attributes{User: ann, Verb: "watch", ResourceRequest: true, Resource: "secrets", Version: "v1"}
	rec = a.Start(r, "id", time.Now(), attrs, true)
	rec.RequestObject(Object{Name: "x"}, func() []byte { t.Error("asked for an object"); return nil })
	rec.ResponseObject(func() []byte { t.Error("asked for an object"); return nil })
	rec.RequestPatch([]byte(`{}`))
	rec.Code(200)
	rec.Panicked("odd")
	if len(k.lines) != 2 || !strings.Contains(k.lines[0], `"stage":"ResponseStarted"`) || !strings.Contains(k.lines[1], `"stage":"Panic"`) ||
		!strings.Contains(k.lines[1], `"message":"APIServer panic'd: odd","reason":"InternalError","code":500`) || strings.Contains(k.lines[1], "Object\"") {
		t.Errorf("a watch that panics: got %s", k.lines)
	}
	// Nothing at all.
	k.lines = nil
	attrs.User = &authn.User{Name: "eve"}
	if rec := a.Start(r, "id", time.Now(), attrs, true); rec != nil {
		t.Error("eve is recorded")
	}
	var none *Record
	none.Annotate("a", "b")
	none.Complete()
	if !none.Received() || (*Auditor)(nil).Start(r, "id", time.Now(), attrs, false) != nil {
		t.Error("no record does something")
	}
}

func TestClosedEarly(t *testing.T) {
	a, k := newTest(t, "omitStages: [RequestReceived]\nrules: [{level: Metadata}]")
	a.Start(httptest.NewRequest("GET", "/", nil), "id", time.Now(), &authz.Attributes{User: ann, Verb: "get", Path: "/"}, false).Complete()
	if len(k.lines) != 1 || !strings.Contains(k.lines[0], `"status":"Success","message":"Connection closed early","code":200`) {
		t.Errorf("got %s", k.lines)
	}
}

func TestARequestThatCannotBeRecorded(t *testing.T) {
	a, k := newTest(t, "rules: [{level: Metadata}]")
	k.full = true
	if a.Start(httptest.NewRequest("GET", "/", nil), "id", time.Now(), &authz.Attributes{User: ann, Verb: "get", Path: "/"}, false).Received() {
		t.Error("goes on")
	}
	if got := testutil.ToFloat64(a.metrics.rejected); got != 1 {
		t.Errorf("rejected: got %v", got)
	}
}

func TestLogs(t *testing.T) {
	event := &Event{TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "audit.k8s.io/v1"}, Level: Metadata, AuditID: "id", Stage: ResponseComplete,
		Verb: "get", RequestURI: "/x", RequestReceivedTimestamp: metav1.NewMicroTime(time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC))}
	for name, row := range map[string]struct {
		c    LogConfig
		want string
	}{
		"json":   {LogConfig{MaxSize: 1}, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"id"`},
		"batch":  {LogConfig{Mode: Batch}, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"id"`},
		"legacy": {LogConfig{Format: FormatLegacy}, `2020-01-02T03:04:05Z AUDIT: id="id" stage="ResponseComplete" ip="<unknown>" method="get" user="<none>" groups="<none>" as="<self>" asgroups="<lookup>" user-agent="" namespace="<none>" uri="/x" response="<deferred>"`},
	} {
		row.c.Path = filepath.Join(t.TempDir(), "dir", "log")
		b, err := OpenLog(row.c, NewMetrics(prometheus.NewRegistry()), quiet)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if !b.Process(event) {
				t.Errorf("%s: not kept", name)
			}
		}
		if err := b.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text, err := os.ReadFile(row.c.Path)
		if err != nil || strings.Count(string(text), "\n") != 3 || !strings.HasPrefix(string(text), row.want) {
			t.Errorf("%s: got %s, %v", name, text, err)
		}
		if info, err := os.Stat(row.c.Path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got mode %v, %v", name, info.Mode(), err)
		}
	}
	for _, row := range []struct {
		c    LogConfig
		want string
	}{
		{LogConfig{Mode: "x"}, `invalid audit log mode x, allowed modes are "batch,blocking,blocking-strict"`},
		{LogConfig{Format: "x"}, `invalid audit log format x, allowed formats are "legacy,json"`},
		{LogConfig{MaxAge: -1}, "--audit-log-maxage -1 can't be a negative number"},
		{LogConfig{MaxBackups: -1}, "--audit-log-maxbackup -1 can't be a negative number"},
		{LogConfig{MaxSize: -1}, "--audit-log-maxsize -1 can't be a negative number"},
		{LogConfig{Mode: Batch, BufferSize: -1}, "invalid audit batch log buffer size -1, must be a positive number"},
		{LogConfig{Path: "/dev/null/x"}, "ensureLogFile: "},
	} {
		if _, err := OpenLog(row.c, nil, quiet); err == nil || !strings.HasPrefix(err.Error(), row.want) {
			t.Errorf("%+v: got %v, want %q", row.c, err, row.want)
		}
	}
}

// broken is a log that cannot be written to.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }
func (broken) Close() error              { return nil }

func TestALogThatCannotBeWrittenTo(t *testing.T) {
	for _, strict := range []bool{false, true} {
		m := NewMetrics(prometheus.NewRegistry())
		l := &log{plugin: plugin{"log", m, quiet}, out: broken{}, format: FormatJSON, strict: strict}
		if got := l.Process(&Event{}); got == strict {
			t.Errorf("strict %v: got %v", strict, got)
		}
		if got := testutil.ToFloat64(m.errors.WithLabelValues("log")); got != 1 {
			t.Errorf("strict %v: got %v errors", strict, got)
		}
	}
}

// In batch mode requests do not wait, not even for a backend that never returns.
func TestBatchesDoNotBlock(t *testing.T) {
	m, free, sizes := NewMetrics(prometheus.NewRegistry()), make(chan struct{}), 0
	q := startQueue(&queue{plugin: plugin{"log", m, quiet}, encode: encode, events: make(chan []byte, 2), size: 10,
		deliver: func(events [][]byte) error { <-free; sizes += len(events); return nil }, release: func() error { return nil }})
	for range 100 {
		if !q.Process(&Event{}) {
			t.Fatal("refused")
		}
	}
	lost := testutil.ToFloat64(m.errors.WithLabelValues("log"))
	close(free)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if lost == 0 || sizes != 100-int(lost) {
		t.Errorf("delivered %d, lost %v", sizes, lost)
	}
	if q.Process(&Event{}); testutil.ToFloat64(m.errors.WithLabelValues("log")) != lost+1 {
		t.Error("an event after the end is not counted")
	}
}

// The events that wait have a bound in bytes, too: those with whole objects are large.
func TestBatchesHaveBytes(t *testing.T) {
	const size, limit = 1 << 10, 10 << 10
	m, free, delivered := NewMetrics(prometheus.NewRegistry()), make(chan struct{}), 0
	q := startQueue(&queue{plugin: plugin{"log", m, quiet}, events: make(chan []byte, 1000), size: 3, limit: limit,
		encode:  func(*Event) ([]byte, error) { return make([]byte, size), nil },
		deliver: func(events [][]byte) error { <-free; delivered += len(events); return nil }, release: func() error { return nil }})
	for range 100 {
		if !q.Process(&Event{}) {
			t.Fatal("refused")
		}
	}
	if lost := testutil.ToFloat64(m.errors.WithLabelValues("log")); lost != 100-limit/size {
		t.Errorf("lost %v of 100 events of %d bytes, want all but those that fit into %d", lost, size, limit)
	}
	close(free)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if left := q.bytes.Load(); delivered != limit/size || left != 0 {
		t.Errorf("delivered %d events, %d bytes are left, want %d and 0", delivered, left, limit/size)
	}
}

func TestWebhook(t *testing.T) {
	var mu sync.Mutex
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, string(body))
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":%q}}]}`, server.URL)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, calls := range map[string]int{Batch: 1, Blocking: 2} {
		got = nil
		b, err := OpenWebhook(WebhookConfig{ConfigFile: path, Mode: mode}, NewMetrics(prometheus.NewRegistry()), quiet)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"1", "2"} {
			b.Process(&Event{AuditID: types.UID("id-" + id)})
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		all := strings.Join(got, "\n")
		if len(got) != calls || !strings.Contains(all, `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[{`) || strings.Count(all, `"auditID":"id-`) != 2 {
			t.Errorf("%s: got %d calls: %s", mode, len(got), all)
		}
	}
	server.Close()
	for mode, goesOn := range map[string]bool{Blocking: true, BlockingStrict: false} {
		b, err := OpenWebhook(WebhookConfig{ConfigFile: path, Mode: mode, InitialBackoff: time.Millisecond}, NewMetrics(prometheus.NewRegistry()), quiet)
		if err != nil {
			t.Fatal(err)
		}
		if b.Process(&Event{}) != goesOn {
			t.Errorf("%s, nobody there: goes on is not %v", mode, goesOn)
		}
		b.Close()
	}
	if _, err := OpenWebhook(WebhookConfig{ConfigFile: path, Mode: "x"}, nil, quiet); err == nil || !strings.Contains(err.Error(), "invalid audit webhook mode x") {
		t.Errorf("mode x: got %v", err)
	}
	if _, err := OpenWebhook(WebhookConfig{ConfigFile: path + "x"}, nil, quiet); err == nil || !strings.Contains(err.Error(), "initializing audit webhook: ") {
		t.Errorf("no file: got %v", err)
	}
}
