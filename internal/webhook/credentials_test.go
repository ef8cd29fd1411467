package webhook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCredentials holds which user of a kubeconfig a webhook gets.
// Ledger: webhook-exec.
func TestCredentials(t *testing.T) {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Config\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	const users = `users:
- {name: "a.example.com:8443", user: {token: port}}
- {name: a.example.com, user: {token: host}}
- {name: "*.example.com", user: {token: below}}
- {name: "hook.team.svc", user: {token: service}}
- {name: "*.svc", user: {token: services}}
- {name: me, user: {token: current}}
`
	const current = "contexts: [{name: c, context: {user: me}}]\ncurrent-context: c\n"
	for _, row := range []struct {
		text string
		to   Target
		want string
	}{
		{users, Target{URL: "https://a.example.com:8443/x"}, "port"},
		{users, Target{URL: "https://a.example.com/x"}, "host"},
		{users, Target{URL: "https://a.example.com:443/x"}, "host"},
		{users, Target{URL: "https://b.example.com/x"}, "below"},
		{users, Target{URL: "https://b.example.com:9/x"}, ""},
		{users, Target{URL: "https://b.c.example.com/x"}, "below"},
		{users, Target{URL: "https://other.org"}, ""},
		{users, Target{URL: ":"}, ""},
		{users, Target{Namespace: "team", Service: "hook"}, "service"},
		{users, Target{Namespace: "team", Service: "hook", Port: 8443}, ""},
		{users, Target{Namespace: "team", Service: "other"}, "services"},
		{users + current, Target{URL: "https://other.org"}, "current"},
		{users + current + "", Target{URL: "https://a.example.com"}, "host"},
		{users + "- {name: \"*\", user: {token: all}}\n" + current, Target{URL: "https://other.org"}, "all"},
	} {
		c, err := LoadCredentials(write(row.text))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.forTarget(row.to).BearerToken; got != row.want {
			t.Errorf("%s: got %q, want %q", row.to, got, row.want)
		}
	}
	if got := (*Credentials)(nil).forTarget(Target{URL: "https://a.example.com"}).BearerToken; got != "" {
		t.Errorf("got %q", got)
	}
	for text, want := range map[string]string{
		"users: [{name: x, user: {exec: {command: ls, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}}}]": `user "x": exec is not supported`,
		"users: [{name: x, user: {auth-provider: {name: gcp}}}]":                                                               `user "x": auth-provider is not supported`,
		"users: [{name: x, user: {tokenFile: missing}}]":                                                                       "no such file",
		"users: 3": "cannot unmarshal",
	} {
		if _, err := LoadCredentials(write(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
