package policy_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/policy"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkinds"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file measures many policies, and holds that those which are for other
// requests cost nothing.

// host is an admission.Host with one namespace.
type host struct{ admission.Host }

func (host) Namespace(context.Context, string) (*meta.View, error) {
	return &meta.View{JSON: []byte(`{"metadata":{"name":"default"}}`)}, nil
}

// policies returns a step with n policies for a resource, and a request for widgets.
func policies(t testing.TB, n int, resource string) (*policy.Policies, *admission.Request) {
	t.Helper()
	kinds := testkinds.Registry(t, testkinds.Widgets)
	k := kinds.Load().Lookup("demo.io", "widgets")
	s := mem.New(mem.Options{})
	put := func(key, text string) {
		if _, err := s.Create(t.Context(), key, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		put(fmt.Sprintf("validatingadmissionpolicies/p%d", i), fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy",
			"metadata":{"name":"p%d","uid":"%d"},"spec":{"failurePolicy":"Fail","matchConstraints":{"matchPolicy":"Equivalent","namespaceSelector":{},"objectSelector":{},
			"resourceRules":[{"operations":["CREATE"],"apiGroups":["demo.io"],"apiVersions":["*"],"resources":["%s"]}]},
			"validations":[{"expression":"object.spec.replicas > %d"}]}}`, i, i, resource, i%5))
		put(fmt.Sprintf("validatingadmissionpolicybindings/b%d", i), fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1",
			"kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"b%d"},"spec":{"policyName":"p%d","validationActions":["Deny"]}}`, i, i))
	}
	c := cache.New(s, cache.Options{})
	t.Cleanup(func() { c.Close(); s.Close() })
	registry := prometheus.NewRegistry()
	step := policy.Validating(policy.Config{
		Kinds: kinds.Load, Cache: c, Host: host{}, Authorizer: authz.Standard(), Logger: slog.New(slog.DiscardHandler),
		Metrics: admission.NewMetrics(registry), Checks: policy.NewMetrics(registry),
	})
	v := k.Version("v1")
	d := new(jsondoc.Doc)
	if _, err := v.Decode(d, []byte(`{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a","namespace":"default"},"spec":{"replicas":7,"color":"red"}}`)); err != nil {
		t.Fatal(err)
	}
	return step, &admission.Request{Operation: admission.Create, Version: v, Namespace: "default", Name: "a", New: d,
		User: &authn.User{Name: "ann"}, Write: &meta.WriteOptions{}}
}

// TestPoliciesForOthersCostNothing holds that a request allocates nothing if none of a thousand
// policies matches it.
func TestPoliciesForOthersCostNothing(t *testing.T) {
	step, r := policies(t, 1000, "gadgets")
	ctx := context.Background()
	check := func() {
		if err := step.Validate(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	check()
	if n := testing.AllocsPerRun(100, check); n > 0 {
		t.Errorf("a request that no policy is for: %v allocations, want none", n)
	}
}

func BenchmarkPolicies(b *testing.B) {
	for _, row := range []struct {
		n        int
		resource string
	}{{1, "gadgets"}, {1000, "gadgets"}, {1, "widgets"}, {100, "widgets"}} {
		b.Run(fmt.Sprintf("%d for %s", row.n, row.resource), func(b *testing.B) {
			step, r := policies(b, row.n, row.resource)
			ctx := context.Background()
			for b.Loop() {
				if err := step.Validate(ctx, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
