package clients

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// This file syncs and prunes a folder of manifests as Argo CD does, with the program in folder argocd.

// argo is a folder that is synced to a server.
type argo struct {
	*host
	dir   string
	flags []string
}

// write replaces a file of the folder; without text it goes.
func (a argo) write(name, text string) {
	a.t.Helper()
	file := filepath.Join(a.dir, name+".yaml")
	var err error
	if text == "" {
		err = os.Remove(file)
	} else {
		err = os.WriteFile(file, []byte(text), 0o600)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// sync runs the program, which prints a line for each resource.
func (a argo) sync() (string, error) {
	args := append(append([]string{"-kubeconfig", a.kubeconfig}, a.flags...), a.dir)
	out, err := exec.Command(programs["argocd"], args...).CombinedOutput()
	return string(out), err
}

func (a argo) mustSync(wants ...string) {
	a.t.Helper()
	out, err := a.sync()
	if err != nil {
		a.t.Fatalf("sync: %v\n%s", err, out)
	}
	for _, want := range wants {
		if !strings.Contains(out, want) {
			a.t.Errorf("sync: no %q in\n%s", want, out)
		}
	}
}

func TestArgoCD(t *testing.T) {
	for name, flags := range map[string][]string{"client-side apply": nil, "server-side apply": {"-server-side"}} {
		t.Run(name, func(t *testing.T) {
			a := argo{start(t), t.TempDir(), flags}
			a.write("namespace", shopNamespace)
			a.write("crd", widgetDefinition)
			a.write("widgets", argoWidgets)
			a.write("settings", argoSettings)
			a.write("hook", argoHook)
			a.mustSync("/Namespace/default/shop Synced", "apiextensions.k8s.io/CustomResourceDefinition/default/widgets.example.org Synced",
				"example.org/Widget/shop/one Synced", "/ConfigMap/shop/before Synced Succeeded")
			a.holds("widget shop/one", "red", "spec", "color")
			a.holds("configmap shop/settings", "red", "data", "color")
			a.until("the hook is gone", func() error { return gone(a.get("configmap shop/before")) })
			before := a.get("widget shop/one").GetResourceVersion()
			a.mustSync()
			if after := a.get("widget shop/one").GetResourceVersion(); after != before {
				t.Errorf("the same folder again: the widget was written")
			}
			a.testChanges()
			a.testPruning()
		})
	}
}

func (a argo) testChanges() {
	a.t.Helper()
	patch := []byte(`{"metadata":{"labels":{"team":"blue"}},"spec":{"color":"green"}}`)
	if _, err := a.client.Resource(kinds["widget"]).Namespace("shop").Patch(context.Background(), "one", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		a.t.Fatal(err)
	}
	a.write("settings", strings.ReplaceAll(argoSettings, "red", "blue"))
	a.mustSync("/ConfigMap/shop/settings Synced", "example.org/Widget/shop/one Synced")
	a.holds("configmap shop/settings", "blue", "data", "color")
	a.holds("widget shop/one", "red", "spec", "color")
	a.holds("widget shop/one", "blue", "metadata", "labels", "team")
	a.write("widgets", strings.ReplaceAll(argoWidgets, "red", "pink"))
	if out, err := a.sync(); err == nil || !strings.Contains(out, `Unsupported value: "pink"`) {
		a.t.Errorf("a value that is not valid: %v\n%s", err, out)
	}
	a.write("widgets", argoWidgets)
}

func (a argo) testPruning() {
	a.t.Helper()
	a.write("settings", "")
	a.write("hook", "")
	a.mustSync("/ConfigMap/shop/settings Pruned")
	// What is pruned is deleted in the foreground: by the garbage collector, a moment later.
	a.until("the settings are gone", func() error { return gone(a.get("configmap shop/settings")) })
	a.holds("widget shop/one", "")
	a.write("widgets", "")
	a.write("crd", "")
	a.mustSync("Pruned")
	a.until("the definition is gone", func() error { return gone(a.get("crd widgets.example.org")) })
	a.holds("namespace shop", "")
	a.write("namespace", "")
	a.mustSync("/Namespace//shop Pruned")
	a.until("the namespace is gone", func() error { return gone(a.get("namespace shop")) })
}

const argoWidgets = `
apiVersion: example.org/v1
kind: Widget
metadata:
  name: one
  namespace: shop
  annotations: {argocd.argoproj.io/sync-wave: "2"}
spec: {color: red}
---
apiVersion: example.org/v1
kind: Widget
metadata: {name: two, namespace: shop}
spec: {color: green}
`

const argoSettings = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {color: red}
---
apiVersion: v1
kind: Service
metadata: {name: shop, namespace: shop}
spec:
  selector: {app: shop}
  ports:
  - {name: http, port: 80}
`

const argoHook = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: before
  namespace: shop
  annotations:
    argocd.argoproj.io/hook: PreSync
    argocd.argoproj.io/hook-delete-policy: HookSucceeded
`
