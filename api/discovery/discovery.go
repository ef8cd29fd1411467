// Package discovery serves the documents by which clients find out what is
// served.
package discovery

import (
	"net/http"

	"github.com/keelson-io/keelson/kind"
)

// Handler serves /api, /apis, /api/v1, /apis/{group} and
// /apis/{group}/{version}.
type Handler struct{ load func() *kind.Snapshot }

// New returns the Handler of the kinds that load returns.
func New(load func() *kind.Snapshot) *Handler { return &Handler{load: load} }

// Serves reports whether the path is one of discovery's.
func Serves(path string) bool { return false }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { panic("BUG: not built yet") }
