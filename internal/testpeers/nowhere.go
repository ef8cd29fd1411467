package testpeers

import (
	"os"
	"path/filepath"
)

// This file has a kubeconfig for commands that require one without using it.

const nowhere = `apiVersion: v1
kind: Config
clusters:
- {name: nowhere, cluster: {server: "http://127.1.2.3:1"}}
contexts:
- {name: nowhere, context: {cluster: nowhere, user: nobody}}
current-context: nowhere
users:
- {name: nobody, user: {}}
`

// Nowhere writes a kubeconfig with an unreachable server into a folder, and returns its path.
func Nowhere(dir string) (string, error) {
	file := filepath.Join(dir, "nowhere.kubeconfig")
	return file, os.WriteFile(file, []byte(nowhere), 0o600)
}
