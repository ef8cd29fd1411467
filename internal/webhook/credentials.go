package webhook

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/keelson-io/keelson/internal/keysize"
)

// This file finds the credentials with which the server identifies itself to a webhook.

// Credentials are those of a kubeconfig, by the names of its users. A user is named after the host
// and port of a webhook, or has an asterisk in place of the first labels, as in *.example.com. The
// port 443 may be left out. The user * is for all other webhooks. Without it, these get the user of
// the current context, if there is one.
//
// These are the rules of kube-apiserver for the kubeConfigFile of a WebhookAdmissionConfiguration.
// A webhook of the store, whose author may not know the credentials, gets them too: the names of
// hosts decide, so a kubeconfig should name the hosts that it trusts rather than use *.
type Credentials struct {
	users map[string]*clientcmdapi.AuthInfo
	other *clientcmdapi.AuthInfo // for hosts that no user is named after; nil: none
}

// loadKubeconfig reads a kubeconfig.
func loadKubeconfig(file string) (*clientcmdapi.Config, error) {
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return nil, err
	}
	// Paths are relative to the kubeconfig, not to the folder in which the server was started.
	return config, clientcmd.ResolveLocalPaths(config)
}

// CredentialFiles returns a kubeconfig and the files that LoadCredentials reads with it: the client
// certificates and keys of its users. If the kubeconfig cannot be read, it is the only file.
//
// Files of tokens are not among them, because client-go reads these again by itself. Authorities of
// clusters are not either: a webhook proves itself by those that its configuration has.
func CredentialFiles(file string) []string {
	files := []string{file}
	config, err := loadKubeconfig(file)
	if err != nil {
		return files
	}
	for _, name := range slices.Sorted(maps.Keys(config.AuthInfos)) {
		user := config.AuthInfos[name]
		for path, data := range map[string][]byte{user.ClientCertificate: user.ClientCertificateData, user.ClientKey: user.ClientKeyData} {
			if path != "" && len(data) == 0 {
				files = append(files, path)
			}
		}
	}
	slices.Sort(files[1:])
	return slices.Compact(files)
}

// LoadCredentials reads a kubeconfig, and the certificates and keys that it names. client-go reads
// tokens that are files when a webhook is called, and again when they change.
//
// The result does not change with the files. To follow them, call LoadCredentials again, and
// make new clients: a connection keeps the certificate with which it began.
func LoadCredentials(file string) (*Credentials, error) {
	config, err := loadKubeconfig(file)
	if err != nil {
		return nil, err
	}
	c := &Credentials{users: config.AuthInfos}
	for name, user := range c.users {
		switch {
		case user.AuthProvider != nil:
			return nil, fmt.Errorf("%s: user %q: auth-provider is not supported, use a token or a certificate", file, name)
		case user.Exec != nil:
			return nil, fmt.Errorf("%s: user %q: exec is not supported, use a token or a certificate", file, name)
		}
		if err := readFiles(user); err != nil {
			return nil, fmt.Errorf("%s: user %q: %w", file, name, err)
		}
	}
	if current := config.Contexts[config.CurrentContext]; current != nil {
		c.other = c.users[current.AuthInfo]
	}
	if all := c.users["*"]; all != nil {
		c.other = all
	}
	return c, nil
}

// readFiles replaces the files of a user by their contents, apart from that of a token. What is wrong
// with them would otherwise show only when a webhook is called.
func readFiles(user *clientcmdapi.AuthInfo) error {
	if user.TokenFile != "" {
		if _, err := os.Stat(user.TokenFile); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		path string
		data *[]byte
	}{{user.ClientCertificate, &user.ClientCertificateData}, {user.ClientKey, &user.ClientKeyData}} {
		if f.path == "" || len(*f.data) > 0 { // contents take precedence
			continue
		}
		text, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		*f.data = text
	}
	if len(user.ClientCertificateData) == 0 && len(user.ClientKeyData) == 0 {
		return nil
	}
	// A certificate and its key are written one after the other, so they may not fit for a moment.
	_, err := keysize.KeyPair(user.ClientCertificateData, user.ClientKeyData)
	return err
}

// forTarget returns a configuration with the credentials for a target. nil Credentials have none.
// Only the credentials of a user are taken: addresses and authorities come from the target, so that
// a kubeconfig cannot send the calls elsewhere.
func (c *Credentials) forTarget(t Target) *rest.Config {
	config := &rest.Config{}
	if c == nil {
		return config
	}
	user := c.find(hostOf(t))
	if user == nil {
		return config
	}
	config.BearerToken, config.BearerTokenFile = user.Token, user.TokenFile
	config.Username, config.Password = user.Username, user.Password
	config.CertData, config.KeyData = user.ClientCertificateData, user.ClientKeyData
	config.Impersonate = rest.ImpersonationConfig{UserName: user.Impersonate, UID: user.ImpersonateUID, Groups: user.ImpersonateGroups, Extra: user.ImpersonateUserExtra}
	return config
}

// hostOf returns the host and the port of a target, "" if its URL is malformed: then the call fails,
// too. The port is always there, since users may be named with or without it.
func hostOf(t Target) string {
	if t.URL == "" {
		port := int(t.Port)
		if port == 0 {
			port = 443
		}
		return net.JoinHostPort(t.Service+"."+t.Namespace+".svc", strconv.Itoa(port))
	}
	u, err := url.Parse(t.URL)
	if err != nil {
		return ""
	}
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return u.Host
}

// find returns the user for a host with its port, nil if there is none: the user that is named after
// the host, then the one for the smallest domain that the host is in, then the one for all others.
// The order does not depend on that of the kubeconfig.
func (c *Credentials) find(host string) *clientcmdapi.AuthInfo {
	// A name with the port comes before those without, whatever their asterisks.
	names := []string{host}
	if name, port, err := net.SplitHostPort(host); err == nil && port == "443" {
		names = append(names, name)
	}
	for _, name := range names {
		if user := c.users[name]; user != nil {
			return user
		}
		// *.svc stands for more hosts than *.team.svc, so the longest name is looked for first.
		for rest := name; ; {
			_, after, more := strings.Cut(rest, ".")
			if !more {
				break
			}
			if user := c.users["*."+after]; user != nil {
				return user
			}
			rest = after
		}
	}
	return c.other
}
