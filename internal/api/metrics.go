package api

import (
	"time"

	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/api/metrics"
)

// This file says under which labels requests are counted.

// observe counts a finished request.
func (q *request) observe(start time.Time) {
	s := metrics.Series{Verb: verbLabel(q), Code: q.code}
	if q.v != nil {
		s.Group, s.Version, s.Resource, s.Scope = q.v.Kind.Group, q.v.Name, q.v.Kind.Plural, q.scope()
		s.Subresource = knownPart(q)
	} else if q.resource {
		// A label for each unknown name would let clients fill the memory.
		s.Resource = "unknown"
	} else {
		s.Subresource = pathLabel(q.path)
	}
	q.h.metrics.Requests.Observe(s, time.Since(start))
}

// SweepMetrics drops the series of kinds and versions that do not exist any more.
func (h *Handler) SweepMetrics() { h.metrics.Requests.Sweep(h.Kinds.Load()) }

// knownPart returns the subresource if there is one of that name. Names that a
// client makes up do not become labels.
func knownPart(q *request) string {
	if q.subresource == "status" || q.subresource == "scale" || q.v.Kind.Behavior.Subresource(q.subresource) != nil {
		return q.subresource
	}
	return ""
}

// scope is how much of the resource a request is for.
func (q *request) scope() string {
	switch {
	case q.name != "":
		return "resource"
	case q.namespace != "":
		return "namespace"
	}
	return "cluster"
}

// verbLabel returns the label for the verb of a request.
func verbLabel(q *request) string {
	if q.verb == "patch" && encoding.PatchType(q.r) == encoding.ApplyPatch {
		return "APPLY"
	}
	for _, v := range verbTable { // methods of other paths have the names of verbs, too
		if v.name == q.verb {
			return v.label
		}
	}
	return "other"
}

// pathLabel names the fixed paths.
func pathLabel(path string) string {
	switch path {
	case "/healthz", "/livez", "/readyz", "/version", "/metrics", "/metrics/slis", "/statusz", "/flagz", "/api", "/apis", "/openapi/v2", "/openapi/v3", snapshotPath:
		return path
	}
	return ""
}
