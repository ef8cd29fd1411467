// Package admission holds the checks of what configures admission against
// Kubernetes' own registry: random configurations, most of them wrong, are
// created and updated on both sides, and both must find the same mistakes in the
// same words and order. It is in this module because that registry is in
// k8s.io/kubernetes.
package admission

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	mutatingpolicy "k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	mutatingbinding "k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	mutatingwebhook "k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/resolver"
	validatingpolicy "k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	validatingbinding "k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	validatingwebhook "k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"

	"github.com/keelson-io/keelson/internal/testkinds"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

const group = "admissionregistration.k8s.io"

// strategy is upstream's way of creating and updating.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// configuration is a kind that configures admission, on both sides.
type configuration struct {
	plural   string
	strategy strategy
	new      func() runtime.Object
	random   func(d dice) any
}

func configurations() []configuration {
	nowhere := resolver.ResourceResolverFunc(nil)
	return []configuration{
		{"validatingadmissionpolicies", validatingpolicy.NewStrategy(nil, nowhere),
			func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicy{} }, func(d dice) any { return d.validatingPolicy() }},
		{"validatingadmissionpolicybindings", validatingbinding.NewStrategy(nil, nil, nowhere),
			func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicyBinding{} }, func(d dice) any { return d.validatingBinding() }},
		{"mutatingadmissionpolicies", mutatingpolicy.NewStrategy(nil, nowhere),
			func() runtime.Object { return &admissionv1.MutatingAdmissionPolicy{} }, func(d dice) any { return d.mutatingPolicy() }},
		{"mutatingadmissionpolicybindings", mutatingbinding.NewStrategy(nil, nil, nowhere),
			func() runtime.Object { return &admissionv1.MutatingAdmissionPolicyBinding{} }, func(d dice) any { return d.mutatingBinding() }},
		{"validatingwebhookconfigurations", validatingwebhook.Strategy,
			func() runtime.Object { return &admissionv1.ValidatingWebhookConfiguration{} }, func(d dice) any { return d.validatingWebhooks() }},
		{"mutatingwebhookconfigurations", mutatingwebhook.Strategy,
			func() runtime.Object { return &admissionv1.MutatingWebhookConfiguration{} }, func(d dice) any { return d.mutatingWebhooks() }},
	}
}

// upstream is an object as upstream has it inside.
func (c *configuration) upstream(t *testing.T, text []byte) runtime.Object {
	out := c.new()
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
	legacyscheme.Scheme.Default(out)
	inside, err := legacyscheme.Scheme.UnsafeConvertToVersion(out, schemaInternal)
	if err != nil {
		t.Fatal(err)
	}
	m, err := meta.Accessor(inside)
	if err != nil {
		t.Fatal(err)
	}
	m.SetUID(types.UID("u"))
	m.SetCreationTimestamp(metav1.NewTime(time.Unix(0, 0)))
	m.SetResourceVersion("1")
	return inside
}

// noSuchMember is how upstream says that a JSON patch has no such member, whose
// type it has then got none for.
var noSuchMember = regexp.MustCompile(`expected type of field '(\w+)' is '' but provided type is '\w+'`)

// theirs are the mistakes that upstream finds in an object, or its warnings, which replaces an
// old one unless that is nil.
func (c *configuration) theirs(t *testing.T, text, old []byte) []string {
	ctx := request.WithRequestInfo(request.WithNamespace(context.Background(), ""),
		&request.RequestInfo{APIGroup: group, APIVersion: "v1", Resource: c.plural})
	object := c.upstream(t, text)
	var err error
	var warnings []string
	if old == nil {
		if err = rest.BeforeCreate(c.strategy, ctx, object); err == nil {
			warnings = c.strategy.WarningsOnCreate(ctx, object)
		}
	} else if before := c.upstream(t, old); true {
		if err = rest.BeforeUpdate(c.strategy, ctx, object, before); err == nil {
			warnings = c.strategy.WarningsOnUpdate(ctx, object, before)
		}
	}
	if err == nil {
		return warned(warnings)
	}
	var s *apierrors.StatusError
	if !errors.As(err, &s) || s.ErrStatus.Details == nil {
		t.Fatalf("%s: %v", text, err)
	}
	var out []string
	for _, cause := range s.ErrStatus.Details.Causes {
		out = append(out, cause.Field+": "+noSuchMember.ReplaceAllString(cause.Message, "undefined field '$1'"))
	}
	return out
}

