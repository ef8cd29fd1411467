package cli

import (
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/server"
)

// This file has the command "kubeconfig".

func newKubeconfigCommand() *cobra.Command {
	dir, address := server.DefaultDataDir, ""
	cmd := &cobra.Command{
		Use:         "kubeconfig",
		Annotations: page("the kubeconfig is printed", "no server has written one in the directory", "keelson help serve"),
		Short:       "Print the administrator's kubeconfig, for use on another machine",
		Long: `Print the administrator's kubeconfig of the server whose data is in --data-dir.
Its server address is the one for use on the same machine. --server replaces it
by another one, which the server's certificate must be for (see the flag
--tls-san of keelson serve).

The kubeconfig gives all permissions: keep it secret.`,
		Example: `  keelson kubeconfig --server https://keelson.example.com:6443 > admin.kubeconfig
  kubectl -n keelson exec keelson-0 -- /keelson kubeconfig --data-dir /data > admin.kubeconfig`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := clientcmd.LoadFromFile(filepath.Join(dir, server.KubeconfigFile))
			if err != nil {
				return fmt.Errorf("%s: no server has written its kubeconfig there: %w", dir, err)
			}
			if u, err := url.Parse(address); address != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
				return &usageError{fmt.Errorf("--server: got %q, want a URL such as https://keelson.example.com:6443", address)}
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
	cmd.Flags().StringVar(&dir, "data-dir", dir, "`directory` of the server")
	cmd.Flags().StringVar(&address, "server", "", "`URL` by which the server is reached")
	return cmd
}
