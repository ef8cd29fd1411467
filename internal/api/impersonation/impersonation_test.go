package impersonation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
)

// This file tries to become somebody else.

// policy allows what it lists: verb, resource[/subresource], namespace/name.
type policy struct {
	rules []string
	asked []string
	slow  time.Duration // until it answers
}

func (p *policy) Authorize(_ context.Context, a *authz.Attributes) authz.Result {
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	text := strings.TrimSpace(fmt.Sprintf("%s %s %s%s", a.Verb, resource, strings.TrimLeft(a.Namespace+"/", "/"), a.Name))
	p.asked = append(p.asked, text)
	allows := slices.Contains(p.rules, text) // as of the question
	time.Sleep(p.slow)
	if allows {
		return authz.Result{Decision: authz.Allow}
	}
	return authz.Result{Reason: "no"}
}

func forbidden(a *authz.Attributes, reason string) error {
	return fmt.Errorf("%s %s %s: %s", a.Verb, a.Resource, a.Name, reason)
}

func newTest(p *policy) (*Impersonator, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	return New(Config{Authz: p, Forbidden: forbidden, Metrics: reg}), reg
}

func TestWanted(t *testing.T) {
	for name, row := range map[string]struct {
		h    http.Header
		want string
		err  string
	}{
		"nothing":        {http.Header{"X": {"y"}}, "", ""},
		"user":           {http.Header{"Impersonate-User": {"ann"}}, "&{ann  [] map[]}", ""},
		"all":            {http.Header{"Impersonate-User": {"ann"}, "Impersonate-Uid": {"7"}, "Impersonate-Group": {"a", "b"}, "Impersonate-Extra-Acme.com%2fX": {"1", "2"}}, "&{ann 7 [a b] map[acme.com/x:[1 2]]}", ""},
		"empty user":     {http.Header{"Impersonate-User": {""}}, "", ""},
		"unknown header": {http.Header{"Impersonate-Users": {"ann"}}, "", ""},
		"uid only": {http.Header{"Impersonate-Uid": {"1234"}}, "",
			`requested &user.DefaultInfo{Name:"", UID:"1234", Groups:[]string(nil), Extra:map[string][]string(nil)} without impersonating a user name`},
		"group only": {http.Header{"Impersonate-Group": {authn.Masters}}, "",
			`requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"system:masters"}, Extra:map[string][]string(nil)} without impersonating a user name`},
		"extra only": {http.Header{"Impersonate-Extra-A": {"1"}}, "",
			`requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"a":[]string{"1"}}} without impersonating a user name`},
	} {
		u, err := Wanted(row.h)
		got := ""
		if u != nil {
			got = fmt.Sprintf("%v", u)
		}
		if got != row.want || (err == nil) != (row.err == "") || err != nil && err.Error() != row.err {
			t.Errorf("%s: got %q, %v, want %q, %q", name, got, err, row.want, row.err)
		}
	}
}

