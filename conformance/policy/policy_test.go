package policy

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/policy"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkinds"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file is our side, and holds the two against each other.

var (
	rounds   = flag.Int("rounds", 6, "how many sets of policies")
	requests = flag.Int("requests", 60, "how many requests for each set")
	seed     = flag.Uint64("seed", 1, "where random numbers start")
)

const policiesInRound = 40

// ours is our step with its surroundings. It is admission's host, too.
type ours struct {
	kinds          *kind.Registry
	cache          *cache.Cache
	step, mutating *policy.Policies
	bill           bill
	v              map[string]*kind.Version
	admission.Host
}

func (o *ours) Namespace(_ context.Context, name string) (*meta.View, error) {
	k := o.kinds.Load().Lookup("", "namespaces")
	obj, ok := o.cache.Resource(k.StoragePrefix).Get(k.Key("", name))
	if !ok {
		return nil, status.NotFound(kschema.GroupResource{Resource: "namespaces"}, name)
	}
	return obj.View(k.Storage)
}

func newOurs(t *testing.T, def *apiextv1.CustomResourceDefinition, objects map[string][]byte) *ours {
	o := &ours{kinds: testkinds.Registry(t), v: map[string]*kind.Version{}}
	k, err := crd.Compile(def)
	if err != nil {
		t.Fatal(err)
	}
	o.kinds.Put(k)
	for _, name := range versions {
		o.v[name] = k.Version(name)
	}
	s := mem.New(mem.Options{})
	for key, value := range objects {
		if _, err := s.Create(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	o.cache = cache.New(s, cache.Options{})
	t.Cleanup(func() { o.cache.Close(); s.Close() })
	registry := prometheus.NewRegistry()
	config := policy.Config{
		Costs: func(policy, _ string, c policy.Costs) { o.bill.add(policy, c) },
		Kinds: o.kinds.Load, Cache: o.cache, Host: o, Logger: slog.New(slog.DiscardHandler),
		Metrics: admission.NewMetrics(registry), Checks: policy.NewMetrics(registry),
		Authorizer: authz.Func(func(_ context.Context, a *authz.Attributes) authz.Result {
			if a.Verb == "get" || a.User.Name == "ann" {
				return authz.Result{Decision: authz.Allow}
			}
			return authz.Result{Reason: "no"}
		}),
	}
	o.step, o.mutating = policy.Validating(config), policy.Mutating(config)
	return o
}

func definition() *apiextv1.CustomResourceDefinition {
	yes := true
	open := apiextv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &yes}
	def := &apiextv1.CustomResourceDefinition{}
	def.Name = "widgets.demo.io"
	def.Spec = apiextv1.CustomResourceDefinitionSpec{Group: "demo.io", Scope: apiextv1.NamespaceScoped,
		Names: apiextv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"}}
	for i, name := range versions {
		def.Spec.Versions = append(def.Spec.Versions, apiextv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: i == 0,
			Subresources: &apiextv1.CustomResourceSubresources{Status: &apiextv1.CustomResourceSubresourceStatus{}},
			Schema:       &apiextv1.CustomResourceValidation{OpenAPIV3Schema: &open}})
	}
	crd.Default(def)
	def.Status.AcceptedNames = def.Spec.Names
	def.Status.Conditions = []apiextv1.CustomResourceDefinitionCondition{
		{Type: apiextv1.NamesAccepted, Status: apiextv1.ConditionTrue}, {Type: apiextv1.Established, Status: apiextv1.ConditionTrue}}
	return def
}

// Warn and the others make heard an admission.Client.
func (h *heard) Warn(texts ...string)        { h.texts = append(h.texts, texts...) }
func (h *heard) Annotate(_, _ string)        {}
func (h *heard) AnnotateRequest(_, _ string) {}

// ask lets our step decide.
func (o *ours) ask(t *testing.T, q *request) (warnings []string, err error) {
	h := &heard{}
	r := o.request(t, q)
	r.Client, o.bill = h, bill{}
	err = o.step.Validate(context.Background(), r)
	return h.texts, err
}

// request is a request as we have it.
func (o *ours) request(t *testing.T, q *request) *admission.Request {
	v := o.v[q.version]
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
	r := &admission.Request{Operation: admission.Operation(q.operation), Version: v, Subresource: q.subresource, Namespace: q.namespace, Name: q.name,
		New: decode(q.object), Old: decode(q.old), User: &authn.User{Name: q.user, Groups: []string{"g"}}}
	if q.operation == "DELETE" {
		r.Delete = &meta.DeleteOptions{}
	} else {
		r.Write = &meta.WriteOptions{FieldManager: "m"}
	}
	return r
}

// surroundings are the objects that policies refer to.
func surroundings() []runtime.Object {
	namespace := func(name string, labels map[string]string) runtime.Object {
		n := &corev1.Namespace{}
		n.Name, n.Labels = name, labels
		return n
	}
	params := func(namespace, name, limit string) runtime.Object {
		c := &corev1.ConfigMap{Data: map[string]string{"limit": limit}}
		c.Namespace, c.Name, c.Labels = namespace, name, map[string]string{"use": name}
		return c
	}
	return []runtime.Object{namespace("default", map[string]string{"env": "prod"}), namespace("other", map[string]string{"team": "web"}),
		params("default", "one", "3"), params("default", "two", "x"), params("other", "one", "1")}
}

// stored are objects as they are stored, by key.
func stored(t *testing.T, objects []runtime.Object, policies []*admissionv1.ValidatingAdmissionPolicy, bindings []*admissionv1.ValidatingAdmissionPolicyBinding) map[string][]byte {
	out := map[string][]byte{}
	put := func(key, apiVersion, kind string, v any) {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		m["apiVersion"], m["kind"] = apiVersion, kind
		if b, err = json.Marshal(m); err != nil {
			t.Fatal(err)
		}
		out[key] = b
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Namespace:
			put("namespaces/"+o.Name, "v1", "Namespace", o)
		case *corev1.ConfigMap:
			put("configmaps/"+o.Namespace+"/"+o.Name, "v1", "ConfigMap", o)
		}
	}
	for _, p := range policies {
		put("validatingadmissionpolicies/"+p.Name, p.APIVersion, p.Kind, p)
	}
	for _, b := range bindings {
		put("validatingadmissionpolicybindings/"+b.Name, b.APIVersion, b.Kind, b)
	}
	return out
}

