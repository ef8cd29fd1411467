package abac

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
)

// This file tries policies.

func load(t *testing.T, text string) (List, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policies")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	l, err := Load(path, slog.New(slog.NewTextHandler(&log, nil)))
	return l, log.String(), err
}

func policy(spec string) string {
	return `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{` + spec + `}}`
}

func TestPolicies(t *testing.T) {
	ann := &authn.User{Name: "ann", Groups: []string{"dev", authn.Authenticated}}
	nobody := &authn.User{Name: authn.AnonymousUser, Groups: []string{authn.Unauthenticated}}
	res := func(u *authn.User, verb, group, resource, ns string) authz.Attributes {
		return authz.Attributes{User: u, Verb: verb, ResourceRequest: true, Group: group, Resource: resource, Namespace: ns, Subresource: "status"}
	}
	path := func(u *authn.User, verb, p string) authz.Attributes {
		return authz.Attributes{User: u, Verb: verb, Path: p}
	}
	all := `"apiGroup":"*","resource":"*","namespace":"*","nonResourcePath":"*"`
	for _, row := range []struct {
		line string
		a    authz.Attributes
		want bool
	}{
		{policy(`"user":"ann",` + all), res(ann, "delete", "g", "r", "n"), true},
		{policy(`"user":"ann",` + all), path(ann, "post", "/x"), true},
		{policy(`"user":"bob",` + all), path(ann, "post", "/x"), false},
		{policy(`"group":"dev",` + all), path(ann, "post", "/x"), true},
		{policy(`"user":"ann","group":"dev",` + all), path(ann, "get", "/x"), true},
		{policy(`"user":"ann","group":"ops",` + all), path(ann, "get", "/x"), false},
		{policy(`"user":"*",` + all), path(ann, "get", "/x"), true},
		{policy(`"user":"*",` + all), path(nobody, "get", "/x"), false},
		{policy(`"user":"bob","group":"*",` + all), path(ann, "get", "/x"), true},
		{policy(all), path(ann, "get", "/x"), false},
		{policy(`"user":"ann","readonly":true,` + all), res(ann, "list", "g", "r", "n"), true},
		{policy(`"user":"ann","readonly":true,` + all), res(ann, "create", "g", "r", "n"), false},
		{policy(`"user":"ann","readonly":true,` + all), path(ann, "post", "/x"), false},
		{policy(`"user":"ann","resource":"r","namespace":"n"`), res(ann, "get", "", "r", "n"), true},
		{policy(`"user":"ann","resource":"r","namespace":"n"`), res(ann, "get", "g", "r", "n"), false},
		{policy(`"user":"ann","resource":"r","apiGroup":"*"`), res(ann, "get", "g", "r", "n"), false},
		{policy(`"user":"ann","resource":"r","apiGroup":"*"`), res(ann, "get", "g", "r", ""), true},
		{policy(`"user":"ann","nonResourcePath":"/a/*"`), path(ann, "get", "/a/b"), true},
		{policy(`"user":"ann","nonResourcePath":"/a/*"`), path(ann, "get", "/a"), false},
		{policy(`"user":"ann","nonResourcePath":"/a"`), path(ann, "get", "/a"), true},
		{policy(`"user":"ann","nonResourcePath":"*"`), res(ann, "get", "", "", ""), true},
		{policy(`"User":"ann",` + all), path(ann, "get", "/x"), false},
		{`{"apiVersion":"abac.authorization.kubernetes.io/v0","kind":"Policy","user":"ann"}`, path(ann, "get", "/x"), true},
		{`{"kind":"Policy","user":"bob"}`, path(ann, "get", "/x"), false},
		{`{"user":"ann"}`, res(ann, "get", "g", "r", "n"), true},
		{`{"user":"ann"}`, path(ann, "get", "/x"), true},
		{`{"user":"ann","namespace":"n"}`, path(ann, "get", "/x"), false},
		{`{"user":"ann","namespace":"n"}`, res(ann, "get", "g", "r", "m"), false},
		{`{"readonly":true}`, res(ann, "get", "g", "r", "m"), true},
		{`{}`, res(nobody, "get", "g", "r", "m"), false},
	} {
		l, log, err := load(t, "# comment\n\n"+row.line+"\n")
		if err != nil {
			t.Fatal(err)
		}
		if old := !strings.Contains(row.line, "apiVersion"); old != strings.Contains(log, "unversioned rules") {
			t.Errorf("%s: log %q", row.line, log)
		}
		r := l.Authorize(context.Background(), &row.a)
		if (r.Decision == authz.Allow) != row.want || r.Decision == authz.Deny || r.Err != nil || !row.want && r.Reason != "No policy matched." || row.want && r.Reason != "" {
			t.Errorf("%s: %+v: got %+v", row.line, row.a, r)
		}
	}
}

func TestWrongFiles(t *testing.T) {
	for text, want := range map[string]string{
		"{}\nfoo":                              ", line 2: foo: couldn't get version/kind; json parse error: ",
		`{"user":1}`:                           `, line 1: {"user":1}: `,
		"{" + strings.Repeat(" ", 1<<16) + "}": ": bufio.Scanner: token too long",
		// What is no policy is not taken for one without a version, which would allow everything.
		`{"apiVersion":"v1","kind":"Policy","user":"a"}`:                                     `no kind "Policy" is registered for version "v1"`,
		`{"apiVersion":"other/v1","user":"a"}`:                                               `no kind "Policy" is registered for version "other/v1"`,
		`{"kind":"Role","user":"a"}`:                                                         `no kind "Role" is registered for version "abac.authorization.kubernetes.io/v0"`,
		`{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Role","user":"a"}`: `no kind "Role" is registered for version "abac.authorization.kubernetes.io/v1beta1"`,
		`{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","user":"a"}`:               "converting (v1beta1.Policy) to (v0.Policy): unknown conversion",
		`{"apiVersion":"a/b/c","user":"a"}`:                                                  "unexpected GroupVersion string: a/b/c",
		`{"apiVersion":"abac.authorization.kubernetes.io/v1","kind":"Policy"}`:               `no kind "Policy" is registered for version "abac.authorization.kubernetes.io/v1"`,
	} {
		if _, _, err := load(t, text); err == nil || !strings.HasPrefix(err.Error(), "error reading policy file ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v", text, err)
		}
	}
	if _, err := Load("", slog.Default()); err == nil || err.Error() != "open : no such file or directory" {
		t.Errorf("no file: got %v", err)
	}
}

func TestRulesFor(t *testing.T) {
	l, _, err := load(t, policy(`"user":"ann","readonly":true,"resource":"r","namespace":"n"`)+"\n"+policy(`"group":"dev","nonResourcePath":"/x","namespace":"*"`)+"\n"+policy(`"user":"bob","resource":"r","namespace":"*"`))
	if err != nil {
		t.Fatal(err)
	}
	r := l.RulesFor(context.Background(), &authn.User{Name: "ann", Groups: []string{"dev"}}, "n")
	if len(r.Resource) != 1 || len(r.Resource[0].Verbs) != 3 || len(r.NonResource) != 1 || r.NonResource[0].Verbs[0] != "*" || r.Incomplete {
		t.Errorf("got %+v", r)
	}
}
