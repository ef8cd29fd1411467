// Package doctor has the command "doctor" of keelson: it checks a machine and a data directory for
// a server.
//
// # Model
//
// A [check] looks at one thing and returns a [finding]: ok, warning or problem, what was found, and
// what to do. Checks do not depend on each other, except that some know whether a server is
// running.
//
// # Invariants
//
//   - The command changes nothing. It writes one small file to measure the disk, and removes it.
//   - Each check ends, or is given up, after a few seconds.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/datadir"
	"github.com/keelson-io/keelson/internal/store/etcd"
	"github.com/keelson-io/keelson/server"
)

// This file has the command, and runs the checks.

// The states of a finding.
const (
	ok      = "ok"
	warning = "warning" // the server runs, but something needs attention
	problem = "problem" // the server does not start, or does not work as it should
)

// finding is the result of a check.
type finding struct {
	Name   string `json:"name"`   // of the check, such as data-dir
	Status string `json:"status"` // ok, warning or problem
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"` // what to do
}

// report is what keelson doctor -o json prints.
type report struct {
	command.Envelope
	DataDir string    `json:"dataDir"`
	Checks  []finding `json:"checks"`
}

// check looks at one thing. run returns a finding without a name.
type check struct {
	name string
	run  func(context.Context) finding
}

// options are the flags, which have the names and meanings of those of keelson serve.
type options struct {
	dataDir                  string
	bindAddress              string
	securePort               int
	healthAddress            string
	tlsCertFile, tlsKeyFile  string
	clientCAFile             string
	etcdServers              []string
	etcdCAFile, etcdCertFile string
	etcdKeyFile              string
}

// doctor checks a machine for a server with these options. Tests replace what it asks the machine.
type doctor struct {
	options

	limit     time.Duration // of one check
	now       func() time.Time
	built     time.Time    // the time of the commit of this program; zero if unknown
	openFiles func() int64 // 0 if none is set, or it is unknown
	freeBytes func(dir string) (int64, error)
	timeSync  func(ctx context.Context, dir string) (time.Duration, error)
}

// newDoctor returns a doctor for this machine.
func newDoctor(o options) *doctor {
	return &doctor{options: o, limit: 5 * time.Second, now: time.Now, built: buildTime(), openFiles: datadir.OpenFiles, freeBytes: etcd.FreeBytes, timeSync: timeSync}
}

// buildTime returns the time of the commit that this program was built from; zero if it is unknown.
func buildTime() time.Time {
	info, found := debug.ReadBuildInfo()
	if !found {
		return time.Time{}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			built, _ := time.Parse(time.RFC3339, s.Value) // zero if it is malformed
			return built
		}
	}
	return time.Time{}
}

// Command returns the command "doctor".
func Command() *cobra.Command {
	var o options
	format := "text"
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check a machine and a data directory, and say what to do",
		Long: `Check whether keelson serve, with the same flags, can run on this machine and in
the data directory: its owner and permissions, its lock, its format, leftovers of
an interrupted start or restore, the certificates, the clock, the ports, the limit
on open files, and the space and speed of the disk. With --etcd-servers, also
whether each server of etcd answers.

Each check is ok, a warning or a problem. The lines below a warning or a problem
say what to do. The server may be running meanwhile. Run the command as the user
who runs the server.

The command changes nothing. To measure the disk it writes a small file into the
data directory, or into its parent if there is none yet, and removes it.`,
		Example: `  keelson doctor
  keelson doctor --bind-address 0.0.0.0 --secure-port 6443 -o json`,
		Annotations: command.Page("nothing is wrong, or there are only warnings", "there is a problem", "keelson help serve", "docs/operations.md: check a machine"),
		Args:        command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "text" && format != "json" {
				return command.UsageError(fmt.Errorf("doctor: -o: got %q, want text or json", format))
			}
			if err := o.validate(); err != nil {
				return command.UsageError(fmt.Errorf("doctor: %w", err))
			}
			o.dataDir = cmp.Or(o.dataDir, server.DefaultDataDir)
			return examine(cmd.Context(), newDoctor(o), cmd.OutOrStdout(), format)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.dataDir, "data-dir", server.DefaultDataDir, "data `directory` of the server")
	f.StringVar(&o.bindAddress, "bind-address", server.DefaultBindAddress, "`address` that the server listens on")
	f.IntVar(&o.securePort, "secure-port", server.DefaultSecurePort, "`port` that the server listens on; 0 for any free port")
	f.StringVar(&o.healthAddress, "health-bind-address", "", "`address` and port of the server's health checks without TLS")
	f.StringVar(&o.tlsCertFile, "tls-cert-file", "", "`file` with the serving certificate, followed by its chain")
	f.StringVar(&o.tlsKeyFile, "tls-private-key-file", "", "`file` with the key of --tls-cert-file")
	f.StringVar(&o.clientCAFile, "client-ca-file", "", "`file` with more authorities of client certificates")
	f.StringSliceVar(&o.etcdServers, "etcd-servers", nil, "`URLs` of an etcd cluster, in place of the embedded etcd")
	f.StringVar(&o.etcdCAFile, "etcd-cafile", "", "`file` with the authorities of the etcd cluster's certificates")
	f.StringVar(&o.etcdCertFile, "etcd-certfile", "", "`file` with the client certificate for etcd")
	f.StringVar(&o.etcdKeyFile, "etcd-keyfile", "", "`file` with the key of --etcd-certfile")
	f.StringVarP(&format, "output", "o", format, "`format`: text or json")
	return cmd
}

