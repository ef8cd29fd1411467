// Package testaccess asks a server for each verb and subresource once, and records how the server treats the request: what its
// authorizers are asked, what admission is called with, and which events the audit log has. The server may be Keelson or
// kube-apiserver.
//
// [NewRecorder] has the webhooks that the server is started with; [Recorder.Rows] sends the requests.
package testaccess

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/keelson-io/keelson/internal/testkit"
)

// The bearer tokens of an administrator, who makes the objects, and of the user of the requests, for a token file.
const (
	Admin  = "administrator"
	User   = "somebody"
	Tokens = Admin + `,admin,1,"system:masters"` + "\n" + User + ",somebody,2\n"
)

// AuditPolicy records who asks for what, at all stages.
const AuditPolicy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"Metadata"}]}`

// Recorder is the webhooks of one server. It allows everything.
type Recorder struct {
	t      testing.TB
	server *httptest.Server

	mu         sync.Mutex
	authorized []string // what authorizers were asked about the user, as text
	admitted   []string // what admission was called with
}

// NewRecorder starts the webhooks.
func NewRecorder(t testing.TB) *Recorder {
	r := &Recorder{t: t}
	r.server = httptest.NewTLSServer(http.HandlerFunc(r.answer))
	t.Cleanup(r.server.Close)
	return r
}

// Kubeconfig is the text of the configuration of an authorization webhook.
func (r *Recorder) Kubeconfig() string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],
"clusters":[{"name":"c","cluster":{"server":"%s/authorize","insecure-skip-tls-verify":true}}],"users":[{"name":"u"}]}`, r.server.URL)
}

// answer answers a review.
func (r *Recorder) answer(w http.ResponseWriter, q *http.Request) {
	var review struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       struct {
			User     string         `json:"user"`
			Resource map[string]any `json:"resourceAttributes"`
			Path     map[string]any `json:"nonResourceAttributes"`
		} `json:"spec"`
		Request struct {
			UID       string            `json:"uid"`
			Operation string            `json:"operation"`
			Kind      map[string]string `json:"kind"`
			Object    json.RawMessage   `json:"object"`
			OldObject json.RawMessage   `json:"oldObject"`
			Options   map[string]any    `json:"options"`
			UserInfo  struct {
				Username string `json:"username"`
			} `json:"userInfo"`
		} `json:"request"`
	}
	if err := json.NewDecoder(q.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if q.URL.Path == "/authorize" {
		if review.Spec.User == User {
			r.authorized = append(r.authorized, asked(review.Spec.Resource, review.Spec.Path))
		}
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"status":{"allowed":true}}`, review.APIVersion, review.Kind)
		return
	}
	if a := &review.Request; a.UserInfo.Username == User {
		text := a.Operation + " " + a.Kind["kind"]
		var parts []string
		for _, part := range []struct {
			name string
			text json.RawMessage
		}{{"object", a.Object}, {"oldObject", a.OldObject}} {
			if len(part.text) > 0 && string(part.text) != "null" {
				parts = append(parts, part.name)
			}
		}
		r.admitted = append(r.admitted, text+" ("+strings.Join(parts, ", ")+")")
	}
	fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"response":{"uid":%q,"allowed":true}}`, review.APIVersion, review.Kind, review.Request.UID)
}

// asked is what an authorizer was asked, such as "update deployments.apps/scale x in n".
func asked(resource, path map[string]any) string {
	if resource == nil {
		return fmt.Sprint(path["verb"], " ", path["path"])
	}
	text := fmt.Sprint(resource["verb"], " ", resource["resource"])
	for _, part := range []struct{ member, before string }{{"group", "."}, {"subresource", "/"}, {"name", " "}, {"namespace", " in "}} {
		if value, ok := resource[part.member].(string); ok {
			text += part.before + value
		}
	}
	for _, member := range []string{"labelSelector", "fieldSelector"} {
		if resource[member] != nil {
			text += ", " + member
		}
	}
	return text
}

// Row is how a server treats one request.
type Row struct {
	Request, Authorized, Admitted, Recorded string
}

// String is the row in a table of Markdown.
func (r *Row) String() string {
	return fmt.Sprintf("| %s | %s | %s | %s |", r.Request, r.Authorized, r.Admitted, r.Recorded)
}

// The lines before and behind the table in a page.
const (
	Begin = "<!-- access: written by go test ./server -run TestAccessTable -update -->\n"
	End   = "<!-- access ends -->"
)

// Table is the rows as a table of Markdown.
func Table(rows []Row) string {
	var b strings.Builder
	b.WriteString("\n| request | asked of authorizers | admission | audit event |\n| --- | --- | --- | --- |\n")
	for i := range rows {
		b.WriteString(rows[i].String() + "\n")
	}
	return b.String() + "\n"
}

