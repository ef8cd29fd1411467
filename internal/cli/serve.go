package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/server"
)

// This file is keelson serve.

func newServeCommand() *cobra.Command {
	var c server.Config
	var verbosity int
	var format string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the API server",
		Long: `Run the API server until it is asked to stop (Ctrl-C, SIGTERM).

Everything is kept in one directory: an embedded etcd, the certificates, and
admin.kubeconfig, with which kubectl may do everything. The first start makes
them; later starts go on with them. One server at a time can use a directory.

The server speaks TLS only. Clients are known by client certificates of the
server's own authority or of --client-ca-file, or by the bearer tokens of
--token-auth-file. Members of the group system:masters may do everything;
everybody else may see health and version, and nothing more.

Flags have the names that kube-apiserver gives them.`,
		Example: `  # Everything in ./keelson-data, at https://127.0.0.1:6443
  keelson serve

  # For other machines, too, with a certificate of your own
  keelson serve --bind-address 0.0.0.0 --tls-cert-file tls.crt --tls-private-key-file tls.key

  # Several servers before one etcd cluster
  keelson serve --etcd-servers https://etcd-1:2379,https://etcd-2:2379 --etcd-cafile ca.crt \
      --etcd-certfile client.crt --etcd-keyfile client.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := newLogger(cmd.ErrOrStderr(), format, verbosity)
			if err != nil {
				return &usageError{err}
			}
			c.Logger = logger
			if c.SecurePort == 0 {
				c.SecurePort = -1 // on the command line, 0 is how to ask for any free port
			}
			return serve(cmd.Context(), c, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&c.DataDir, "data-dir", server.DefaultDataDir, "`directory` that everything is kept in")
	f.StringVar(&c.BindAddress, "bind-address", server.DefaultBindAddress, "`address` to listen at; 0.0.0.0 for all")
	f.IntVar(&c.SecurePort, "secure-port", server.DefaultSecurePort, "`port` to listen at; 0 for any free one")
	f.StringVar(&c.TLSCertFile, "tls-cert-file", "", "`file` with the certificate to serve with, its chain after it")
	f.StringVar(&c.TLSKeyFile, "tls-private-key-file", "", "`file` with the key of --tls-cert-file")
	f.StringVar(&c.ClientCAFile, "client-ca-file", "", "`file` with further authorities of client certificates")
	f.StringVar(&c.TokenAuthFile, "token-auth-file", "", "CSV `file` of bearer tokens: token,user,uid,\"group1,group2\"")
	f.StringSliceVar(&c.EtcdServers, "etcd-servers", nil, "`URLs` of an etcd cluster to use in place of the embedded etcd")
	f.StringVar(&c.EtcdCAFile, "etcd-cafile", "", "`file` with the authorities of the etcd cluster's certificates")
	f.StringVar(&c.EtcdCertFile, "etcd-certfile", "", "`file` with the client certificate for etcd")
	f.StringVar(&c.EtcdKeyFile, "etcd-keyfile", "", "`file` with the key of --etcd-certfile")
	f.StringVar(&c.EtcdPrefix, "etcd-prefix", "/registry", "`prefix` of all keys in etcd")
	f.StringSliceVar(&c.DisableAdmission, "disable-admission-plugins", nil, "`names` of admission plugins that are not to run; there is NamespaceLifecycle")
	auditFlags(cmd, &c)
	f.StringVar(&format, "logging-format", "text", "`format` of the log: text or json")
	f.IntVarP(&verbosity, "v", "v", 0, "`level` of detail of the log: 0 or, to see every refusal, 4")
	return cmd
}

// newLogger logs in a format; from verbosity 4 on with details for debugging.
func newLogger(w io.Writer, format string, verbosity int) (*slog.Logger, error) {
	o := &slog.HandlerOptions{}
	if verbosity >= 4 {
		o.Level = slog.LevelDebug
	}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("--logging-format: got %q, want text or json", format)
}

// serve runs a server and tells how to use it.
func serve(ctx context.Context, c server.Config, out io.Writer) error {
	s, err := server.New(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "export KUBECONFIG=%s\n", shortest(s.KubeconfigPath()))
	return s.Run(ctx)
}

// shortest is the path relative to the working directory if that is shorter.
func shortest(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(wd, path); err == nil && len(rel) < len(path) {
		return rel
	}
	return path
}
