package webhook

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authz/partial"
	"github.com/keelson-io/keelson/internal/kubehook"
)

// This file decides about requests with unknown parts.

// Cases implements partial.Authorizer. If the match conditions may hold, the webhook is called with
// the known parts.
func (w *Webhook) Cases(ctx context.Context, r *partial.Request) []partial.Case {
	when, err := w.Conditions.Partial(ctx, r)
	switch {
	case when.False():
		return nil
	case err != nil:
		return []partial.Case{{Result: authz.Result{Decision: w.OnError, Err: err}, When: when}}
	}
	status, err := w.Asker.Ask(ctx, &authorizationv1.SubjectAccessReview{Spec: Spec(r.Attributes)}, kubehook.Call{})
	if err != nil {
		return []partial.Case{{Result: authz.Result{Decision: w.OnError, Err: err}, When: when}}
	}
	return []partial.Case{{Result: decide(&status), When: when}}
}
