package cli

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/keelson-io/keelson/internal/fastpath"
	"github.com/keelson-io/keelson/internal/memory"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/server"
)

// This file has the command "serve".

func newServeCommand() *cobra.Command { return serveCommand(nil) }

// serveCommand returns keelson serve. adjust, if not nil, changes the configuration that follows
// from the flags.
func serveCommand(adjust func(*cobra.Command, *server.Config) error) *cobra.Command {
	var c server.Config
	var verbosity, minimum int
	var format, memoryLimit string
	var authentication authnValues
	cmd := &cobra.Command{
		Use:         "serve",
		Short:       "Run the API server",
		Annotations: command.Page("the server was asked to stop, and did", "it could not start, or could not go on", "keelson help kubeconfig, keelson help snapshot", "docs/operations.md: keeping a server alive"),
		Long: `Run the API server until it is stopped (Ctrl-C, SIGTERM).

All data is in one directory: an embedded etcd, the certificates, and
admin.kubeconfig, with which kubectl has all permissions. The first start
creates them. One server at a time can use a directory.

The server serves TLS only. Clients authenticate with client certificates of
the server's own authority or of --client-ca-file, or with bearer tokens.
Members of the group system:masters have all permissions. All other users have
those of their roles and bindings (RBAC), unless --authorization-config or
--authorization-mode choose other authorizers.

Flags have kube-apiserver's names.`,
		Example: `  # Everything in ./keelson-data, at https://127.0.0.1:6443
  keelson serve

  # For other machines, too
  keelson serve --bind-address 0.0.0.0 --tls-san keelson.example.com

  # The same, with a certificate of your own
  keelson serve --bind-address 0.0.0.0 --tls-cert-file tls.crt --tls-private-key-file tls.key

  # Several servers before one etcd cluster
  keelson serve --etcd-servers https://etcd-1:2379,https://etcd-2:2379 --etcd-cafile ca.crt \
      --etcd-certfile client.crt --etcd-keyfile client.key`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := command.NewLogger(cmd.ErrOrStderr(), format, verbosity)
			if err != nil {
				return command.UsageError(err)
			}
			c.Logger = logger
			if err := authentication.apply(cmd, &c.Authentication); err != nil {
				return command.UsageError(err)
			}
			c.Authorization.LegacySet = slices.ContainsFunc([]string{"authorization-mode", "authorization-webhook-config-file", "authorization-webhook-version",
				"authorization-webhook-cache-authorized-ttl", "authorization-webhook-cache-unauthorized-ttl"}, cmd.Flags().Changed)
			c.MinRequestTimeout = time.Duration(minimum) * time.Second
			if err := checkServeFlags(&c, minimum); err != nil {
				return command.UsageError(err)
			}
			if c.MemoryLimit, err = memory.ParseLimit(memoryLimit); err != nil {
				return command.UsageError(fmt.Errorf("--memory-limit: %w", err))
			}
			if adjust != nil {
				if err := adjust(cmd, &c); err != nil {
					return command.UsageError(err)
				}
			}
			c.Flags = map[string]string{}
			cmd.Flags().VisitAll(func(f *pflag.Flag) { c.Flags[f.Name] = f.Value.String() })
			return serve(cmd.Context(), c, cmd.OutOrStdout(), format == "text")
		},
	}
	cmd.SetFlagErrorFunc(serverFlagError)
	serveFlags(&c, &authentication, &format, &memoryLimit, &verbosity, &minimum).Install(cmd)
	return cmd
}

