package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/authz/config"
	"github.com/keelson-io/keelson/server"
)

// This file is keelson serve.

func newServeCommand() *cobra.Command { return serveCommand(nil) }

// serveCommand is keelson serve; adjust, if there is one, has the last word on the configuration that the flags make.
func serveCommand(adjust func(*cobra.Command, *server.Config) error) *cobra.Command {
	var c server.Config
	var verbosity int
	var format string
	var believed authnValues
	cmd := &cobra.Command{
		Use:         "serve",
		Short:       "Run the API server",
		Annotations: page("the server was asked to stop, and did", "it could not start, or could not go on", "keelson help kubeconfig, keelson help snapshot", "docs/operations.md: keeping a server alive"),
		Long: `Run the API server until it is asked to stop (Ctrl-C, SIGTERM).

Everything is kept in one directory: an embedded etcd, the certificates, and
admin.kubeconfig, with which kubectl may do everything. The first start makes
them; later starts go on with them. One server at a time can use a directory.

The server speaks TLS only. Clients are known by client certificates of the
server's own authority or of --client-ca-file, or by the bearer tokens of
--token-auth-file. Members of the group system:masters may do everything;
everybody else what roles and bindings (RBAC) say, unless
--authorization-config or --authorization-mode choose other authorizers.

Flags have the names that kube-apiserver gives them.`,
		Example: `  # Everything in ./keelson-data, at https://127.0.0.1:6443
  keelson serve

  # For other machines, too
  keelson serve --bind-address 0.0.0.0 --tls-san keelson.example.com

  # The same, with a certificate of your own
  keelson serve --bind-address 0.0.0.0 --tls-cert-file tls.crt --tls-private-key-file tls.key

  # Several servers before one etcd cluster
  keelson serve --etcd-servers https://etcd-1:2379,https://etcd-2:2379 --etcd-cafile ca.crt \
      --etcd-certfile client.crt --etcd-keyfile client.key`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := newLogger(cmd.ErrOrStderr(), format, verbosity)
			if err != nil {
				return &usageError{err}
			}
			c.Logger = logger
			if err := believed.apply(cmd, &c.Authentication); err != nil {
				return &usageError{err}
			}
			c.Authorization.LegacySet = slices.ContainsFunc([]string{"authorization-mode", "authorization-webhook-config-file", "authorization-webhook-version",
				"authorization-webhook-cache-authorized-ttl", "authorization-webhook-cache-unauthorized-ttl"}, cmd.Flags().Changed)
			if c.SecurePort < 0 || c.SecurePort > 65535 {
				return &usageError{fmt.Errorf("--secure-port: got %d, want a port, or 0 for any free one", c.SecurePort)}
			}
			if c.SecurePort == 0 {
				c.SecurePort = -1 // on the command line, 0 is how to ask for any free port
			}
			for name, n := range map[string]*int{"max-requests-inflight": &c.MaxRequestsInFlight, "max-mutating-requests-inflight": &c.MaxMutatingRequestsInFlight} {
				switch {
				case *n < 0:
					return &usageError{fmt.Errorf("--%s: got %d, want a number of requests, or 0 for no limit", name, *n)}
				case *n == 0:
					*n = -1 // in the configuration, 0 is the default
				}
			}
			if adjust != nil {
				if err := adjust(cmd, &c); err != nil {
					return &usageError{err}
				}
			}
			return serve(cmd.Context(), c, cmd.OutOrStdout())
		},
	}
	cmd.SetFlagErrorFunc(serverFlagError)
	serveFlags(&c, &believed, &format, &verbosity).install(cmd)
	return cmd
}