// request is a request of the table.
type request struct {
	method, path string
	kind         string // media type of the body, "" for JSON
	body         string
	header       []string
}

const (
	space       = "/api/v1/namespaces/n/"
	apps        = "/apis/apps/v1/namespaces/n/deployments"
	custom      = "/apis/access.example.com/v1/namespaces/n/things"
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	merge       = "application/merge-patch+json"
	apply       = "application/apply-patch+yaml"
)

// call sends a request with a token, and returns the code and the answer.
func (s *server) call(token string, q *request, id string) (int, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testkit.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, q.method, s.base+q.path, bytes.NewReader([]byte(q.body)))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Audit-ID", id)
	if q.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if q.kind != "" {
		r.Header.Set("Content-Type", q.kind)
	}
	for i := 0; i < len(q.header); i += 2 {
		r.Header.Set(q.header[i], q.header[i+1])
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// server is the server that is asked.
type server struct {
	t      testing.TB
	base   string
	client *http.Client
	log    string // path of its audit log
}

// must makes an object as the administrator.
func (s *server) must(path, body string) {
	s.t.Helper()
	if code, answer := s.call(Admin, &request{method: "POST", path: path, body: body}, "setup"); code != http.StatusCreated {
		s.t.Fatalf("POST %s: %d %s", path, code, answer)
	}
}

// Rows sends the requests to a server at a base URL, whose audit log is a file, and returns how it treats them.
func (r *Recorder) Rows(base string, client *http.Client, log string) []Row {
	r.t.Helper()
	s := &server{r.t, base, client, log}
	r.prepare(s)
	var rows []Row
	for i := range requests {
		q := &requests[i]
		id := fmt.Sprintf("row-%d", i)
		r.take()
		s.call(User, q, id)
		authorized, admitted := r.take()
		rows = append(rows, Row{Request: q.String(), Authorized: list(authorized), Admitted: list(admitted), Recorded: s.events(id)})
	}
	return rows
}

// String is the request in the table.
func (q *request) String() string {
	text := "`" + q.method + " " + q.path + "`"
	switch q.kind {
	case merge:
		text += ", merge patch"
	case apply:
		text += ", apply"
	}
	if len(q.header) > 0 {
		text += ", as another user"
	}
	return text
}

// list is what was recorded, each once, "–" if that is nothing.
func list(texts []string) string {
	if len(texts) == 0 {
		return "–"
	}
	return strings.Join(slices.Compact(texts), "; ")
}

// take returns what was recorded since the last call.
func (r *Recorder) take() (authorized, admitted []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	authorized, admitted = r.authorized, r.admitted
	r.authorized, r.admitted = nil, nil
	return authorized, admitted
}

// events returns the verb of the events of a request in the audit log, and their stages. The last one comes after the answer.
func (s *server) events(id string) string {
	s.t.Helper()
	text := ""
	testkit.EventuallySay(s.t, func() (string, bool) {
		log, err := os.ReadFile(s.log)
		if err != nil {
			return err.Error(), false
		}
		verb, stages := "", []string{}
		for line := range strings.Lines(string(log)) {
			if !strings.Contains(line, `"`+id+`"`) {
				continue
			}
			var e struct{ AuditID, Verb, Stage string }
			if json.Unmarshal([]byte(line), &e) == nil && e.AuditID == id {
				verb, stages = e.Verb, append(stages, e.Stage)
			}
		}
		text = verb + ": " + strings.Join(stages, ", ")
		return "the events of " + id + ", got " + text, slices.Contains(stages, "ResponseComplete")
	})
	return text
}

// hook is a webhook for everything.
func (r *Recorder) hook() string {
	ca, err := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw}))
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprintf(`{"metadata":{"name":"access"},"webhooks":[{"name":"access.example.com","clientConfig":{"url":"%s/admit","caBundle":%s},"sideEffects":"None",
		"admissionReviewVersions":["v1"],"rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]}]}]}`, r.server.URL, ca)
}

// prepare makes the objects that the requests are about, and the webhook, and waits until the server knows them.
func (r *Recorder) prepare(s *server) {
	r.t.Helper()
	for _, o := range objects {
		s.must(o[0], o[1])
	}
	testkit.Eventually(r.t, "custom resources are served", func() bool {
		code, _ := s.call(Admin, &request{method: "GET", path: custom}, "setup")
		return code == http.StatusOK
	})
	s.must(custom, `{"apiVersion":"access.example.com/v1","kind":"Thing","metadata":{"name":"x"},"spec":{"replicas":1}}`)
	s.must("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", r.hook())
	testkit.Eventually(r.t, "the webhook is called", func() bool {
		s.call(User, &request{method: "POST", path: space + "configmaps?dryRun=All", body: `{"metadata":{"name":"probe"}}`}, "setup")
		_, admitted := r.take()
		return len(admitted) > 0
	})
}