// ours are the mistakes that we find.
func (c *configuration) ours(t *testing.T, v *kind.Version, text, old []byte) []string {
	read := func(text []byte) *jsondoc.Doc {
		if text == nil {
			return nil
		}
		d := new(jsondoc.Doc)
		if _, err := v.Decode(d, text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		d.Set(d.NewString(v.APIVersion()), "apiVersion")
		d.Set(d.NewString(v.Kind.Name), "kind")
		for name, value := range map[string]string{"uid": "u", "creationTimestamp": "1970-01-01T00:00:00Z", "resourceVersion": "1"} {
			d.Set(d.NewString(value), "metadata", name)
		}
		return d
	}
	object, before := read(text), read(old)
	if before == nil {
		v.PrepareCreate(object)
	} else {
		v.PrepareUpdate(object, before, schema.Whole)
	}
	var out []string
	result := v.Validate(context.Background(), object, before, schema.Whole)
	for _, e := range result.Errors {
		if text := e.Field + ": " + e.ErrorBody(); !slices.Contains(out, text) { // nothing is said twice
			out = append(out, text)
		}
	}
	return append(out, warned(result.Warnings)...)
}

// stored is an object with a good value in a field that is always good in what
// is stored.
func stored(t *testing.T, text []byte, in, name string) []byte {
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	part := m[in].(map[string]any)
	if part[name] = "p"; name == "validationActions" {
		part[name] = []string{"Deny"}
	}
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

var schemaInternal = admissionInternal()

// times is how many configurations are tried: a part of them with -short.
func times(n int) int {
	if testing.Short() {
		return n / 20
	}
	return n
}

// Ledger: json-patch-members.
func TestWrites(t *testing.T) {
	kinds := testkinds.Registry(t)
	for _, c := range configurations() {
		t.Run(c.plural, func(t *testing.T) {
			v := kinds.Load().Lookup(group, c.plural).Storage
			d := dice{rand.New(rand.NewPCG(1, 1))}
			fine, mistakes := 0, 0
			for i := range times(10_000) {
				text, err := json.Marshal(c.random(d))
				if err != nil {
					t.Fatal(err)
				}
				var old []byte
				if i%2 == 1 { // an update, often of something that is wrong already, but for the name
					if old = text; d.IntN(2) == 0 {
						if old, err = json.Marshal(c.random(d)); err != nil {
							t.Fatal(err)
						}
					}
					text, old = stored(t, text, "metadata", "name"), stored(t, old, "metadata", "name")
					if strings.HasSuffix(c.plural, "bindings") {
						old = stored(t, stored(t, old, "spec", "policyName"), "spec", "validationActions")
					}
				}
				want, got := c.theirs(t, text, old), c.ours(t, v, text, old)
				if strings.Join(want, "\n") != strings.Join(got, "\n") {
					t.Fatalf("case %d\n%s\nbefore %s\nupstream:\n%s\nkeelson:\n%s", i, text, old, strings.Join(want, "\n"), strings.Join(got, "\n"))
				}
				mistakes += len(want)
				if len(want) == 0 {
					fine++
				}
			}
			if fine == 0 || mistakes == 0 {
				t.Errorf("%d configurations without and %d mistakes: the comparison says nothing", fine, mistakes)
			}
			t.Logf("%d without mistakes, %d mistakes", fine, mistakes)
		})
	}
}
