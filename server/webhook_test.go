package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"encoding/pem"

	"github.com/keelson-io/keelson/store/mem"
)

// This file lets webhooks of its own, good ones and bad ones, take part in
// admission.

// hooks is a server of webhooks: each path behaves in its way.
type hooks struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string][]review
}

// review is what a webhook was sent.
type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    struct {
		UID             string           `json:"uid"`
		Kind            groupVersionKind `json:"kind"`
		Resource        map[string]string
		RequestKind     groupVersionKind
		SubResource     string
		Name, Namespace string
		Operation       string
		UserInfo        struct{ Username string }
		Object          map[string]any
		OldObject       map[string]any
		DryRun          bool
		Options         map[string]any
	} `json:"request"`
	query string
}

type groupVersionKind struct{ Group, Version, Kind string }

// behave is what a webhook answers to a review; "" hangs up.
type behave func(r *review) (code int, body string)

// answerOf is an AdmissionReview with a response. %s is replaced by the uid.
func answerOf(response string) behave {
	return func(r *review) (int, string) {
		return 200, `{"apiVersion":"` + r.APIVersion + `","kind":"AdmissionReview","response":` +
			strings.ReplaceAll(response, "%s", r.Request.UID) + `}`
	}
}

// patching answers with a JSON patch.
func patching(patch string) behave {
	b, _ := json.Marshal([]byte(patch))
	return answerOf(`{"uid":"%s","allowed":true,"patchType":"JSONPatch","patch":` + string(b) + `}`)
}

func serveHooks(t *testing.T, by map[string]behave) *hooks {
	h := &hooks{calls: map[string][]review{}}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		v := review{query: r.URL.RawQuery}
		if err := json.Unmarshal(body, &v); err != nil {
			t.Errorf("%s: not a review: %s", r.URL.Path, body)
		}
		name := strings.TrimPrefix(r.URL.Path, "/")
		h.mu.Lock()
		h.calls[name] = append(h.calls[name], v)
		h.mu.Unlock()
		do := by[name]
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
	}))
	h.Config.ErrorLog = nil
	t.Cleanup(h.Close)
	return h
}

// seen returns the calls of a webhook and forgets them.
func (h *hooks) seen(name string) []review {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := h.calls[name]
	delete(h.calls, name)
	return calls
}

func (h *hooks) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}))
}

// hookFor describes one webhook of a configuration. more are further members.
func (h *hooks) hookFor(name, more string) string {
	ca, _ := json.Marshal([]byte(h.ca()))
	hook := fmt.Sprintf(`"name":"%s.demo.io","admissionReviewVersions":["v1"],"sideEffects":"None",
		"clientConfig":{"url":"%s/%s","caBundle":%s},
		"rules":[{"operations":["*"],"apiGroups":["demo.io"],"apiVersions":["*"],"resources":["widgets"]}]`, name, h.URL, name, ca)
	if more != "" {
		hook += "," + more // of equal members the last one counts
	}
	return "{" + hook + "}"
}

// configure installs a configuration and waits until it is in force.
func (r *running) configure(kind, name string, hooks ...string) {
	r.t.Helper()
	plural := strings.ToLower(kind) + "s"
	r.must("POST", "/apis/admissionregistration.k8s.io/v1/"+plural, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"`+kind+
		`","metadata":{"name":"`+name+`"},"webhooks":[`+strings.Join(hooks, ",")+`]}`)
	r.settle()
}

// settle waits until the server's cache has everything that was written.
func (r *running) settle() {
	r.t.Helper()
	for _, plural := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"} {
		r.must("GET", "/apis/admissionregistration.k8s.io/v1/"+plural, "") // as new as every write
	}
}

func (r *running) remove(kind, name string) {
	r.t.Helper()
	r.must("DELETE", "/apis/admissionregistration.k8s.io/v1/"+strings.ToLower(kind)+"s/"+name, "")
	r.settle()
}

const (
	mutatingConfig   = "MutatingWebhookConfiguration"
	validatingConfig = "ValidatingWebhookConfiguration"
	widgetA          = `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"color":"red"}}`
)

