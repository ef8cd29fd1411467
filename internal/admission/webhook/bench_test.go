package webhook_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/webhook"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkinds"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file measures many configurations of webhooks, and holds that those
// which are for other requests cost nothing.

// host has one namespace.
type host struct{ admission.Namespaces }

func (host) Namespace(context.Context, string) (*meta.View, error) {
	return &meta.View{JSON: []byte(`{"metadata":{"name":"default"}}`), Labels: meta.Labels{{Key: "team", Value: "a"}}}, nil
}

// webhooks returns a chain with n configurations of either type for a resource, and
// a request for widgets. Selectors leave the request out if the rules do not.
func webhooks(t testing.TB, n int, resource string) (*admission.Chain, *admission.Request) {
	t.Helper()
	kinds := testkinds.Registry(t, testkinds.Widgets)
	k := kinds.Load().Lookup("demo.io", "widgets")
	s := mem.New(mem.Options{})
	for i := range n {
		for _, name := range []string{"Mutating", "Validating"} {
			key := fmt.Sprintf("%swebhookconfigurations/c%d", map[string]string{"Mutating": "mutating", "Validating": "validating"}[name], i)
			text := fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"%sWebhookConfiguration","metadata":{"name":"c%d","uid":"%d"},"webhooks":[{
				"name":"w.demo.io","failurePolicy":"Fail","matchPolicy":"Equivalent","namespaceSelector":{"matchLabels":{"team":"b"}},"objectSelector":{},"sideEffects":"None",
				"timeoutSeconds":10,"admissionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/"},"matchConditions":[{"name":"a","expression":"object.spec.replicas > %d"}],
				"rules":[{"operations":["CREATE"],"apiGroups":["demo.io"],"apiVersions":["*"],"resources":["%s"],"scope":"*"}]}]}`, name, i, i, i, resource)
			if _, err := s.Create(t.Context(), key, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := cache.New(s, cache.Options{})
	t.Cleanup(func() { c.Close(); s.Close() })
	metrics := admission.NewMetrics(prometheus.NewRegistry())
	config := webhook.Config{Kinds: kinds.Load, Cache: c, Namespaces: host{}, Authorizer: authz.Standard(), Logger: slog.New(slog.DiscardHandler), Metrics: metrics}
	chain := admission.NewChain(metrics)
	chain.Mutates("MutatingAdmissionWebhook", webhook.Mutating(config))
	chain.Validates("ValidatingAdmissionWebhook", webhook.Validating(config))
	v := k.Version("v1")
	d := new(jsondoc.Doc)
	if _, err := v.Decode(d, []byte(`{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a","namespace":"default"},"spec":{"replicas":7}}`)); err != nil {
		t.Fatal(err)
	}
	return chain, &admission.Request{Operation: admission.Create, Version: v, Namespace: "default", Name: "a", New: d,
		User: &authn.User{Name: "ann"}, Write: &meta.WriteOptions{}}
}

// admit takes a request through both phases.
func admit(t testing.TB, chain *admission.Chain, r *admission.Request) {
	ctx := context.Background()
	if err := chain.Mutate(ctx, r); err != nil {
		t.Fatal(err)
	}
	if err := chain.Validate(ctx, r); err != nil {
		t.Fatal(err)
	}
}

// TestWebhooksForOthersCostNothing holds that a request allocates nothing if none of a thousand
// configurations of either type matches it.
func TestWebhooksForOthersCostNothing(t *testing.T) {
	chain, r := webhooks(t, 1000, "gadgets")
	admit(t, chain, r)
	if n := testing.AllocsPerRun(100, func() { admit(t, chain, r) }); n > 0 {
		t.Errorf("a request that no webhook is for: %v allocations, want none", n)
	}
}

func BenchmarkWebhooks(b *testing.B) {
	for _, row := range []struct {
		n        int
		resource string
	}{{0, "gadgets"}, {1, "gadgets"}, {1000, "gadgets"}, {1, "widgets"}, {1000, "widgets"}} {
		b.Run(fmt.Sprintf("%d for %s", row.n, row.resource), func(b *testing.B) {
			chain, r := webhooks(b, row.n, row.resource)
			admit(b, chain, r) // the first request reads the configurations
			b.ReportAllocs()
			for b.Loop() {
				admit(b, chain, r)
			}
		})
	}
}