// checkServeFlags checks numbers that the flag library accepts and the server does not, and replaces
// those that have another meaning in the configuration. minimum is --min-request-timeout.
func checkServeFlags(c *server.Config, minimum int) error {
	if c.SecurePort < 0 || c.SecurePort > 65535 {
		return fmt.Errorf("--secure-port: got %d, want a port, or 0 for any free one", c.SecurePort)
	}
	if c.SecurePort == 0 {
		c.SecurePort = -1 // the flag's 0 means any free port
	}
	if c.RequestTimeout <= 0 {
		return fmt.Errorf("--request-timeout: got %v, want a time above 0", c.RequestTimeout)
	}
	if minimum < 1 || minimum > math.MaxInt32 {
		return fmt.Errorf("--min-request-timeout: got %d, want a number of seconds from 1 to %d", minimum, math.MaxInt32)
	}
	switch {
	case c.EventTTL < 0 || c.EventTTL > 0 && c.EventTTL < time.Second:
		return fmt.Errorf("--event-ttl: got %v, want 1s or more, or 0 for no end", c.EventTTL)
	case c.EventTTL == 0:
		c.EventTTL = -1 // in the configuration, 0 means the default
	}
	for name, n := range map[string]*int{"max-requests-inflight": &c.MaxRequestsInFlight, "max-mutating-requests-inflight": &c.MaxMutatingRequestsInFlight} {
		switch {
		case *n < 0:
			return fmt.Errorf("--%s: got %d, want a number of requests, or 0 for no limit", name, *n)
		case *n == 0:
			*n = -1 // in the configuration, 0 means the default
		}
	}
	if !c.DisableFairness && c.MaxRequestsInFlight < 0 && c.MaxMutatingRequestsInFlight < 0 {
		return errors.New("--enable-priority-and-fairness: got no --max-requests-inflight and no --max-mutating-requests-inflight, want a positive sum")
	}
	return nil
}

