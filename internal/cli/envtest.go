package cli

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/controller/service"
	"github.com/keelson-io/keelson/internal/store/etcd"
	"github.com/keelson-io/keelson/server"
)

// This file makes the program act as kube-apiserver and etcd for controller-runtime's envtest, and
// has the command that creates a folder with these names.

// programs maps the names under which the program acts as another one.
var programs = map[string]func() *cobra.Command{
	"kube-apiserver": newKubeAPIServerCommand,
	"etcd":           newEtcdCommand,
}

// newKubeAPIServerCommand returns keelson serve with kube-apiserver's flags. As for kube-apiserver
// without a controller manager, only the API server's own controllers run.
func newKubeAPIServerCommand() *cobra.Command {
	certs, gates := "/var/run/kubernetes", new(gateList)
	cmd := serveCommand(func(cmd *cobra.Command, c *server.Config) error {
		f := cmd.Flags()
		if err := checkUnsupported(f); err != nil {
			return err
		}
		foreign, err := checkFeatureGates(gates.String())
		if err != nil {
			return fmt.Errorf("--feature-gates: %w", err)
		}
		if len(foreign) > 0 {
			c.Logger.Warn("feature gates have no effect here, they are about parts of Kubernetes that Keelson does not have", "gates", foreign)
		}
		if !f.Changed("controllers") {
			c.Controllers = []string{service.Name} // a controller that is part of kube-apiserver
		}
		// What kube-apiserver does not serve is served only on request.
		c.RuntimeConfig = append([]string{server.BetaDefinitions + "=false"}, c.RuntimeConfig...)
		if !f.Changed("data-dir") {
			c.DataDir = filepath.Join(certs, "keelson")
		}
		if c.TLSCertFile == "" && c.TLSKeyFile == "" {
			cert, key := filepath.Join(certs, "apiserver.crt"), filepath.Join(certs, "apiserver.key")
			if f.Changed("cert-dir") && !(exists(cert) && exists(key)) {
				if err := writeSelfSigned(c, cert, key); err != nil {
					return fmt.Errorf("--cert-dir: %w", err)
				}
			}
			if exists(cert) && exists(key) {
				c.TLSCertFile, c.TLSKeyFile = cert, key
			}
		}
		for _, name := range withoutEffect {
			if _, is := f.Lookup(name).Value.(*unused); is && f.Changed(name) {
				c.Logger.Warn("flag of kube-apiserver has no effect here", "flag", "--"+name)
			}
		}
		return nil
	})
	cmd.Use, cmd.Short = "kube-apiserver", "keelson serve under the name and with the flags of kube-apiserver"
	cmd.Long = `This is keelson under the name kube-apiserver, for test harnesses that start one:
keelson serve with kube-apiserver's flags, and without controllers other than
kube-apiserver's own. Flags for features that Keelson lacks are accepted with a warning, or refused
if they would change where data is, who gets in, or what is answered.`
	cmd.Example = ""
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	f := cmd.Flags()
	f.Var(gates, "feature-gates", "accepted if the server has the features, or if they are about nodes, schedulers and the like")
	f.Lookup("feature-gates").Hidden = true
	f.StringVar(&certs, "cert-dir", certs, "`directory` of apiserver.crt and apiserver.key, which are created if they are missing, and used unless --tls-cert-file is given")
	for _, name := range withoutEffect {
		if f.Lookup(name) == nil {
			f.Var(new(unused), name, "accepted, without effect")
			f.Lookup(name).Hidden = true
			if withoutValue[name] {
				f.Lookup(name).NoOptDefVal = "true"
			}
		}
	}
	return cmd
}

// unsupported gives the reasons why values of flags are refused that would change where data is,
// who gets in, or what is answered. Other flags of withoutEffect change nothing that a client relies
// on.
var unsupported = map[string]string{
	"egress-selector-config-file": "Keelson has no egress configuration",
	"emulated-version":            "Keelson behaves as Kubernetes 1.37",
	"etcd-servers-overrides":      "all resources are in the etcd of --etcd-servers",
	"tls-sni-cert-key":            "one certificate is served to all clients: --tls-cert-file",
	"tracing-config-file":         "Keelson sends no traces",
}

