package api

import (
	"net/http"
	"slices"

	"github.com/keelson-io/keelson/internal/status"
)

// This file refuses paths and methods of built-in kinds that Kubernetes' router does not know.

// checkRoute refuses what upstream's router does not know of a built-in kind: paths with 404, methods
// with 405. It needs nothing but the method and the path.
func (q *request) checkRoute() error {
	b := &q.kind.Behavior
	if !b.HasRoutes() {
		return nil
	}
	method := q.r.Method
	verb := ""
	if row := verbOf(method, onObject); row != nil && method != http.MethodHead { // HEAD is not in its table
		verb = row.name
	}
	if q.verb == "proxy" || q.verb == "watch" && !q.selecting { // the old paths /proxy/… and /watch/…
		switch {
		case q.verb == "proxy" || b.Virtual || q.subresource != "":
			return status.UnknownRoute()
		case verb != "get":
			return status.UnknownMethod()
		}
		return nil
	}
	if c := q.connector(); c != nil {
		if !slices.Contains(c.methods, method) {
			return status.UnknownMethod()
		}
		return nil
	}
	verbs := q.routeVerbs()
	switch {
	case verbs == nil:
		return status.UnknownRoute()
	case b.Listed != nil && verb != "": // its error says why it cannot be written
		return nil
	case !slices.Contains(verbs, verb):
		return status.UnknownMethod()
	}
	return nil
}

// routeVerbs returns the verbs of the path, nil if the path is unknown.
func (q *request) routeVerbs() []string {
	b := &q.kind.Behavior
	onItem := q.name != "" && !q.selected
	sub := b.Subresource(q.subresource)
	switch {
	case q.subresource == "status" && q.v.Status, q.subresource == "scale" && q.v.Scale != nil:
		return statusVerbs
	case q.subresource != "" && sub != nil:
		return sub.Verbs
	case q.subresource != "", b.Virtual && (onItem || q.kind.Namespaced && q.namespace == ""):
		return nil
	case b.Virtual:
		return []string{"create"}
	case onItem:
		return []string{"get", "update", "patch", "delete"}
	case b.OneByOne:
		return []string{"get", "create"}
	}
	return []string{"get", "create", "delete"}
}