// validate returns an error for flags that no server accepts.
func (o *options) validate() error {
	if o.securePort < 0 || o.securePort > 65535 {
		return fmt.Errorf("--secure-port: got %d, want a port, or 0 for any free one", o.securePort)
	}
	if o.healthAddress != "" {
		if _, _, err := net.SplitHostPort(o.healthAddress); err != nil {
			return fmt.Errorf("--health-bind-address: got %q, want an address and a port, such as :8081", o.healthAddress)
		}
	}
	if (o.tlsCertFile == "") != (o.tlsKeyFile == "") {
		return errors.New("got only one of --tls-cert-file and --tls-private-key-file, want both or none")
	}
	if (o.etcdCertFile == "") != (o.etcdKeyFile == "") {
		return errors.New("got only one of --etcd-certfile and --etcd-keyfile, want both or none")
	}
	if len(o.etcdServers) == 0 && (o.etcdCAFile != "" || o.etcdCertFile != "") {
		return errors.New("got certificates for etcd without --etcd-servers")
	}
	return nil
}

// examine runs all checks and prints them. It returns an error if there is a problem.
func examine(ctx context.Context, d *doctor, out io.Writer, format string) error {
	findings := d.examine(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("doctor: %w", context.Cause(ctx))
	}
	if format == "json" {
		if err := command.PrintJSON(out, report{command.EnvelopeOf("DoctorReport"), d.dataDir, findings}); err != nil {
			return err
		}
	} else if err := printText(out, findings); err != nil {
		return err
	}
	problems := 0
	for _, f := range findings {
		if f.Status == problem {
			problems++
		}
	}
	if problems > 0 {
		return errors.New("doctor: " + command.Plural(problems, "problem"))
	}
	return nil
}

// examine returns the findings of all checks, in their order.
func (d *doctor) examine(ctx context.Context) []finding {
	lock, answered := within(ctx, d.limit, d.readLock)
	if !answered {
		lock.err = errors.New("the file system does not answer")
	}
	var findings []finding
	for _, c := range d.checks(lock) {
		f, answered := within(ctx, d.limit, c.run)
		if !answered {
			f = finding{Status: problem, Found: fmt.Sprintf("no answer within %v", d.limit), Advice: "A disk, a mount or the network may hang: see the log of the system, such as dmesg."}
		}
		f.Name = c.name
		findings = append(findings, f)
	}
	return findings
}

// checks returns the checks that these options need.
func (d *doctor) checks(lock lockState) []check {
	checks := []check{
		{"data-dir", d.checkDir},
		{"lock", func(context.Context) finding { return lock.finding() }},
		{"permissions", d.checkPermissions},
	}
	if len(d.etcdServers) == 0 {
		checks = append(checks, check{"format", d.checkFormat},
			check{"store", func(context.Context) finding { return d.checkStore(lock.held) }})
	}
	checks = append(checks, check{"clock", d.checkClock})
	checks = append(checks, d.certificateChecks(lock.held)...)
	checks = append(checks, d.portChecks(lock.held)...)
	checks = append(checks, check{"open-files", d.checkOpenFiles}, check{"disk-space", d.checkSpace})
	if len(d.etcdServers) == 0 {
		checks = append(checks, check{"disk-sync", d.checkSync})
	}
	for _, url := range d.etcdServers {
		checks = append(checks, check{"etcd", func(ctx context.Context) finding { return d.checkMember(ctx, url) }})
	}
	return checks
}

// grace is the time that a function has to return after its time is up.
const grace = 300 * time.Millisecond

// within calls f with a limited time. If f does not return in time, within returns false and leaves
// f to itself: a call to a file system that hangs cannot be ended.
func within[T any](ctx context.Context, limit time.Duration, f func(context.Context) T) (result T, answered bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan T, 1)
	go func() { done <- f(ctx) }()
	select {
	case result = <-done:
		return result, true
	case <-ctx.Done():
	}
	select {
	case result = <-done:
		return result, true
	case <-time.After(grace):
		return result, false
	}
}

// printText prints a line for each finding, with its advice below.
func printText(out io.Writer, findings []finding) error {
	paint := command.Painter(out)
	colours := map[string]string{ok: "32", warning: "33", problem: "31"}
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Name))
	}
	indent := strings.Repeat(" ", len(problem)+2)
	var b strings.Builder
	for _, f := range findings {
		padding := strings.Repeat(" ", len(problem)-len(f.Status))
		fmt.Fprintf(&b, "%s%s  %-*s  %s\n", paint(colours[f.Status], f.Status), padding, width, f.Name, oneLine(f.Found))
		if f.Advice != "" {
			fmt.Fprintf(&b, "%s%s\n", indent, oneLine(f.Advice))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// oneLine joins the lines of a text.
func oneLine(text string) string {
	return strings.Join(slices.Collect(strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' })), "; ")
}
