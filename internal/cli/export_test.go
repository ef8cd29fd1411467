package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-io/keelson/internal/testkit"
	"github.com/keelson-io/keelson/server/etcd"
	"github.com/keelson-io/keelson/servertest"
)

const widgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {replicas: {type: integer}}}
`

// keelsonIn returns a function that runs a command line, and returns its output if the exit status
// is 0.
func keelsonIn(ctx context.Context, t *testing.T) func(args ...string) string {
	return func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(ctx, args, strings.NewReader(""), &out, &errs); code != 0 {
			t.Errorf("keelson %s: exit status %d\n%s", strings.Join(args, " "), code, errs.Bytes())
		}
		return out.String()
	}
}

func TestExportServer(t *testing.T) {
	dir := t.TempDir()
	crd, db := filepath.Join(dir, "crd.yaml"), "sqlite://"+filepath.Join(dir, "a.db")
	if err := os.WriteFile(crd, []byte(widgetCRD), 0o600); err != nil {
		t.Fatal(err)
	}
	s := servertest.Start(t, servertest.CRDs(crd), servertest.Database(etcd.Database{}))
	keelson := keelsonIn(t.Context(), t)
	widgets := s.Client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace("default")
	create := func(name string, replicas int64) {
		t.Helper()
		w := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"replicas": replicas}}}
		if _, err := widgets.Create(t.Context(), w, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("a", 1)
	create("b", 2)
	query := func(expr string) string {
		return strings.ReplaceAll(keelson("query", expr, "--db", db, "--kind", "Widget"), "widget.example.com/", "")
	}
	expect := func(want string) {
		t.Helper()
		testkit.EventuallySay(t, func() (string, bool) {
			got := query("self.spec.replicas > 0")
			return "got " + got + ", want " + want, got == want
		})
	}
	export := []string{"export", "--to", db, "--kubeconfig", s.Kubeconfig()}
	keelson(export...)
	expect("a -n default\nb -n default\n")
	if got := keelson("query", `self.metadata.name == "default"`, "--db", db, "--kind", "Namespace", "-o", "yaml"); !strings.Contains(got, "apiVersion: v1\nkind: Namespace\n") {
		t.Error(got)
	}

	// follow runs until the function that it returns is called.
	follow := func() func() {
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { keelsonIn(ctx, t)(append(export, "--follow")...) })
		return func() {
			stop()
			done.Wait()
		}
	}
	stop := follow()
	create("c", 3)
	expect("a -n default\nb -n default\nc -n default\n")
	if _, err := widgets.Patch(t.Context(), "c", types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("a -n default\nb -n default\n")
	stop()

	// What happens between two runs is not lost.
	if err := widgets.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	create("d", 4)
	stop = follow()
	expect("b -n default\nd -n default\n")
	stop()

	backup := filepath.Join(dir, "backup.db")
	keelson("snapshot", "save", "--kubeconfig", s.Kubeconfig(), backup)
	live := keelson("query", "true", "--db", db, "--kind", "Widget", "-o", "json")
	db = "sqlite://" + filepath.Join(dir, "b.db")
	keelson("export", "--to", db, "--snapshot", backup)
	expect("b -n default\nd -n default\n")
	if got := keelson("query", "true", "--db", db, "--kind", "Widget", "-o", "json"); got != live {
		t.Errorf("the snapshot has\n%s\nthe server\n%s", got, live)
	}
}
