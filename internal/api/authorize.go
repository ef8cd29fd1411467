package api

import (
	"fmt"
	"net/http"
	"time"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/status"
)

// This file is whether the user may do what a request asks for.

// authorize asks whether the user may do what the request asks for.
func authorize(q *request) error {
	began := time.Now()
	a := q.attributes()
	if q.info.snapshot {
		a = q.snapshotAttributes()
	}
	q.decide(a)
	if q.decided.Decision != authz.Allow && q.h.CatchUp != nil {
		q.h.CatchUp(q.ctx)
		q.decide(a)
	}
	q.h.metrics.Authorizations.Observe(&q.decided, time.Since(began))
	q.recordDecision(began)
	switch {
	case q.decided.Decision == authz.Allow:
		return nil
	case q.decided.Err != nil:
		q.h.logger.Warn("authorization is undecided", "path", a.Path, "user", a.User.Name, "error", q.decided.Err)
		return q.undecided(q.decided.Err)
	}
	return q.refused(a, q.decided.Reason)
}

// decide asks the authorizers about the request.
func (q *request) decide(a *authz.Attributes) {
	if q.audit != nil {
		a.Trace = new(authz.Trace)
	}
	q.decided = q.h.Authz.Authorize(q.ctx, a)
}

// allowed asks whether the user may do something else on the way, such as
// create what an update finds missing.
func (q *request) allowed(a *authz.Attributes) error {
	r := q.h.Authz.Authorize(q.ctx, a)
	switch {
	case r.Decision == authz.Allow:
		return nil
	case r.Err != nil:
		return status.Internal(r.Err)
	}
	return q.refused(a, r.Reason)
}

// attributes are what the request is authorized by. They are good for as long
// as the request is.
func (q *request) attributes() *authz.Attributes {
	q.attrs = authz.Attributes{
		User:            q.user,
		Verb:            q.verb,
		ResourceRequest: q.resource,
		Group:           q.group,
		Version:         q.info.version,
		Resource:        q.plural,
		Subresource:     q.subresource,
		Namespace:       q.namespace,
		Name:            q.name,
		Path:            q.path,
	}
	// The endpoints under /watch/ use selectors inconsistently, so that nothing may depend on them.
	if q.selecting {
		q.attrs.FieldSelector, q.attrs.LabelSelector = q.query.Get("fieldSelector"), q.query.Get("labelSelector")
	}
	return &q.attrs
}

// undecided refuses a request about which the authorizers could not decide.
func (q *request) undecided(err error) error {
	body := fmt.Sprintf("Internal Server Error: %q: %v", q.r.RequestURI, err)
	return plainError{http.StatusInternalServerError, status.Harmless(body) + "\n"}
}

var noSniff = []string{"nosniff"}

// refused returns the refusal in upstream's words.
func (q *request) refused(a *authz.Attributes, reason string) error {
	q.w.Header()["X-Content-Type-Options"] = noSniff
	return a.Forbidden(reason)
}
