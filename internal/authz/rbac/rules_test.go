package rbac

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
)

// A table finds what a comparison with each rule finds, also for rules whose pairs of groups and resources are not all in it.
func TestTableFindsWhatRulesAllow(t *testing.T) {
	words := []string{"", "*", "a", "b", "c", "d", "e/x", "*/x", "/p", "/p/*", "/*"}
	rng := rand.New(rand.NewPCG(1, 2))
	some := func(most int) (list []string) {
		for range rng.IntN(most + 1) {
			list = append(list, words[rng.IntN(len(words))])
		}
		return list
	}
	found := 0
	for range 300 {
		var rules []rbacv1.PolicyRule
		for range 1 + rng.IntN(20) {
			rules = append(rules, rbacv1.PolicyRule{Verbs: some(2), APIGroups: some(7), Resources: some(7), ResourceNames: some(1), NonResourceURLs: some(3)})
		}
		table := ruleTable{rules: make([][]rbacv1.PolicyRule, 1)}
		table.add(0, rules)
		table.sort()
		for range 100 {
			word := func() string { return words[rng.IntN(len(words))] }
			q := newQuestion(&authz.Attributes{Verb: word(), Group: word(), Resource: word(), Subresource: []string{"", "x"}[rng.IntN(2)], Name: word(),
				Path: word(), ResourceRequest: rng.IntN(4) > 0, User: &authn.User{}}, nil)
			want := false
			for i := range rules {
				want = want || allows(&rules[i], &q)
			}
			p := table.lookup(&q)
			if want != (p != nil) || want && !allows(&rules[p.rule], &q) {
				t.Fatalf("%+v of %+v: got %v, want %v", q, rules, p, want)
			}
			if want {
				found++
			}
		}
	}
	if found < 1000 {
		t.Errorf("%d requests were allowed, want some thousand", found)
	}
}

// What a short rule combines does not multiply the memory of its table.
func TestTableOfManyCombinations(t *testing.T) {
	r := rbacv1.PolicyRule{Verbs: []string{"get"}}
	for i := range 1000 {
		r.APIGroups, r.Resources = append(r.APIGroups, fmt.Sprint("g", i)), append(r.Resources, fmt.Sprint("r", i))
	}
	ix := NewIndex()
	ix.Apply(clusterRole("wide", r), bindCluster("wide", "wide", user("bob")))
	for q, want := range map[string]authz.Decision{"get g999/r999": authz.Allow, "get g999/r1000": authz.NoOpinion, "get g1000/r999": authz.NoOpinion} {
		if got := ix.Authorize(context.Background(), ask(&authn.User{Name: "bob"}, q)); got.Decision != want {
			t.Errorf("%s: got %v, want %v", q, got.Decision, want)
		}
	}
	if n := len(ix.roles[key{"", "wide"}].table.places); n != 1000 {
		t.Errorf("the table has %d places, want one for each of 1,000 resources", n)
	}
}

// The tables of subjects that were asked about take 8 MiB at most, and answers stay the same without them.
func TestTablesOfManySubjects(t *testing.T) {
	var rules []rbacv1.PolicyRule
	for i := range 600 {
		rules = append(rules, rule("get", "g", fmt.Sprint("r", i), ""))
	}
	var subjects []rbacv1.Subject
	for i := range 3000 {
		subjects = append(subjects, user(fmt.Sprint("u", i)))
	}
	ix := NewIndex()
	ix.Apply(clusterRole("many", rules...), bindCluster("b", "many", subjects...))
	for range 2 {
		for i := range subjects {
			if got := ix.Authorize(context.Background(), ask(&authn.User{Name: subjects[i].Name}, "get g/r599")); got.Decision != authz.Allow {
				t.Fatalf("%s: got %v", subjects[i].Name, got.Decision)
			}
		}
	}
	kept := 0
	for _, part := range ix.state.Load().subjects.parts {
		for _, e := range part {
			if made := e.table.Load(); made != nil {
				kept += made.size()
			}
		}
	}
	if ts := ix.state.Load().tables; kept > tableBytes || kept < tableBytes/2 || kept != ts.bytes {
		t.Errorf("tables take %d bytes, %d are counted, want at most %d", kept, ts.bytes, tableBytes)
	}
}
