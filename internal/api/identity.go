package api

import (
	"errors"
	"fmt"
	"time"

	"github.com/keelson-io/keelson/internal/api/impersonation"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/status"
)

// This file authenticates requests.

// authenticate finds the user.
func authenticate(q *request) error {
	began := time.Now()
	response, err := q.h.Authn.Authenticate(q.r, q.h.Audiences)
	if err == nil && response != nil && len(response.Audiences) > 0 && len(q.h.Audiences) > 0 &&
		len(authn.Intersect(q.h.Audiences, response.Audiences)) == 0 {
		err = fmt.Errorf("unable to match the audience: %v , accepted: %v", response.Audiences, q.h.Audiences)
	}
	q.h.metrics.Authentications.Observe(response, err, time.Since(began))
	if err != nil || response == nil {
		q.h.refusals.Refused(q.r, err)
		if errors.Is(err, authn.ErrSpace) {
			q.warn(authn.ErrSpace.Error())
		}
		q.recordStranger()
		q.closeAfter()
		return status.Unauthorized("Unauthorized")
	}
	q.warn(response.Warnings...)
	q.setUser(response.User)
	if q.user.Name == authn.AnonymousUser || q.user.InGroup(authn.Unauthenticated) {
		q.closeAfter()
	}
	q.authenticated = authentication{response.Annotations, time.Since(began)}
	return nil
}

// closeAfter ends an HTTP/2 connection with this answer. A client that is not authenticated must
// not open one connection, send many requests and drop them, and so make the server work.
func (q *request) closeAfter() {
	if q.r.ProtoMajor == 2 {
		q.w.Header().Set("Connection", "close")
	}
}

// authentication is what came of it besides the user.
type authentication struct {
	annotations map[string]string
	took        time.Duration
}

// impersonate makes the request another user's, if its headers ask for that
// and the user may be that one.
func impersonate(q *request) error {
	wanted, err := impersonation.Wanted(q.r.Header)
	if err != nil {
		q.w.Header()["X-Content-Type-Options"] = noSniff
	}
	if wanted == nil || err != nil {
		return err
	}
	began := time.Now()
	got, err := q.h.impersonator.Impersonate(q.ctx, wanted, q.attributes())
	q.audit.Took("impersonation", time.Since(began))
	if err != nil {
		q.w.Header()["X-Content-Type-Options"] = noSniff
		return err
	}
	q.h.logger.Debug("request impersonates", "user", q.user.Name, "as", got.User.Name, "groups", got.User.Groups, "constraint", got.Constraint)
	q.setUser(got.User)
	q.audit.Impersonated(got.User, got.Constraint)
	return nil
}
