package e2e

import (
	"crypto/x509"
	"testing"
)

// This file is proxies in front of a server, real ones and those who pretend.

func TestProxies(t *testing.T) {
	ours, front := newAuthority(t, "clients"), newAuthority(t, "proxies")
	s := startServer(t, "--client-ca-file", ours.file, "--token-auth-file", putFile(t, "tokens.csv", "good,bob,8,ops\n"),
		"--requestheader-client-ca-file", front.file, "--requestheader-allowed-names", "front", "--requestheader-allowed-names", "side",
		"--requestheader-username-headers", "X-Remote-User,X-User", "--requestheader-uid-headers", "X-Remote-Uid",
		"--requestheader-group-headers", "X-Remote-Group", "--requestheader-extra-headers-prefix", "X-Remote-Extra-")
	name := func(name string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.Subject.CommonName = name }
	}
	proxy := newVisitor(t, s, front.issue(name("front")))
	stranger := newVisitor(t, s, front.issue(name("another")))
	foreign := newVisitor(t, s, newAuthority(t, "proxies").issue(name("front")))
	server := newVisitor(t, s, front.issue(func(c *x509.Certificate) {
		c.Subject.CommonName, c.ExtKeyUsage = "front", []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}))
	ann, nobody := newVisitor(t, s, ours.issue(nil)), newVisitor(t, s, nil)
	fake := newVisitor(t, s, ours.issue(name("front"))) // the right name of another authority
	root := []string{"X-Remote-User", "root", "X-Remote-Group", "system:masters"}
	with := func(header ...string) []string { return append(header, root...) }
	for what, row := range map[string]struct {
		v      *visitor
		header []string
		want   string
	}{
		"a user":            {proxy, []string{"X-Remote-User", "eve"}, "eve [system:authenticated]"},
		"in lower case":     {proxy, []string{"x-remote-user", "eve", "x-remote-group", "dev"}, "eve [dev system:authenticated]"},
		"everything":        {proxy, []string{"X-Remote-User", "eve", "X-Remote-Uid", "7", "X-Remote-Group", "a", "X-Remote-Group", "b", "X-Remote-Extra-Some%2fKey", "v", "X-Remote-Extra-Some%2fKey", "w"}, "eve 7 [a b system:authenticated] map[some/key:[v w]]"},
		"the second header": {proxy, []string{"X-User", "eve"}, "eve [system:authenticated]"},
		"both headers":      {proxy, []string{"X-User", "root", "X-Remote-User", "eve"}, "eve [system:authenticated]"},
		"twice":             {proxy, []string{"X-Remote-User", "eve", "X-Remote-User", "root"}, "eve [system:authenticated]"},
		"commas":            {proxy, []string{"X-Remote-User", "eve", "X-Remote-Group", "a, system:masters"}, "eve [a, system:masters system:authenticated]"},
		"underscores":       {proxy, []string{"X_Remote_User", "root"}, "401"},
		"underscored group": {proxy, []string{"X-Remote-User", "eve", "X_Remote_Group", "system:masters", "X-Remote_Group", "system:masters"}, "eve [system:authenticated]"},
		"nobody":            {proxy, nil, "401"},
		"an empty name":     {proxy, []string{"X-Remote-User", ""}, "401"},
		"no name":           {proxy, []string{"X-Remote-Group", "system:masters", "X-Remote-Uid", "0"}, "401"},
		"anonymous":         {proxy, []string{"X-Remote-User", "system:anonymous"}, "403"},
		"token and proxy":   {proxy, append(bearer("good"), "X-Remote-User", "eve"), "eve [system:authenticated]"},
		"a wrong token":     {proxy, append(bearer("bad"), "X-Remote-User", "eve"), "eve [system:authenticated]"},
		"a token only":      {proxy, bearer("good"), "bob 8 [ops system:authenticated]"},

		"another name":              {stranger, root, "401"},
		"another name, with token":  {stranger, with(bearer("good")...), "bob 8 [ops system:authenticated]"},
		"a foreign authority":       {foreign, root, "401"},
		"a certificate for servers": {server, root, "401"},
		"a client":                  {ann, root, "ann [dev system:authenticated]"},
		"a client of that name":     {fake, root, "front [dev system:authenticated]"},
		"a token":                   {nobody, with(bearer("good")...), "bob 8 [ops system:authenticated]"},
		"a wrong token, no proxy":   {nobody, with(bearer("bad")...), "401"},
		"nothing":                   {nobody, root, "403"},
		"other spellings":           {nobody, []string{"X_REMOTE_USER", "root", "X-Remote-User ", "root"}[:2], "403"},
		"of other proxies":          {nobody, []string{"X-Forwarded-User", "root", "X-Forwarded-Email", "root", "Remote-User", "root", "X-Auth-Request-User", "root", "X-Webauth-User", "root"}, "403"},
		"who impersonates":          {proxy, []string{"X-Remote-User", "eve", "Impersonate-User", "root"}, "impersonation"},
		"who is an administrator":   {proxy, append([]string{"Impersonate-User", "max"}, root...), "max [system:authenticated]"},
	} {
		got := row.v.who(t, row.header...)
		if row.want == "impersonation" {
			if want := `User \"eve\" cannot impersonate`; !has(got, want) {
				t.Errorf("%s: got %s, want %s", what, got, want)
			}
			continue
		}
		if got != row.want {
			t.Errorf("%s: got %s, want %s", what, got, row.want)
		}
	}
	refuses(t, "--requestheader-allowed-names must be specified", "serve", "--data-dir", t.TempDir(), "--secure-port", "0",
		"--client-ca-file", ours.file, "--requestheader-client-ca-file", ours.file, "--requestheader-username-headers", "X-Remote-User")
}
