// Package authn compares authentication with upstream's: the validation of
// AuthenticationConfigurations, and who may impersonate whom.
package authn

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"testing"

	api "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"

	"github.com/keelson-io/keelson/internal/authn/jwt"
)

// This file generates configurations, wrong in many ways, and compares what is
// said of them.

var (
	seed   = flag.Uint64("authn.seed", 1, "of the generated configurations")
	rounds = flag.Int("authn.rounds", 300, "how many are generated")
)

// pick is one of the values, the first one more often than the others: each is
// the right one.
func pick[T any](r *rand.Rand, values ...T) T {
	if r.IntN(3) > 0 {
		return values[0]
	}
	return values[r.IntN(len(values))]
}

var claimExpressions = []string{"claims.sub", "", "claims.email", "claims.email_verified ? claims.email : ''", "claims.?email.orValue('')", "'x'", "1", "true",
	"claims.", "user.username", "claims.groups.split(',')", "claims.roles.exists(r, r == 'a')", "[claims.email].filter(e, claims.email_verified)",
	"has(claims.email_verified)", "claims.a.email", "dyn(claims).email", "claims['email']", "claims.sub + 1", "{'a': claims.email}", "claims.exp > 5"}

var userExpressions = []string{"!user.username.startsWith('system:')", "", "user.groups.all(g, g != 'x')", "user.missing", "claims.sub", "user.uid", "true", "'x'",
	"user.extra['a'].size() == 1", "has(user.uid)"}

func mapping(r *rand.Rand) map[string]any {
	m := map[string]any{}
	if r.IntN(3) > 0 {
		m["claim"] = pick(r, "sub", "", "email")
	}
	if r.IntN(3) > 0 {
		m["prefix"] = pick(r, "p:", "")
	}
	if r.IntN(3) == 0 {
		m["expression"] = claimExpressions[r.IntN(len(claimExpressions))]
	}
	return m
}

func issuer(r *rand.Rand) map[string]any {
	identity := map[string]any{
		"url":                 pick(r, "https://x", "", "http://x", "https://u:p@x", "https://x?q", "https://x#f", "https://sa", "https://x/y", "://", "https://a b"),
		"audiences":           pick(r, []string{"a"}, nil, []string{"a", "b"}, []string{"a", "a"}, []string{""}),
		"audienceMatchPolicy": pick(r, "", "MatchAny", "x"), "egressSelectorType": pick(r, "", "cluster", "controlplane", "x"),
		"certificateAuthority": pick(r, "", "x"),
	}
	if r.IntN(4) == 0 {
		identity["discoveryURL"] = pick(r, "https://y", "https://x/", "http://y", "", "https://x")
	}
	rules, users, extra := []any{}, []any{}, []any{}
	for range r.IntN(3) {
		rules = append(rules, map[string]any{"claim": pick(r, "", "hd"), "requiredValue": pick(r, "", "v"), "expression": claimExpressions[r.IntN(len(claimExpressions))],
			"message": pick(r, "", "m")})
	}
	for range r.IntN(3) {
		users = append(users, map[string]any{"expression": userExpressions[r.IntN(len(userExpressions))], "message": pick(r, "", "m")})
	}
	for range r.IntN(3) {
		extra = append(extra, map[string]any{"key": pick(r, "acme.com/a", "", "a", "acme.com/B", "k8s.io/x", "a.kubernetes.io/x", "x/"),
			"valueExpression": claimExpressions[r.IntN(len(claimExpressions))]})
	}
	uid := mapping(r)
	delete(uid, "prefix")
	return map[string]any{"issuer": identity, "claimValidationRules": rules, "userValidationRules": users,
		"claimMappings": map[string]any{"username": mapping(r), "groups": mapping(r), "uid": uid, "extra": extra}}
}

func TestConfigurations(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 1))
	compiler := authenticationcel.NewDefaultCompiler()
	disallowed := []string{"https://sa", "https://other"}
	valid := 0
	for n := range *rounds {
		issuers := []any{}
		for range 1 + r.IntN(2) {
			issuers = append(issuers, issuer(r))
		}
		config := map[string]any{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": issuers}
		if r.IntN(4) == 0 {
			config["anonymous"] = map[string]any{"enabled": r.IntN(2) == 0, "conditions": []any{map[string]any{"path": "/livez"}}}
		}
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := jwt.Decode(text)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		// The internal type has the same fields, of which json knows no other names than Go's.
		var theirs api.AuthenticationConfiguration
		if err := json.Unmarshal(text, &theirs); err != nil {
			t.Fatal(err)
		}
		want := validation.ValidateAuthenticationConfiguration(compiler, &theirs, disallowed)
		got := ours.Validate(disallowed)
		if len(want) == 0 {
			valid++
		}
		if len(got) != len(want) {
			t.Errorf("configuration %d: got %d errors, want %d\ngot  %v\nwant %v\n%s", n, len(got), len(want), got, want, text)
			continue
		}
		for i := range want {
			if got[i].Error() != want[i].Error() {
				t.Errorf("configuration %d, error %d:\ngot  %v\nwant %v\n%s", n, i, got[i], want[i], text)
			}
		}
		if t.Failed() && n > 50 {
			t.FailNow()
		}
	}
	t.Logf("%d configurations, %d of them valid", *rounds, valid)
}
