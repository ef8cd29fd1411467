package match

import (
	"strings"

	"github.com/keelson-io/keelson/kind"
)

// This file is what nobody is asked about, so that nobody locks himself out.

const admissionGroup = "admissionregistration.k8s.io"

// ExemptFromWebhooks reports whether no webhook is asked about a kind: those
// that configure admission, and those that only ask who somebody is or what he
// may do.
func ExemptFromWebhooks(k *kind.Kind) bool {
	return k.Group == admissionGroup && strings.HasSuffix(k.Name, "WebhookConfiguration") || ExemptFromPolicies(k)
}

// ExemptFromPolicies is the same for policies, which may be about webhooks.
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