// words is an error as a client sees it. Parse errors differ in nothing but
// spacing that nobody reads.
func words(err error) string {
	if err == nil {
		return ""
	}
	s := metav1.Status{}
	if e, ok := err.(interface{ Status() metav1.Status }); ok {
		s = e.Status()
	} else {
		s = status.From(err).Status
	}
	return fmt.Sprintf("%d %s %s", s.Code, s.Reason, s.Message)
}

func TestValidatingPoliciesEqualUpstream(t *testing.T) {
	up := newUpstream(t, surroundings())
	decided := 0
	for round := range *rounds {
		r := random{rand.New(rand.NewPCG(*seed, uint64(round)))}
		var policies []*admissionv1.ValidatingAdmissionPolicy
		var bindings []*admissionv1.ValidatingAdmissionPolicyBinding
		for i := range policiesInRound {
			name := fmt.Sprintf("p%02d", i)
			policies = append(policies, r.policy(name))
			for j := range 1 + r.IntN(2) {
				bindings = append(bindings, r.binding(fmt.Sprintf("b%02d-%d", i, j), name))
			}
		}
		up.use(t, policies, bindings)
		our := newOurs(t, definition(), stored(t, surroundings(), policies, bindings))
		for range *requests {
			q := r.request()
			wantWarnings, wantErr := up.ask(q)
			gotWarnings, gotErr := our.ask(t, q)
			decided += policiesInRound
			want, got := strings.Join(wantWarnings, "\n"), strings.Join(gotWarnings, "\n")
			if want != got || words(wantErr) != words(gotErr) {
				t.Fatalf("round %d: %s\nupstream %s\n%s\nkeelson  %s\n%s\n%s", round, q, words(wantErr), want, words(gotErr), got, blame(policies, bindings, wantWarnings, gotWarnings))
			}
			if want, got := up.meter.without(up.meter.beyond), our.bill.without(up.meter.beyond); want != got {
				t.Fatalf("round %d: %s\nupstream's costs\n%s\nours\n%s", round, q, want, got)
			}
		}
	}
	t.Logf("policy: %d decisions of policies about requests", decided)
}

// blame shows the policy of the first warning that differs.
func blame(policies []*admissionv1.ValidatingAdmissionPolicy, bindings []*admissionv1.ValidatingAdmissionPolicyBinding, want, got []string) string {
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	text := strings.Join(append(append([]string{}, want[min(i, len(want)):]...), got[min(i, len(got)):]...), " ")
	var out string
	for _, p := range policies {
		if strings.Contains(text, "'"+p.Name+"'") {
			b, _ := json.Marshal(p)
			out += string(b) + "\n"
			for _, x := range bindings {
				if x.Spec.PolicyName == p.Name {
					b, _ := json.Marshal(x)
					out += string(b) + "\n"
				}
			}
			break
		}
	}
	return out
}