// TestWebhookAnswers: what a webhook answers decides what the client is told.
func TestWebhookAnswers(t *testing.T) {
	h := serveHooks(t, map[string]behave{
		"allow":      answerOf(`{"uid":"%s","allowed":true,"warnings":["look out"]}`),
		"deny":       answerOf(`{"uid":"%s","allowed":false,"status":{"code":418,"message":"no tea"}}`),
		"denyreason": answerOf(`{"uid":"%s","allowed":false,"status":{"reason":"TooHot"}}`),
		"mute":       answerOf(`{"uid":"%s","allowed":false}`),
		"uid":        answerOf(`{"uid":"another","allowed":true}`),
		"absent": func(*review) (int, string) {
			return 200, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`
		},
		"empty":  func(*review) (int, string) { return 200, `` },
		"broken": func(*review) (int, string) { return 500, `oh` },
		"gone":   func(*review) (int, string) { return 0, `` },
		"slow":   func(*review) (int, string) { time.Sleep(1500 * time.Millisecond); return 500, `` },
		"othergvk": func(r *review) (int, string) {
			return 200, `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{"uid":"` + r.Request.UID + `","allowed":true}}`
		},
		"patchless": answerOf(`{"uid":"%s","allowed":true,"patchType":"JSONPatch"}`),
		"typeless":  answerOf(`{"uid":"%s","allowed":true,"patch":"W10="}`),
		"merge":     answerOf(`{"uid":"%s","allowed":true,"patchType":"MergePatch","patch":"e30="}`),
		"mixed":     answerOf(`{"uid":"%s","allowed":true,"patchType":"MergePatch","patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMvY29sb3IiLCJ2YWx1ZSI6IngifV0="}`),
		"status": func(*review) (int, string) {
			return 503, `{"apiVersion":"v1","kind":"Status","status":"Failure","message":"not today","reason":"ServiceUnavailable","code":503}`
		},
		"nopatch":  patching(`[{"op":"move"}]`),
		"badpatch": patching(`[{"op":"test","path":"/spec/color","value":"blue"}]`),
		"breaking": patching(`[{"op":"replace","path":"/spec","value":7}]`),
	})
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.define()
	const failed = `Internal error occurred: failed calling webhook \"NAME.demo.io\": `
	for _, row := range []struct {
		kind, name, more string
		code             int
		want             string
	}{
		{mutatingConfig, "allow", ``, 201, `"color":"red"`},
		{validatingConfig, "allow", ``, 201, `"color":"red"`},
		{mutatingConfig, "deny", ``, 418, `admission webhook \"deny.demo.io\" denied the request: no tea`},
		{validatingConfig, "deny", ``, 418, `admission webhook \"deny.demo.io\" denied the request: no tea`},
		{validatingConfig, "deny", `"failurePolicy":"Ignore"`, 418, `no tea`}, // a refusal is no failure
		{validatingConfig, "denyreason", ``, 400, `admission webhook \"denyreason.demo.io\" denied the request: TooHot`},
		{validatingConfig, "mute", ``, 400, `admission webhook \"mute.demo.io\" denied the request without explanation`},
		{validatingConfig, "uid", ``, 500, failed + `received invalid webhook response: expected response.uid=\"`},
		{validatingConfig, "uid", `"failurePolicy":"Ignore"`, 201, `"color":"red"`},
		{validatingConfig, "uid", `"admissionReviewVersions":["v1beta1"]`, 201, `"color":"red"`},
		{validatingConfig, "absent", ``, 500, failed + `received invalid webhook response: webhook response was absent`},
		{validatingConfig, "othergvk", ``, 500, failed},
		{mutatingConfig, "empty", ``, 500, failed + `failed to call webhook: 0-length response with status code: 200 and content type: application/json`},
		{mutatingConfig, "broken", ``, 500, failed + `failed to call webhook: an error on the server (\"unknown\") has prevented the request from succeeding`},
		{mutatingConfig, "broken", `"failurePolicy":"Ignore"`, 201, `"color":"red"`},
		{mutatingConfig, "missing", ``, 500, failed + `failed to call webhook: the server could not find the requested resource`},
		{mutatingConfig, "gone", ``, 500, failed + `failed to call webhook: Post \"`},
		{mutatingConfig, "slow", `"timeoutSeconds":1`, 500, failed + `failed to call webhook: Post \"` + h.URL + `/slow?timeout=1s\": context deadline exceeded`},
		{validatingConfig, "slow", `"timeoutSeconds":1,"failurePolicy":"Ignore"`, 201, `"color":"red"`},
		{mutatingConfig, "patchless", ``, 500, failed + `received invalid webhook response: webhook returned response.patchType but not response.patch`},
		{mutatingConfig, "typeless", ``, 500, failed + `received invalid webhook response: webhook returned response.patch but not response.patchType`},
		{validatingConfig, "typeless", ``, 500, failed + `received invalid webhook response: validating webhook may not return response.patch`},
		{mutatingConfig, "merge", ``, 500, failed + `received undecodable patch in webhook response: json: cannot unmarshal object into Go value of type jsonpatch.Patch`},
		{mutatingConfig, "status", ``, 500, failed + `failed to call webhook: not today`},
		{mutatingConfig, "mixed", ``, 500, failed + `unsupported patch type \"MergePatch\"`},
		{mutatingConfig, "nopatch", ``, 500, `breaking the patch`},
		{mutatingConfig, "badpatch", ``, 500, `Internal error occurred: patch of admission webhook \"badpatch.demo.io\": testing value /spec/color failed`},
		{mutatingConfig, "breaking", ``, 422, `spec in body must be of type object: \"integer\"`},
	} {
		r.configure(row.kind, "c", h.hookFor(row.name, row.more))
		code, text := r.call(r.client, "POST", widgetsPath, widgetA, "User-Agent", "test")
		want := strings.ReplaceAll(row.want, "NAME", row.name)
		if code != row.code || !strings.Contains(text, want) && row.name != "nopatch" {
			t.Errorf("%s %s %s:\ngot  %d %s\nwant %d %s", row.kind, row.name, row.more, code, text, row.code, want)
		}
		r.remove(row.kind, "c")
		r.call(r.client, "DELETE", widgetsPath+"/a", "")
	}
}

// TestWhatMutatingWebhooksMayDo: KEP-2332's promise, that nothing of what is
// smuggled in is answered, watched or stored.
func TestWhatMutatingWebhooksMayDo(t *testing.T) {
	h := serveHooks(t, map[string]behave{
		"smuggle": patching(`[{"op":"add","path":"/spec/bogus","value":{"a":1}},{"op":"add","path":"/bogus","value":2},
			{"op":"add","path":"/metadata/labels","value":{"l":"x"}},{"op":"replace","path":"/spec/color","value":"blue"}]`),
		"fields": patching(`[{"op":"replace","path":"/metadata/managedFields","value":[{"manager":"m","operation":"Nonsense"}]},
			{"op":"add","path":"/spec/color","value":"green"}]`),
		"watcher": answerOf(`{"uid":"%s","allowed":true}`),
	})
	st := mem.New(mem.Options{})
	r := start(t, Config{Store: st})
	r.define()
	r.configure(mutatingConfig, "a", h.hookFor("smuggle", `"rules":[{"operations":["CREATE","UPDATE"],"apiGroups":["demo.io"],"apiVersions":["*"],"resources":["widgets"]}]`))
	r.configure(validatingConfig, "b", h.hookFor("watcher", ``))
	text := r.must("POST", widgetsPath, widgetA)
	for what, text := range map[string]string{"answer": text, "read": r.must("GET", widgetsPath+"/a", "")} {
		if strings.Contains(text, "bogus") || !strings.Contains(text, `"blue"`) || !strings.Contains(text, `"l":"x"`) {
			t.Errorf("%s: %s", what, text)
		}
	}
	item, err := st.Get(t.Context(), "demo.io/widgets/default/a")
	if err != nil || strings.Contains(string(item.Value), "bogus") || !strings.Contains(string(item.Value), `"blue"`) {
		t.Errorf("stored: %s, %v", item.Value, err)
	}
	sent := h.seen("smuggle")[0].Request
	meta := sent.Object["metadata"].(map[string]any)
	if sent.Operation != "CREATE" || sent.Name != "a" || sent.Namespace != "default" || sent.OldObject != nil || meta["uid"] != nil ||
		sent.Options["kind"] != "CreateOptions" || sent.UserInfo.Username == "" || meta["managedFields"] == nil {
		t.Errorf("a mutating webhook was sent %+v", sent)
	}
	seen := h.seen("watcher")[0].Request
	if spec := fmt.Sprint(seen.Object["spec"]); spec != "map[color:blue]" || seen.Object["metadata"].(map[string]any)["uid"] == nil {
		t.Errorf("a validating webhook was sent %+v", seen)
	}
	// A later version of the object, and its end.
	r.must("PATCH", widgetsPath+"/a?dryRun=All", `{"metadata":{"annotations":{"x":"y"}}}`, "Content-Type", "application/merge-patch+json")
	if seen := h.seen("watcher")[0].Request; seen.Operation != "UPDATE" || !seen.DryRun || seen.OldObject == nil || seen.Options["kind"] != "UpdateOptions" {
		t.Errorf("a patch: sent %+v", seen)
	}
	r.must("DELETE", widgetsPath+"/a", `{"propagationPolicy":"Background"}`)
	if seen := h.seen("watcher")[0].Request; seen.Operation != "DELETE" || seen.Object != nil || seen.OldObject == nil ||
		seen.Options["propagationPolicy"] != "Background" {
		t.Errorf("a deletion: sent %+v", seen)
	}
	r.remove(mutatingConfig, "a")
	r.configure(mutatingConfig, "a", h.hookFor("fields", ``))
	if text = r.must("POST", widgetsPath, widgetA); strings.Contains(text, "Nonsense") || !strings.Contains(text, `"manager"`) || !strings.Contains(text, "green") {
		t.Errorf("managedFields: %s", text)
	}
}

// TestWhichRequestsWebhooksSee: rules, selectors, conditions, versions and
// reinvocation.
func TestWhichRequestsWebhooksSee(t *testing.T) {
	count := answerOf(`{"uid":"%s","allowed":true}`)
	h := serveHooks(t, map[string]behave{
		"first": count, "again": count, "status": count, "selected": count, "namespaced": count, "conditional": count, "side": count, "cluster": count,
		"paint": patching(`[{"op":"add","path":"/spec/color","value":"blue"}]`),
	})
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.define()
	r.configure(mutatingConfig, "m",
		h.hookFor("first", ``), h.hookFor("again", `"reinvocationPolicy":"IfNeeded"`), h.hookFor("paint", ``),
		h.hookFor("selected", `"objectSelector":{"matchLabels":{"pick":"me"}}`),
		h.hookFor("namespaced", `"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"kube-system"}}`),
		h.hookFor("cluster", `"rules":[{"operations":["CREATE"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*"],"scope":"Cluster"}]`),
		h.hookFor("conditional", `"matchConditions":[{"name":"blue","expression":"object.spec.color == 'blue' && request.userInfo.username != 'x'"}]`))
	r.configure(validatingConfig, "v", h.hookFor("side", `"sideEffects":"NoneOnDryRun"`),
		h.hookFor("status", `"rules":[{"operations":["UPDATE"],"apiGroups":["demo.io"],"apiVersions":["v1"],"resources":["*/*"]}]`))
	r.must("POST", widgetsPath, widgetA)
	for name, want := range map[string]int{"first": 1, "again": 2, "paint": 1, "selected": 0, "namespaced": 0, "conditional": 1, "side": 1, "status": 0, "cluster": 0} {
		if got := len(h.seen(name)); got != want {
			t.Errorf("create: %s was asked %d times, want %d", name, got, want)
		}
	}
	r.must("PATCH", widgetsPath+"/a", `{"metadata":{"labels":{"pick":"me"}}}`, "Content-Type", "application/merge-patch+json")
	r.must("POST", "/apis/demo.io/v1/namespaces/kube-system/widgets", widgetA)
	for name, want := range map[string]int{"selected": 1, "namespaced": 1, "status": 1, "cluster": 0} {
		if got := len(h.seen(name)); got != want {
			t.Errorf("then: %s was asked %d times, want %d", name, got, want)
		}
	}
	// Nobody is asked about who is asked.
	r.configure(validatingConfig, "everything",
		h.hookFor("deny-everything", `"rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]}]`))
	if code, _ := r.call(r.client, "POST", widgetsPath, strings.Replace(widgetA, `"a"`, `"b"`, 1)); code != 500 {
		t.Errorf("with a webhook for everything that is missing: got %d", code)
	}
	r.remove(validatingConfig, "everything")
	r.must("POST", widgetsPath, strings.Replace(widgetA, `"a"`, `"b"`, 1))
}
