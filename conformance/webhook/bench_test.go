package webhook

import (
	"context"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
)

// This file measures what webhooks cost that are for other requests.

// equivalents knows its versions beforehand, as upstream's server does.
type equivalents struct {
	interfaces
	mapper runtime.EquivalentResourceMapper
}

// GetEquivalentResourceMapper implements admission.ObjectInterfaces.
func (e equivalents) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper { return e.mapper }

// BenchmarkNoMatch: a create goes through both phases past n configurations of
// either type that are for another resource.
func BenchmarkNoMatch(b *testing.B) {
	definition := &apiextv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(crd), definition); err != nil {
		b.Fatal(err)
	}
	kind.DefaultCRD(definition)
	k, err := kind.Compile(definition)
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1, 1000} {
		var m []*admissionv1.MutatingWebhookConfiguration
		var v []*admissionv1.ValidatingWebhookConfiguration
		url, fail, equivalent, none := "https://127.0.0.1:1", admissionv1.Fail, admissionv1.Equivalent, admissionv1.SideEffectClassNone
		rules := []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{"CREATE", "UPDATE"}, Rule: admissionv1.Rule{
			APIGroups: []string{"demo.io"}, APIVersions: []string{"v1"}, Resources: []string{"gadgets"}}}}
		for i := range n {
			name := metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i), UID: "u"}
			kindOf := func(k string) metav1.TypeMeta {
				return metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: k}
			}
			m = append(m, &admissionv1.MutatingWebhookConfiguration{TypeMeta: kindOf("MutatingWebhookConfiguration"), ObjectMeta: name, Webhooks: []admissionv1.MutatingWebhook{{
				Name: "w.demo.io", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}, Rules: rules, FailurePolicy: &fail, MatchPolicy: &equivalent, SideEffects: &none,
				NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}, AdmissionReviewVersions: []string{"v1"}}}})
			v = append(v, &admissionv1.ValidatingWebhookConfiguration{TypeMeta: kindOf("ValidatingWebhookConfiguration"), ObjectMeta: name, Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "w.demo.io", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}, Rules: rules, FailurePolicy: &fail, MatchPolicy: &equivalent, SideEffects: &none,
				NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}, AdmissionReviewVersions: []string{"v1"}}}})
		}
		q := &request{operation: "CREATE", version: "v1", namespace: "a", name: "x", user: "ann",
			object: map[string]any{"apiVersion": "demo.io/v1", "kind": "Widget", "metadata": map[string]any{"name": "x", "namespace": "a"}}}
		b.Run(fmt.Sprintf("upstream/%d", n), func(b *testing.B) {
			u := newUpstream(b, m, v)
			a, o := q.attributes(q.object), equivalents{mapper: interfaces{}.GetEquivalentResourceMapper()}
			run := func() {
				if err := u.mutating.Admit(context.Background(), a, o); err != nil {
					b.Fatal(err)
				}
				if err := u.validating.Validate(context.Background(), a, o); err != nil {
					b.Fatal(err)
				}
			}
			run()
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
		b.Run(fmt.Sprintf("keelson/%d", n), func(b *testing.B) {
			o := newOurs(b, k, m, v)
			version := k.Version("v1")
			d := new(doc.Doc)
			if _, err := version.Decode(d, []byte(`{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"x","namespace":"a"}}`)); err != nil {
				b.Fatal(err)
			}
			r := &admission.Request{Operation: admission.Create, Version: version, Namespace: "a", Name: "x", New: d, User: &authn.User{Name: "ann"}, Write: &meta.WriteOptions{}}
			run := func() {
				if err := o.chain.Mutate(context.Background(), r); err != nil {
					b.Fatal(err)
				}
				if err := o.chain.Validate(context.Background(), r); err != nil {
					b.Fatal(err)
				}
			}
			run()
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}
