package serviceaccount

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Tokens that Secrets keep get in for as long as everything that they say is so.
func TestKeptTokens(t *testing.T) {
	keys, signer := newKeys(t)
	foreign, _, err := Generate()
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := NewIssuer(api, keys, api+KeysPath)
	if err != nil {
		t.Fatal(err)
	}
	good, err := issuer.SignKept("ns", Reference{"sa", "u1"}, "s")
	if err != nil {
		t.Fatal(err)
	}
	today := time.Now().UTC().Format(time.DateOnly)
	claims := func(change func(*jwt.Claims, *kept)) string {
		public, private := jwt.Claims{Issuer: LegacyIssuer, Subject: "system:serviceaccount:ns:sa"}, kept{"sa", "u1", "s", "ns"}
		change(&public, &private)
		return sign(t, jose.SigningKey{Algorithm: jose.ES256, Key: signer}, nil, public, private)
	}
	const account = "serviceaccounts/ns/sa"
	for name, row := range map[string]struct {
		token   string
		change  func(objects)
		asked   []string
		want    string // the error; "": gets in
		uses    int    // that are noted
		warning bool
	}{
		"good":                    {token: good, uses: 1},
		"for the API":             {token: good, asked: []string{api}, uses: 1},
		"for others":              {token: good, asked: []string{"x"}, want: `token audiences ["https://api.example"] is invalid for the target audiences ["x"]`},
		"used today":              {token: good, change: func(o objects) { o["secrets/ns/s"].LastUsed = today }},
		"used long ago":           {token: good, change: func(o objects) { o["secrets/ns/s"].LastUsed = "2020-01-01" }, uses: 1},
		"made for the account":    {token: good, change: func(o objects) { o[account].Secrets = []string{"x", "s"} }, uses: 1, warning: true},
		"marked invalid":          {token: good, change: func(o objects) { o["secrets/ns/s"].InvalidSince = today }, want: "the token in secret ns/s for service account ns/sa has been marked invalid", uses: 1},
		"secret gone":             {token: good, change: func(o objects) { delete(o, "secrets/ns/s") }, want: "Token has been invalidated"},
		"secret on its way":       {token: good, change: func(o objects) { o["secrets/ns/s"].Deleted = time.Now().Add(time.Hour) }, want: "Token has been invalidated"},
		"another token":           {token: good, change: func(o objects) { o["secrets/ns/s"].Token = good + "x" }, want: "Token does not match server's copy"},
		"no token any more":       {token: good, change: func(o objects) { o["secrets/ns/s"].Token = "" }, want: "Token does not match server's copy"},
		"account gone":            {token: good, change: func(o objects) { delete(o, account) }, want: `serviceaccounts "sa" not found`},
		"account on its way":      {token: good, change: func(o objects) { o[account].Deleted = time.Now() }, want: "ServiceAccount ns/sa has been deleted"},
		"account, made anew":      {token: good, change: func(o objects) { o[account].UID = "u2" }, want: "ServiceAccount UID (u2) does not match claim (u1)"},
		"no subject":              {token: claims(func(p *jwt.Claims, _ *kept) { p.Subject = "" }), want: "sub claim is missing"},
		"no namespace":            {token: claims(func(_ *jwt.Claims, k *kept) { k.Namespace = "" }), want: "namespace claim is missing"},
		"no secret":               {token: claims(func(_ *jwt.Claims, k *kept) { k.Secret = "" }), want: "secretName claim is missing"},
		"no account":              {token: claims(func(_ *jwt.Claims, k *kept) { k.Account = "" }), want: "serviceAccountName claim is missing"},
		"no UID":                  {token: claims(func(_ *jwt.Claims, k *kept) { k.UID = "" }), want: "serviceAccountUID claim is missing"},
		"another subject":         {token: claims(func(p *jwt.Claims, _ *kept) { p.Subject = "system:serviceaccount:ns:root" }), want: "sub claim is invalid"},
		"a user":                  {token: claims(func(p *jwt.Claims, _ *kept) { p.Subject = "root" }), want: "sub claim is invalid"},
		"signed, and not kept":    {token: claims(func(*jwt.Claims, *kept) {}), want: "Token does not match server's copy"},
		"another key":             {token: sign(t, jose.SigningKey{Algorithm: jose.ES256, Key: foreign}, nil, jwt.Claims{Issuer: LegacyIssuer, Subject: "system:serviceaccount:ns:sa"}, kept{"sa", "u1", "s", "ns"}), want: "error in cryptographic primitive"},
		"the issuer of the other": {token: sign(t, jose.SigningKey{Algorithm: jose.ES256, Key: signer}, nil, jwt.Claims{Issuer: api, Subject: "system:serviceaccount:ns:sa"}, kept{"sa", "u1", "s", "ns"}), want: `serviceaccounts "" not found`},
	} {
		have := objects{account: {UID: "u1"}, "secrets/ns/s": {UID: "u2", Token: good}}
		if row.change != nil {
			row.change(have)
		}
		uses := 0
		reg := prometheus.NewRegistry()
		a := NewToken(Config{Issuers: []string{api}, Keys: keys, Audiences: []string{api}, Objects: have.get, Metrics: reg,
			Used: func(_ context.Context, namespace, secret, uid, day string) {
				if namespace != "ns" || secret != "s" || uid != "u2" || day != today {
					t.Errorf("%s: noted %s/%s %s %s", name, namespace, secret, uid, day)
				}
				uses++
			}})
		r, err := a.AuthenticateToken(t.Context(), row.token, row.asked)
		switch {
		case row.want != "":
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s: got %v, %v, want %q", name, r, err, row.want)
			}
		case err != nil || r == nil || r.User.Name != "system:serviceaccount:ns:sa" || r.User.UID != "u1" || len(r.User.Extra) != 0 || len(r.Annotations) != 2 || (len(r.Warnings) > 0) != row.warning:
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
		if uses != row.uses {
			t.Errorf("%s: %d uses noted, want %d", name, uses, row.uses)
		}
		if err := testutil.GatherAndCompare(reg, strings.NewReader("# HELP serviceaccount_stale_tokens_total [BETA] Cumulative stale projected service account tokens used\n# TYPE serviceaccount_stale_tokens_total counter\nserviceaccount_stale_tokens_total 0\n"), "serviceaccount_stale_tokens_total"); err != nil {
			t.Error(err)
		}
	}
}
