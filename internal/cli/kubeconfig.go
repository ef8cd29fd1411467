package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/server"
)

// This file is keelson kubeconfig.

func newKubeconfigCommand() *cobra.Command {
	dir, address := server.DefaultDataDir, ""
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the administrator's kubeconfig, for use on another machine",
		Long: `Print the administrator's kubeconfig of the server that keeps its data in
--data-dir. It names the server as its own machine reaches it; --server puts
another address there, which has to be one of those that the server's
certificate is for (see --tls-san of keelson serve).

Whoever has it may do everything.`,
		Example: `  keelson kubeconfig --server https://keelson.example.com:6443 > admin.kubeconfig
  kubectl -n keelson exec keelson-0 -- /keelson kubeconfig --data-dir /data > admin.kubeconfig`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := clientcmd.LoadFromFile(filepath.Join(dir, server.KubeconfigFile))
			if err != nil {
				return fmt.Errorf("reading what the server wrote when it started: %w", err)
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
