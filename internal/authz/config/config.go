// Package config reads which authorizers a server uses, and in which order, from an
// AuthorizationConfiguration file (KEP-3221) or from kube-apiserver's older flags.
//
// # Model
//
// [Load] decodes a file into an [AuthorizationConfiguration]: strictly decoded, defaulted and
// validated, with compiled match conditions. Errors have upstream's texts and order. For mistakes
// that documents teach, [Error] adds what to write instead. [Flags] holds the flags of both styles.
//
// # Invariants
//
//   - A chain can be built from a loaded configuration unless a kubeconfig does
//     not load.
//   - No field of a file is ignored.
//
// Source: KEP-3221, https://kubernetes.io/docs/reference/config-api/apiserver-config.v1/.
package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/internal/authz/match"
)

// The types of authorizers.
const (
	ABAC        = "ABAC"
	AlwaysAllow = "AlwaysAllow"
	AlwaysDeny  = "AlwaysDeny"
	Node        = "Node"
	RBAC        = "RBAC"
	Webhook     = "Webhook" // the only type that may appear more than once
)

// Types lists the types of authorizers, sorted.
var Types = []string{ABAC, AlwaysAllow, AlwaysDeny, Node, RBAC, Webhook}

// Values of failurePolicy: the decision if a webhook fails.
const (
	FailNoOpinion = "NoOpinion"
	FailDeny      = "Deny"
)

// Values of connectionInfo.type.
const (
	InCluster      = "InClusterConfig" // decoded, but refused: the server runs in no cluster
	KubeConfigFile = "KubeConfigFile"
)

// AuthorizationConfiguration lists the authorizers in order.
type AuthorizationConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	Authorizers     []AuthorizerConfiguration `json:"authorizers"` // in the order in which they are asked
}

// AuthorizerConfiguration describes one authorizer.
type AuthorizerConfiguration struct {
	Type    string                `json:"type"`              // Webhook, RBAC, Node, ABAC, AlwaysAllow or AlwaysDeny; only Webhook may appear more than once
	Name    string                `json:"name"`              // unique, a DNS subdomain; it is in metrics, logs and reasons
	Webhook *WebhookConfiguration `json:"webhook,omitempty"` // for the type Webhook, and only for it
}

// WebhookConfiguration describes a webhook: where it is, when it is called, and what its failure
// means. Durations are in Go's notation.
type WebhookConfiguration struct {
	AuthorizedTTL                            metav1.Duration         `json:"authorizedTTL"`                            // how long an allowed answer is cached; default 5m
	CacheAuthorizedRequests                  *bool                   `json:"cacheAuthorizedRequests,omitempty"`        // false: allowed answers are not cached; default true
	UnauthorizedTTL                          metav1.Duration         `json:"unauthorizedTTL"`                          // how long any other answer is cached; default 30s
	CacheUnauthorizedRequests                *bool                   `json:"cacheUnauthorizedRequests,omitempty"`      // false: other answers are not cached; default true
	Timeout                                  metav1.Duration         `json:"timeout"`                                  // of a call, at most 30s; required
	SubjectAccessReviewVersion               string                  `json:"subjectAccessReviewVersion"`               // the version that is sent: v1 or v1beta1; required
	MatchConditionSubjectAccessReviewVersion string                  `json:"matchConditionSubjectAccessReviewVersion"` // the version that match conditions see: v1; required if there are any
	FailurePolicy                            string                  `json:"failurePolicy"`                            // the decision if the webhook fails: NoOpinion or Deny; required
	ConnectionInfo                           WebhookConnectionInfo   `json:"connectionInfo"`                           // where the webhook is; required
	MatchConditions                          []WebhookMatchCondition `json:"matchConditions"`                          // the webhook is asked only if all are true

	conditions *match.Conditions
}

// WebhookConnectionInfo has the address of a webhook.
type WebhookConnectionInfo struct {
	Type           string  `json:"type"`           // KubeConfigFile; InClusterConfig is refused
	KubeConfigFile *string `json:"kubeConfigFile"` // the path of a kubeconfig with the address, CA and credentials
}

// WebhookMatchCondition is an expression that must be true for a webhook to be asked.
type WebhookMatchCondition struct {
	Expression string `json:"expression"` // CEL over request, the spec of the SubjectAccessReview
}

// Conditions returns the compiled match conditions, nil if there are none.
func (w *WebhookConfiguration) Conditions() *match.Conditions { return w.conditions }

// CacheAuthorized returns how long an allowed answer is cached; 0 means not at all.
func (w *WebhookConfiguration) CacheAuthorized() time.Duration {
	return lifetime(w.AuthorizedTTL, w.CacheAuthorizedRequests)
}

// CacheUnauthorized returns how long any other answer is cached; 0 means not at all.
func (w *WebhookConfiguration) CacheUnauthorized() time.Duration {
	return lifetime(w.UnauthorizedTTL, w.CacheUnauthorizedRequests)
}

// lifetime returns a cache duration, 0 if the cache is off. cache is nil if the file has no such
// field: then it is on.
func lifetime(d metav1.Duration, cache *bool) time.Duration {
	if cache != nil && !*cache {
		return 0
	}
	return d.Duration
}

// Has reports whether there is an authorizer of a type.
func (c *AuthorizationConfiguration) Has(kind string) bool {
	for i := range c.Authorizers {
		if c.Authorizers[i].Type == kind {
			return true
		}
	}
	return false
}

// KubeConfigFiles returns the kubeconfig files of all webhooks.
func (c *AuthorizationConfiguration) KubeConfigFiles() []string {
	var files []string
	for i := range c.Authorizers {
		if w := c.Authorizers[i].Webhook; w != nil && w.ConnectionInfo.KubeConfigFile != nil {
			files = append(files, *w.ConnectionInfo.KubeConfigFile)
		}
	}
	return files
}

// setDefaults fills in absent fields.
func (c *AuthorizationConfiguration) setDefaults() {
	for i := range c.Authorizers {
		w := c.Authorizers[i].Webhook
		if w == nil {
			continue
		}
		yes := true
		if w.AuthorizedTTL.Duration == 0 {
			w.AuthorizedTTL.Duration = 5 * time.Minute
		}
		if w.UnauthorizedTTL.Duration == 0 {
			w.UnauthorizedTTL.Duration = 30 * time.Second
		}
		if w.CacheAuthorizedRequests == nil {
			w.CacheAuthorizedRequests = &yes
		}
		if w.CacheUnauthorizedRequests == nil {
			w.CacheUnauthorizedRequests = &yes
		}
	}
}

// DeepCopyObject makes AuthorizationConfiguration a runtime.Object for the decoder. It does not
// copy.
func (c *AuthorizationConfiguration) DeepCopyObject() runtime.Object {
	out := &AuthorizationConfiguration{TypeMeta: c.TypeMeta, Authorizers: make([]AuthorizerConfiguration, len(c.Authorizers))}
	for i, a := range c.Authorizers {
		if a.Webhook != nil {
			w := *a.Webhook
			w.MatchConditions = append([]WebhookMatchCondition(nil), w.MatchConditions...)
			a.Webhook = &w
		}
		out.Authorizers[i] = a
	}
	return out
}
