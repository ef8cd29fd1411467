// Package config reads which authorizers a server asks, in which order: from an
// AuthorizationConfiguration file (KEP-3221) or from kube-apiserver's older
// flags.
//
// # Model
//
// [Load] turns the bytes of a file into a [AuthorizationConfiguration]: strictly decoded,
// defaulted, validated, its match conditions compiled. Its errors are upstream's,
// in upstream's order; where a file is wrong in a way that documents teach,
// [Error] adds what to write instead. [Flags] are the flags, in both styles.
//
// # Invariants
//
//   - A Configuration that Load returns can be built unless a kubeconfig does
//     not load.
//   - Nothing that a file says is ignored.
//
// Source: KEP-3221, https://kubernetes.io/docs/reference/config-api/apiserver-config.v1/.
package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/authz/match"
)

// The types of authorizers.
const (
	ABAC        = "ABAC"
	AlwaysAllow = "AlwaysAllow"
	AlwaysDeny  = "AlwaysDeny"
	Node        = "Node"
	RBAC        = "RBAC"
	Webhook     = "Webhook" // the only one that there may be several of
)

// Types are the types of authorizers, sorted.
var Types = []string{ABAC, AlwaysAllow, AlwaysDeny, Node, RBAC, Webhook}

// What a webhook's failure means.
const (
	FailNoOpinion = "NoOpinion"
	FailDeny      = "Deny"
)

// How a webhook is reached.
const (
	InCluster      = "InClusterConfig" // understood, but not possible
	KubeConfigFile = "KubeConfigFile"
)

// AuthorizationConfiguration is the authorizers in order.
type AuthorizationConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	Authorizers     []AuthorizerConfiguration `json:"authorizers"`
}

// AuthorizerConfiguration is one authorizer.
type AuthorizerConfiguration struct {
	Type    string                `json:"type"`
	Name    string                `json:"name"`
	Webhook *WebhookConfiguration `json:"webhook,omitempty"`
}

// WebhookConfiguration is how a webhook is asked, and when. Durations are in Go's
// notation.
type WebhookConfiguration struct {
	AuthorizedTTL             metav1.Duration `json:"authorizedTTL"` // default 5m
	CacheAuthorizedRequests   *bool           `json:"cacheAuthorizedRequests,omitempty"`
	UnauthorizedTTL           metav1.Duration `json:"unauthorizedTTL"` // default 30s
	CacheUnauthorizedRequests *bool           `json:"cacheUnauthorizedRequests,omitempty"`
	Timeout                   metav1.Duration `json:"timeout"`
	// Versions of SubjectAccessReview: what is sent, and what conditions see.
	SubjectAccessReviewVersion               string                  `json:"subjectAccessReviewVersion"`
	MatchConditionSubjectAccessReviewVersion string                  `json:"matchConditionSubjectAccessReviewVersion"`
	FailurePolicy                            string                  `json:"failurePolicy"`
	ConnectionInfo                           WebhookConnectionInfo   `json:"connectionInfo"`
	MatchConditions                          []WebhookMatchCondition `json:"matchConditions"`

	conditions *match.Conditions
}

// WebhookConnectionInfo says where a webhook is.
type WebhookConnectionInfo struct {
	Type           string  `json:"type"`
	KubeConfigFile *string `json:"kubeConfigFile"`
}

// WebhookMatchCondition is an expression that must be true for a webhook to be asked.
type WebhookMatchCondition struct {
	Expression string `json:"expression"`
}

// Conditions are the match conditions, compiled; nil if there are none.
func (w *WebhookConfiguration) Conditions() *match.Conditions { return w.conditions }

// CacheAuthorized is how long a webhook's yes is good for; 0: it is not kept.
func (w *WebhookConfiguration) CacheAuthorized() time.Duration {
	return lifetime(w.AuthorizedTTL, w.CacheAuthorizedRequests)
}

// CacheUnauthorized is how long any other answer is good for; 0: it is not kept.
func (w *WebhookConfiguration) CacheUnauthorized() time.Duration {
	return lifetime(w.UnauthorizedTTL, w.CacheUnauthorizedRequests)
}

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

// KubeConfigFiles are the files that webhooks are reached by.
func (c *AuthorizationConfiguration) KubeConfigFiles() []string {
	var files []string
	for i := range c.Authorizers {
		if w := c.Authorizers[i].Webhook; w != nil && w.ConnectionInfo.KubeConfigFile != nil {
			files = append(files, *w.ConnectionInfo.KubeConfigFile)
		}
	}
	return files
}

// setDefaults fills in what was left out.
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

// DeepCopyObject makes it a runtime.Object, for the decoder.
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
