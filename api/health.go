package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// This file answers /healthz, /livez and /readyz.

// Check is one thing that must be well for the server to be.
type Check struct {
	Name string
	// Ready is set for a check whether requests should be sent to this server now. Only /readyz
	// runs it: a server that is not ready is not broken.
	Ready bool
	Do    func(context.Context) error
}

// checkTimeout is the longest duration of one check.
const checkTimeout = 2 * time.Second

// health runs the checks of the health endpoints.
type health struct {
	checks   []Check
	stopping atomic.Bool

	// The results of checks, for /metrics/slis.
	metrics http.Handler
	last    *prometheus.GaugeVec
	results *prometheus.CounterVec

	mu      sync.Mutex
	running map[string]*checkRun // by the check's name
}

// checkRun is one run of a check. All requests that arrive while it runs share its result.
type checkRun struct {
	done chan struct{} // closed when err is known
	err  error
}

// newHealth returns the health endpoints with the given checks, and two more: ping and shutdown.
func newHealth(checks []Check) *health {
	h := &health{
		running: map[string]*checkRun{},
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubernetes_healthcheck", Help: "[STABLE] This metric records the result of a single healthcheck."}, []string{"name", "type"}),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubernetes_healthchecks_total", Help: "[STABLE] This metric records the results of all healthcheck."}, []string{"name", "status", "type"}),
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(h.last, h.results)
	h.metrics = promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	h.checks = append([]Check{{Name: "ping", Do: func(context.Context) error { return nil }}}, checks...)
	h.checks = append(h.checks, Check{Name: "shutdown", Ready: true, Do: func(context.Context) error {
		if h.stopping.Load() {
			return fmt.Errorf("process is shutting down")
		}
		return nil
	}})
	return h
}

// stop makes /readyz fail, so that no more requests are sent here.
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
		q.unknownPath()
		return nil
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
		err := h.run(q.ctx, c)
		h.observe(c.Name, endpoint, err)
		if err != nil {
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

// Probes returns a handler of the health endpoints alone, for a listener without TLS and without users. An answer has the names of checks
// that fail, never their reasons.
func (h *Handler) Probes() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		endpoint := strings.Trim(r.URL.Path, "/")
		switch {
		case !slices.Contains([]string{"healthz", "livez", "readyz"}, endpoint):
			http.NotFound(w, r)
			return
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		var failed []string
		for _, c := range h.health.checks {
			if endpoint != "readyz" && c.Ready {
				continue
			}
			err := h.health.run(r.Context(), c)
			h.health.observe(c.Name, endpoint, err)
			if err != nil {
				failed = append(failed, c.Name)
				h.logger.Warn("health check failed", "endpoint", endpoint, "check", c.Name, "error", err)
			}
		}
		w.Header().Set("Cache-Control", "no-cache, private")
		if len(failed) > 0 {
			http.Error(w, fmt.Sprintf("%s check failed: %s", endpoint, strings.Join(failed, ", ")), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok") // a client that has gone does not read it
	})
}

// observe counts the result of a check of an endpoint.
func (h *health) observe(name, endpoint string, err error) {
	ok, result := 1.0, "success"
	if err != nil {
		ok, result = 0, "error"
	}
	h.last.WithLabelValues(name, endpoint).Set(ok)
	h.results.WithLabelValues(name, result, endpoint).Inc()
}

// named runs the check of that name, if there is one.
func (h *health) named(ctx context.Context, name string) error {
	for _, c := range h.checks {
		if c.Name == name {
			return h.run(ctx, c)
		}
	}
	return nil
}

// run returns the result of a check. If the check is running already, it waits for that result:
// health requests have no limit, so many of them must not cost more than one.
func (h *health) run(ctx context.Context, c Check) error {
	h.mu.Lock()
	r := h.running[c.Name]
	if r == nil {
		r = &checkRun{done: make(chan struct{}), err: errors.New("the check panicked")}
		h.running[c.Name] = r
		h.mu.Unlock()
		h.finish(ctx, c, r)
		return r.err
	}
	h.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish runs a check. The request that started it may have ended before.
func (h *health) finish(ctx context.Context, c Check, r *checkRun) {
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.running, c.Name)
		close(r.done)
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer cancel()
	r.err = c.Do(ctx)
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
