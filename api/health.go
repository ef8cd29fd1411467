package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// This file answers /healthz, /livez and /readyz.

// Check is one thing that must be well for the server to be.
type Check struct {
	Name string
	// Ready: the check says whether requests should be sent here now, not
	// whether the server is broken; only /readyz asks it.
	Ready bool
	Do    func(context.Context) error
}

// checkTimeout is how long one check may take.
const checkTimeout = 2 * time.Second

type health struct {
	checks   []Check
	stopping atomic.Bool
}

func newHealth(checks []Check) *health {
	h := &health{}
	h.checks = append([]Check{{Name: "ping", Do: func(context.Context) error { return nil }}}, checks...)
	h.checks = append(h.checks, Check{Name: "shutdown", Ready: true, Do: func(context.Context) error {
		if h.stopping.Load() {
			return fmt.Errorf("process is shutting down")
		}
		return nil
	}})
	return h
}

func (h *health) stop() { h.stopping.Store(true) }

// serve answers /{endpoint} and /{endpoint}/{check}.
func (h *health) serve(q *request, endpoint, only string) error {
	var checks []Check
	for _, c := range h.checks {
		if (endpoint == "readyz" || !c.Ready) && (only == "" || only == c.Name) {
			checks = append(checks, c)
		}
	}
	if only != "" && len(checks) == 0 {
		return q.index(false)
	}
	excluded := slices.Clone(q.query["exclude"])
	var unknown []string
	for _, name := range excluded {
		if !slices.ContainsFunc(checks, func(c Check) bool { return c.Name == name }) {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	slices.Sort(unknown)
	var out bytes.Buffer
	var failed []string
	for _, c := range checks {
		if slices.Contains(excluded, c.Name) {
			fmt.Fprintf(&out, "[+]%s excluded: ok\n", c.Name)
			continue
		}
		if err := h.run(q.ctx, c); err != nil {
			failed = append(failed, c.Name)
			q.h.logger.Warn("health check failed", "endpoint", endpoint, "check", c.Name, "error", err)
			// The reason stays in the log: everybody may ask for health.
			if only != "" {
				q.plain(http.StatusInternalServerError, "internal server error: "+err.Error()+"\n")
				return nil
			}
			fmt.Fprintf(&out, "[-]%s failed: reason withheld\n", c.Name)
			continue
		}
		fmt.Fprintf(&out, "[+]%s ok\n", c.Name)
	}
	if len(unknown) > 0 {
		fmt.Fprintf(&out, "warn: some health checks cannot be excluded: no matches for %s\n", strings.Join(unknown, ", "))
	}
	switch {
	case len(failed) > 0:
		fmt.Fprintf(&out, "%s check failed\n", endpoint)
		q.plain(http.StatusInternalServerError, out.String())
	case q.query.Has("verbose"):
		fmt.Fprintf(&out, "%s check passed\n", endpoint)
		q.plain(http.StatusOK, out.String())
	default:
		if only != "" {
			q.w.Header()["X-Content-Type-Options"] = []string{} // upstream sets it for the whole only
		}
		q.plain(http.StatusOK, "ok")
	}
	return nil
}

func (h *health) run(ctx context.Context, c Check) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return c.Do(ctx)
}

// plain answers with text.
func (q *request) plain(code int, text string) {
	h := q.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	if h["X-Content-Type-Options"] == nil {
		h.Set("X-Content-Type-Options", "nosniff")
	}
	q.header(code)
	if q.r.Method != http.MethodHead {
		q.w.Write([]byte(text))
	}
}
