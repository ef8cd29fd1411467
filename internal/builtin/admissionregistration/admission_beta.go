package admissionregistration

import (
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"

	"github.com/keelson-io/keelson/internal/builtin/describe"
)

// This file has the defaults of webhooks that were stored in v1beta1, which Kubernetes served until
// 1.21. Those of the other fields are the same in v1.

// fillMutatingBeta sets the defaults that differ from v1.
func fillMutatingBeta(c *admissionv1beta1.MutatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		fillBeta(&w.FailurePolicy, &w.MatchPolicy, &w.SideEffects, &w.TimeoutSeconds, &w.AdmissionReviewVersions)
	}
}

// fillValidatingBeta sets the defaults that differ from v1.
func fillValidatingBeta(c *admissionv1beta1.ValidatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		fillBeta(&w.FailurePolicy, &w.MatchPolicy, &w.SideEffects, &w.TimeoutSeconds, &w.AdmissionReviewVersions)
	}
}

// fillBeta sets the defaults of one webhook.
func fillBeta(failure **admissionv1beta1.FailurePolicyType, match **admissionv1beta1.MatchPolicyType, effects **admissionv1beta1.SideEffectClass, timeout **int32, reviews *[]string) {
	describe.OrDefault(failure, admissionv1beta1.Ignore)
	describe.OrDefault(match, admissionv1beta1.Exact)
	describe.OrDefault(effects, admissionv1beta1.SideEffectClassUnknown)
	describe.OrDefault(timeout, 30)
	if len(*reviews) == 0 {
		*reviews = []string{"v1beta1"}
	}
}
