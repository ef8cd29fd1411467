package authn

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	upaudit "k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/klog/v2"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/api"
	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/kind"
)

// This file sends generated requests through upstream's filters and through Keelson's handler: paths that are written oddly,
// impersonation in all its modes, audit policies. What the authorizers are asked, in which order, the answers and the audit events
// have to be the same. The request itself is refused in the end, so that nothing has to be served.

func TestMain(m *testing.M) {
	flags := flag.NewFlagSet("", flag.PanicOnError)
	klog.InitFlags(flags)
	flags.Set("logtostderr", "false")
	flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// sender is who sends a request, for both sides; nobody if it has no name.
type sender struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

// world is one set-up of both sides: an audit policy, and an authorizer that allows part of what it is asked.
type world struct {
	seed   uint64
	allows uint32 // of 100 impersonations
	sender *sender

	theirs, ours           http.Handler
	theirCalls, ourCalls   []string
	theirEvents, ourEvents []string
}

// decide is what the authorizers of a world say to a question: to impersonations sometimes yes, to the request itself never.
func (w *world) decide(verb, question string) (allowed bool, reason string, err error) {
	if !strings.HasPrefix(verb, "impersonate") {
		return false, "in the end", nil
	}
	h := fnv.New32a()
	fmt.Fprint(h, w.seed, question)
	n := h.Sum32() >> 8 % 100
	switch {
	case n < w.allows:
		return true, "", nil
	case n == 99:
		return false, "", errors.New("broken")
	case n == 98:
		return false, "because", errors.New("broken")
	case n > 80:
		return false, "because", nil
	}
	return false, "", nil
}

func question(u *sender, parts ...any) string {
	text, err := json.Marshal(append([]any{u}, parts...))
	if err != nil {
		panic("BUG: a question does not marshal: " + err.Error())
	}
	return string(text)
}

// upstreamAuthorizer is the authorizer of a world for upstream.
type upstreamAuthorizer struct{ *world }

func (w upstreamAuthorizer) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	u := a.GetUser()
	f, _ := a.GetFieldSelector()
	l, _ := a.GetLabelSelector()
	q := question(&sender{u.GetName(), u.GetUID(), u.GetGroups(), noneIfEmpty(u.GetExtra())}, a.GetVerb(), a.IsResourceRequest(), a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(),
		a.GetSubresource(), a.GetNamespace(), a.GetName(), a.GetPath(), fmt.Sprint(f), fmt.Sprint(l))
	w.theirCalls = append(w.theirCalls, q)
	allowed, reason, err := w.decide(a.GetVerb(), q)
	if allowed {
		return authorizer.DecisionAllow, reason, err
	}
	return authorizer.DecisionNoOpinion, reason, err
}

func (w *world) authorize(_ context.Context, a *authz.Attributes) authz.Result {
	u := a.User
	var f fields.Requirements
	var l labels.Requirements
	if s, err := fields.ParseSelector(a.FieldSelector); err == nil && a.FieldSelector != "" {
		f = s.Requirements()
	}
	if s, err := labels.Parse(a.LabelSelector); err == nil && a.LabelSelector != "" {
		l, _ = s.Requirements()
	}
	q := question(&sender{u.Name, u.UID, u.Groups, noneIfEmpty(u.Extra)}, a.Verb, a.ResourceRequest, a.Group, a.Version, a.Resource, a.Subresource, a.Namespace, a.Name, a.Path,
		fmt.Sprint(f), fmt.Sprint(l))
	w.ourCalls = append(w.ourCalls, q)
	allowed, reason, err := w.decide(a.Verb, q)
	if allowed {
		return authz.Result{Decision: authz.Allow, Reason: reason, Err: err}
	}
	return authz.Result{Reason: reason, Err: err}
}

func noneIfEmpty(m map[string][]string) map[string][]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// upstreamSink keeps upstream's events.
type upstreamSink struct{ *world }

