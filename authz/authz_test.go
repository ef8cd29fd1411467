package authz

import (
	"context"
	"errors"
	"testing"

	"github.com/keelson-io/keelson/authn"
)

// This file is the policy of a server without configuration, and tries at
// getting around it.

func TestStandard(t *testing.T) {
	master := &authn.User{Name: "root", Groups: []string{"dev", authn.Masters}}
	users := map[string]*authn.User{
		"ann":    {Name: "ann", Groups: []string{authn.Authenticated}},
		"nobody": {Name: authn.AnonymousUser, Groups: []string{authn.Unauthenticated}},
		"named":  {Name: authn.Masters, Groups: []string{authn.Authenticated}}, // the name is not the group
		"near":   {Name: "x", Groups: []string{"system:master", "System:masters", "system:masters "}},
	}
	path := func(verb, path string) Attributes { return Attributes{Verb: verb, Path: path} }
	get := Attributes{Verb: "get", ResourceRequest: true, Resource: "namespaces", Version: "v1", Name: "x", Path: "/healthz"}
	for _, row := range []struct {
		a      Attributes
		public bool
	}{
		{path("get", "/healthz"), true},
		{path("get", "/livez"), true},
		{path("get", "/readyz"), true},
		{path("get", "/version"), true},
		{path("get", "/readyz/etcd"), false},
		{path("get", "/healthz/../metrics"), false},
		{path("get", "/healthzx"), false},
		{path("get", "//healthz"), false},
		{path("post", "/healthz"), false},
		{path("delete", "/version"), false},
		{path("get", "/metrics"), false},
		{path("get", "/apis"), false},
		{path("get", "/"), false},
		{path("get", ""), false},
		{get, false},
	} {
		for name, user := range users {
			row.a.User = user
			d, _, err := Standard().Authorize(context.Background(), &row.a)
			if (d == Allow) != row.public || err != nil {
				t.Errorf("%s: %s %s: got %v, %v", name, row.a.Verb, row.a.Path, d, err)
			}
		}
		row.a.User = master
		if d, _, err := Standard().Authorize(context.Background(), &row.a); d != Allow || err != nil {
			t.Errorf("master: %s %s: got %v, %v", row.a.Verb, row.a.Path, d, err)
		}
	}
	if d, _, _ := Masters().Authorize(context.Background(), &Attributes{}); d != NoOpinion {
		t.Errorf("no user at all: got %v", d)
	}
}

func TestChainOfAuthorizers(t *testing.T) {
	says := func(d Decision, reason string, err error) Authorizer {
		return Func(func(context.Context, *Attributes) (Decision, string, error) { return d, reason, err })
	}
	broken := errors.New("broken")
	for name, row := range map[string]struct {
		chain  []Authorizer
		want   Decision
		reason string
		failed bool
	}{
		"empty":                {nil, NoOpinion, "", false},
		"first opinion":        {[]Authorizer{says(NoOpinion, "a", nil), says(Deny, "b", nil), says(Allow, "c", nil)}, Deny, "b", false},
		"reasons are gathered": {[]Authorizer{says(NoOpinion, "a", nil), says(NoOpinion, "", nil), says(NoOpinion, "b", nil)}, NoOpinion, "a\nb", false},
		"error, then allowed":  {[]Authorizer{says(NoOpinion, "", broken), says(Allow, "c", nil)}, Allow, "c", false},
		"error":                {[]Authorizer{says(NoOpinion, "", broken)}, NoOpinion, "", true},
	} {
		d, reason, err := Chain(row.chain...).Authorize(context.Background(), &Attributes{})
		if d != row.want || reason != row.reason || (err != nil) != row.failed {
			t.Errorf("%s: got %v, %q, %v", name, d, reason, err)
		}
	}
}
