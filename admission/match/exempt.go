package match

import (
	"strings"

	"github.com/keelson-io/keelson/kind"
)

// This file lists the kinds that webhooks and policies never see, so that a wrong configuration can
// always be corrected.

const admissionGroup = "admissionregistration.k8s.io"

// ExemptFromWebhooks reports whether webhooks are never called for a kind: those that configure
// admission, and the reviews of authentication and authorization.
func ExemptFromWebhooks(k *kind.Kind) bool {
	return k.Group == admissionGroup && strings.HasSuffix(k.Name, "WebhookConfiguration") || ExemptFromPolicies(k)
}

// ExemptFromPolicies is ExemptFromWebhooks for policies, which do apply to webhook configurations.
func ExemptFromPolicies(k *kind.Kind) bool {
	switch k.Group {
	case admissionGroup:
		return strings.HasPrefix(k.Name, "ValidatingAdmissionPolicy") || strings.HasPrefix(k.Name, "MutatingAdmissionPolicy")
	case "authentication.k8s.io":
		return k.Name == "TokenReview" || k.Name == "SelfSubjectReview"
	case "authorization.k8s.io":
		return strings.HasSuffix(k.Name, "AccessReview") || k.Name == "SelfSubjectRulesReview"
	}
	return false
}
