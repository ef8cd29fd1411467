package match

import (
	"strings"

	"github.com/keelson-io/keelson/kind"
)

// This file lists the kinds that webhooks and policies never see, so that a wrong configuration can
// always be corrected.

const admissionGroup = "admissionregistration.k8s.io"

// ExemptFromWebhooks reports whether webhooks in the store are never called for a kind: those that
// configure admission, and the reviews of authentication and authorization. Webhooks from files are
// called for the former ([IsReview] tells the latter).
func ExemptFromWebhooks(k *kind.Kind) bool {
	return k.Group == admissionGroup && strings.HasSuffix(k.Name, "WebhookConfiguration") || ExemptFromPolicies(k)
}

// ExemptFromPolicies is ExemptFromWebhooks for policies, which do apply to webhook configurations.
func ExemptFromPolicies(k *kind.Kind) bool {
	return k.Group == admissionGroup && (strings.HasPrefix(k.Name, "ValidatingAdmissionPolicy") || strings.HasPrefix(k.Name, "MutatingAdmissionPolicy")) || IsReview(k)
}

// IsReview reports whether a kind is a review of authentication or authorization, which neither
// webhooks nor policies ever see, so that they cannot lock everybody out.
func IsReview(k *kind.Kind) bool {
	switch k.Group {
	case "authentication.k8s.io":
		return k.Name == "TokenReview" || k.Name == "SelfSubjectReview"
	case "authorization.k8s.io":
		return strings.HasSuffix(k.Name, "AccessReview") || k.Name == "SelfSubjectRulesReview"
	}
	return false
}