func (w upstreamSink) ProcessEvents(events ...*auditinternal.Event) bool {
	for _, e := range events {
		text, err := runtime.Encode(upaudit.Codecs.LegacyCodec(auditv1.SchemeGroupVersion), e)
		w.theirEvents = append(w.theirEvents, comparable(text, err))
	}
	return true
}

// Process implements audit.Backend.
func (w *world) Process(e *audit.Event) bool {
	text, err := json.Marshal(e)
	w.ourEvents = append(w.ourEvents, comparable(text, err))
	return true
}

// Close implements audit.Backend.
func (w *world) Close() error { return nil }

// comparable is an event without what differs between two requests.
func comparable(text []byte, err error) string {
	var e map[string]any
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err != nil {
		return err.Error()
	}
	for _, key := range []string{"auditID", "requestReceivedTimestamp", "stageTimestamp"} {
		delete(e, key)
	}
	out, err := json.Marshal(e)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// newWorld sets both sides up.
func newWorld(t *testing.T, r *rand.Rand) *world {
	t.Helper()
	w := &world{seed: r.Uint64(), allows: pick(r, uint32(70), 0, 30, 95)}
	text := auditPolicy(r)
	rules, err := policy.LoadPolicyFromBytes([]byte(text))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	quiet := slog.New(slog.DiscardHandler)
	own, err := audit.ParsePolicy([]byte(text), quiet)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	scheme := runtime.NewScheme()
	codecs := serializer.NewCodecFactory(scheme)
	scheme.AddUnversionedTypes(schema.GroupVersion{Version: "v1"}, &metav1.Status{})
	evaluator, sink := policy.NewPolicyRuleEvaluator(rules), upstreamSink{w}
	long := genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch", "proxy"), sets.NewString("attach", "exec", "proxy", "log", "portforward"))
	h := filters.WithAuthorization(http.NotFoundHandler(), upstreamAuthorizer{w}, codecs)
	h = impersonation.WithConstrainedImpersonation(h, upstreamAuthorizer{w}, codecs)
	h = filters.WithAudit(h, sink, evaluator, long)
	failed := filters.WithFailedAuthenticationAudit(filters.Unauthorized(codecs), sink, evaluator)
	h = filters.WithAuthentication(h, authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		if w.sender.Name == "" {
			return nil, false, errors.New("nobody")
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: w.sender.Name, UID: w.sender.UID, Groups: w.sender.Groups, Extra: w.sender.Extra}}, true, nil
	}), failed, nil, nil)
	h = filters.WithRequestInfo(h, &request.RequestInfoFactory{APIPrefixes: sets.NewString("apis", "api"), GrouplessAPIPrefixes: sets.NewString("api")})
	h = filters.WithRequestReceivedTimestamp(h)
	w.theirs = filters.WithAuditInit(h)

	store := mem.New(mem.Options{})
	cached := cache.New(store, cache.Options{Logger: quiet})
	ours := api.New(api.Config{Objects: objects.New(objects.Config{Kinds: new(kind.Registry), Store: store, Cache: cached}),
		Authz: authz.Func(w.authorize), Logger: quiet,
		Authn: authn.Func(func(*http.Request, []string) (*authn.Response, error) {
			if w.sender.Name == "" {
				return nil, errors.New("nobody")
			}
			return &authn.Response{User: &authn.User{Name: w.sender.Name, UID: w.sender.UID, Groups: w.sender.Groups, Extra: w.sender.Extra}}, nil
		}),
		Audit: audit.NewAuditor(own, w, audit.NewMetrics(prometheus.NewRegistry()), quiet)})
	t.Cleanup(func() {
		ours.Stop()
		cached.Close()
		store.Close()
	})
	w.ours = ours
	return w
}

// some are up to n of the words.
func some(r *rand.Rand, n int, words ...string) []string {
	var out []string
	for range r.IntN(n + 1) {
		out = append(out, words[r.IntN(len(words))])
	}
	return out
}

var segments = []string{"api", "apis", "v1", "apps", "watch", "proxy", "namespaces", "ns", "pods", "deployments", "status", "finalize", "scale", "x", "", ".", "..", "%2e%2e", "%2f", "a%2fb",
	"x;y", "%00", "X", "log", "exec", "healthz", "namespaces", "v1", "api", "%25", "secrets", "nodes"}

