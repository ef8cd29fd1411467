// Package clients runs programs that others wrote for Kubernetes against the keelson binary, as they are: Helm 3 and Helm 4 (the command
// lines), Flux's library for server-side apply, and Argo CD's sync engine.
//
// The programs are in modules of their own, so that each has the versions of Kubernetes' libraries that its authors chose: that is what
// users run. KEELSON_BIN names a binary to test in place of the one that would be built.
package clients

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"context"
	"net"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// programs are the paths of what TestMain built, by name.
var programs = map[string]string{}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "keelson-clients-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Setenv("TMPDIR", dir) // of the programs, too
	for _, p := range []struct{ name, from, what string }{
		{"keelson", "../..", "./cmd/keelson"},
		{"helm3", ".", "helm.sh/helm/v3/cmd/helm"},
		{"helm4", ".", "helm.sh/helm/v4/cmd/helm"},
		{"argocd", "argocd", "."},
	} {
		// KEELSON_BIN, HELM3_BIN, …
		if programs[p.name] = os.Getenv(strings.ToUpper(p.name) + "_BIN"); programs[p.name] != "" {
			continue
		}
		programs[p.name] = filepath.Join(dir, p.name)
		build := exec.Command("go", "build", "-o", programs[p.name], p.what)
		build.Dir = p.from
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building %s: %v\n%s", p.what, err, out)
			return 1
		}
	}
	return m.Run()
}

// host is a running server.
type host struct {
	t          *testing.T
	kubeconfig string
	config     *rest.Config
	client     dynamic.Interface
}

// start starts the binary with an empty data directory; it ends with the test.
func start(t *testing.T) *host {
	t.Helper()
	h := &host{t: t}
	dir, port := t.TempDir(), freePort(t)
	var log bytes.Buffer
	cmd := exec.Command(programs["keelson"], "serve", "--data-dir", filepath.Join(dir, "data"), "--secure-port", strconv.Itoa(port))
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("server log:\n%s", log.String()[max(0, log.Len()-4000):])
		}
	})
	h.kubeconfig = filepath.Join(dir, "data", "admin.kubeconfig")
	h.until("the server is ready", func() error {
		config, err := clientcmd.BuildConfigFromFlags("", h.kubeconfig)
		if err != nil {
			return err
		}
		return ready(config)
	})
	var err error
	if h.config, err = clientcmd.BuildConfigFromFlags("", h.kubeconfig); err != nil {
		t.Fatal(err)
	}
	h.config.QPS = -1
	if h.client, err = dynamic.NewForConfig(h.config); err != nil {
		t.Fatal(err)
	}
	return h
}

func ready(config *rest.Config) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer c.CloseIdleConnections()
	resp, err := c.Get(config.Host + "/readyz")
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz: %s", resp.Status)
	}
	return nil
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// until waits until what it is given has no error.
func (h *host) until(what string, ok func() error) {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("not after 30 s: %s: %v", what, err)
		}
	}
}

// kinds are what the tests look at.
var kinds = map[string]schema.GroupVersionResource{
	"namespace": {Version: "v1", Resource: "namespaces"},
	"configmap": {Version: "v1", Resource: "configmaps"},
	"secret":    {Version: "v1", Resource: "secrets"},
	"service":   {Version: "v1", Resource: "services"},
	"crd":       {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	"widget":    {Group: "example.org", Version: "v1", Resource: "widgets"},
	// Of Keelson's own chart.
	"statefulset":    {Group: "apps", Version: "v1", Resource: "statefulsets"},
	"servicemonitor": {Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors"},
}

// get reads "kind namespace/name" or "kind name"; nil if it is not there.
func (h *host) get(what string) *unstructured.Unstructured {
	h.t.Helper()
	kind, name, _ := strings.Cut(what, " ")
	namespace, short, ok := strings.Cut(name, "/")
	if !ok {
		namespace, short = "", name
	}
	o, err := h.client.Resource(kinds[kind]).Namespace(namespace).Get(context.Background(), short, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		h.t.Fatalf("%s: %v", what, err)
	}
	return o
}

// holds fails the test unless the object is there and has the value ("" for: any) at the path.
func (h *host) holds(what, want string, path ...string) {
	h.t.Helper()
	o := h.get(what)
	if o == nil {
		h.t.Errorf("%s is not there", what)
		return
	}
	if len(path) == 0 {
		return
	}
	if got, _, err := unstructured.NestedString(o.Object, path...); err != nil || got != want {
		h.t.Errorf("%s: %s is %q (%v), want %q", what, strings.Join(path, "."), got, err, want)
	}
}

// lacks fails the test if the objects are there.
func (h *host) lacks(objects ...string) {
	h.t.Helper()
	for _, what := range objects {
		if h.get(what) != nil {
			h.t.Errorf("%s is there", what)
		}
	}
}

// What Flux and Argo CD are given, among other things.
const (
	shopNamespace = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
`
	widgetDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              color: {type: string, enum: [red, green, blue]}
              size: {type: integer, default: 1}
`
)

// gone says that an object is not there.
func gone(o *unstructured.Unstructured) error {
	if o != nil {
		return fmt.Errorf("%s %s is there: %v", o.GetKind(), o.GetName(), o.Object["status"])
	}
	return nil
}
