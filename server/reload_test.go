package server

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file changes files of a server where no event tells of it: behind a link, in a folder that
// nobody watches.

// elsewhere writes a file and returns its path, and that of a link to it.
func elsewhere(t *testing.T, name, text string) (path, link string) {
	t.Helper()
	path, link = write(t, name, text), filepath.Join(t.TempDir(), name)
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	return path, link
}

var failed = regexp.MustCompile(`apiserver_authentication_config_controller_automatic_reloads_total\{[^}]*status="failure"\} [1-9]`)

func TestFilesAreLookedAt(t *testing.T) {
	authz, authzLink := elsewhere(t, "authz.yaml", configHead+rbacEntry)
	authn, authnLink := elsewhere(t, "authn.yaml", "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: false}\n")
	c := Config{
		Store: mem.New(mem.Options{}), TokenAuthFile: tokens(t, "ann"), Authorization: config.Flags{File: authzLink}, ReloadInterval: 10 * time.Millisecond,
	}
	c.Authentication.ConfigFile = authnLink
	r := start(t, c)
	const path = "/api/v1/namespaces/default/configmaps"
	r.eventually("ann", "GET", path, "", 403)
	if err := os.WriteFile(authz, []byte(configHead+rbacEntry+"- {type: AlwaysAllow, name: alwaysallow}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.eventually("ann", "GET", path, "", 200)
	if err := os.WriteFile(authn, []byte("no configuration\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.until("the file of authentication is read again", func() bool {
		return failed.MatchString(r.must("GET", "/metrics", ""))
	})
}