// serveFlags are the flags of the server by what they are about.
func serveFlags(c *server.Config, believed *authnValues, format *string, verbosity *int) *flagGroups {
	groups := &flagGroups{}
	f := groups.set("Serving")
	f.StringVar(&c.DataDir, "data-dir", server.DefaultDataDir, "`directory` that everything is kept in")
	f.StringVar(&c.BindAddress, "bind-address", server.DefaultBindAddress, "`address` to listen at; 0.0.0.0 for all")
	f.IntVar(&c.SecurePort, "secure-port", server.DefaultSecurePort, "`port` to listen at; 0 for any free one")
	f.StringVar(&c.TLSCertFile, "tls-cert-file", "", "`file` with the certificate to serve with, its chain after it")
	f.StringVar(&c.TLSKeyFile, "tls-private-key-file", "", "`file` with the key of --tls-cert-file")
	f.StringSliceVar(&c.TLSNames, "tls-san", nil, "`names` and addresses by which clients reach the server, for the certificate that it makes itself")
	f.StringVar(&c.ServiceClusterIPRange, "service-cluster-ip-range", server.DefaultServiceClusterIPRange, "`range` of the addresses of services, the first for the service kubernetes")
	f.StringVar(&c.ServiceNodePortRange, "service-node-port-range", server.DefaultServiceNodePortRange, "`range` of the ports of nodes that services get")
	f.StringVar(&c.AdvertiseAddress, "advertise-address", "", "`address` among the endpoints of that service; that of --bind-address, or of this machine, if there is none")
	f.StringVar(&c.EndpointReconciler, "endpoint-reconciler-type", "lease", "`how` these endpoints are kept: lease, or none for not at all")
	f.IntVar(&c.MaxRequestsInFlight, "max-requests-inflight", 400, "`number` of reads served at a time, watches not counted; 0 for no limit")
	f.IntVar(&c.MaxMutatingRequestsInFlight, "max-mutating-requests-inflight", 200, "`number` of writes served at a time; 0 for no limit")
	f = groups.set("etcd")
	f.StringSliceVar(&c.EtcdServers, "etcd-servers", nil, "`URLs` of an etcd cluster to use in place of the embedded etcd")
	f.StringVar(&c.EtcdCAFile, "etcd-cafile", "", "`file` with the authorities of the etcd cluster's certificates")
	f.StringVar(&c.EtcdCertFile, "etcd-certfile", "", "`file` with the client certificate for etcd")
	f.StringVar(&c.EtcdKeyFile, "etcd-keyfile", "", "`file` with the key of --etcd-certfile")
	f.StringVar(&c.EtcdPrefix, "etcd-prefix", "/registry", "`prefix` of all keys in etcd")
	f = groups.set("Authentication: who a request is from")
	f.StringVar(&c.ClientCAFile, "client-ca-file", "", "`file` with further authorities of client certificates")
	f.StringVar(&c.TokenAuthFile, "token-auth-file", "", "CSV `file` of bearer tokens: token,user,uid,\"group1,group2\"")
	authnFlags(f, &c.Authentication, believed)
	f = groups.set("Authorization: what it may do")
	z := &c.Authorization
	f.StringVar(&z.File, "authorization-config", "", "AuthorizationConfiguration `file`: which authorizers are asked, in which order; read again when it changes")
	f.StringSliceVar(&z.Modes, "authorization-mode", []string{config.RBAC}, "ordered `list` of authorizers: "+strings.Join(config.Types, ","))
	f.StringVar(&z.PolicyFile, "authorization-policy-file", "", "`file` of policies for ABAC, one JSON object a line")
	f.StringVar(&z.WebhookConfigFile, "authorization-webhook-config-file", "", "kubeconfig `file` of the webhook for --authorization-mode=Webhook")
	f.StringVar(&z.WebhookVersion, "authorization-webhook-version", config.DefaultWebhookVersion, "`version` of the SubjectAccessReview that the webhook is asked with: v1 or v1beta1")
	f.DurationVar(&z.WebhookAuthorized, "authorization-webhook-cache-authorized-ttl", config.DefaultWebhookAuthorized, "`duration` for which the webhook's yes is kept; 0 for not at all")
	f.DurationVar(&z.WebhookUnauthorized, "authorization-webhook-cache-unauthorized-ttl", config.DefaultWebhookUnauthorized, "`duration` for which its other answers are kept; 0 for not at all")
	f = groups.set("Admission and controllers")
	f.StringSliceVar(&c.EnableAdmission, "enable-admission-plugins", nil, "`names` of admission plugins that are to run besides "+strings.Join(server.DefaultAdmission, ", ")+"; there are "+strings.Join(server.OptionalAdmission, ", "))
	f.StringSliceVar(&c.DisableAdmission, "disable-admission-plugins", nil, "`names` of admission plugins that are not to run")
	f.StringSliceVar(&c.Controllers, "controllers", []string{"*"}, "`list` of controllers to run: * for all, a name for that one, *,-name for all but that one; there are "+strings.Join(server.Controllers(), ", "))
	auditFlags(groups.set("Audit: what is recorded"), c)
	f = groups.set("Log")
	f.StringVar(format, "logging-format", "text", "`format` of the log: text or json")
	f.IntVarP(verbosity, "v", "v", 0, "`level` of detail of the log: 0; 4, to see every refusal; or 5, to see what RBAC has no rule for, too")
	return groups
}

// spareProcessor lets one goroutine more run at a time than Go would. While there are writes, the embedded etcd nearly always waits
// for the disk, in a system call; Go takes it for busy until it has looked again, about 100 µs later, and on two processors that
// would be half of them, a few hundred times each second. Done once; the environment's GOMAXPROCS has the last word.
var spareProcessor = sync.OnceFunc(func() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
})

// serve runs a server and tells how to use it.
func serve(ctx context.Context, c server.Config, out io.Writer) error {
	if len(c.EtcdServers) == 0 {
		spareProcessor()
	}
	roomyHeap()
	s, err := server.New(ctx, c)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: is another server running? --secure-port chooses another port", err)
	}
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
