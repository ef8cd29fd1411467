package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file is how webhooks are asked, and what is made of their answers.

const configMaps = "/api/v1/namespaces/default/configmaps"

// TestAuthzAnswers asks webhooks that answer in every way, each with both failure policies: by a request, by a review of another
// one, and by the first request again, which a kept answer spares the webhook.
func TestAuthzAnswers(t *testing.T) {
	t.Parallel()
	const yes, no = `{"allowed":true,"reason":"r <1>","evaluationError":"not read"}`, `{"denied":true,"reason":"r <1>"}`
	type row struct {
		answer  mode
		more    string // of the webhook
		allowed bool
		denied  bool
		reason  string
		err     string // a part of it; then the failure policy decides
		both    bool   // the answer contradicts itself
		calls   int    // of one question; 0: 1
		tries   int    // that are counted; 0: as many as calls
		result  string // "": success
		late    bool   // time decides: asked when the others are done
	}
	const busy = "the server has received too many requests and has asked us to try again later"
	rows := map[string]row{
		"allowed":         {answer: rules(yes), allowed: true, reason: "r <1>"},
		"denied":          {answer: rules(no), denied: true, reason: "r <1>"},
		"neither":         {answer: rules(`{"allowed":false,"reason":"r <1>"}`), reason: "r <1>"},
		"created":         {answer: says(201, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`), allowed: true},
		"unknown-fields":  {answer: says(200, `{"status":{"allowed":true,"foo":1},"bar":{}}`), allowed: true},
		"empty-object":    {answer: says(200, `{}`)},
		"of-beta":         {answer: says(200, `{"apiVersion":"authorization.k8s.io/v1beta1","kind":"SubjectAccessReview","status":{"allowed":true}}`), more: ", subjectAccessReviewVersion: v1beta1", allowed: true},
		"contradiction":   {answer: rules(`{"allowed":true,"denied":true,"reason":"r <1>"}`), denied: true, reason: "r <1>", both: true},
		"another-version": {answer: says(200, `{"apiVersion":"authorization.k8s.io/v1beta1","kind":"SubjectAccessReview","status":{"allowed":true}}`), err: "converting (v1beta1.SubjectAccessReview) to (v1.SubjectAccessReview): unknown conversion", result: "error"},
		"another-kind":    {answer: says(200, `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","status":{"allowed":true}}`), err: "converting (v1.SelfSubjectAccessReview) to (v1.SubjectAccessReview): unknown conversion", result: "error"},
		"no-body":         {answer: says(200, ``), err: "0-length response with status code: 200 and content type: application/json", result: "error"},
		"no-json":         {answer: says(200, `yes`), err: "couldn't get version/kind; json parse error", result: "error"},
		"wrong-type":      {answer: says(200, `{"status":{"allowed":"true"}}`), err: "json: cannot unmarshal string into Go struct field", result: "error"},
		"dies-mid-answer": {answer: func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"status":{"allowed":true}`)
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, err: "unexpected EOF", result: "error"},
		"closes": {answer: func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) }, err: "EOF", result: "error"},
		"resets": {answer: func(w http.ResponseWriter, _ *http.Request, _ int) {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				for inner, ok := c.(interface{ NetConn() net.Conn }); ok; inner, ok = c.(interface{ NetConn() net.Conn }) {
					c = inner.NetConn()
				}
				c.(*net.TCPConn).SetLinger(0)
				c.Close()
			}
		}, err: "connection reset by peer", calls: 5, result: "error"},
		"endless": {answer: says(200, `{"status":{"reason":"`+strings.Repeat("x", 1<<20)+`"}}`), err: "the answer has more than 1048576 bytes", result: "error"},
		"slow":    {answer: slow(time.Minute, rules(yes)), more: ", timeout: 500ms", err: " exceeded", late: true, result: "timeout"},
		"400":     {answer: says(400, ``), err: "the server rejected our request for an unknown reason", result: "error"},
		"401":     {answer: says(401, ``), err: "the server has asked for the client to provide credentials", result: "error"},
		"403":     {answer: says(403, ``), err: "unknown", result: "error"},
		"404":     {answer: says(404, ``), err: "the server could not find the requested resource", result: "error"},
		"429":     {answer: says(429, ``), err: busy, calls: 5, result: "error"},
		"500":     {answer: says(500, `a <boom>`, "Content-Type", "text/plain"), err: `an error on the server ("a <boom>") has prevented the request from succeeding`, calls: 5, result: "error"},
		"502":     {answer: says(502, `boom`, "Content-Type", "text/plain"), err: `an error on the server ("boom") has prevented the request from succeeding`, calls: 5, result: "error"},
		"503":     {answer: says(503, ``), err: "the server is currently unable to handle the request", result: "error"},
		"504":     {answer: says(504, ``), err: "the server was unable to return a response in the time allotted, but may still be processing the request", calls: 5, result: "timeout"},
		"a-status": {answer: says(400, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"not like this","reason":"BadRequest","code":400}`),
			err: "not like this", result: "error"},
		"redirect":        {answer: says(302, ``, "Location", "/elsewhere"), err: "the server could not find the requested resource", result: "error"},
		"come-back":       {answer: says(429, ``, "Retry-After", "1"), more: ", timeout: 2500ms", err: " exceeded", late: true, calls: 3, tries: 1, result: "timeout"},
		"come-back-later": {answer: says(503, ``, "Retry-After", "30"), more: ", timeout: 500ms", err: " exceeded", late: true, tries: 1, result: "timeout"},
	}
	h := newReviewer(t)
	var entries, users []string
	for name, r := range rows {
		h.on("/"+name+"-deny", r.answer)
		h.on("/"+name+"-noopinion", r.answer)
		for _, policy := range []string{"Deny", "NoOpinion"} {
			id := name + "-" + strings.ToLower(policy)
			users = append(users, id)
			entries = append(entries, entry(id, h.kubeconfig("/"+id, ""), policy, r.more, "request.user == '"+id+"'"))
		}
	}
	// A webhook where nobody listens, and one behind a certificate of nobody.
	closed := httptest.NewServer(nil)
	closed.Close()
	untrusted := filepath.Join(t.TempDir(), "kubeconfig")
	overwrite(t, untrusted, fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":%q}}]}`, h.URL))
	for _, policy := range []string{"Deny", "NoOpinion"} {
		for name, file := range map[string]string{"nobody-there": h.kubeconfigAt(closed.URL, ""), "untrusted": untrusted} {
			id := name + "-" + strings.ToLower(policy)
			users = append(users, id)
			entries = append(entries, entry(id, file, policy, "", "request.user == '"+id+"'"))
		}
	}
	rows["nobody-there"] = row{err: "connect: connection refused", result: "error", calls: -1, tries: 1}
	rows["untrusted"] = row{err: "x509: certificate signed by unknown authority", result: "error", calls: -1, tries: 1}

	g := startGuarded(t, authzConfig("v1", entries...), users)
	try := func(late bool) {
		var all sync.WaitGroup
		for name, r := range rows {
			for _, policy := range []string{"Deny", "NoOpinion"} {
				if r.late != late {
					continue
				}
				all.Go(func() {
					id := name + "-" + strings.ToLower(policy)
					denied := r.denied || r.err != "" && policy == "Deny"
					request := func() {
						got := g.as(id, "GET", configMaps, "")
						const refused = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps is forbidden: User \"%s\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\"%s","reason":"Forbidden","details":{"kind":"configmaps"},"code":403}` + "\n"
						switch reason := strings.NewReplacer("<", `\u003c`, ">", `\u003e`).Replace(r.reason); {
						case r.both || r.err != "":
							text := r.err
							if r.both {
								text = "webhook subject access review returned both allow and deny response"
							}
							text = strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(text)
							if got.code != 500 || !strings.HasPrefix(got.body, `Internal Server Error: "`+configMaps+`": `) || !strings.Contains(got.body, text) || got.header.Get("Content-Type") != "text/plain; charset=utf-8" || got.header.Get("X-Content-Type-Options") != "nosniff" {
								t.Errorf("%s: got %d %s %v", id, got.code, got.body, got.header)
							}
						case r.allowed:
							if got.code != 200 {
								t.Errorf("%s: got %d %s", id, got.code, got.body)
							}
						default:
							if reason != "" && !r.denied {
								reason = id + ": " + reason // of those without an opinion
							}
							if reason != "" {
								reason = ": " + reason
							}
							if got.code != 403 || got.body != fmt.Sprintf(refused, id, reason) || got.header.Get("X-Content-Type-Options") != "nosniff" {
								t.Errorf("%s: got %d %s", id, got.code, got.body)
							}
						}
					}
					review := func() {
						got := g.review(fmt.Sprintf(`{"user":%q,"resourceAttributes":{"verb":"get","resource":"secrets","namespace":"x"}}`, id))
						reason := r.reason
						if reason != "" && !r.denied && !r.allowed {
							reason = id + ": " + reason
						}
						if got.Allowed != r.allowed || got.Denied != denied || got.Reason != reason || (got.EvaluationError != "") != (r.both || r.err != "") || !strings.Contains(got.EvaluationError, r.err) {
							t.Errorf("%s: review: got %+v", id, got)
						}
					}
					asks := 2
					if r.err != "" {
						asks = 3
						var three sync.WaitGroup
						three.Go(request)
						three.Go(request)
						three.Go(review)
						three.Wait()
					} else {
						request()
						review()
						request()
					}
					calls, tries := max(r.calls, 1), r.tries
					if tries == 0 {
						tries = calls
					}
					if got := len(h.questions("/" + id)); r.calls >= 0 && got != asks*calls {
						t.Errorf("%s: %d calls, want %d", id, got, asks*calls)
					}
					result := r.result
					if result == "" {
						result = "success"
					}
					want := map[string]float64{
						fmt.Sprintf(`apiserver_authorization_webhook_evaluations_total{name=%q,result=%q}`, id, result):      float64(asks * tries),
						fmt.Sprintf(`apiserver_authorization_webhook_duration_seconds_count{name=%q,result=%q}`, id, result): float64(asks * tries),
					}
					switch {
					case r.allowed:
						want[fmt.Sprintf(`apiserver_authorization_decisions_total{decision="allowed",name=%q,type="Webhook"}`, id)] = 3
					case denied:
						want[fmt.Sprintf(`apiserver_authorization_decisions_total{decision="denied",name=%q,type="Webhook"}`, id)] = 3
					}
					if r.err != "" && policy == "NoOpinion" {
						want[fmt.Sprintf(`apiserver_authorization_webhook_evaluations_fail_open_total{name=%q,result=%q}`, id, result)] = 3
					}
					got := g.since(nil)
					maps.DeleteFunc(got, func(name string, _ float64) bool {
						return !strings.Contains(name, fmt.Sprintf("name=%q", id)) || strings.Contains(name, "_match_condition_")
					})
					compare(t, id, got, want)
					if r.err != "" && !strings.Contains(g.log.String(), "Failed to make webhook authorizer request: ") {
						t.Errorf("%s: nothing is logged", id)
					}
				})
			}
		}
		all.Wait()
	}
	try(false)
	try(true)
	if !strings.Contains(g.log.String(), "Failed to make webhook authorizer request: the server could not find the requested resource") {
		t.Error("the log does not say why a webhook failed")
	}
	metrics := string(g.do(t, 200, "GET", "/metrics", nil))
	for _, line := range []string{
		`apiserver_authorization_webhook_duration_seconds_bucket{name="allowed-deny",result="success",le="0.005"}`,
		`authorization_duration_seconds_bucket{result="allowed",le="16.384"}`,
		`apiserver_authorization_match_condition_evaluation_seconds_bucket{name="allowed-deny",type="Webhook",le="0.25"}`,
	} {
		if !strings.Contains(metrics, "\n"+line) {
			t.Errorf("metrics have no %q", line)
		}
	}
}

// TestAuthzMoments asks again what failed for a moment, and does not blame a webhook for a client that goes away.
func TestAuthzMoments(t *testing.T) {
	t.Parallel()
	h := newReviewer(t)
	h.on("/again", inTurn(says(500, ""), says(429, ""), rules(`{"allowed":true}`)))
	h.on("/soon", inTurn(says(503, "", "Retry-After", "0"), rules(`{"allowed":true}`)))
	h.on("/patient", slow(30*time.Second, rules(`{"allowed":true}`)))
	var entries []string
	for _, name := range []string{"again", "soon", "patient"} {
		entries = append(entries, entry(name, h.kubeconfig("/"+name, ""), "NoOpinion", ", timeout: 30s", "request.user == '"+name+"'"))
	}
	g := startGuarded(t, authzConfig("v1", entries...), []string{"again", "soon", "patient"})
	for user, calls := range map[string]int{"again": 3, "soon": 2} {
		if got := g.as(user, "GET", configMaps, ""); got.code != 200 || len(h.questions("/"+user)) != calls {
			t.Errorf("%s: got %d %s after %d calls, want %d", user, got.code, got.body, len(h.questions("/"+user)), calls)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if r, err := g.send(ctx, "patient", "GET", configMaps, ""); err == nil {
		t.Errorf("patient: got %d %s", r.code, r.body)
	}
	const canceled = `apiserver_authorization_webhook_evaluations_total{name="patient",result="canceled"}`
	eventually(t, "end of the call", func() bool { return g.samples()[canceled] == 1 })
	got := g.since(nil)
	maps.DeleteFunc(got, func(name string, _ float64) bool {
		return strings.Contains(name, "_match_condition_") || strings.HasPrefix(name, "authorization_") || strings.Contains(name, "config_info")
	})
	compare(t, "metrics", got, map[string]float64{
		canceled: 1, `apiserver_authorization_webhook_duration_seconds_count{name="patient",result="canceled"}`: 1, // and none that failed open
		`apiserver_authorization_webhook_evaluations_total{name="again",result="error"}`:          2,
		`apiserver_authorization_webhook_duration_seconds_count{name="again",result="error"}`:     2,
		`apiserver_authorization_webhook_evaluations_total{name="again",result="success"}`:        1,
		`apiserver_authorization_webhook_duration_seconds_count{name="again",result="success"}`:   1,
		`apiserver_authorization_webhook_evaluations_total{name="soon",result="success"}`:         1,
		`apiserver_authorization_webhook_duration_seconds_count{name="soon",result="success"}`:    1,
		`apiserver_authorization_decisions_total{decision="allowed",name="again",type="Webhook"}`: 1,
		`apiserver_authorization_decisions_total{decision="allowed",name="soon",type="Webhook"}`:  1,
	})
}

// TestAuthzRequests records what webhooks are sent, in both versions, for requests of every shape.
func TestAuthzRequests(t *testing.T) {
	t.Parallel()
	h := newReviewer(t)
	h.on("/v1", rules(`{}`))
	h.on("/beta/it", rules(`{"denied":true}`))
	g := startGuarded(t, authzConfig("v1",
		entry("v1", h.kubeconfig("/v1/?dropped=yes", ""), "Deny", ", timeout: 3s"+uncached),
		entry("beta", h.kubeconfig("/beta/it", ""), "Deny", ", timeout: 1500ms, subjectAccessReviewVersion: v1beta1"+uncached)), []string{"ann/dev,ops"})
	asked := 0
	expect := func(what, spec string) {
		t.Helper()
		v1, beta := h.questions("/v1"), h.questions("/beta/it")
		if asked++; len(v1) != asked || len(beta) != asked {
			t.Fatalf("%s: %d and %d questions, want %d", what, len(v1), len(beta), asked)
		}
		last, lastBeta := v1[asked-1], beta[asked-1]
		const form = `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/%s","metadata":{},"spec":%s,"status":{"allowed":false}}` + "\n"
		if want := fmt.Sprintf(form, "v1", spec); last.body != want {
			t.Errorf("%s:\n got %s\nwant %s", what, last.body, want)
		}
		if want := fmt.Sprintf(form, "v1beta1", strings.Replace(spec, `"groups":`, `"group":`, 1)); lastBeta.body != want {
			t.Errorf("%s, v1beta1:\n got %s\nwant %s", what, lastBeta.body, want)
		}
		if last.url != "POST /v1?timeout=3s" || lastBeta.url != "POST /beta/it?timeout=1.5s" {
			t.Errorf("%s: asked %s and %s", what, last.url, lastBeta.url)
		}
		for name, want := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, */*", "Accept-Encoding": "gzip", "User-Agent": "Go-http-client/1.1", "Authorization": ""} {
			if got := last.header.Get(name); got != want {
				t.Errorf("%s: %s: got %q, want %q", what, name, got, want)
			}
		}
	}
	const who = `"user":"ann","groups":["dev","ops","system:authenticated"],"uid":"ann-uid"`
	for _, row := range []struct{ method, path, want string }{
		{"GET", "/", `non /`}, {"GET", "/healthz", `non /healthz`}, {"POST", "/version/", `non /version/`}, {"OPTIONS", "/metrics", `non /metrics`},
		{"GET", "/api", `non /api`}, {"GET", "/api/v1", `non /api/v1`}, {"GET", "/apis/demo.io/v1", `non /apis/demo.io/v1`}, {"GET", "/apis/demo.io/v1/", `non /apis/demo.io/v1/`},
		{"GET", "/other/%3Cx%3E%2Fy", `non /other/<x>/y`}, {"HEAD", "/healthz", `non /healthz`},
		{"GET", "/api/v1/nodes", `"verb":"list","version":"v1","resource":"nodes"`},
		{"GET", "/api/v1/nodes/n1", `"verb":"get","version":"v1","resource":"nodes","name":"n1"`},
		{"HEAD", "/api/v1/nodes/n1", `"verb":"get","version":"v1","resource":"nodes","name":"n1"`},
		{"GET", "/api/v1/nodes/n1/proxy/x/y", `"verb":"get","version":"v1","resource":"nodes","subresource":"proxy","name":"n1"`},
		{"GET", "/api/v1/nodes?watch", `"verb":"watch","version":"v1","resource":"nodes"`},
		{"GET", "/api/v1/nodes?watch=true", `"verb":"watch","version":"v1","resource":"nodes"`},
		{"GET", "/api/v1/nodes?watch=false", `"verb":"list","version":"v1","resource":"nodes"`},
		{"GET", "/api/v1/nodes?watch=0", `"verb":"list","version":"v1","resource":"nodes"`},
		{"GET", "/api/v1/watch/nodes", `"verb":"watch","version":"v1","resource":"nodes"`},
		{"GET", "/api/v1/watch/namespaces/ns/pods/p?fieldSelector=a=b", `"namespace":"ns","verb":"watch","version":"v1","resource":"pods","name":"p"`},
		{"GET", "/api/v1/proxy/nodes/n1", `"verb":"proxy","version":"v1","resource":"nodes","name":"n1"`},
		{"DELETE", "/api/v1/namespaces/ns/pods", `"namespace":"ns","verb":"deletecollection","version":"v1","resource":"pods"`},
		{"DELETE", "/api/v1/namespaces/ns/pods/p", `"namespace":"ns","verb":"delete","version":"v1","resource":"pods","name":"p"`},
		{"POST", "/api/v1/namespaces/ns/pods", `"namespace":"ns","verb":"create","version":"v1","resource":"pods"`},
		{"POST", "/api/v1/namespaces/ns/pods/p/eviction", `"namespace":"ns","verb":"create","version":"v1","resource":"pods","subresource":"eviction","name":"p"`},
		{"PUT", "/apis/demo.io/v1/namespaces/ns/foos/f/status", `"namespace":"ns","verb":"update","group":"demo.io","version":"v1","resource":"foos","subresource":"status","name":"f"`},
		{"PATCH", "/apis/demo.io/v1/namespaces/ns/foos/f", `"namespace":"ns","verb":"patch","group":"demo.io","version":"v1","resource":"foos","name":"f"`},
		{"GET", "/api/v1/namespaces", `"verb":"list","version":"v1","resource":"namespaces"`},
		{"GET", "/api/v1/namespaces/ns", `"namespace":"ns","verb":"get","version":"v1","resource":"namespaces","name":"ns"`},
		{"PUT", "/api/v1/namespaces/ns/finalize", `"namespace":"ns","verb":"update","version":"v1","resource":"namespaces","subresource":"finalize","name":"ns"`},
		{"PUT", "/api/v1/namespaces/ns/status", `"namespace":"ns","verb":"update","version":"v1","resource":"namespaces","subresource":"status","name":"ns"`},
		{"GET", "/api/v1/namespaces/ns/foos", `"namespace":"ns","verb":"list","version":"v1","resource":"foos"`},
		{"OPTIONS", "/api/v1/nodes", `"version":"v1","resource":"nodes"`},
		{"GET", "/api/v1/namespaces/a%2Fb/pods", `"namespace":"a","verb":"get","version":"v1","resource":"b","name":"pods"`},
		{"GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx", `"verb":"list","version":"v1","resource":"pods","name":"x","fieldSelector":{"requirements":[{"key":"metadata.name","operator":"In","values":["x"]}]}`},
		{"GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn,metadata.name!%3Db", `"verb":"list","version":"v1","resource":"pods","fieldSelector":{"requirements":[{"key":"metadata.name","operator":"NotIn","values":["b"]},{"key":"spec.nodeName","operator":"In","values":["n"]}]}`},
		{"GET", "/api/v1/pods?fieldSelector=a%3D%3Db&labelSelector=" + `z%3E3,y,!x,w+in+(b,a),v!%3D1,u%3D2,t+notin+(c,b)`,
			`"verb":"list","version":"v1","resource":"pods","fieldSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]}]},"labelSelector":{"requirements":[` +
				`{"key":"t","operator":"NotIn","values":["b","c"]},{"key":"u","operator":"In","values":["2"]},{"key":"v","operator":"NotIn","values":["1"]},{"key":"w","operator":"In","values":["a","b"]},{"key":"x","operator":"DoesNotExist"},{"key":"y","operator":"Exists"}]}`},
		{"GET", "/api/v1/pods?labelSelector=x+in+(&fieldSelector=x", `"verb":"list","version":"v1","resource":"pods"`},
		{"GET", "/api/v1/pods?labelSelector=x%3E1", `"verb":"list","version":"v1","resource":"pods"`},
		{"GET", "/api/v1/namespaces/ns/pods/p?labelSelector=a%3Db", `"namespace":"ns","verb":"get","version":"v1","resource":"pods","name":"p"`},
		{"DELETE", "/api/v1/namespaces/ns/pods?labelSelector=a%3Db", `"namespace":"ns","verb":"deletecollection","version":"v1","resource":"pods","labelSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]}]}`},
		{"GET", "/api/v1/pods?watch=1&labelSelector=a%3Db", `"verb":"watch","version":"v1","resource":"pods","labelSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]}]}`},
	} {
		if r := g.as("ann", row.method, row.path, ""); r.code != 403 {
			t.Errorf("%s %s: got %d %s", row.method, row.path, r.code, r.body)
		}
		spec := `{"resourceAttributes":{` + row.want + `},` + who + `}`
		if path, ok := strings.CutPrefix(row.want, "non "); ok {
			text, err := json.Marshal(path)
			if err != nil {
				t.Fatal(err)
			}
			spec = fmt.Sprintf(`{"nonResourceAttributes":{"path":%s,"verb":%q},%s}`, text, strings.ToLower(row.method), who)
		}
		expect(row.method+" "+row.path, spec)
	}
	// Reviews are passed on as they are.
	for spec, want := range map[string]string{
		`{"user":"bob","groups":["x"],"uid":"u1","extra":{"b":["2","1"],"a":[]},"resourceAttributes":{"verb":"*","resource":"pods"}}`: `{"resourceAttributes":{"verb":"*","version":"*","resource":"pods"},"user":"bob","groups":["x"],"extra":{"a":[],"b":["2","1"]},"uid":"u1"}`,
		`{"groups":["x"],"nonResourceAttributes":{"path":"/x","verb":"head"}}`:                                                        `{"nonResourceAttributes":{"path":"/x","verb":"head"},"groups":["x"]}`,
		`{"user":"bob","resourceAttributes":{"verb":"list","version":"v1","resource":"pods","fieldSelector":{"requirements":[{"key":"z","operator":"In","values":["1"]},{"key":"y","operator":"Exists"},{"key":"a","operator":"NotIn","values":["2"]}]},"labelSelector":{"rawSelector":"b=c,a"}}}`: `{"resourceAttributes":{"verb":"list","version":"v1","resource":"pods","fieldSelector":{"requirements":[{"key":"z","operator":"In","values":["1"]},{"key":"a","operator":"NotIn","values":["2"]}]},"labelSelector":{"requirements":[{"key":"a","operator":"Exists"},{"key":"b","operator":"In","values":["c"]}]}},"user":"bob"}`,
	} {
		g.review(spec)
		expect(spec, want)
	}
	// Impersonation asks about another user than the one who is recorded; who may not is refused before anything else.
	if r := g.as("ann", "GET", "/healthz", "", "Impersonate-User", "bob"); r.code != 403 {
		t.Errorf("impersonation: got %d %s", r.code, r.body)
	}
}

// TestAuthzCredentials shows webhooks every credential that a kubeconfig can hold, but never over a connection that is not encrypted.
func TestAuthzCredentials(t *testing.T) {
	t.Parallel()
	h := newReviewer(t)
	plain := httptest.NewServer(h)
	defer plain.Close()
	dir := t.TempDir()
	overwrite(t, filepath.Join(dir, "token"), "from-file\n")
	cert, key := selfSigned(t, "robot")
	overwrite(t, filepath.Join(dir, "tls.crt"), cert)
	overwrite(t, filepath.Join(dir, "tls.key"), key)
	overwrite(t, filepath.Join(dir, "plugin"), "#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"from-plugin\"}}'\n")
	if err := os.Chmod(filepath.Join(dir, "plugin"), 0o700); err != nil {
		t.Fatal(err)
	}
	rows := map[string]struct {
		user, base, want string
	}{
		"none":        {``, h.URL, " "},
		"token":       {`"token":"t0"`, h.URL, "Bearer t0 "},
		"token-file":  {fmt.Sprintf(`"tokenFile":%q`, filepath.Join(dir, "token")), h.URL, "Bearer from-file "},
		"password":    {`"username":"u","password":"p"`, h.URL, "Basic dTpw "},
		"certificate": {fmt.Sprintf(`"client-certificate":%q,"client-key":%q`, filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")), h.URL, " robot"},
		"plugin":      {fmt.Sprintf(`"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":%q,"interactiveMode":"Never"}`, filepath.Join(dir, "plugin")), h.URL, "Bearer from-plugin "},
		"open":        {`"token":"t0"`, plain.URL, " "},
		"as":          {`"token":"t0","as":"other","as-groups":["g"]`, h.URL, "Bearer t0 as other g"},
	}
	var entries, users []string
	for name, row := range rows {
		h.on("/"+name, rules(`{"allowed":true}`))
		users = append(users, name)
		entries = append(entries, entry(name, h.kubeconfigAt(row.base+"/"+name, row.user), "Deny", "", "request.user == '"+name+"'"))
	}
	g := startGuarded(t, authzConfig("v1", entries...), users)
	for name, row := range rows {
		if r := g.as(name, "GET", configMaps, ""); r.code != 200 {
			t.Errorf("%s: got %d %s", name, r.code, r.body)
			continue
		}
		q := h.questions("/" + name)[0]
		got := q.header.Get("Authorization") + " " + q.peer
		if as := q.header.Get("Impersonate-User"); as != "" {
			got += "as " + as + " " + q.header.Get("Impersonate-Group")
		}
		if got != row.want {
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
	}
}

// TestAuthzCache asks again and again: what is kept, for whom, for how long, and how much of it.
func TestAuthzCache(t *testing.T) {
	t.Parallel()
	h := newReviewer(t)
	for _, name := range []string{"yea", "nay", "none"} {
		h.on("/"+name, rules(map[string]string{"yea": `{"allowed":true}`, "nay": `{"denied":true}`, "none": `{}`}[name]))
	}
	hook := func(name, more string) string {
		return entry(name, h.kubeconfig("/"+name, ""), "Deny", more, "request.user == '"+name+"'")
	}
	g := startGuarded(t, authzConfig("v1", hook("yea", ""), hook("nay", ""), hook("none", "")), nil)
	asks := func(what, name, spec string, want int) {
		t.Helper()
		before := len(h.questions("/" + name))
		g.review(fmt.Sprintf(`{"user":%q,%s}`, name, spec))
		if got := len(h.questions("/"+name)) - before; got != want {
			t.Errorf("%s: %s: %d questions, want %d", name, what, got, want)
		}
	}
	const pods = `"resourceAttributes":{"verb":"list","resource":"pods","namespace":"ns"}`
	for _, name := range []string{"yea", "nay", "none"} {
		for _, row := range []struct {
			what, spec string
			want       int
		}{
			{"first", pods, 1}, {"again", pods, 0},
			{"with groups", pods + `,"groups":["a","b"]`, 1}, {"in another order", pods + `,"groups":["b","a"]`, 1}, {"again", pods + `,"groups":["a","b"]`, 0},
			{"with a uid", pods + `,"uid":"1"`, 1}, {"with extra", pods + `,"extra":{"k":["v"],"l":[]}`, 1}, {"extra in another order", pods + `,"extra":{"l":[],"k":["v"]}`, 0},
			{"another verb", `"resourceAttributes":{"verb":"get","resource":"pods","namespace":"ns"}`, 1},
			{"another namespace", `"resourceAttributes":{"verb":"list","resource":"pods","namespace":"other"}`, 1},
			{"another version", `"resourceAttributes":{"verb":"list","version":"v1","resource":"pods","namespace":"ns"}`, 1},
			{"with a name", `"resourceAttributes":{"verb":"list","resource":"pods","namespace":"ns","name":"x"}`, 1},
			{"with a selector", `"resourceAttributes":{"verb":"list","resource":"pods","namespace":"ns","labelSelector":{"rawSelector":"a=b"}}`, 1},
			{"the same selector", `"resourceAttributes":{"verb":"list","resource":"pods","namespace":"ns","labelSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]}]}}`, 0},
			{"a path", `"nonResourceAttributes":{"path":"/x","verb":"get"}`, 1}, {"again", `"nonResourceAttributes":{"path":"/x","verb":"get"}`, 0},
			{"too long", fmt.Sprintf(`"nonResourceAttributes":{"path":%q,"verb":"get"}`, strings.Repeat("x", 9997)), 1}, {"again", fmt.Sprintf(`"nonResourceAttributes":{"path":%q,"verb":"get"}`, strings.Repeat("x", 9997)), 1},
			{"not too long", fmt.Sprintf(`"nonResourceAttributes":{"path":%q,"verb":"get"}`, strings.Repeat("x", 9996)), 1}, {"again", fmt.Sprintf(`"nonResourceAttributes":{"path":%q,"verb":"get"}`, strings.Repeat("x", 9996)), 0},
			{"users do not count", pods + fmt.Sprintf(`,"groups":[%q]`, strings.Repeat("x", 20000)), 1}, {"again", pods + fmt.Sprintf(`,"groups":[%q]`, strings.Repeat("x", 20000)), 0},
		} {
			asks(row.what, name, row.spec, row.want)
		}
	}
	// Another configuration knows nothing of the answers of the one before. Answers expire, each kind in its own time.
	g.reload(hook("yea", ", authorizedTTL: 1s, unauthorizedTTL: 1h"), hook("nay", ", authorizedTTL: 1h, unauthorizedTTL: 1s"), hook("none", ", authorizedTTL: 1h, unauthorizedTTL: 1s"))
	for _, name := range []string{"yea", "nay", "none"} {
		asks("after a reload", name, pods, 1)
	}
	for _, name := range []string{"yea", "nay", "none"} {
		eventually(t, "the answer of "+name+" expires, so that the webhook is called", func() bool {
			before := len(h.questions("/" + name))
			g.review(fmt.Sprintf(`{"user":%q,%s}`, name, pods))
			return len(h.questions("/"+name)) > before
		})
	}
	g.reload(hook("yea", ", cacheAuthorizedRequests: false"), hook("nay", ", cacheUnauthorizedRequests: false"), hook("none", ", cacheUnauthorizedRequests: false"))
	for range 2 {
		for _, name := range []string{"yea", "nay", "none"} {
			asks("not kept", name, pods, 1)
		}
	}
	g.reload(hook("yea", ", cacheUnauthorizedRequests: false"), hook("nay", ", cacheAuthorizedRequests: false"))
	asks("kept", "yea", pods, 1)
	asks("kept", "nay", pods, 1)
	asks("kept", "yea", pods, 0)
	asks("kept", "nay", pods, 0)
	// 8192 answers are kept, those that were used last.
	const size = 8192
	path := func(n int) string { return fmt.Sprintf(`"nonResourceAttributes":{"path":"/%d","verb":"get"}`, n) }
	asks("oldest", "yea", path(0), 1)
	asks("next", "yea", path(1), 1)
	numbers := make(chan int)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := range numbers {
				g.review(`{"user":"yea",` + path(n) + `}`)
			}
		})
	}
	for n := 2; n < size; n++ {
		numbers <- n
	}
	close(numbers)
	all.Wait()
	asks("in use", "yea", path(0), 0)
	asks("one more", "yea", path(size), 1)
	asks("in use", "yea", path(0), 0)
	asks("unused for longest", "yea", path(1), 1)
}

// selfSigned is a certificate of a client and its key.
func selfSigned(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", secret)
}
