// Package webhook decides by calling a remote service with a SubjectAccessReview.
//
// # Model
//
// A [Webhook] evaluates its match conditions, then looks in its cache, and then calls its [Asker].
// The usual Asker is a [Client], which sends the review and retries after temporary errors. The
// answer is allowed, denied, or no opinion. If there is no answer, the failure policy decides, and
// the result carries the error.
//
// # Invariants
//
//   - A request that the match conditions exclude costs only their evaluation.
//   - Errors are never cached. Answers are cached for the configured time, at
//     most 8,192 of them, and not for requests with very long attributes.
//   - An answer that both allows and denies is a denial.
//
// Source: https://kubernetes.io/docs/reference/access-authn-authz/webhook/.
package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authz/match"
	"github.com/keelson-io/keelson/internal/kubehook"
)

const (
	cacheSize    = 8192
	maxKeptInput = 10000 // bytes of a request's attributes above which its answer is not cached
)

// Config describes a Webhook.
type Config struct {
	Name              string
	Asker             Asker
	Conditions        *match.Conditions
	CacheAuthorized   time.Duration // how long an allowed answer is cached; 0: not at all
	CacheUnauthorized time.Duration // how long any other answer is cached; 0: not at all
	OnError           authz.Decision
	Metrics           *Metrics
	Logger            *slog.Logger
}

// Asker sends a review to a remote service.
type Asker interface {
	// Ask returns the service's answer. The call decides whether retries are allowed, and records
	// each attempt.
	Ask(ctx context.Context, review *authorizationv1.SubjectAccessReview, call kubehook.Call) (authorizationv1.SubjectAccessReviewStatus, error)
}

// Webhook is an authorizer that calls a remote service.
type Webhook struct {
	Config
	counted counters
	answers *cache.LRUExpireCache
}

// New returns a webhook with an empty cache.
func New(c Config) *Webhook {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return &Webhook{Config: c, counted: counters{metrics: c.Metrics, name: c.Name}, answers: cache.NewLRUExpireCache(cacheSize)}
}

var errBoth = errors.New("webhook subject access review returned both allow and deny response")

// Authorize calls the service, if the match conditions hold and the cache has no answer.
func (w *Webhook) Authorize(ctx context.Context, a *authz.Attributes) authz.Result {
	if w.Conditions != nil {
		began := time.Now()
		o := w.Conditions.Eval(ctx, a)
		w.counted.matched(&o, began)
		switch {
		case o.Err != nil:
			return authz.Result{Decision: w.OnError, Err: o.Err}
		case !o.Match:
			a.Trace.Skip(w.Name)
			return authz.Result{}
		}
	}
	review := &authorizationv1.SubjectAccessReview{Spec: Spec(a)}
	key, err := json.Marshal(&review.Spec)
	if err != nil {
		return authz.Result{Decision: w.OnError, Err: err}
	}
	step := a.Trace.Step()
	if step != nil {
		step.Review = key
	}
	if found, ok := w.answers.Get(string(key)); ok {
		if step != nil {
			step.Cached = true
		}
		return decide(found.(*authorizationv1.SubjectAccessReviewStatus))
	}
	status, err := w.review(ctx, review)
	if err != nil {
		return authz.Result{Decision: w.OnError, Err: err}
	}
	w.keep(a, string(key), &status)
	return decide(&status)
}

// review calls the service and records every attempt.
func (w *Webhook) review(ctx context.Context, review *authorizationv1.SubjectAccessReview) (authorizationv1.SubjectAccessReviewStatus, error) {
	last := ""
	status, err := w.Asker.Ask(ctx, review, kubehook.Call{Observe: func(code int, took time.Duration, err error) {
		last = outcome(ctx, code, err)
		w.counted.attempted(last, took)
	}})
	if err != nil {
		w.Logger.Error("Failed to make webhook authorizer request: "+err.Error(), "webhook", w.Name)
		if w.OnError == authz.NoOpinion && ctx.Err() == nil {
			w.counted.failedOpen(last)
		}
	}
	return status, err
}

// keep caches an answer.
func (w *Webhook) keep(a *authz.Attributes, key string, s *authorizationv1.SubjectAccessReviewStatus) {
	size := len(a.Namespace) + len(a.Verb) + len(a.Group) + len(a.Version) + len(a.Resource) + len(a.Subresource) + len(a.Name) + len(a.Path)
	life := w.CacheUnauthorized
	if s.Allowed {
		life = w.CacheAuthorized
	}
	if size < maxKeptInput && life > 0 {
		w.answers.Add(key, s, life)
	}
}

// decide turns the status of a review into a result.
func decide(s *authorizationv1.SubjectAccessReviewStatus) authz.Result {
	switch {
	case s.Denied && s.Allowed:
		return authz.Result{Decision: authz.Deny, Reason: s.Reason, Err: errBoth}
	case s.Denied:
		return authz.Result{Decision: authz.Deny, Reason: s.Reason}
	case s.Allowed:
		return authz.Result{Decision: authz.Allow, Reason: s.Reason}
	}
	return authz.Result{Reason: s.Reason}
}

// RulesFor returns no rules, and marks the list as incomplete: the service cannot list what it
// allows.
func (w *Webhook) RulesFor(context.Context, *authn.User, string) authz.Rules {
	return authz.Rules{Incomplete: true, Err: errors.New("webhook authorizer does not support user rule resolution")}
}

// Check sends one review without a user, to find out whether the service answers. The decision does
// not matter.
func (w *Webhook) Check(ctx context.Context) error {
	_, err := w.Asker.Ask(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:                  "system:apiserver",
		Groups:                []string{authn.Authenticated},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/healthz", Verb: "get"},
	}}, kubehook.Call{Once: true})
	return err
}

// Spec returns the attributes as the spec of a review.
func Spec(a *authz.Attributes) authorizationv1.SubjectAccessReviewSpec {
	var s authorizationv1.SubjectAccessReviewSpec
	if u := a.User; u != nil {
		s.User, s.UID, s.Groups = u.Name, u.UID, u.Groups
		if u.Extra != nil {
			s.Extra = make(map[string]authorizationv1.ExtraValue, len(u.Extra))
			for k, v := range u.Extra {
				s.Extra[k] = v
			}
		}
	}
	if !a.ResourceRequest {
		s.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.Path, Verb: a.Verb}
		return s
	}
	s.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace: a.Namespace, Verb: a.Verb, Group: a.Group, Version: a.Version, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name,
	}
	// Requirements that could be parsed are sent, even if others could not: since all must hold,
	// this only widens what is asked for.
	if list, _ := a.FieldRequirements(); len(list) > 0 {
		s.ResourceAttributes.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: list}
	}
	if list, _ := a.LabelRequirements(); len(list) > 0 {
		s.ResourceAttributes.LabelSelector = &authorizationv1.LabelSelectorAttributes{Requirements: list}
	}
	return s
}