// auditPolicy makes a policy that is valid.
func auditPolicy(r *rand.Rand) string {
	levels, stages := []string{"Metadata", "None", "Request", "RequestResponse"}, []string{"RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"}
	rules := []any{}
	for range 1 + r.IntN(4) {
		rule := map[string]any{"level": pick(r, levels...), "users": some(r, 1, "ann", "bob", "system:anonymous"), "userGroups": some(r, 1, "dev", "ops", "system:authenticated"),
			"verbs": some(r, 2, "get", "list", "watch", "create", "patch", "delete", "post"), "omitStages": some(r, 2, stages...)}
		switch r.IntN(3) {
		case 0:
			rule["nonResourceURLs"] = some(r, 2, "/healthz", "/api*", "*", "/apis/*", "/x/*")
		case 1:
			list := []any{}
			for range 1 + r.IntN(2) {
				list = append(list, map[string]any{"group": pick(r, "", "apps"), "resources": some(r, 3, "pods", "pods/*", "*/status", "deployments", "namespaces", "*", "pods/log", "nodes/proxy")})
			}
			rule["resources"], rule["namespaces"] = list, some(r, 1, "ns", "", "x")
		}
		rules = append(rules, rule)
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules, "omitStages": some(r, 1, stages...)})
	if err != nil {
		panic("BUG: a policy does not marshal: " + err.Error())
	}
	return string(text)
}

// path makes a path and query, mostly of a resource.
func path(r *rand.Rand) string {
	out := ""
	if r.IntN(3) > 0 {
		out = pick(r, "/api/v1", "/apis/apps/v1", "/api/v1/watch", "/apis/apps/v1/watch", "/api/v1/proxy") + pick(r, "/namespaces/ns", "") + "/" + pick(r, "pods", "deployments", "namespaces", "nodes")
		out += pick(r, "", "/x", "/x/status", "/x/scale", "/x/log/y")
	}
	for range r.IntN(5) {
		out += "/" + segments[r.IntN(len(segments))]
	}
	if out == "" {
		out = "/"
	}
	if r.IntN(3) == 0 {
		out += "?" + strings.Join(some(r, 4, "watch", "watch=true", "watch=FALSE", "watch=false", "limit=x", "timeoutSeconds=x", "resourceVersion=x", "allowWatchBookmarks=maybe", "watch=0", "watch=1", "fieldSelector=metadata.name%3Dx", "fieldSelector=metadata.name%3D..", "fieldSelector=metadata.name%3Da%2Fb",
			"fieldSelector=spec.a%3Db,metadata.name%3Dx", "fieldSelector=%3D%3D", "labelSelector=a%3Db,c", "labelSelector=a+in+(b,c)", "labelSelector=((", "pretty=true", "a;b", "fieldSelector=metadata.name%3D", "access_token=x"), "&")
	}
	return out
}

// headers make somebody want to be somebody else, and more.
func headers(r *rand.Rand) http.Header {
	h := http.Header{}
	add := func(name string, values ...string) {
		for _, v := range values {
			h.Add(name, v)
		}
	}
	if r.IntN(4) > 0 {
		add("Impersonate-User", pick(r, "bob", "ann", "system:serviceaccount:ns:robot", "system:serviceaccount:ns:", "system:node:n1", "system:node:N_1", "system:node:", "system:anonymous", "", "a\"b"))
	}
	if r.IntN(2) == 0 {
		add("Impersonate-Group", some(r, 5, "dev", "ops", "system:masters", "system:authenticated", "system:unauthenticated", "", "a", "b")...)
	}
	if r.IntN(4) == 0 {
		add("Impersonate-Uid", pick(r, "7", ""))
	}
	if r.IntN(3) == 0 {
		// One key only: upstream asks about several in the order of a Go map.
		name := "Impersonate-Extra-" + pick(r, "scopes", "acme.com%2fkey", "Acme.com%2FKey", "", "a b", "%zz", "example.org%2f", "kubernetes.io%2fx", "reason")
		h[http.CanonicalHeaderKey(name)] = some(r, 5, "v", "w", "")
	}
	if r.IntN(4) == 0 {
		add("User-Agent", pick(r, "x/1", strings.Repeat("u", 1030)))
	}
	if r.IntN(4) == 0 {
		add("Authorization", pick(r, "Bearer x", "Basic eDp5", "Bearer", "x y", "bearer  x"))
	}
	if r.IntN(6) == 0 {
		add("X-Forwarded-For", pick(r, "10.0.0.1, 10.0.0.2", "x", "192.0.2.1"))
	}
	if r.IntN(6) == 0 {
		add("Accept", pick(r, "application/json", "*/*", "application/yaml"))
	}
	return h
}