// Ledger: impersonated-extra.
func TestModes(t *testing.T) {
	bob := &authn.User{Name: "bob"}
	agent := &authn.User{Name: "system:serviceaccount:ns:agent", Extra: map[string][]string{authn.NodeName: {"n1"}}}
	for name, row := range map[string]struct {
		requester, wanted *authn.User
		rules             []string
		want              string // groups and constraint, or the refusal
	}{
		"legacy user": {bob, &authn.User{Name: "ann"}, []string{"impersonate users ann"}, "ann [system:authenticated] "},
		"legacy masters": {bob, &authn.User{Name: "ann", Groups: []string{authn.Masters}}, []string{"impersonate users ann", "impersonate groups system:masters"},
			"ann [system:masters system:authenticated] "},
		"legacy, group not allowed": {bob, &authn.User{Name: "ann", Groups: []string{"a"}}, []string{"impersonate users ann"},
			"impersonate-on:user-info:list pods : no"},
		"nothing allowed": {bob, &authn.User{Name: "ann"}, nil, "impersonate-on:user-info:list pods : no"},
		"user-info": {bob, &authn.User{Name: "ann"}, []string{"impersonate-on:user-info:list pods", "impersonate:user-info users ann"},
			"ann [system:authenticated] impersonate:user-info"},
		"user-info is not enough for a verb": {bob, &authn.User{Name: "ann"}, []string{"impersonate-on:user-info:get pods", "impersonate:user-info users ann"},
			"impersonate-on:user-info:list pods : no"},
		"user-info, masters": {bob, &authn.User{Name: "ann", Groups: []string{authn.Masters}},
			[]string{"impersonate-on:user-info:list pods", "impersonate:user-info users ann", "impersonate:user-info groups system:masters"},
			"impersonate:user-info groups system:masters: impersonating the system:masters group is not allowed"},
		"user-info, many groups": {bob, &authn.User{Name: "ann", Groups: []string{"a", "b", "c", "d"}},
			[]string{"impersonate-on:user-info:list pods", "impersonate:user-info users ann", "impersonate:user-info groups *"},
			"ann [a b c d system:authenticated] impersonate:user-info"},
		"user-info, odd extra": {bob, &authn.User{Name: "ann", Extra: map[string][]string{"a": {"1"}}},
			[]string{"impersonate-on:user-info:list pods", "impersonate:user-info users ann", "impersonate:user-info userextras/a 1"},
			`impersonate:user-info userextras : impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "a": must be a domain-prefixed path (such as "acme.io/foo")`},
		"anonymous": {bob, &authn.User{Name: authn.AnonymousUser}, []string{"impersonate users system:anonymous"}, "system:anonymous [system:unauthenticated] "},
		"service account": {bob, &authn.User{Name: "system:serviceaccount:ns:x"}, []string{"impersonate-on:serviceaccount:list pods", "impersonate:serviceaccount serviceaccounts ns/x"},
			"system:serviceaccount:ns:x [system:serviceaccounts system:serviceaccounts:ns system:authenticated] impersonate:serviceaccount"},
		"no service account": {bob, &authn.User{Name: "system:serviceaccount:ns:x:y"}, []string{"impersonate serviceaccounts ns/x", "impersonate users system:serviceaccount:ns:x:y"},
			"system:serviceaccount:ns:x:y [system:authenticated] "},
		"node": {bob, &authn.User{Name: "system:node:n1"}, []string{"impersonate-on:arbitrary-node:list pods", "impersonate:arbitrary-node nodes n1"},
			"system:node:n1 [system:nodes system:authenticated] impersonate:arbitrary-node"},
		"own node": {agent, &authn.User{Name: "system:node:n1"}, []string{"impersonate-on:associated-node:list pods", "impersonate:associated-node nodes *"},
			"system:node:n1 [system:nodes system:authenticated] impersonate:associated-node"},
		"another's node": {agent, &authn.User{Name: "system:node:n2"}, []string{"impersonate-on:associated-node:list pods", "impersonate:associated-node nodes *"},
			"impersonate-on:arbitrary-node:list pods : no"},
	} {
		i, _ := newTest(&policy{rules: row.rules})
		got, err := i.Impersonate(t.Context(), row.wanted, &authz.Attributes{User: row.requester, Verb: "list", ResourceRequest: true, Resource: "pods"})
		text := ""
		if err != nil {
			text = err.Error()
		} else {
			text = fmt.Sprintf("%s %v %s", got.User.Name, got.User.Groups, got.Constraint)
		}
		if text != row.want {
			t.Errorf("%s: got %q, want %q", name, text, row.want)
		}
	}
}