// serveFlags returns the flags of the server in groups.
func serveFlags(c *server.Config, authentication *authnValues, format, memoryLimit *string, verbosity, minimum *int) *command.FlagGroups {
	groups := &command.FlagGroups{}
	f := groups.Set("Serving")
	f.StringVar(&c.DataDir, "data-dir", server.DefaultDataDir, "`directory` for all data")
	f.StringVar(&c.BindAddress, "bind-address", server.DefaultBindAddress, "`address` to listen on; 0.0.0.0 for all interfaces")
	f.IntVar(&c.SecurePort, "secure-port", server.DefaultSecurePort, "`port` to listen on; 0 for any free port")
	f.StringVar(&c.HealthBindAddress, "health-bind-address", "", "`address` and port such as :8081 where /livez, /readyz and /healthz are also answered, without TLS and to everybody; by default there is none")
	f.StringVar(&c.TLSCertFile, "tls-cert-file", "", "`file` with the serving certificate, followed by its chain")
	f.StringVar(&c.TLSKeyFile, "tls-private-key-file", "", "`file` with the key of --tls-cert-file")
	f.StringSliceVar(&c.TLSNames, "tls-san", nil, "additional `names` and addresses for the certificate that the server makes itself")
	f.StringVar(&c.TLS.MinVersion, "tls-min-version", "", "oldest `version` of TLS: VersionTLS12, which is the default, or VersionTLS13")
	f.StringSliceVar(&c.TLS.CipherSuites, "tls-cipher-suites", nil, "`names` of the cipher suites of TLS 1.2; by default Go's")
	f.Int32SliceVar(&c.TLS.CurvePreferences, "tls-curve-preferences", nil, "`numbers` of the key exchanges, as Go's crypto/tls has them; by default Go's")
	f.StringSliceVar(&c.TLS.StrictTransportSecurity, "strict-transport-security-directives", nil, "`directives` of the header Strict-Transport-Security, such as max-age=31536000,includeSubDomains; by default there is none")
	f.StringVar(&c.ServiceClusterIPRange, "service-cluster-ip-range", server.DefaultServiceClusterIPRange, "`range` of the addresses of Services, or two of different IP families, separated by a comma; the first address is for default/kubernetes")
	f.StringVar(&c.ServiceNodePortRange, "service-node-port-range", server.DefaultServiceNodePortRange, "`range` of the node ports of Services")
	f.StringVar(&c.AdvertiseAddress, "advertise-address", "", "`address` of this server among the endpoints of default/kubernetes; by default that of --bind-address, or of this machine")
	f.StringSliceVar(&c.RuntimeConfig, "runtime-config", nil, "API `versions` that must be served, such as batch/v1=true: the server does not start if one is not; apiextensions.k8s.io/v1beta1=false switches that version off")
	f.StringVar(&c.EndpointReconciler, "endpoint-reconciler-type", "lease", "`how` the endpoints of default/kubernetes are maintained: lease, or none")
	f.IntVar(&c.MaxRequestsInFlight, "max-requests-inflight", 400, "`number` of reads served at a time, except for watches; 0 for no limit")
	f.IntVar(&c.MaxMutatingRequestsInFlight, "max-mutating-requests-inflight", 200, "`number` of writes served at a time; 0 for no limit")
	f.Var(off{&c.DisableFairness}, "enable-priority-and-fairness", "flow schemas and priority levels divide the sum of --max-requests-inflight and --max-mutating-requests-inflight")
	f.Lookup("enable-priority-and-fairness").NoOptDefVal = "true"
	f.DurationVar(&c.RequestTimeout, "request-timeout", time.Minute, "`duration` of a request other than a watch, from its headers to the end of the answer")
	f.IntVar(minimum, "min-request-timeout", 1800, "`seconds` after which a watch that names no duration ends at the earliest; it ends before twice as many")
	f.DurationVar(&c.EventTTL, "event-ttl", time.Hour, "`duration` for which events are kept after their last write; 0 for no end")
	f.StringVar(memoryLimit, "memory-limit", "", "`bytes` of memory for the process, such as 512Mi; 0 for no limit. By default, three quarters of the cgroup's limit or of the machine's memory")
	f.Var(off{&c.DisableProfiling}, "profiling", "serve profiles below /debug/pprof to users who may read that path")
	f.Lookup("profiling").NoOptDefVal = "true"
	f.Var(off{&c.FreshReads}, "watch-cache", "answer reads at resource version 0 with what is known already; false: they are as new as the last write, and lists keep to their limit")
	f.Lookup("watch-cache").NoOptDefVal = "true"
	f = groups.Set("etcd")
	f.StringSliceVar(&c.EtcdServers, "etcd-servers", nil, "`URLs` of an etcd cluster, in place of the embedded etcd")
	f.StringVar(&c.EtcdCAFile, "etcd-cafile", "", "`file` with the authorities of the etcd cluster's certificates")
	f.StringVar(&c.EtcdCertFile, "etcd-certfile", "", "`file` with the client certificate for etcd")
	f.StringVar(&c.EtcdKeyFile, "etcd-keyfile", "", "`file` with the key of --etcd-certfile")
	f.StringVar(&c.EtcdPrefix, "etcd-prefix", "/registry", "`prefix` of all keys in etcd")
	f.StringVar(&c.EncryptionConfigFile, "encryption-provider-config", "", "EncryptionConfiguration `file`: which resources are encrypted in etcd, and how")
	f.BoolVar(&c.EncryptionReload, "encryption-provider-config-automatic-reload", false, "read --encryption-provider-config again when it changes")
	f = groups.Set("Authentication")
	f.StringVar(&c.ClientCAFile, "client-ca-file", "", "`file` with more authorities of client certificates")
	f.StringVar(&c.TokenAuthFile, "token-auth-file", "", "CSV `file` of bearer tokens: token,user,uid,\"group1,group2\"")
	authnFlags(f, &c.Authentication, authentication)
	f = groups.Set("Authorization")
	z := &c.Authorization
	f.StringVar(&z.File, "authorization-config", "", "AuthorizationConfiguration `file` with the authorizers in order; reloaded when it changes")
	f.StringSliceVar(&z.Modes, "authorization-mode", []string{config.RBAC}, "ordered `list` of authorizers: "+strings.Join(config.Types, ", "))
	f.StringVar(&z.PolicyFile, "authorization-policy-file", "", "`file` of ABAC policies, one JSON object on each line")
	f.StringVar(&z.WebhookConfigFile, "authorization-webhook-config-file", "", "kubeconfig `file` of the webhook for --authorization-mode=Webhook")
	f.StringVar(&z.WebhookVersion, "authorization-webhook-version", config.DefaultWebhookVersion, "`version` of the SubjectAccessReview sent to the webhook: v1 or v1beta1")
	f.DurationVar(&z.WebhookAuthorized, "authorization-webhook-cache-authorized-ttl", config.DefaultWebhookAuthorized, "`duration` for which the webhook's allowed answers are cached; 0 for not at all")
	f.DurationVar(&z.WebhookUnauthorized, "authorization-webhook-cache-unauthorized-ttl", config.DefaultWebhookUnauthorized, "`duration` for which the webhook's other answers are cached; 0 for not at all")
	f = groups.Set("Admission and controllers")
	f.StringSliceVar(&c.EnableAdmission, "enable-admission-plugins", nil, "`names` of admission plugins to run in addition to "+strings.Join(server.DefaultAdmission, ", ")+"; available are "+strings.Join(server.OptionalAdmission, ", ")+". NodeRestriction runs by default with the Node authorizer")
	f.StringSliceVar(&c.DisableAdmission, "disable-admission-plugins", nil, "`names` of admission plugins not to run")
	f.StringVar(&c.AdmissionConfigFile, "admission-control-config-file", "", "AdmissionConfiguration `file` with the configuration of admission plugins")
	c.NotReadyTolerationSeconds = f.Int64("default-not-ready-toleration-seconds", 300, "`seconds` that pods tolerate a node that is not ready, unless they say otherwise")
	c.UnreachableTolerationSeconds = f.Int64("default-unreachable-toleration-seconds", 300, "`seconds` that pods tolerate a node that is not reachable, unless they say otherwise")
	f.StringSliceVar(&c.Controllers, "controllers", []string{"*"}, "`list` of controllers to run: * for all, a name for one, *,-name for all but one; names are "+strings.Join(server.Controllers(), ", "))
	auditFlags(groups.Set("Audit"), c)
	f = groups.Set("Log")
	f.StringVar(format, "logging-format", "text", "`format` of the log: text or json")
	f.IntVarP(verbosity, "v", "v", 0, "`level` of detail: 0; 2 to log each messageExpression that fails; 4 for debug messages; 5 to log requests that no RBAC rule allows")
	return groups
}

