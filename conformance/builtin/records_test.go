package builtin

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/testpeers"
)

// This file compares what webhooks and admission policies of both servers see of the same requests.

// records are what the webhooks and policies of both servers saw.
type records struct {
	server *httptest.Server

	mu   sync.Mutex
	seen [2][]any
}

// hookPaths are the paths of the webhooks of a server: the mutating one, the validating one, and one that selects objects by a label.
var hookPaths = []string{"mutate", "validate", "selected"}

// newRecords starts the webhooks of both servers.
func newRecords(t *testing.T) *records {
	t.Helper()
	s := &records{}
	s.server = httptest.NewTLSServer(http.HandlerFunc(s.review))
	t.Cleanup(s.server.Close)
	return s
}

// review records a review and allows it.
func (s *records) review(w http.ResponseWriter, r *http.Request) {
	var review struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Request    map[string]any `json:"request"`
	}
	d := json.NewDecoder(r.Body)
	d.UseNumber()
	if err := d.Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	uid := review.Request["uid"]
	delete(review.Request, "uid")
	// Servers write by themselves, too, when they like.
	if user, _ := review.Request["userInfo"].(map[string]any); user["username"] == "admin" {
		side, hook, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		s.mu.Lock()
		i := strings.Index("01", side)
		s.seen[i] = append(s.seen[i], map[string]any{"hook": hook, "request": review.Request})
		s.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(m{"apiVersion": review.APIVersion, "kind": review.Kind, "response": m{"uid": uid, "allowed": true}})
}

// take returns what was seen since the last call.
func (s *records) take() [2][]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = [2][]any{}
	return seen
}

// saw is an expression that says what an admission policy sees.
const saw = `'saw ' + [request.operation, request.kind.group, request.kind.version, request.kind.kind, request.resource.group, request.resource.version,
	request.resource.resource, has(request.subResource) ? request.subResource : '', request.requestKind.kind, has(request.requestSubResource) ? request.requestSubResource : '',
	has(request.name) ? request.name : '', has(request.namespace) ? request.namespace : '', has(request.dryRun) ? string(request.dryRun) : '', request.userInfo.username,
	object == null ? 'null' : has(object.metadata) && has(object.metadata.labels) ? string(size(object.metadata.labels)) : '-',
	oldObject == null ? 'null' : has(oldObject.metadata) && has(oldObject.metadata.labels) ? string(size(oldObject.metadata.labels)) : '-',
	namespaceObject == null ? 'null' : namespaceObject.metadata.name].join(' ')`

// install installs the webhooks and the policies, and waits until they are asked.
func (s *records) install(r *run) {
	r.t.Helper()
	const group = "/apis/admissionregistration.k8s.io/v1/"
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	everything := []m{{"operations": []string{"*"}, "apiGroups": []string{"*"}, "apiVersions": []string{"*"}, "resources": []string{"*/*"}}}
	labelled := m{"matchExpressions": []m{{"key": "st", "operator": "Exists"}}}
	put := func(p *peer, plural string, body m) {
		r.t.Helper()
		if a := p.ask(&request{method: "POST", path: group + plural, body: body}); a.code != http.StatusCreated {
			r.t.Fatalf("%s: %s: %d %s", p.name, plural, a.code, a.body)
		}
	}
	for side, p := range r.peers {
		for _, name := range hookPaths {
			hook := m{"name": name + ".records.io", "clientConfig": m{"url": fmt.Sprintf("%s/%d/%s", s.server.URL, side, name), "caBundle": ca},
				"rules": everything, "sideEffects": "None", "admissionReviewVersions": []string{"v1"}, "timeoutSeconds": 30}
			plural := "validatingwebhookconfigurations"
			switch name {
			case "mutate":
				plural = "mutatingwebhookconfigurations"
			case "selected":
				hook["objectSelector"] = labelled
			}
			put(p, plural, m{"metadata": m{"name": name}, "webhooks": []m{hook}})
		}
		for name, selector := range map[string]m{"saw": {}, "selected": labelled} {
			put(p, "validatingadmissionpolicies", m{"metadata": m{"name": name}, "spec": m{"matchConstraints": m{"resourceRules": everything, "objectSelector": selector},
				"validations": []m{{"expression": "false", "messageExpression": strings.ReplaceAll(saw, "\n\t", " ")}}}})
			put(p, "validatingadmissionpolicybindings", m{"metadata": m{"name": name}, "spec": m{"policyName": name, "validationActions": []string{"Warn"}}})
		}
	}
	// Servers read their webhooks and policies in their own time.
	probe := m{"metadata": m{"name": "probe", "labels": m{"st": "1"}}}
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		full := 0
		for side, p := range r.peers {
			a := p.ask(&request{method: "POST", path: "/api/v1/namespaces/default/configmaps?dryRun=All", body: probe})
			if len(s.take()[side]) == len(hookPaths) && len(a.header.Values("Warning")) == 2 {
				full++
			}
		}
		if full == len(r.peers) {
			return
		}
		if time.Now().After(end) {
			r.t.Fatal("webhooks or policies are not asked")
		}
	}
}

