package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDeployFiles holds that what deploy/ says is so: the manifests are valid as a cluster sees them, and every command and flag
// that is named there exists. Package internal/cli tests those in documents.
func TestDeployFiles(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	k := newKubectl(t, s)
	for file, objects := range map[string]int{"../deploy/kubernetes.yaml": 3, etcdManifest: 5} {
		manifests, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		if out := k.ok(t, []string{"apply", "--server-side", "--validate=strict", "-f", manifests}); strings.Count(out, "serverside-applied") != objects {
			t.Errorf("%s: got %s, want %d objects", file, out, objects)
		}
	}
	flag := regexp.MustCompile(`(?:^|[\s"\[` + "`" + `])--([a-z][a-z-]+)`)
	command := regexp.MustCompile(`(?:keelson |CMD \["|- )(serve|snapshot save|snapshot restore|kubeconfig)\b`)
	known := map[string]bool{"help": true}
	for _, args := range []string{"serve", "snapshot save", "snapshot restore", "kubeconfig"} {
		out, err := exec.Command(keelsonBin, append(strings.Fields(args), "--help")...).Output()
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		for _, f := range flag.FindAllStringSubmatch(string(out), -1) {
			known[f[1]] = true
		}
	}
	for _, file := range []string{"../deploy/kubernetes.yaml", etcdManifest, "../deploy/Containerfile", "../deploy/keelson.service"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(strings.TrimLeft(line, "# "), "kubectl ") && !strings.Contains(line, "keelson kubeconfig") || strings.Contains(line, "COPY") || strings.Contains(line, "systemctl") {
				continue // flags of others
			}
			if command.MatchString(line) {
				seen++
			}
			for _, f := range flag.FindAllStringSubmatch(line, -1) {
				if !known[f[1]] {
					t.Errorf("%s: keelson has no flag --%s", file, f[1])
				}
			}
		}
		if seen == 0 {
			t.Errorf("%s names no command of keelson", file)
		}
	}
}