func TestOnlyPermissionsAreRememberedAndNotForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &policy{}
		i, reg := newTest(p)
		try := func(user string) error {
			p.asked = nil
			_, err := i.Impersonate(t.Context(), &authn.User{Name: user}, &authz.Attributes{User: &authn.User{Name: "bob"}, Verb: "list", ResourceRequest: true, Resource: "pods"})
			return err
		}
		if try("ann") == nil {
			t.Error("without a rule: got in")
		}
		p.rules = []string{"impersonate-on:user-info:list pods", "impersonate:user-info users ann", "impersonate:user-info users \xff"}
		if err := try("ann"); err != nil || len(p.asked) != 2 {
			t.Errorf("with rules: got %v, asked %v", err, p.asked)
		}
		p.rules = p.rules[2:]
		if err := try("ann"); err != nil || len(p.asked) != 0 {
			t.Errorf("again: got %v, asked %v", err, p.asked)
		}
		if try("eve") == nil {
			t.Error("another user: got in by what was remembered")
		}
		time.Sleep(lifetime + time.Second)
		if try("ann") == nil {
			t.Error("after the lifetime: got in without a rule")
		}
		// Names that are no text are as different as their bytes.
		p.rules = append(p.rules, "impersonate-on:user-info:list pods")
		if err := try("\xff"); err != nil {
			t.Error(err)
		}
		if try("\xfe") == nil {
			t.Error("another user that is no text: got in by what was remembered")
		}
		for mode, want := range map[[2]string]float64{{"user-info", "allowed"}: 3, {"", "denied"}: 4} {
			if got := testutil.ToFloat64(i.metrics.attempts.WithLabelValues(mode[0], mode[1])); got != want {
				t.Errorf("attempts of %v: got %v, want %v", mode, got, want)
			}
		}
		if n, err := testutil.GatherAndCount(reg, "apiserver_impersonation_authorization_attempts_total"); n == 0 || err != nil {
			t.Errorf("authorization attempts: got %d, %v", n, err)
		}
	})
}

// TestTakenBackPermissionsEnd takes back one of the two permissions that an impersonation needs, and tries requests that are remembered and
// new ones, shortly before and after the end of what was asked for: at no time does a permission live longer than promised.
// Ledger: impersonation-lifetime.
func TestTakenBackPermissionsEnd(t *testing.T) {
	const on, as = "impersonate-on:user-info:list pods", "impersonate:user-info users ann"
	for _, taken := range []string{on, as} {
		for _, slow := range []time.Duration{0, 3 * time.Second} { // the time of an answer of the authorizer
			for _, first := range []time.Duration{0, 5 * time.Second, 9 * time.Second} { // when the last new request comes
				t.Run(fmt.Sprintf("%s %v %v", taken, slow, first), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						p := &policy{rules: []string{on, "impersonate-on:user-info:list nodes", as}}
						i, _ := newTest(p)
						try := func(resource string) error {
							_, err := i.Impersonate(t.Context(), &authn.User{Name: "ann"}, &authz.Attributes{User: &authn.User{Name: "bob"}, Verb: "list", ResourceRequest: true, Resource: resource})
							return err
						}
						p.slow = slow
						if err := try("pods"); err != nil {
							t.Fatal(err)
						}
						p.slow = 0
						p.rules = slices.DeleteFunc(p.rules, func(rule string) bool { return rule == taken })
						back := time.Now()
						time.Sleep(first)
						_ = try("nodes") // it is remembered, too, if the permission still is
						time.Sleep(lifetime - time.Since(back) - slow)
						if err := try("pods"); slow == 0 && err != nil {
							t.Errorf("within the lifetime: got %v", err) // else one of the answers may be older
						}
						time.Sleep(lifetime - time.Since(back) + time.Millisecond)
						for _, resource := range []string{"pods", "nodes"} {
							if err := try(resource); err == nil && (resource == "pods" || taken == as) {
								t.Errorf("%s: got in %v after the permission was taken back", resource, time.Since(back))
							}
						}
					})
				})
			}
		}
	}
}

// An authorizer that fails refuses, with its error before the reason.
func TestErrors(t *testing.T) {
	i := New(Config{Forbidden: forbidden, Metrics: prometheus.NewRegistry(), Authz: authz.Func(func(context.Context, *authz.Attributes) authz.Result {
		return authz.Result{Reason: "why", Err: errors.New("broken")}
	})})
	_, err := i.Impersonate(t.Context(), &authn.User{Name: "ann"}, &authz.Attributes{User: &authn.User{Name: "bob"}, Verb: "get", Path: "/x"})
	if err == nil || err.Error() != "impersonate-on:user-info:get  : broken: why" {
		t.Errorf("got %v", err)
	}
}
