package admission

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// This file makes configurations of webhooks at random, right ones and wrong
// ones.

func (d dice) client() admissionv1.WebhookClientConfig {
	var c admissionv1.WebhookClientConfig
	if d.IntN(2) == 0 {
		u := one(d, words{"https://hooks.demo.io/a", "https://10.0.0.1:8443"}, words{"http://a.b", "", "a", "https://u:p@a/b", "https://a/?q=1#f", "://", "https://%zz", "HTTPS://A"})
		c.URL = &u
	}
	if (c.URL == nil) == d.good() {
		c.Service = &admissionv1.ServiceReference{
			Namespace: one(d, words{"default"}, words{"", "a b"}), Name: one(d, words{"hooks"}, words{"", "a/b"}),
			Port: maybe(d, one(d, []int32{443, 65535}, []int32{0, -1, 70000})),
			Path: maybe(d, one(d, words{"/a", "/", "", "/a/b/"}, words{"a", "//", "/a//b", "/A_b", "/a b", "/é"})),
		}
	}
	c.CABundle = one(d, [][]byte{nil}, [][]byte{[]byte("none"), []byte(" ")})
	return c
}

// excludedRule is sometimes for what no webhook is asked about.
func (d dice) excludedRule() admissionv1.RuleWithOperations {
	r := d.rule()
	if d.IntN(6) == 0 {
		r.APIGroups = list(d, words{"authentication.k8s.io", "authorization.k8s.io"}, words{"*", ""})
		r.Resources = list(d, words{"tokenreviews", "subjectaccessreviews", "selfsubjectrulesreviews", "pods"}, words{"*", "tokenreviews/status"})
	}
	return r
}

func (d dice) webhook(i int) admissionv1.MutatingWebhook {
	w := admissionv1.MutatingWebhook{
		Name:         one(d, words{fmt.Sprintf("w%d.demo.io", i), fmt.Sprintf("w%d.demo.io", i+10)}, words{"", "a", "a.b", "w0.demo.io", "A.b.c", long + ".demo.io"}),
		ClientConfig: d.client(), FailurePolicy: d.failurePolicy(), NamespaceSelector: d.selector(), ObjectSelector: d.selector(), MatchConditions: d.conditions(),
		MatchPolicy:        maybe(d, one(d, []admissionv1.MatchPolicyType{"Exact", "Equivalent"}, []admissionv1.MatchPolicyType{"", "Fuzzy"})),
		SideEffects:        maybe(d, one(d, []admissionv1.SideEffectClass{"None", "NoneOnDryRun"}, []admissionv1.SideEffectClass{"", "Some", "Unknown", "Many"})),
		TimeoutSeconds:     maybe(d, one(d, []int32{1, 10, 30}, []int32{0, -1, 31})),
		ReinvocationPolicy: maybe(d, one(d, []admissionv1.ReinvocationPolicyType{"Never", "IfNeeded"}, []admissionv1.ReinvocationPolicyType{"", "Always"})),
	}
	if d.good() {
		w.AdmissionReviewVersions = list(d, words{"v1", "v1beta1", "v2"}, words{"", "V1", "v1", "v9"})
	}
	for range d.IntN(3) {
		w.Rules = append(w.Rules, d.excludedRule())
	}
	return w
}

func (d dice) mutatingWebhooks() *admissionv1.MutatingWebhookConfiguration {
	c := &admissionv1.MutatingWebhookConfiguration{}
	c.Name = d.name()
	for i := range d.IntN(3) {
		c.Webhooks = append(c.Webhooks, d.webhook(i))
	}
	return c
}

func (d dice) validatingWebhooks() *admissionv1.ValidatingWebhookConfiguration {
	c := &admissionv1.ValidatingWebhookConfiguration{}
	m := d.mutatingWebhooks()
	c.Name = m.Name
	for i := range m.Webhooks {
		w := &m.Webhooks[i]
		c.Webhooks = append(c.Webhooks, admissionv1.ValidatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
			NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects, TimeoutSeconds: w.TimeoutSeconds,
			AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
		})
	}
	return c
}

// warned are warnings as mistakes are shown.
func warned(warnings []string) []string {
	var out []string
	for _, w := range warnings {
		out = append(out, "warning: "+strings.TrimSpace(w))
	}
	return out
}
