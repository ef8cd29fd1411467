package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/audit"
)

// This file reads what is recorded of how requests are decided.

// events keeps the annotations of the last event.
type events struct{ last map[string]string }

// Process implements audit.Backend.
func (e *events) Process(event *audit.Event) bool { e.last = event.Annotations; return true }

// Close implements audit.Backend.
func (e *events) Close() error { return nil }

// Ledger: webhook-skipped.
func TestDecisionsAreRecorded(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	policy, err := audit.ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]"), quiet)
	if err != nil {
		t.Fatal(err)
	}
	var result authz.Result
	kept := &events{}
	s := newTestServer(t, func(c *setup) {
		c.Audit = audit.NewAuditor(policy, kept, audit.NewMetrics(prometheus.NewRegistry()), quiet)
		c.Authz = authz.Func(func(_ context.Context, a *authz.Attributes) authz.Result {
			a.Trace.Skip("first")
			a.Trace.Skip("second")
			return result
		})
	})
	const decision, reason, skipped = "authorization.k8s.io/decision", "authorization.k8s.io/reason", "authorization.k8s.io/webhook-skipped"
	for name, row := range map[string]struct {
		result   authz.Result
		code     int
		decision string
		reason   string
	}{
		"allowed":            {authz.Result{Decision: authz.Allow, Reason: "yes"}, 200, "allow", "yes"},
		"allowed, no reason": {authz.Result{Decision: authz.Allow}, 200, "allow", ""},
		"denied":             {authz.Result{Decision: authz.Deny, Reason: "no"}, 403, "forbid", "no"},
		"no opinion":         {authz.Result{}, 403, "forbid", ""},
		"undecided":          {authz.Result{Err: errors.New("broken")}, 500, "", "internal error"},
	} {
		result = row.result
		resp, err := http.Get(s.url + "/api/v1/namespaces/default")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		got := kept.last
		_, explained := got[reason]
		if resp.StatusCode != row.code || got[decision] != row.decision || got[reason] != row.reason || !explained || got[skipped] != "first,second" {
			t.Errorf("%s: got %d, %v", name, resp.StatusCode, got)
		}
	}
}