// order sorts what the validating webhooks of one request saw, which are asked at once, behind the mutating one.
func order(seen any) int { return slices.Index(hookPaths, seen.(map[string]any)["hook"].(string)) }

// compareRecords compares what the webhooks and policies saw of a request.
func (r *run) compareRecords(of, step string, q *request, got [2]*answer) {
	r.t.Helper()
	var all [2]*answer
	for side, seen := range r.records.take() {
		slices.SortStableFunc(seen, func(a, b any) int { return order(a) - order(b) })
		// Ledger: webhook-delete-calls.
		if q.method == http.MethodDelete {
			seen = slices.CompactFunc(seen, func(a, b any) bool { return order(a) == order(b) })
		}
		saw := []string{}
		for _, w := range got[side].header.Values("Warning") {
			if strings.Contains(w, "ValidatingAdmissionPolicy") {
				saw = append(saw, w)
			}
		}
		slices.Sort(saw)
		text, err := json.Marshal(m{"hooks": seen, "policies": saw})
		if err != nil {
			r.t.Fatal(err)
		}
		all[side] = &answer{code: len(seen), body: text}
	}
	r.compare(of, step, q, all)
}

// connections are requests to connect to things, which nothing answers.
var connections = []string{
	"pods/x1/exec?command=ls&container=c&stdin=true&tty=true", "pods/x1/exec", "pods/x1/attach?container=c&stdout=false", "pods/x1/portforward?ports=80&ports=81", "pods/x1/portforward",
	"pods/x1/proxy", "pods/x1/proxy/a/b?c=d", "services/x1/proxy/a", "services/x1:80/proxy/", "pods/none/exec?command=ls", "services/none/proxy",
}

// TestAdmissionRecords holds that webhooks and admission policies see the same of the same requests: operation, kind, subresource, objects,
// options, user, and what their selectors choose.
func TestAdmissionRecords(t *testing.T) {
	if testing.Short() {
		t.Skip("kube-apiserver takes its time to start")
	}
	r := &run{t: t, peers: [2]*peer{startUpstream(t), startKeelson(t)}, same: &sameness{given: new(testpeers.Pairs)}, intended: map[*exception]int{},
		reachable: map[string]bool{}, covered: map[string]bool{}, tried: map[string]bool{}}
	objects := readObjects(t, "testdata/minimal.yaml")
	r.surroundings()
	s := newRecords(t)
	s.install(r)
	r.records = s
	only := os.Getenv("ONLY")
	r.groups(func(g group) {
		r.t.Helper()
		for _, res := range g.resources {
			name := g.Group + "/" + res.Name
			if g.Group == "" {
				name = res.Name
			}
			if body, ok := objects[name]; ok && (only == "" || strings.Contains(" "+only+" ", " "+name+" ")) {
				r.kind(&subject{group: g, APIResource: res, name: name, minimal: body})
			}
		}
	})
	if only == "" || only == "connect" {
		r.connect(objects)
	}
	if only == "" {
		r.unusedExceptions((*exception).ofRecords)
	}
	fmt.Printf("builtin: %d requests, what admission saw differs in %d, in %d of them other than intended\n", r.requests, r.differ, r.unintended)
}

// connect asks for connections.
func (r *run) connect(objects map[string]map[string]any) {
	r.t.Helper()
	for _, plural := range []string{"pods", "services"} {
		body := clone(objects[plural])
		body["metadata"] = m{"name": "x1", "labels": m{"st": "1"}}
		r.ask(plural, "connect create", &request{method: "POST", path: "/api/v1/namespaces/default/" + plural, body: body})
	}
	for _, path := range connections {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			r.ask("connect", method+" "+path, &request{method: method, path: "/api/v1/namespaces/default/" + path})
		}
	}
	for _, path := range []string{"nodes/none/proxy", "nodes/none/proxy/metrics"} {
		r.ask("connect", path, &request{method: "GET", path: "/api/v1/" + path})
	}
}
