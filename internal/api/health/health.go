// Package health answers /healthz, /livez and /readyz.
package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

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

// Endpoints are the health endpoints of a server.
type Endpoints struct {
	Checks []Check

	// Metrics has the results of checks, for /metrics/slis.
	Metrics http.Handler

	logger   *slog.Logger
	stopping atomic.Bool

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

// New returns the health endpoints with the given checks, and two more: ping and shutdown.
func New(checks []Check, logger *slog.Logger) *Endpoints {
	h := &Endpoints{
		logger:  logger,
		running: map[string]*checkRun{},
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubernetes_healthcheck", Help: "[STABLE] This metric records the result of a single healthcheck."}, []string{"name", "type"}),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubernetes_healthchecks_total", Help: "[STABLE] This metric records the results of all healthcheck."}, []string{"name", "status", "type"}),
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(h.last, h.results)
	h.Metrics = promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	h.Checks = append([]Check{{Name: "ping", Do: func(context.Context) error { return nil }}}, checks...)
	h.Checks = append(h.Checks, Check{Name: "shutdown", Ready: true, Do: func(context.Context) error {
		if h.stopping.Load() {
			return fmt.Errorf("process is shutting down")
		}
		return nil
	}})
	return h
}

// Stop makes /readyz fail, so that no more requests are sent here.
func (h *Endpoints) Stop() { h.stopping.Store(true) }

// Answer is the answer to a request for health, in text.
type Answer struct {
	Code  int
	Text  string
	Sniff bool // it has no X-Content-Type-Options: upstream sets that for the whole endpoint only
}

// Answer returns the answer to /{endpoint} and to /{endpoint}/{check}. ok is false if no check has that name.
func (h *Endpoints) Answer(ctx context.Context, endpoint, only string, query url.Values) (a Answer, ok bool) {
	checks := h.of(endpoint, only)
	if only != "" && len(checks) == 0 {
		return a, false
	}
	excluded := query["exclude"]
	var out bytes.Buffer
	failed := false
	for _, c := range checks {
		if slices.Contains(excluded, c.Name) {
			fmt.Fprintf(&out, "[+]%s excluded: ok\n", c.Name)
			continue
		}
		err := h.observed(ctx, c, endpoint)
		switch {
		case err == nil:
			fmt.Fprintf(&out, "[+]%s ok\n", c.Name)
		case only != "":
			return Answer{Code: http.StatusInternalServerError, Text: "internal server error: " + err.Error() + "\n"}, true
		default: // the reason stays in the log: everybody may ask for health
			failed = true
			fmt.Fprintf(&out, "[-]%s failed: reason withheld\n", c.Name)
		}
	}
	if unknown := unknownNames(checks, excluded); len(unknown) > 0 {
		fmt.Fprintf(&out, "warn: some health checks cannot be excluded: no matches for %s\n", strings.Join(unknown, ", "))
	}
	switch {
	case failed:
		fmt.Fprintf(&out, "%s check failed\n", endpoint)
		return Answer{Code: http.StatusInternalServerError, Text: out.String()}, true
	case query.Has("verbose"):
		fmt.Fprintf(&out, "%s check passed\n", endpoint)
		return Answer{Code: http.StatusOK, Text: out.String()}, true
	}
	return Answer{Code: http.StatusOK, Text: "ok", Sniff: only != ""}, true
}

// of returns the checks of an endpoint, or the one that is asked for.
func (h *Endpoints) of(endpoint, only string) []Check {
	var checks []Check
	for _, c := range h.Checks {
		if (endpoint == "readyz" || !c.Ready) && (only == "" || only == c.Name) {
			checks = append(checks, c)
		}
	}
	return checks
}

// unknownNames returns the names, in quotes and sorted, that are not those of checks.
func unknownNames(checks []Check, names []string) []string {
	var unknown []string
	for _, name := range names {
		if !slices.ContainsFunc(checks, func(c Check) bool { return c.Name == name }) {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	slices.Sort(unknown)
	return unknown
}

// Probes returns a handler of the health endpoints alone, for a listener without TLS and without users. An answer has the names of checks
// that fail, never their reasons.
func (h *Endpoints) Probes() http.Handler {
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
		for _, c := range h.of(endpoint, "") {
			if h.observed(r.Context(), c, endpoint) != nil {
				failed = append(failed, c.Name)
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

// observed runs a check of an endpoint, counts its result, and logs its failure.
func (h *Endpoints) observed(ctx context.Context, c Check, endpoint string) error {
	err := h.run(ctx, c)
	ok, result := 1.0, "success"
	if err != nil {
		ok, result = 0, "error"
		h.logger.Warn("health check failed", "endpoint", endpoint, "check", c.Name, "error", err)
	}
	h.last.WithLabelValues(c.Name, endpoint).Set(ok)
	h.results.WithLabelValues(c.Name, result, endpoint).Inc()
	return err
}

// Named runs the check of that name, if there is one.
func (h *Endpoints) Named(ctx context.Context, name string) error {
	for _, c := range h.Checks {
		if c.Name == name {
			return h.run(ctx, c)
		}
	}
	return nil
}

// run returns the result of a check. If the check is running already, it waits for that result:
// health requests have no limit, so many of them must not cost more than one.
func (h *Endpoints) run(ctx context.Context, c Check) error {
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
func (h *Endpoints) finish(ctx context.Context, c Check, r *checkRun) {
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
