package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/server"
	"github.com/keelson-io/keelson/server/etcd"
)

// This file starts the server of "serve" and prints what a new user does next.

// serve runs a server. It prints the setting of KUBECONFIG, and with hints also what to do next, as
// comments, so that a shell can read the whole output.
func serve(ctx context.Context, c server.Config, out io.Writer, hints bool) error {
	collectLater()
	if len(c.EtcdServers) == 0 {
		spareProcessor()
	}
	etcd.Use(&c)
	s, err := server.New(ctx, c)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: is another server running? %s", err, otherPort(c.BindAddress, c.SecurePort))
	}
	if err != nil {
		return err
	}
	text, err := nextSteps(s.KubeconfigPath(), c.DataDir, hints)
	if err != nil {
		return err
	}
	// One write: a program that reads the first line may close the pipe after it.
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	return s.Run(ctx)
}

// otherPort returns advice for a port that is taken: the next one that is free now.
func otherPort(address string, port int) string {
	if next, found := command.FreePort(address, port); found {
		return fmt.Sprintf("The next free port: --secure-port %d", next)
	}
	return "--secure-port 0 chooses a free port"
}

// nextSteps returns what "serve" prints before the server is ready. The path is absolute, because
// the other terminal may be in another directory.
func nextSteps(kubeconfig, dataDir string, hints bool) (string, error) {
	path, err := filepath.Abs(kubeconfig)
	if err != nil {
		return "", err
	}
	text := "export KUBECONFIG=" + shellWord(path) + "\n"
	if !hints {
		return text, nil
	}
	user := "keelson kubeconfig"
	if dataDir != server.DefaultDataDir {
		user += " --data-dir " + shellWord(dataDir)
	}
	text += "# In another terminal, run the line above. Then:\n"
	for _, next := range [][2]string{
		{"kubectl apply -f my-crd.yaml", "serve a type of your own"},
		{"kubectl get crds", "list the types"},
		{user + " --user jane", "make a kubeconfig for another user"},
	} {
		text += fmt.Sprintf("#   %-35s  %s\n", next[0], next[1])
	}
	return text + "# Ctrl-C stops the server; the same command starts it again with its data.\n", nil
}

// shellWord quotes a word for a POSIX shell if it has characters with a meaning there.
func shellWord(word string) string {
	special := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@%,=", r) || r > 127)
	}
	if word != "" && strings.IndexFunc(word, special) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
