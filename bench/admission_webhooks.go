// This file measures webhooks that are for other requests.

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	prom "github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/webhook"
)

// webhookRows are requests past configurations of either type that are for another resource, through both phases.
func webhookRows(ctx context.Context) ([]*admissionRow, error) {
	var rows []*admissionRow
	for _, r := range []struct {
		name string
		n    int
	}{
		{"1 webhook configuration of either type, for other resources", 1},
		{"1,000 webhook configurations of either type, for other resources", 1000},
	} {
		var m []*admissionv1.MutatingWebhookConfiguration
		var v []*admissionv1.ValidatingWebhookConfiguration
		for i := range r.n {
			m, v = append(m, benchMutating(i)), append(v, benchValidating(i))
		}
		ours, err := ourWebhooks(ctx, m, v)
		if err != nil {
			return nil, err
		}
		upstream, err := theirWebhooks(ctx, m, v)
		if err != nil {
			return nil, err
		}
		if a, b := ours(), upstream(); a != nil || b != nil {
			return nil, fmt.Errorf("%s: keelson %v, upstream %v", r.name, a, b)
		}
		rows = append(rows, &admissionRow{decision{r.name, func() { ours() }, func() { upstream() }, wantedUnmatched}, true})
	}
	return rows, nil
}

// What all webhooks have in common; none of them is called.
var (
	hookURL      = "https://127.0.0.1:1"
	hookFail     = admissionv1.Fail
	hookMatch    = admissionv1.Equivalent
	hookNone     = admissionv1.SideEffectClassNone
	hookSelector = &metav1.LabelSelector{}
	hookRules    = []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{"CREATE", "UPDATE"}, Rule: admissionv1.Rule{
		APIGroups: []string{"demo.io"}, APIVersions: []string{"v1"}, Resources: []string{"gadgets"}}}}
)

func benchMutating(i int) *admissionv1.MutatingWebhookConfiguration {
	c := &admissionv1.MutatingWebhookConfiguration{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"}}
	c.Name, c.UID = fmt.Sprintf("c%04d", i), "u"
	c.Webhooks = []admissionv1.MutatingWebhook{{Name: "w.demo.io", ClientConfig: admissionv1.WebhookClientConfig{URL: &hookURL}, Rules: hookRules,
		FailurePolicy: &hookFail, MatchPolicy: &hookMatch, SideEffects: &hookNone, NamespaceSelector: hookSelector, ObjectSelector: hookSelector, AdmissionReviewVersions: []string{"v1"}}}
	return c
}

func benchValidating(i int) *admissionv1.ValidatingWebhookConfiguration {
	c := &admissionv1.ValidatingWebhookConfiguration{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"}}
	c.Name, c.UID = fmt.Sprintf("c%04d", i), "u"
	c.Webhooks = []admissionv1.ValidatingWebhook{{Name: "w.demo.io", ClientConfig: admissionv1.WebhookClientConfig{URL: &hookURL}, Rules: hookRules,
		FailurePolicy: &hookFail, MatchPolicy: &hookMatch, SideEffects: &hookNone, NamespaceSelector: hookSelector, ObjectSelector: hookSelector, AdmissionReviewVersions: []string{"v1"}}}
	return c
}

// ourWebhooks lets one request through our chain, with configurations as they are stored. The chain counts and times its steps.
func ourWebhooks(ctx context.Context, m []*admissionv1.MutatingWebhookConfiguration, v []*admissionv1.ValidatingWebhookConfiguration) (func() error, error) {
	stored := map[string]any{}
	for i := range m {
		stored["mutatingwebhookconfigurations/"+m[i].Name] = m[i]
		stored["validatingwebhookconfigurations/"+v[i].Name] = v[i]
	}
	kinds, widgets, c, err := served(ctx, stored)
	if err != nil {
		return nil, err
	}
	metrics := admission.NewMetrics(prom.NewRegistry())
	config := webhook.Config{Kinds: kinds.Load, Cache: c, Namespaces: oneNamespace{}, Authorizer: authz.Standard(), Metrics: metrics, Logger: slog.New(slog.DiscardHandler)}
	chain := admission.NewChain(metrics)
	chain.Mutates("MutatingAdmissionWebhook", webhook.Mutating(config))
	chain.Validates("ValidatingAdmissionWebhook", webhook.Validating(config))
	r, err := ourWidget(widgets)
	return func() error {
		if err := chain.Mutate(ctx, r); err != nil {
			return err
		}
		return chain.Validate(ctx, r)
	}, err
}

// theirWebhooks lets the same request through upstream's plugins, over informers of a fake client.
func theirWebhooks(ctx context.Context, m []*admissionv1.MutatingWebhookConfiguration, v []*admissionv1.ValidatingWebhookConfiguration) (func() error, error) {
	objects := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}
	for i := range m {
		objects = append(objects, m[i], v[i])
	}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	mutates, err := mutating.NewMutatingWebhook(nil)
	if err != nil {
		return nil, err
	}
	validates, err := validating.NewValidatingAdmissionWebhook(nil)
	if err != nil {
		return nil, err
	}
	mutates.SetExternalKubeClientSet(client)
	validates.SetExternalKubeClientSet(client)
	mutates.SetExternalKubeInformerFactory(factory)
	validates.SetExternalKubeInformerFactory(factory)
	mutates.SetUnconditionalAuthorizer(authorizerfactory.NewAlwaysAllowAuthorizer())
	validates.SetUnconditionalAuthorizer(authorizerfactory.NewAlwaysAllowAuthorizer())
	if err := errors.Join(mutates.ValidateInitialization(), validates.ValidateInitialization()); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	a, err := theirWidget()
	return func() error {
		if err := mutates.Admit(ctx, a, widgetInterfaces{}); err != nil {
			return err
		}
		return validates.Validate(ctx, a, widgetInterfaces{})
	}, err
}