// spareProcessor allows one more goroutine to run than GOMAXPROCS would by default. During writes,
// the embedded etcd almost always waits for the disk in a system call. Go counts it as running
// until its next check, about 100 µs later. On two processors this would take half of the machine,
// hundreds of times in each second. It runs once; the environment variable GOMAXPROCS takes
// precedence.
var spareProcessor = sync.OnceFunc(func() {
	if os.Getenv("GOMAXPROCS") == "" && fastpath.Processor.On() {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
})

// collectLater puts off the first collection of garbage until 16 MB are allocated. A start allocates about 12 MB; Go collects at 4 MB
// and again at each doubling, which took a third of the processor time until the server was ready. From the first collection on,
// Go's own setting applies. The environment variable GOGC takes precedence.
func collectLater() {
	if os.Getenv("GOGC") != "" {
		return
	}
	const percent = 400 // of Go's least heap, which is 4 MB
	before := debug.SetGCPercent(percent)
	runtime.AddCleanup(new([64]byte), func(before int) { debug.SetGCPercent(before) }, before)
}

// off is a boolean flag that says the opposite of a field of the configuration.
type off struct{ field *bool }

// String implements pflag.Value.
func (o off) String() string { return strconv.FormatBool(o.field == nil || !*o.field) }

// Set implements pflag.Value.
func (o off) Set(text string) error {
	on, err := strconv.ParseBool(text)
	*o.field = !on
	return err
}

// Type implements pflag.Value.
func (off) Type() string { return "bool" }

// serverFlagError is command.FlagError for the server. For flags of kube-apiserver that Keelson lacks, it
// adds advice.
func serverFlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		name := unknown.GetSpecifiedName()
		text := instead[name]
		if text == "" && slices.Contains(withoutEffect, name) {
			text = "is a flag of kube-apiserver for a feature that keelson does not have: leave it out"
		}
		if text != "" {
			err = fmt.Errorf("--%s: %s", name, text)
		}
	}
	return command.FlagError(cmd, err)
}

// instead maps flags of kube-apiserver that Keelson lacks to advice.
var instead = map[string]string{
	"admission-control": "--enable-admission-plugins names plugins",
	"cert-dir":          "--tls-cert-file and --tls-private-key-file name a certificate; the server's own is in --data-dir",
	"feature-gates":     "there are no gates: what Kubernetes has on without flags is there, and leave the flag out",
}
