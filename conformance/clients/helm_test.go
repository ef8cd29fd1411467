package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// This file installs, upgrades, rolls back and uninstalls a chart with Helm.

// helm is one version of the command line, in a home of its own.
type helm struct {
	*host
	bin, home string
}

// run runs a command, which must succeed, and returns what it prints.
func (h helm) run(args ...string) string {
	h.t.Helper()
	out, err := h.try(args...)
	if err != nil {
		h.t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (h helm) try(args ...string) (string, error) {
	cmd := exec.Command(h.bin, append(args, "--kubeconfig", h.kubeconfig, "--namespace", "shop")...)
	cmd.Env = append(os.Environ(), "HOME="+h.home, "HELM_CACHE_HOME="+filepath.Join(h.home, "cache"),
		"HELM_CONFIG_HOME="+filepath.Join(h.home, "config"), "HELM_DATA_HOME="+filepath.Join(h.home, "data"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		return stdout.String() + stderr.String(), err
	}
	return stdout.String(), nil
}

// statuses are those of the release's revisions, from the first to the last.
func (h helm) statuses() string {
	h.t.Helper()
	var history []struct{ Status string }
	if out := h.run("history", "demo", "-o", "json"); json.Unmarshal([]byte(out), &history) != nil {
		h.t.Fatalf("helm history: %s", out)
	}
	var all []string
	for _, r := range history {
		all = append(all, r.Status)
	}
	return strings.Join(all, " ")
}

func TestHelm(t *testing.T) {
	for _, version := range []string{"helm3", "helm4"} {
		t.Run(version, func(t *testing.T) {
			h := helm{start(t), programs[version], t.TempDir()}
			h.testTemplates()
			h.testInstall()
			h.testUpgrade()
			h.testRollback()
			h.testUninstall()
		})
	}
}

const shop = "testdata/shop"

// testTemplates checks what the chart makes, as docs/start/manifests.md says.
func (h helm) testTemplates() {
	h.t.Helper()
	for _, one := range []struct{ color, want string }{
		{"blue", "Widget default/demo: valid"},
		{"7", `:3: data.color: got the number 7, want a string; write "7"`},
		{"7", `:3: spec.color: Invalid value: "integer": spec.color in body must be of type string: "integer"`},
	} {
		made := h.run("template", "demo", shop, "--set", "color="+one.color)
		cmd := exec.Command(programs["keelson"], "validate", "-f", shop+"/crds/", "-")
		cmd.Stdin = strings.NewReader(made)
		out, err := cmd.CombinedOutput()
		if (err == nil) != (one.color == "blue") || !strings.Contains(string(out), one.want) {
			h.t.Errorf("color %s: got %v, want %q in\n%s", one.color, err, one.want, out)
		}
	}
}

func (h helm) testInstall() {
	h.t.Helper()
	h.run("install", "demo", shop, "--create-namespace")
	h.holds("crd widgets.example.org", "")
	h.holds("widget shop/demo", "red", "spec", "color")
	h.holds("widget shop/demo", "Helm", "metadata", "labels", "app.kubernetes.io/managed-by")
	h.holds("configmap shop/demo", "1", "data", "revision")
	h.holds("configmap shop/demo-before", "1", "data", "revision")
	h.holds("secret shop/sh.helm.release.v1.demo.v1", "helm.sh/release.v1", "type")
	h.lacks("configmap shop/demo-after", "configmap shop/demo-extra")
	if out, err := h.try("install", "demo", shop); err == nil || !strings.Contains(out, "still in use") && !strings.Contains(out, "cannot reuse a name") {
		h.t.Errorf("a second install: %v\n%s", err, out)
	}
	if out := h.run("list", "-o", "json"); !strings.Contains(out, `"name":"demo"`) || !strings.Contains(out, `"status":"deployed"`) {
		h.t.Errorf("helm list: %s", out)
	}
	if out := h.run("get", "manifest", "demo"); !strings.Contains(out, "kind: Widget") {
		h.t.Errorf("helm get manifest: %s", out)
	}
}

func (h helm) testUpgrade() {
	h.t.Helper()
	// What somebody else writes and the chart says nothing about stays.
	patch := []byte(`{"metadata":{"labels":{"team":"blue"}},"spec":{"size":7}}`)
	if _, err := h.client.Resource(kinds["widget"]).Namespace("shop").Patch(context.Background(), "demo", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		h.t.Fatal(err)
	}
	h.run("upgrade", "demo", shop, "--set", "color=blue,extra=true", "--dry-run=server")
	h.lacks("configmap shop/demo-extra")
	h.run("upgrade", "demo", shop, "--set", "color=blue,extra=true")
	h.holds("widget shop/demo", "blue", "spec", "color")
	h.holds("widget shop/demo", "blue", "metadata", "labels", "team")
	h.holds("configmap shop/demo", "2", "data", "revision")
	h.holds("configmap shop/demo-before", "2", "data", "revision")
	h.holds("configmap shop/demo-extra", "")
	out, err := h.try("upgrade", "demo", shop, "--set", "color=pink,extra=true")
	if err == nil || !strings.Contains(out, `Unsupported value: "pink": supported values: "red", "green", "blue"`) {
		h.t.Errorf("an upgrade to what is not valid: %v\n%s", err, out)
	}
	h.holds("widget shop/demo", "blue", "spec", "color")
	if got, want := h.statuses(), "superseded deployed failed"; got != want {
		h.t.Errorf("revisions: got %s, want %s", got, want)
	}
}

func (h helm) testRollback() {
	h.t.Helper()
	h.run("rollback", "demo", "1")
	h.holds("widget shop/demo", "red", "spec", "color")
	h.holds("widget shop/demo", "blue", "metadata", "labels", "team")
	h.holds("configmap shop/demo", "1", "data", "revision")
	h.lacks("configmap shop/demo-extra", "configmap shop/demo-after")
	if got, want := h.statuses(), "superseded superseded failed deployed"; got != want {
		h.t.Errorf("revisions: got %s, want %s", got, want)
	}
}

func (h helm) testUninstall() {
	h.t.Helper()
	h.run("uninstall", "demo", "--wait")
	h.lacks("widget shop/demo", "configmap shop/demo", "service shop/demo")
	h.holds("crd widgets.example.org", "") // Helm never deletes definitions
	h.holds("configmap shop/demo-last", "")
	if out := h.run("list", "-o", "json"); strings.Contains(out, "demo") {
		h.t.Errorf("helm list: %s", out)
	}
	secrets, err := h.client.Resource(kinds["secret"]).Namespace("shop").List(context.Background(), metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil || len(secrets.Items) != 0 {
		h.t.Errorf("releases in secrets: %d, %v", len(secrets.Items), err)
	}
}
