package api

import (
	"errors"
	"strings"
	"time"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/yamljson"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file is what is recorded of requests. Without auditing it does nothing.

// beginRecord begins the record of a request whose sender is known.
func beginRecord(q *request) error {
	if q.h.Audit == nil {
		return nil
	}
	q.audit = q.h.Audit.Start(q.r, q.w.Header()["Audit-Id"][0], q.began, q.attributes(), q.long)
	if q.audit == nil {
		return nil
	}
	if !q.audit.Received() {
		q.audit = nil // what came of it could not be kept either
		return status.Internal(errors.New("failed to store audit event"))
	}
	for key, value := range q.authenticated.annotations {
		q.audit.Annotate(key, value)
	}
	q.audit.Took("authentication", q.authenticated.took)
	return nil
}

// recordStranger records a request whose sender is not known. It has one stage
// only, in which the answer begins.
func (q *request) recordStranger() {
	if q.h.Audit == nil {
		return
	}
	a := *q.attributes()
	a.User = nil
	q.audit = q.h.Audit.Start(q.r, q.w.Header()["Audit-Id"][0], q.began, &a, true)
	q.stranger = true
}

// Annotations of authorization.
const (
	annotationDecision = "authorization.k8s.io/decision"
	annotationReason   = "authorization.k8s.io/reason"
	annotationSkipped  = "authorization.k8s.io/webhook-skipped" // KEP-3221
)

// recordDecision records what authorization came to.
func (q *request) recordDecision(began time.Time) {
	if q.audit == nil {
		return
	}
	q.audit.Took("authorization", time.Since(began))
	if t := q.attrs.Trace; t != nil && len(t.Skipped) > 0 {
		q.audit.Annotate(annotationSkipped, strings.Join(t.Skipped, ","))
	}
	switch {
	case q.decided.Decision == authz.Allow:
		q.audit.Annotate(annotationDecision, "allow")
		q.audit.Annotate(annotationReason, q.decided.Reason)
	case q.decided.Err != nil:
		q.audit.Annotate(annotationReason, "internal error")
	default:
		q.audit.Annotate(annotationDecision, "forbid")
		q.audit.Annotate(annotationReason, q.decided.Reason)
	}
}

// recordObject records the object that a request sends.
func (q *request) recordObject(d *jsondoc.Doc) {
	if q.audit == nil {
		return
	}
	o := meta.Object{Doc: d}
	q.audit.RequestObject(audit.Object{
		Namespace: strings.Clone(o.Namespace()), Name: strings.Clone(o.Name()), UID: strings.Clone(o.UID()), ResourceVersion: strings.Clone(o.ResourceVersion()),
	}, func() []byte { return d.AppendJSON(nil, d.Root().Node) })
}

// recordPatch records the patch that a request sends, as JSON.
func (q *request) recordPatch(media string, patch []byte) {
	if q.audit == nil {
		return
	}
	if media == encoding.ApplyPatch {
		if asJSON, _, err := yamljson.JSON(q.ctx, patch, false); err == nil {
			patch = asJSON
		}
	}
	q.audit.RequestPatch(patch)
}

// recordOptions records the options that a deletion sends.
func (q *request) recordOptions(media string, body []byte) {
	if q.audit == nil {
		return
	}
	q.audit.RequestObject(audit.Object{}, func() []byte {
		if media == encoding.YAML {
			if asJSON, _, err := yamljson.JSON(q.ctx, body, false); err == nil {
				return asJSON
			}
		}
		return body
	})
}
