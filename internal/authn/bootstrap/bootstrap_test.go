package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/authn"
)

func TestTokens(t *testing.T) {
	good := map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
		"expiration": time.Now().Add(time.Hour).Format(time.RFC3339), "auth-extra-groups": "system:bootstrappers:b,system:bootstrappers:a:1"}
	const token, user = "abcdef.0123456789abcdef", "system:bootstrap:abcdef [system:bootstrappers system:bootstrappers:a:1 system:bootstrappers:b system:authenticated]"
	for name, row := range map[string]struct {
		token  string
		change map[string]string
		want   string
	}{
		"good":            {token, nil, user},
		"for ever":        {token, map[string]string{"expiration": ""}, user},
		"no more groups":  {token, map[string]string{"auth-extra-groups": ""}, "system:bootstrap:abcdef [system:bootstrappers system:authenticated]"},
		"wrong secret":    {"abcdef.0123456789abcdee", nil, ""},
		"another token":   {"abcdeg.0123456789abcdef", nil, ""},
		"upper case":      {"ABCDEF.0123456789abcdef", nil, ""},
		"too short":       {"abcdef.0123456789abcde", nil, ""},
		"too long":        {"abcdef.0123456789abcdef0", nil, ""},
		"line break":      {token + "\n", nil, ""},
		"a path":          {"../../.0123456789abcdef", nil, ""},
		"another id":      {token, map[string]string{"token-id": "abcdeg"}, ""},
		"no id":           {token, map[string]string{"token-id": ""}, ""},
		"no secret":       {token, map[string]string{"token-secret": ""}, ""},
		"another use":     {token, map[string]string{"usage-bootstrap-authentication": "false"}, ""},
		"use not said":    {token, map[string]string{"usage-bootstrap-authentication": ""}, ""},
		"use, other case": {token, map[string]string{"usage-bootstrap-authentication": "True"}, ""},
		"expired":         {token, map[string]string{"expiration": time.Now().Add(-time.Minute).Format(time.RFC3339)}, ""},
		"odd expiration":  {token, map[string]string{"expiration": "tomorrow"}, ""},
		"masters":         {token, map[string]string{"auth-extra-groups": "system:masters"}, ""},
		"hidden masters":  {token, map[string]string{"auth-extra-groups": "system:bootstrappers:a,system:masters"}, ""},
		"empty group":     {token, map[string]string{"auth-extra-groups": "system:bootstrappers:a,"}, ""},
		"group, no name":  {token, map[string]string{"auth-extra-groups": "system:bootstrappers:"}, ""},
		"another type":    {token, map[string]string{"": "Opaque"}, ""},
	} {
		data := maps.Clone(good)
		maps.Copy(data, row.change)
		kind := SecretType
		if row.change[""] != "" {
			kind = row.change[""]
		}
		a := New(func(_ context.Context, namespace, name string) (string, map[string]string, bool, error) {
			return kind, data, namespace == "kube-system" && name == "bootstrap-token-abcdef", nil
		})
		got := ""
		r, err := a.AuthenticateToken(t.Context(), row.token, nil)
		if err != nil && (row.want != "" || err.Error() != "invalid bearer token") {
			t.Errorf("%s: %v", name, err)
		}
		if r != nil {
			got = fmt.Sprint(r.User.Name, " ", r.User.Groups)
		}
		if got != row.want {
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
	}
	for _, row := range []struct{ token, want string }{
		{"abcdef.0123456789abcdee", "bootstrap token: invalid bearer token (another token-secret)"},
		{"abcdeg.0123456789abcdef", "bootstrap token: invalid bearer token (there is no Secret for it in kube-system)"},
	} {
		_, err := New(func(_ context.Context, _, name string) (string, map[string]string, bool, error) {
			return SecretType, good, name == "bootstrap-token-abcdef", nil
		}).AuthenticateToken(t.Context(), row.token, nil)
		if got := authn.Reasons(err); len(got) != 1 || got[0].Text != row.want {
			t.Errorf("%s: got %v, want %s", row.token, got, row.want)
		}
	}
	broken := New(func(context.Context, string, string) (string, map[string]string, bool, error) {
		return "", nil, false, errors.New("broken")
	})
	if r, err := broken.AuthenticateToken(t.Context(), token, nil); r != nil || err == nil {
		t.Errorf("secrets that cannot be read: got %v, %v", r, err)
	}
}
