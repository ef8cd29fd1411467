// Package webhook compares admission by webhooks with upstream's own plugins:
// the same random configurations, webhooks and requests on both sides. Both must
// ask the same webhooks, in the same order and words, and must come to the same
// outcome.
package webhook

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/webhook"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkinds"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

var versions = []string{"v1", "v2", "v3"}

// outcome is what came of a request.
type outcome struct {
	object   map[string]any
	err      error
	warnings []string
	notes    map[string]string
}

var (
	random    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	authority = regexp.MustCompile(`,"caBundle":"[^"]*"`)
	// named is what our errors say more: whose patch it was.
	named = regexp.MustCompile(`patch of admission webhook "[^"]*": `)
)

// String is the outcome for comparison.
func (o *outcome) String() string {
	var b strings.Builder
	var s apierrors.APIStatus
	switch {
	case o.err == nil:
		object, _ := json.Marshal(o.object)
		fmt.Fprintf(&b, "allowed: %s\n", object)
	case errors.As(o.err, &s):
		st := s.Status()
		fmt.Fprintf(&b, "refused: %d %s %s\n", st.Code, st.Reason, named.ReplaceAllString(random.ReplaceAllString(st.Message, "UID"), ""))
	default:
		fmt.Fprintf(&b, "failed: %v\n", o.err)
	}
	slices.Sort(o.warnings) // validating webhooks speak at the same time
	fmt.Fprintf(&b, "warnings: %q\n", o.warnings)
	for _, key := range slices.Sorted(maps.Keys(o.notes)) {
		fmt.Fprintf(&b, "%s: %s\n", key, o.notes[key])
	}
	return b.String()
}

// hooks is a server of webhooks; the path says how one behaves.
type hooks struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string
}

func newHooks(t *testing.T) *hooks {
	h := &hooks{}
	h.Server = httptest.NewUnstartedServer(h)
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

// taken are the calls since it was asked last: those of mutating webhooks in
// their order, those of validating ones sorted.
func (h *hooks) taken() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := h.calls
	h.calls = nil
	for i := range calls {
		if strings.Contains(calls[i], " validates ") {
			slices.Sort(calls[i:])
			break
		}
	}
	return strings.Join(calls, "\n")
}

