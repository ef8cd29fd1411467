package envtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstream "sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// This file is a project with webhooks that fill in defaults and validate, as
// Kubebuilder lays one out.

type defaulter struct{}

// Default implements admission.Defaulter.
func (defaulter) Default(_ context.Context, t *Task) error {
	if t.Spec.Text == "" {
		t.Spec.Text = "nothing"
	}
	return nil
}

type validator struct{}

// ValidateCreate implements admission.Validator.
func (validator) ValidateCreate(_ context.Context, t *Task) (admission.Warnings, error) {
	if strings.Contains(t.Spec.Text, "!") {
		return admission.Warnings{"calm down"}, errors.New("no shouting")
	}
	return nil, nil
}

// ValidateUpdate implements admission.Validator.
func (v validator) ValidateUpdate(ctx context.Context, old, t *Task) (admission.Warnings, error) {
	if t.Spec.Text == "" {
		return nil, errors.New("the defaulter was not asked")
	}
	return v.ValidateCreate(ctx, t)
}

// ValidateDelete implements admission.Validator.
func (validator) ValidateDelete(_ context.Context, t *Task) (admission.Warnings, error) {
	if t.Spec.Text == "keep" {
		return nil, errors.New("it is kept")
	}
	return nil, nil
}

// configurations are what controller-gen makes of a project's markers.
func configurations() *upstream.WebhookInstallOptions {
	fail, equivalent, none := admissionv1.Fail, admissionv1.Equivalent, admissionv1.SideEffectClassNone
	rules := func(operations ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{Operations: operations,
			Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{"tasks"}}}}
	}
	at := func(what string) admissionv1.WebhookClientConfig {
		path := "/" + what + "-tasks-example-org-v1-task"
		return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "system", Name: "webhook", Path: &path}}
	}
	return &upstream.WebhookInstallOptions{
		MutatingWebhooks: []*admissionv1.MutatingWebhookConfiguration{{
			TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
			ObjectMeta: metav1.ObjectMeta{Name: "mutating"},
			Webhooks: []admissionv1.MutatingWebhook{{Name: "mtask.kb.io", AdmissionReviewVersions: []string{"v1"}, ClientConfig: at("mutate"),
				Rules: rules("CREATE", "UPDATE"), FailurePolicy: &fail, MatchPolicy: &equivalent, SideEffects: &none}},
		}},
		ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{{
			TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"},
			ObjectMeta: metav1.ObjectMeta{Name: "validating"},
			Webhooks: []admissionv1.ValidatingWebhook{{Name: "vtask.kb.io", AdmissionReviewVersions: []string{"v1"}, ClientConfig: at("validate"),
				Rules: rules("CREATE", "UPDATE", "DELETE"), FailurePolicy: &fail, MatchPolicy: &equivalent, SideEffects: &none}},
		}},
	}
}

func TestWebhooks(t *testing.T) {
	onEach(t, func(t *testing.T, h host) {
		ctx := t.Context()
		hooks := configurations()
		if err := hooks.Install(h.config); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { hooks.Cleanup() })
		if _, err := upstream.InstallCRDs(h.config, upstream.CRDInstallOptions{
			Scheme: newScheme(), CRDs: []*apiextv1.CustomResourceDefinition{definition()}, WebhookOptions: *hooks,
		}); err != nil {
			t.Fatal(err)
		}
		mgr, err := ctrl.NewManager(h.config, ctrl.Options{
			Scheme: newScheme(), Metrics: server.Options{BindAddress: "0"},
			WebhookServer: webhook.NewServer(webhook.Options{Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := ctrl.NewWebhookManagedBy(mgr, &Task{}).WithDefaulter(defaulter{}).WithValidator(validator{}).Complete(); err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- mgr.Start(running) }()
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Errorf("manager: %v", err)
			}
		})
		until(t, "the webhooks answer", func() bool { return mgr.GetWebhookServer().StartedChecker()(nil) == nil })
		c, err := client.New(h.config, client.Options{Scheme: newScheme()})
		if err != nil {
			t.Fatal(err)
		}
		task := &Task{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}
		if err := c.Create(ctx, task); err != nil || task.Spec.Text != "nothing" {
			t.Errorf("created: %+v, %v", task.Spec, err)
		}
		task.Spec.Text = "louder!"
		if err := c.Update(ctx, task); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `admission webhook "vtask.kb.io" denied the request: no shouting`) {
			t.Errorf("updated: %v", err)
		}
		// The webhooks are for v1: whoever writes v2 is heard there.
		other := &TaskV2{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two"}}
		if err := c.Create(ctx, other); err != nil || other.Spec.Title != "nothing" {
			t.Errorf("created in v2: %+v, %v", other.Spec, err)
		}
		other.Spec.Title = "keep"
		if err := c.Update(ctx, other); err != nil {
			t.Error(err)
		}
		if err := c.Delete(ctx, other); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "it is kept") {
			t.Errorf("deleted: %v", err)
		}
		if err := c.Delete(ctx, task); err != nil {
			t.Error(err)
		}
	})
}