// checkUnsupported returns an error if a flag of unsupported has a value.
func checkUnsupported(f *pflag.FlagSet) error {
	for _, name := range slices.Sorted(maps.Keys(unsupported)) {
		value := f.Lookup(name).Value.String()
		if value == "" || name == "emulated-version" && strings.TrimPrefix(value, "kube=") == "1.37" {
			continue
		}
		return fmt.Errorf("--%s: got %q, which is not supported: %s", name, value, unsupported[name])
	}
	return nil
}

// writeSelfSigned creates a certificate and its key, as kube-apiserver does in --cert-dir. The file
// of the certificate has its authority, too, so that clients can verify the server with it.
func writeSelfSigned(c *server.Config, certFile, keyFile string) error {
	ips := []net.IP{net.IPv4(127, 0, 0, 1)}
	for _, text := range []string{c.BindAddress, c.AdvertiseAddress} {
		if ip := net.ParseIP(text); ip != nil && !ip.IsUnspecified() && !ip.IsLoopback() {
			ips = append(ips, ip)
		}
	}
	first, _, _ := strings.Cut(c.ServiceClusterIPRange, ",")
	if services, err := netip.ParsePrefix(first); err == nil {
		ips = append(ips, services.Masked().Addr().Next().AsSlice()) // that of default/kubernetes
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", ips, kubernetesNames)
	if err != nil {
		return err
	}
	if err := certutil.WriteCert(certFile, cert); err != nil {
		return err
	}
	return keyutil.WriteKey(keyFile, key)
}

// kubernetesNames lists the names under which clients in a cluster reach kube-apiserver.
var kubernetesNames = []string{"kubernetes.default.svc", "kubernetes.default", "kubernetes"}

// gateList joins the values of a flag that may be there several times.
type gateList struct{ texts []string }

// Set implements pflag.Value.
func (g *gateList) Set(s string) error { g.texts = append(g.texts, s); return nil }

// String implements pflag.Value.
func (g *gateList) String() string { return strings.Join(g.texts, ",") }

// Type implements pflag.Value.
func (g *gateList) Type() string { return "mapStringBool" }

// unused is the value of a flag without effect.
type unused struct{ text string }

// Set accepts any value.
func (u *unused) Set(s string) error { u.text = s; return nil }

// String implements pflag.Value.
func (u *unused) String() string { return u.text }

// Type implements pflag.Value.
func (u *unused) Type() string { return "value" }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// newEtcdCommand returns a command that runs an etcd of one member for tests.
func newEtcdCommand() *cobra.Command {
	var client, clients, peers, dir, level string
	var fast bool
	cmd := &cobra.Command{
		Use:   "etcd",
		Short: "Run an etcd of one member, for tests",
		Long: `Run keelson under the name etcd, for test harnesses that start an etcd. It has one
member and listens at --listen-client-urls, without encryption.`,
		Args:          command.NoArguments,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := url.Parse(client)
			if err != nil || u.Scheme != "http" || u.Host == "" {
				return command.UsageError(fmt.Errorf("--listen-client-urls: got %q, want one URL http://host:port", client))
			}
			logger, err := command.NewLogger(cmd.ErrOrStderr(), "text", 0)
			if err != nil {
				return err
			}
			l, err := net.Listen("tcp", u.Host)
			if err != nil {
				return err
			}
			return etcd.Serve(cmd.Context(), etcd.Config{DataDir: dir, Fast: fast, Logger: logger}, l)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "data-dir", "default.etcd", "`directory` for the data")
	f.StringVar(&client, "listen-client-urls", "http://localhost:2379", "`URL` to listen on for clients")
	f.BoolVar(&fast, "unsafe-no-fsync", false, "do not wait for the disk; for tests only")
	f.StringVar(&clients, "advertise-client-urls", "", "accepted, without effect")
	f.StringVar(&peers, "listen-peer-urls", "", "accepted, without effect")
	f.StringVar(&level, "log-level", "", "accepted, without effect; warnings and errors are logged")
	return cmd
}

func newEnvtestAssetsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "envtest-assets DIR",
		Short: "Create a folder of test binaries for controller-runtime's envtest",
		Long: `Create DIR with the files kube-apiserver and etcd, which are this program under
other names. Tests that use controller-runtime's envtest then run on it unchanged:

    keelson envtest-assets /tmp/assets
    KUBEBUILDER_ASSETS=/tmp/assets go test ./...

The files do not change when the program is replaced. Run the command again for a
newer version.`,
		Example:     "  keelson envtest-assets assets",
		Annotations: command.Page("the folder is laid out", "it is not, or not completely", "keelson help serve", "docs/gotests.md: an API server in Go tests"),
		Args:        command.OneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			if self, err = filepath.EvalSymlinks(self); err != nil {
				return err
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			for name := range programs {
				if err := place(self, filepath.Join(args[0], name)); err != nil {
					return err
				}
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "export KUBEBUILDER_ASSETS=%s\n", dir)
			return nil
		},
	}
}

