package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/server"
	"github.com/keelson-io/keelson/store/etcd"
)

// This file is keelson snapshot: taking everything out of a running server, and making a data directory from that.

func newSnapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Back up everything that a server stores, and restore it",
		Long: `Back up everything that a server stores while it runs, and make the data
directory of a new server from it.

A snapshot is a file in the form of etcd's own: what etcdctl snapshot save made
of a cluster's etcd can be restored, and etcdutl reads what this command saves.`,
		Example: `  keelson snapshot save backup.db
  keelson snapshot restore --data-dir keelson-new backup.db`,
		Annotations: page("it is done", "it is not done; nothing is left of it", "keelson help snapshot save, keelson help snapshot restore", "docs/operations.md: backup and restore"),
		Args:        onlyCommands,
		RunE:        func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSnapshotSaveCommand(), newSnapshotRestoreCommand())
	return cmd
}

func newSnapshotSaveCommand() *cobra.Command {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	overrides := &clientcmd.ConfigOverrides{}
	cmd := &cobra.Command{
		Use:   "save FILE",
		Short: "Write everything that a running server stores to a file",
		Long: `Write everything that a running server stores, as of one moment, to FILE. The
server goes on serving. It is found as kubectl finds it: by --kubeconfig, the
variable KUBECONFIG, or ~/.kube/config. Its /snapshot must be allowed to the
user (verb get of a non-resource URL); what is secret in the server is in the
file, too.

FILE is written only when the snapshot is whole and its checksum is right.`,
		Example: `  keelson snapshot save backup.db
  keelson snapshot save --kubeconfig keelson-data/admin.kubeconfig "backup-$(date +%F).db"`,
		Annotations: page("the file is written and verified", "there is no file", "keelson help snapshot restore"),
		Args:        oneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
			if clientcmd.IsEmptyConfig(err) {
				return &usageError{errors.New("snapshot save: no server is named: give its kubeconfig with --kubeconfig or KUBECONFIG")}
			}
			if err != nil {
				return fmt.Errorf("finding the server: %w", err)
			}
			size, err := saveSnapshot(cmd.Context(), config, args[0], cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d bytes, checksum verified\n", args[0], size)
			return nil
		},
	}
	cmd.Flags().StringVar(&rules.ExplicitPath, "kubeconfig", "", "`file` that says where the server is")
	cmd.Flags().StringVar(&overrides.CurrentContext, "context", "", "`name` of the context in it; its current one if there is none")
	return cmd
}

// saveSnapshot returns the size of the file in bytes.
func saveSnapshot(ctx context.Context, config *rest.Config, file string, screen io.Writer) (int64, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("/snapshot").String(), nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return 0, fmt.Errorf("%s answers %s: %s", request.URL, response.Status, text)
	}
	part, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(part.Name()) // which fails when all went well
	defer part.Close()
	size, err := io.Copy(part, &progress{from: response.Body, screen: screenOf(screen)})
	if err != nil {
		return 0, fmt.Errorf("the snapshot broke off after %d bytes: %w", size, err)
	}
	if err := part.Sync(); err != nil {
		return 0, err
	}
	if err := etcd.CheckSnapshot(part.Name()); err != nil {
		return 0, err
	}
	return size, os.Rename(part.Name(), file)
}

// screenOf returns w if it is a terminal.
func screenOf(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// progress is a reader that shows on a terminal how far it got.
type progress struct {
	from   io.Reader
	screen io.Writer // nil: nothing is shown
	bytes  int64
	shown  time.Time
}

// Read implements io.Reader.
func (p *progress) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	p.bytes += int64(n)
	switch {
	case p.screen == nil:
	case err != nil:
		fmt.Fprint(p.screen, "\r\x1b[K")
	case time.Since(p.shown) > 100*time.Millisecond:
		p.shown = time.Now()
		fmt.Fprintf(p.screen, "\r%.1f MB", float64(p.bytes)/1e6)
	}
	return n, err
}

func newSnapshotRestoreCommand() *cobra.Command {
	dir := server.DefaultDataDir
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make the data directory of a new server from a snapshot",
		Long: `Make --data-dir the data directory of a new server that goes on from the
snapshot in FILE. There must be no etcd in the directory yet. Certificates and
keys are not in a snapshot: put a copy of the old directory's pki folder there,
or the server makes new ones, which the old server's clients do not believe.

The new server's resource versions are far beyond the old one's: clients that
watched the old server are told that what they know has expired, and list again.`,
		Example: `  keelson snapshot restore --data-dir keelson-new backup.db
  cp -r keelson-data/pki keelson-new/
  keelson serve --data-dir keelson-new`,
		Annotations: page("the directory is made", "it is as it was", "keelson help snapshot save, keelson help serve"),
		Args:        oneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			logger, err := newLogger(cmd.ErrOrStderr(), "text", 0)
			if err != nil {
				return err
			}
			if err := server.Restore(args[0], dir, logger); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "keelson serve --data-dir %s\n", dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", dir, "`directory` to make")
	return cmd
}