var senders = []sender{
	{Name: "ann", Groups: []string{"dev", "system:authenticated"}}, {Name: ""}, {Name: "system:anonymous", Groups: []string{"system:unauthenticated"}},
	{Name: "bob", UID: "7", Groups: []string{"ops", "system:authenticated"}, Extra: map[string][]string{"k": {"v", "w"}}},
	{Name: "system:serviceaccount:ns:agent", Groups: []string{"system:serviceaccounts", "system:authenticated"}, Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"n1"}}},
}

// Ledger: paths.
func TestRequests(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 2))
	worlds, each := 60, 50
	if !testing.Short() {
		worlds = 300
	}
	impersonated := 0
	for range worlds {
		w := newWorld(t, r)
		for range each {
			w.sender = &senders[r.IntN(len(senders))]
			if r.IntN(3) > 0 {
				w.sender = &senders[0]
			}
			method, uri, h := pick(r, "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "get", "FOO"), path(r), headers(r)
			u, err := url.ParseRequestURI(uri)
			if err != nil || strings.Contains(strings.Trim(u.Path, "/"), "//") {
				continue // two slashes are one to Keelson: a path is served as what it is authorized as
			}
			send := func(to http.Handler) *httptest.ResponseRecorder {
				req := (&http.Request{Method: method, URL: u, RequestURI: uri, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h.Clone(), Body: http.NoBody,
					Host: "x", RemoteAddr: "192.0.2.1:1234"}).WithContext(t.Context())
				rec := httptest.NewRecorder()
				to.ServeHTTP(rec, req)
				return rec
			}
			w.theirCalls, w.ourCalls, w.theirEvents, w.ourEvents = nil, nil, nil, nil
			want := send(w.theirs)
			if strings.Contains(want.Body.String(), "failed to create RequestInfo") {
				continue // /api/v1/watch, which is a resource that there is not to Keelson
			}
			got := send(w.ours)
			what := fmt.Sprintf("%s %s of %s\n%v", method, uri, w.sender.Name, h)
			if !slices.Equal(w.theirCalls, w.ourCalls) {
				t.Fatalf("%s\nauthorizers are asked\nupstream %s\nkeelson  %s", what, strings.Join(w.theirCalls, "\n         "), strings.Join(w.ourCalls, "\n         "))
			}
			if want.Code != got.Code || method != "HEAD" && want.Body.String() != got.Body.String() || !reflect.DeepEqual(want.Header()["Content-Type"], got.Header()["Content-Type"]) {
				t.Fatalf("%s\nthe answer\nupstream %d %s %v\nkeelson  %d %s %v", what, want.Code, want.Body, want.Header(), got.Code, got.Body, got.Header())
			}
			if !slices.Equal(w.theirEvents, w.ourEvents) {
				t.Fatalf("%s\nevents\nupstream %s\nkeelson  %s", what, strings.Join(w.theirEvents, "\n         "), strings.Join(w.ourEvents, "\n         "))
			}
			if len(w.ourCalls) > 1 && strings.Contains(got.Body.String(), "in the end") {
				impersonated++
			}
		}
	}
	if impersonated == 0 {
		t.Error("nobody was impersonated")
	}
	t.Logf("%d requests, %d of them by others than their sender", worlds*each, impersonated)
}
