package api

import (
	"github.com/keelson-io/keelson/internal/audit"
)

// This file is a request as the steps of admission see it.

// Warn implements admission.Client.
func (q *request) Warn(warnings ...string) { q.warn(warnings...) }

// Annotate implements admission.Client.
func (q *request) Annotate(key, value string) { q.audit.Annotate(key, value) }

// AnnotateRequest implements admission.Client.
func (q *request) AnnotateRequest(key, value string) {
	if l := q.audit.Level(); l == audit.Request || l == audit.RequestResponse {
		q.audit.Annotate(key, value)
	}
}