// place links a file to the program, or copies it if the system cannot link it. It does not use a
// symbolic link, which would break when "go run" removes the program, or when a build cache stores
// the folder.
func place(program, path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	if os.Link(program, path) == nil {
		return nil
	}
	in, err := os.Open(program)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// withoutEffect lists kube-apiserver's flags for features that Keelson lacks, except for those that
// keelson serve handles.
var withoutEffect = strings.Fields(`
	admission-control aggregator-reject-forwarding-redirect allow-metric-labels allow-metric-labels-manifest allow-privileged
	apiserver-count audit-log-batch-max-size audit-log-batch-max-wait audit-log-batch-throttle-burst
	audit-log-batch-throttle-enable audit-log-batch-throttle-qps audit-log-truncate-enabled
	audit-log-truncate-max-batch-size audit-log-truncate-max-event-size audit-log-version
	audit-webhook-batch-initial-backoff audit-webhook-batch-throttle-enable audit-webhook-truncate-enabled
	audit-webhook-truncate-max-batch-size audit-webhook-truncate-max-event-size audit-webhook-version
	cloud-provider-gce-l7lb-src-cidrs contention-profiling coordinated-leadership-lease-duration
	coordinated-leadership-renew-deadline coordinated-leadership-retry-period cors-allowed-origins debug-socket-path
	default-watch-cache-size delete-collection-workers disable-http2-serving disabled-metrics egress-selector-config-file
	emulated-version emulation-forward-compatible enable-aggregator-routing enable-garbage-collector enable-logs-handler
	etcd-compaction-interval etcd-count-metric-poll-period etcd-db-metric-poll-interval etcd-healthcheck-timeout
	etcd-readycheck-timeout etcd-servers-overrides external-hostname goaway-chance
	http2-max-streams-per-connection kubelet-certificate-authority kubelet-client-certificate kubelet-client-key
	kubelet-port kubelet-preferred-address-types kubelet-read-only-port kubelet-timeout kubernetes-service-node-port
	lease-reuse-duration-seconds livez-grace-period log-flush-frequency log-json-info-buffer-size log-json-split-stream
	log-text-info-buffer-size log-text-split-stream max-connection-bytes-per-sec min-compatibility-version
	peer-advertise-ip peer-advertise-port peer-ca-file permit-address-sharing permit-port-sharing proxy-client-cert-file
	proxy-client-key-file runtime-config-emulation-forward-compatible service-account-extend-token-expiration
	service-account-lookup show-hidden-metrics-for-version shutdown-delay-duration
	shutdown-send-retry-after shutdown-watch-termination-grace-period storage-backend storage-initialization-timeout
	storage-media-type tls-sni-cert-key tracing-config-file vmodule watch-cache-sizes`)

// withoutValue lists those of them that can stand without a value.
var withoutValue = func() map[string]bool {
	m := map[string]bool{}
	for _, name := range strings.Fields(`aggregator-reject-forwarding-redirect allow-privileged audit-log-batch-throttle-enable audit-log-truncate-enabled
		audit-webhook-batch-throttle-enable audit-webhook-truncate-enabled contention-profiling disable-http2-serving
		emulation-forward-compatible enable-aggregator-routing enable-bootstrap-token-auth enable-garbage-collector
		enable-logs-handler log-json-split-stream log-text-split-stream permit-address-sharing
		permit-port-sharing profiling runtime-config-emulation-forward-compatible service-account-extend-token-expiration
		service-account-lookup shutdown-send-retry-after`) {
		m[name] = true
	}
	return m
}()