// ServeHTTP implements http.Handler.
func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Request    map[string]any `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	uid, _ := review.Request["uid"].(string)
	delete(review.Request, "uid")
	told, _ := json.Marshal(review.Request)
	_, rest, _ := strings.Cut(r.URL.Path, "/")
	behaviour, number, _ := strings.Cut(rest, "/")
	phase := "mutates"
	if strings.HasPrefix(number, "v") {
		phase = "validates"
	}
	h.mu.Lock()
	h.calls = append(h.calls, fmt.Sprintf("%s %s %s %s?%s %s", number, phase, review.APIVersion, behaviour, r.URL.RawQuery, told))
	h.mu.Unlock()
	code, body := answer(behaviour, uid, review.APIVersion)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	io.WriteString(w, body)
}

// answer is how a webhook behaves.
func answer(behaviour, uid, version string) (int, string) {
	response := func(text string) (int, string) {
		return 200, `{"apiVersion":"` + version + `","kind":"AdmissionReview","response":{"uid":"` + uid + `",` + text + `}}`
	}
	patch := func(kind, text string) (int, string) {
		b, _ := json.Marshal([]byte(text))
		return response(`"allowed":true,"patchType":"` + kind + `","patch":` + string(b))
	}
	switch behaviour {
	case "warn":
		return response(`"allowed":true,"warnings":["one","two"]`)
	case "note":
		return response(`"allowed":true,"auditAnnotations":{"k":"v","not good":"x"}`)
	case "blue", "green":
		return patch("JSONPatch", `[{"value":"`+behaviour+`","op":"add","path":"/spec/color"}]`)
	case "label":
		return patch("JSONPatch", `[{"op":"add","path":"/metadata/labels","value":{"pick":"me"}}]`)
	case "unlabel":
		return patch("JSONPatch", `[{"op":"add","path":"/metadata/labels","value":{}},{"op":"remove","path":"/metadata/labels"}]`)
	case "nothing":
		return patch("JSONPatch", `[]`)
	case "typeless-beta":
		return response(`"allowed":true,"patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMvYmV0YSIsInZhbHVlIjoxfV0="`)
	case "deny":
		return response(`"allowed":false,"status":{"message":"no"}`)
	case "deny-418":
		return response(`"allowed":false,"status":{"code":418,"message":"no tea","reason":"Teapot"}`)
	case "deny-reason":
		return response(`"allowed":false,"status":{"reason":"Because","status":"Success"},"warnings":["w"],"auditAnnotations":{"k":"v"}`)
	case "deny-mute":
		return response(`"allowed":false`)
	case "uid":
		uid = "another"
		return response(`"allowed":true`)
	case "absent":
		return 200, `{"apiVersion":"` + version + `","kind":"AdmissionReview"}`
	case "garbage":
		return 200, `{"apiVersion":`
	case "empty":
		return 200, ``
	case "500":
		return 500, `oh`
	case "status":
		return 503, `{"apiVersion":"v1","kind":"Status","status":"Failure","message":"not today","reason":"Conflict","code":409}`
	case "missing":
		return 404, ``
	case "patchless":
		return response(`"allowed":true,"patchType":"JSONPatch"`)
	case "typeless":
		return response(`"allowed":true,"patch":"W10="`)
	case "merge":
		return patch("Merge", `[{"op":"remove","path":"/spec"}]`)
	case "no-patch":
		return patch("JSONPatch", `{"spec":1}`)
	case "no-apply":
		return patch("JSONPatch", `[{"op":"remove","path":"/spec/nothing"}]`)
	case "gvk":
		version = "admission.k8s.io/v2"
	}
	return response(`"allowed":true`)
}

const def = `
metadata: {name: widgets.demo.io}
spec:
  group: demo.io
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v3, served: false, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
status: {conditions: [{type: Established, status: "True"}], acceptedNames: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}}
`

// ours is our side: a chain of both steps.
type ours struct {
	chain *admission.Chain
	kind  *kind.Kind
}

// spaces are the namespaces that there are.
type spaces struct{ admission.Namespaces }

// Namespace implements admission.Namespaces.
func (spaces) Namespace(_ context.Context, name string) (*meta.View, error) {
	found, ok := namespaceLabels[name]
	if !ok {
		return nil, status.NotFound(schema.GroupResource{Resource: "namespaces"}, name)
	}
	v := &meta.View{}
	for key, value := range found {
		v.Labels = append(v.Labels, meta.Label{Key: key, Value: value})
	}
	return v, nil
}

// justAnn is onlyAnn.
type justAnn struct{ authz.Authorizer }

// Authorize implements authz.Authorizer.
func (justAnn) Authorize(_ context.Context, a *authz.Attributes) authz.Result {
	if a.User.Name == "ann" {
		return authz.Result{Decision: authz.Allow}
	}
	return authz.Result{Reason: "no"}
}

func newOurs(t testing.TB, k *kind.Kind, m []*admissionv1.MutatingWebhookConfiguration, v []*admissionv1.ValidatingWebhookConfiguration) *ours {
	t.Helper()
	kinds := testkinds.Registry(t)
	kinds.Put(k)
	s := mem.New(mem.Options{})
	put := func(key string, object any) {
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Create(t.Context(), key, text); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range m {
		put("mutatingwebhookconfigurations/"+c.Name, c)
	}
	for _, c := range v {
		put("validatingwebhookconfigurations/"+c.Name, c)
	}
	c := cache.New(s, cache.Options{})
	t.Cleanup(func() { c.Close(); s.Close() })
	metrics := admission.NewMetrics(prometheus.NewRegistry())
	config := webhook.Config{Kinds: kinds.Load, Cache: c, Namespaces: spaces{}, Authorizer: justAnn{}, Metrics: metrics, Logger: slog.New(slog.DiscardHandler)}
	o := &ours{chain: admission.NewChain(metrics), kind: k}
	o.chain.Mutates("MutatingAdmissionWebhook", webhook.Mutating(config))
	o.chain.Validates("ValidatingAdmissionWebhook", webhook.Validating(config))
	return o
}

// told collects what clients and the audit log are told.
type told struct {
	warnings []string
	notes    map[string]string
}

// Warn implements admission.Client.
func (c *told) Warn(w ...string) { c.warnings = append(c.warnings, w...) }

// Annotate implements admission.Client: the first one counts.
func (c *told) Annotate(key, value string) {
	if _, ok := c.notes[key]; !ok {
		c.notes[key] = value
	}
}

// AnnotateRequest implements admission.Client.
func (c *told) AnnotateRequest(key, value string) { c.Annotate(key, value) }

func (o *ours) decide(t *testing.T, q *request) *outcome {
	t.Helper()
	v := o.kind.Version(q.version)
	decode := func(object map[string]any) *jsondoc.Doc {
		if object == nil {
			return nil
		}
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		d := new(jsondoc.Doc)
		if _, err := v.Decode(d, text); err != nil {
			t.Fatal(err)
		}
		return d
	}
	client := &told{notes: map[string]string{}}
	r := &admission.Request{Operation: admission.Operation(q.operation), Version: v, Subresource: q.subresource, Namespace: q.namespace, Name: q.name, DryRun: q.dryRun,
		New: decode(q.object), Old: decode(q.old), User: &authn.User{Name: q.user, Groups: []string{"g"}}, Client: client}
	if q.operation == "DELETE" {
		r.Delete = &meta.DeleteOptions{}
	} else {
		r.Write = &meta.WriteOptions{FieldManager: "m"}
	}
	out := &outcome{}
	out.err = o.chain.Mutate(t.Context(), r)
	if out.err == nil {
		out.err = o.chain.Validate(t.Context(), r)
	}
	if r.New != nil {
		if err := json.Unmarshal(r.New.AppendJSON(nil, r.New.Root().Node), &out.object); err != nil {
			t.Fatal(err)
		}
	}
	if out.err != nil {
		out.err = &apierrors.StatusError{ErrStatus: status.From(out.err).Status}
	}
	out.warnings, out.notes = client.warnings, client.notes
	return out
}

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// TestWebhooks: the same calls, and the same outcome.
func TestWebhooks(t *testing.T) {
	definition := &apiextv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(def), definition); err != nil {
		t.Fatal(err)
	}
	crd.Default(definition)
	k, err := crd.Compile(definition)
	if err != nil {
		t.Fatal(err)
	}
	h := newHooks(t)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	worlds, requests := 1000, 50
	if testing.Short() {
		worlds, requests = 40, 50
	}
	d := dice{rand.New(rand.NewPCG(7, 7))}
	asked, refused := 0, 0
	for world := range worlds {
		m, v := d.configurations(h.URL, ca)
		for _, c := range v {
			for i := range c.Webhooks { // the server tells them apart
				at := *c.Webhooks[i].ClientConfig.URL
				cut := strings.LastIndex(at, "/") + 1
				at = at[:cut] + "v" + at[cut:]
				c.Webhooks[i].ClientConfig.URL = &at
			}
		}
		u, o := newUpstream(t, m, v), newOurs(t, k, m, v)
		for i := range requests {
			q := d.request()
			want := u.decide(q)
			wanted := h.taken()
			got := o.decide(t, q)
			calls := h.taken()
			if wanted != calls || want.String() != got.String() {
				c, _ := json.Marshal([]any{m, v})
				c = authority.ReplaceAll(c, nil)
				text, _ := json.Marshal([]any{q.operation, q.version, q.subresource, q.namespace, q.name, q.user, q.object, q.old, q.dryRun})
				t.Fatalf("world %d, request %d: %s\nupstream asks:\n%s\nkeelson asks:\n%s\nupstream:\n%skeelson:\n%s\nconfigurations: %s", world, i, text, wanted, calls, want, got, c)
			}
			asked += strings.Count(wanted, "\n") + min(len(wanted), 1)
			if want.err != nil {
				refused++
			}
		}
	}
	if asked < worlds*requests/4 || refused == 0 {
		t.Errorf("%d calls, %d refusals: the comparison says too little", asked, refused)
	}
	t.Logf("%d requests: %d calls, %d refused", worlds*requests, asked, refused)
}
