// Package openapi serves the kinds as OpenAPI documents.
package openapi

import (
	"net/http"

	"github.com/keelson-io/keelson/kind"
)

// Handler serves /openapi/v2, /openapi/v3 and /openapi/v3/{key}.
type Handler struct{ load func() *kind.Snapshot }

// New returns the Handler of the kinds that load returns.
func New(load func() *kind.Snapshot) *Handler { return &Handler{load: load} }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { panic("BUG: not built yet") }
