package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/authz"
)

// This file tests explanations of refusals.

// writesOnly allows all requests of the administrator, and all but reads of other users.
type writesOnly struct{}

func (writesOnly) Authorize(_ context.Context, a *authz.Attributes) authz.Result {
	if a.Verb == "get" && a.User.Name != "admin" {
		return authz.Result{Decision: authz.NoOpinion}
	}
	return authz.Result{Decision: authz.Allow}
}

// causes returns the causes of a refusal, by their reason.
func causes(t *testing.T, a answer) map[string][]string {
	t.Helper()
	var s struct {
		Details struct {
			Causes []struct{ Reason, Message, Field string }
		}
	}
	if err := json.Unmarshal([]byte(a.body), &s); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, c := range s.Details.Causes {
		out[c.Reason] = append(out[c.Reason], c.Field+": "+c.Message)
	}
	return out
}

// Ledger: explain-parameter.
func TestExplain(t *testing.T) {
	s := newTestServer(t, func(c *setup) { c.Authz = writesOnly{} })
	s.kinds.Put(compile(t, soundCRD(`count: {type: integer}, l: {type: array, items: {type: integer, x-kubernetes-validations: [{rule: "self < 5"}]}}`,
		`{rule: "self.spec.count <= 9"}, {rule: "self.spec.count >= oldSelf.spec.count"}`)))
	const sounds = "/apis/demo.io/v1/sounds"
	s.must(201, "POST", sounds, soundBody+`{"count":7}}`)

	// Nothing changes for clients that do not ask.
	if got := causes(t, s.must(422, "POST", sounds, soundBody+`{"count":12}}`)); len(got["Explanation"]) != 0 {
		t.Errorf("explained without being asked: %v", got)
	}
	if got := causes(t, s.must(422, "POST", sounds+"?explain=false", soundBody+`{"count":12}}`)); len(got["Explanation"]) != 0 {
		t.Errorf("explained without being asked: %v", got)
	}
	s.must(400, "POST", sounds+"?explain=yes", soundBody+`{"count":12}}`)

	got := causes(t, s.must(422, "POST", sounds+"?explain=true", soundBody+`{"count":12}}`))
	if want := "1:1      self.spec.count = 12    (spec.count)"; len(got["Explanation"]) != 1 || !strings.Contains(got["Explanation"][0], want) {
		t.Errorf("got %v, want %s", got, want)
	}
	got = causes(t, s.must(422, "POST", sounds+"?explain=json", soundBody+`{"count":1,"l":[1,6]}}`))
	if want := `"text":"self","start":0,"end":4,"line":1,"column":1,"outcome":"value","value":6,"path":"spec.l[1]"`; len(got["Explanation"]) != 1 || !strings.Contains(got["Explanation"][0], want) {
		t.Errorf("got %v, want %s", got, want)
	}

	// The stored object is shown to those who may read it.
	for user, shown := range map[string]bool{"admin": true, "jane": false} {
		headers := []string{"Content-Type", merge}
		if user != "admin" {
			headers = append(headers, "Test-User", user)
		}
		got := causes(t, s.must(422, "PATCH", sounds+"/a?explain=json", `{"spec":{"count":3}}`, headers...))["Explanation"]
		if len(got) != 1 || strings.Contains(got[0], `"value":7`) != shown || strings.Contains(got[0], "hidden") == shown {
			t.Errorf("%s: got %v", user, got)
		}
		if len(got) == 1 && !strings.Contains(got[0], `"value":3`) {
			t.Errorf("%s: the new value is missing in %v", user, got)
		}
	}
}

// TestExplainManyRefusals checks that an explanation does not grow with the number of refused values.
func TestExplainManyRefusals(t *testing.T) {
	s := newTestServer(t)
	s.kinds.Put(compile(t, soundCRD(`l: {type: array, maxItems: 5000, items: {type: integer, x-kubernetes-validations: [{rule: "self < 5"}]}}`, ``)))
	body := soundBody + `{"l":[` + strings.Repeat("9,", 2000) + `9]}}`
	got := causes(t, s.must(422, "POST", "/apis/demo.io/v1/sounds?explain=true", body))
	if n := len(got["Explanation"]); n != 8 {
		t.Errorf("got %d explanations, want 8", n)
	}
}
