// Package snapshot has the commands "snapshot save", "snapshot status" and "snapshot restore" of keelson.
package snapshot

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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/internal/store/etcd"
	"github.com/keelson-io/keelson/server"
)

// Command returns the command "snapshot".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Back up everything that a server stores, and restore it",
		Long: `Back up everything that a running server stores, and create the data directory of
a new server from the backup.

A snapshot has the format of etcd's snapshots: the snapshots of etcdctl can be
restored, and etcdutl reads those of this command.`,
		Example: `  keelson snapshot save backup.db
  keelson snapshot restore --data-dir keelson-new backup.db`,
		Annotations: command.Page("it is done", "it is not done; nothing is left of it", "keelson help snapshot save, keelson help snapshot restore", "docs/operations.md: backup and restore"),
		Args:        command.OnlyCommands,
		RunE:        func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSaveCommand(), newStatusCommand(), newRestoreCommand())
	return cmd
}

// newSaveCommand returns the command "snapshot save".
func newSaveCommand() *cobra.Command {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	overrides := &clientcmd.ConfigOverrides{}
	cmd := &cobra.Command{
		Use:   "save FILE",
		Short: "Write everything that a running server stores to a file",
		Long: `Write everything that a running server stores, at one moment, to FILE. The server
continues to serve. Like kubectl, the command finds the server by --kubeconfig,
the variable KUBECONFIG, or ~/.kube/config. The user needs the verb create on the
resource snapshots of the API group keelson.io, which cluster-admin has, because
the file contains every Secret of the server.

FILE appears only when the snapshot is complete and its checksum is correct.`,
		Example: `  keelson snapshot save backup.db
  keelson snapshot save --kubeconfig keelson-data/admin.kubeconfig "backup-$(date +%F).db"`,
		Annotations: command.Page("the file is written and verified", "no file was written", "keelson help snapshot restore"),
		Args:        command.OneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
			if clientcmd.IsEmptyConfig(err) {
				return command.UsageError(errors.New("snapshot save: no server is named: give its kubeconfig with --kubeconfig or KUBECONFIG"))
			}
			if err != nil {
				return fmt.Errorf("finding the server: %w", err)
			}
			size, err := save(cmd.Context(), config, args[0], cmd.ErrOrStderr())
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

// save downloads a snapshot to a file, and returns its size in bytes.
func save(ctx context.Context, config *rest.Config, file string, screen io.Writer) (int64, error) {
	if err := keysize.CheckCredentials([]string{config.CAFile, config.CertFile, config.KeyFile}, config.CAData, config.CertData, config.KeyData); err != nil {
		return 0, fmt.Errorf("the kubeconfig: %w", err)
	}
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
	defer os.Remove(part.Name()) // fails after success, when the file was renamed
	defer part.Close()
	size, err := io.Copy(part, &progress{from: response.Body, screen: command.TerminalOf(screen)})
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

// progress is a reader that shows on a terminal how much was read.
type progress struct {
	from   io.Reader
	screen *os.File // nil: show nothing
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

// newRestoreCommand returns the command "snapshot restore".
func newRestoreCommand() *cobra.Command {
	dir := server.DefaultDataDir
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Create the data directory of a new server from a snapshot",
		Long: `Create in --data-dir the data of a new server that continues from the snapshot in
FILE. The directory must not contain an etcd yet. A snapshot has no certificates
and keys: copy the pki folder of the old directory. Otherwise the server makes new
ones, which clients of the old server do not trust.

The resource versions of the new server are far above those of the old one. Clients
that watched the old server get the error that theirs have expired, and list again.`,
		Example: `  keelson snapshot restore --data-dir keelson-new backup.db
  cp -r keelson-data/pki keelson-new/
  keelson serve --data-dir keelson-new`,
		Annotations: command.Page("the directory is made", "it is as it was", "keelson help snapshot save, keelson help serve"),
		Args:        command.OneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			logger, err := command.NewLogger(cmd.ErrOrStderr(), "text", 0)
			if err != nil {
				return err
			}
			if err := server.Restore(etcd.Database{}, args[0], dir, logger); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "keelson serve --data-dir %s\n", dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", dir, "`directory` to make")
	return cmd
}
