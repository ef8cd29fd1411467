package authz

import (
	"context"
	"errors"
	"testing"
)

// This file has the policy of a server without configuration, and tries at
// getting around it.

func TestStandard(t *testing.T) {
	master := &User{Name: "root", Groups: []string{"dev", MastersGroup}}
	users := map[string]*User{
		"ann":    {Name: "ann", Groups: []string{"system:authenticated"}},
		"nobody": {Name: "system:anonymous", Groups: []string{"system:unauthenticated"}},
		"named":  {Name: MastersGroup, Groups: []string{"system:authenticated"}}, // the name is not the group
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
			r := Standard().Authorize(context.Background(), &row.a)
			if (r.Decision == Allow) != row.public || r.Err != nil {
				t.Errorf("%s: %s %s: got %v, %v", name, row.a.Verb, row.a.Path, r.Decision, r.Err)
			}
		}
		row.a.User = master
		if r := Standard().Authorize(context.Background(), &row.a); r.Decision != Allow || r.Err != nil || r.By != MastersName {
			t.Errorf("master: %s %s: got %+v", row.a.Verb, row.a.Path, r)
		}
	}
	if r := Standard().Authorize(context.Background(), &Attributes{Verb: "get", Path: "/healthz"}); r.Decision != NoOpinion || r.Reason != "Error" || r.Err == nil {
		t.Errorf("no user at all: got %+v", r)
	}
}

func TestChainOfAuthorizers(t *testing.T) {
	says := func(name string, d Decision, reason string, err error) Named {
		return Named{Name: name, Type: "Webhook", Authorizer: Func(func(context.Context, *Attributes) Result {
			return Result{Decision: d, Reason: reason, Err: err}
		})}
	}
	broken := errors.New("broken")
	for name, row := range map[string]struct {
		chain  []Named
		want   Decision
		reason string
		by     string
		err    string
	}{
		"empty":                 {},
		"first opinion":         {[]Named{says("1", NoOpinion, "a", nil), says("2", Deny, "b", nil), says("3", Allow, "c", nil)}, Deny, "b", "2", ""},
		"reasons are gathered":  {[]Named{says("1", NoOpinion, "a", nil), says("2", NoOpinion, "", nil), says("3", NoOpinion, "b", nil)}, NoOpinion, "1: a\n3: b", "", ""},
		"error, then allowed":   {[]Named{says("1", NoOpinion, "", broken), says("2", Allow, "c", nil)}, Allow, "c", "2", ""},
		"error":                 {[]Named{says("1", NoOpinion, "", broken)}, NoOpinion, "", "", "broken"},
		"errors, each once":     {[]Named{says("1", NoOpinion, "", broken), says("2", NoOpinion, "", broken), says("3", NoOpinion, "", errors.New("x"))}, NoOpinion, "", "", "[broken, x]"},
		"deny with an error":    {[]Named{says("1", NoOpinion, "", errors.New("x")), says("2", Deny, "c", broken)}, Deny, "c", "2", "broken"},
		"allow with an error":   {[]Named{says("1", Allow, "", broken)}, Allow, "", "1", "broken"},
		"always allow":          {[]Named{{Name: "a", Authorizer: AlwaysAllow{}}}, Allow, "", "a", ""},
		"always deny goes on":   {[]Named{{Name: "d", Authorizer: AlwaysDeny{}}, {Name: "a", Authorizer: AlwaysAllow{}}}, Allow, "", "a", ""},
		"always deny says that": {[]Named{{Name: "d", Authorizer: AlwaysDeny{}}}, NoOpinion, "d: Everything is forbidden.", "", ""},
	} {
		r := NewChain(nil, row.chain...).Authorize(context.Background(), &Attributes{User: &User{Name: "ann"}})
		got := ""
		if r.Err != nil {
			got = r.Err.Error()
		}
		if r.Decision != row.want || r.Reason != row.reason || r.By != row.by || got != row.err {
			t.Errorf("%s: got %+v", name, r)
		}
	}
}
