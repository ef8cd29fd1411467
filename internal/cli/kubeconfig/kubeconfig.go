// Package kubeconfig has the command "kubeconfig" of keelson: the administrator's kubeconfig, or one for a new user.
package kubeconfig

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/server"
)

// Command returns the command "kubeconfig".
func Command() *cobra.Command {
	dir, address := server.DefaultDataDir, ""
	var user newUser
	cmd := &cobra.Command{
		Use:         "kubeconfig",
		Annotations: command.Page("the kubeconfig is printed", "no server has written one in the directory, or the running server does not sign the user's certificate", "keelson help serve"),
		Short:       "Print a kubeconfig: the administrator's, or one for a new user",
		Long: `Print the administrator's kubeconfig of the server whose data is in --data-dir, or with --user one for a user. Its server address is
the one for use on the same machine. --server replaces it by another one, which the server's certificate must be for (see the flag
--tls-san of keelson serve).

With --user, the command makes a key, and has the running server sign a certificate for the user and the groups. The server keeps
the CertificateSigningRequest as a record, without the key. A new user has no permissions until a binding gives some. The
certificate is valid for --expires; it cannot be revoked before, but the user's bindings can be deleted.

The administrator's kubeconfig gives all permissions: keep it secret.`,
		Example: `  keelson kubeconfig --server https://keelson.example.com:6443 > admin.kubeconfig
  keelson kubeconfig --user jane --group devs --expires 720h > jane.kubeconfig
  kubectl -n keelson exec keelson-0 -- /keelson kubeconfig --data-dir /data > admin.kubeconfig`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := clientcmd.LoadFromFile(filepath.Join(dir, server.KubeconfigFile))
			if err != nil {
				return fmt.Errorf("%s: no server has written its kubeconfig there: %w", dir, err)
			}
			if u, err := url.Parse(address); address != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
				return command.UsageError(fmt.Errorf("--server: got %q, want a URL such as https://keelson.example.com:6443", address))
			}
			switch {
			case user.name == "" && (len(user.groups) > 0 || user.expires != 0):
				return command.UsageError(errors.New("--group and --expires are for the user that --user names, and it names none"))
			case user.expires != 0 && user.expires < 10*time.Minute:
				return command.UsageError(fmt.Errorf("--expires: got %v, want at least 10m", user.expires))
			case user.name != "":
				if config, err = configFor(cmd.Context(), config, user); err != nil {
					return err
				}
			}
			if address != "" {
				for _, c := range config.Clusters {
					c.Server = address
				}
			}
			text, err := clientcmd.Write(*config)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", dir, "data `directory` of the server (its --data-dir)")
	cmd.Flags().StringVar(&user.name, "user", "", "`name` of a user, to whom the running server gives a certificate")
	cmd.Flags().StringArrayVar(&user.groups, "group", nil, "`group` of the user; may be repeated")
	cmd.Flags().DurationVar(&user.expires, "expires", 0, "how long the user's certificate is valid; 0 is as long as the server allows, a year")
	cmd.Flags().StringVar(&address, "server", "", "`URL` by which the server is reached")
	return cmd
}
