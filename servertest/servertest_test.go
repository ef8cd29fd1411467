package servertest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/keelson-io/keelson/server/etcd"
	"github.com/keelson-io/keelson/servertest"
)

var widgets = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}

func widget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v1", "kind": "Widget", "metadata": map[string]any{"name": name}, "spec": map[string]any{},
	}}
}

func create(t *testing.T, c dynamic.Interface, name string) error {
	t.Helper()
	made, err := c.Resource(widgets).Namespace("default").Create(t.Context(), widget(name), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if size, _, _ := unstructured.NestedInt64(made.Object, "spec", "size"); size != 3 {
		t.Errorf("%s: got size %d, want the default", name, size)
	}
	return nil
}

// TestStart holds that parallel servers share nothing.
func TestStart(t *testing.T) {
	for i, opts := range [][]servertest.Option{nil, nil, {servertest.Database(etcd.Database{})}, {servertest.Controllers()}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, append(opts, servertest.CRDs("testdata"))...)
			if err := create(t, s.Client, "same"); err != nil {
				t.Fatal(err)
			}
			list, err := s.Client.Resource(widgets).List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 1 {
				t.Errorf("got %d widgets, error %v", len(list.Items), err)
			}
			s.InstallCRDs("testdata/widgets.yaml") // again, without harm
			text, err := os.ReadFile(s.Kubeconfig())
			if err != nil || !strings.Contains(string(text), s.Config.Host) {
				t.Errorf("kubeconfig: %v\n%s", err, text)
			}
		})
	}
}

// TestUser holds that a user has the permissions of roles.
func TestUser(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.CRDs("testdata"))
	jane, err := dynamic.NewForConfig(s.User("jane", "makers"))
	if err != nil {
		t.Fatal(err)
	}
	if err := create(t, jane, "a"); !apierrors.IsForbidden(err) {
		t.Fatalf("got %v, want that jane may not", err)
	}
	grant(t, s)
	if err := create(t, jane, "a"); err != nil {
		t.Error(err)
	}
	if err := jane.Resource(widgets).Namespace("default").Delete(t.Context(), "a", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want that jane may not delete", err)
	}
}

// TestRolesHoldAtOnce holds that a binding is in effect when its creation is answered.
func TestRolesHoldAtOnce(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.CRDs("testdata"))
	jane, err := dynamic.NewForConfig(s.User("jane", "makers"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		grant(t, s)
		if err := create(t, jane, fmt.Sprint("w", i)); err != nil {
			t.Fatalf("after binding %d: %v", i, err)
		}
		for _, resource := range []string{"clusterrolebindings", "clusterroles"} {
			r := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: resource}
			patch := func(finalizers string) {
				t.Helper()
				text := []byte(`{"metadata":{"finalizers":` + finalizers + `}}`)
				if _, err := s.Client.Resource(r).Patch(t.Context(), "makers", types.MergePatchType, text, metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			last := i%2 == 0 && resource == "clusterrolebindings" // it goes with its last finalizer
			if last {
				patch(`["example.org/kept"]`)
			}
			if err := s.Client.Resource(r).Delete(t.Context(), "makers", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if last {
				patch("null")
			}
			if err := create(t, jane, fmt.Sprint("x", i)); !apierrors.IsForbidden(err) {
				t.Fatalf("after binding %d was deleted: %v, want that jane may not", i, err)
			}
		}
	}
}

// grant lets makers create widgets.
func grant(t *testing.T, s *servertest.Server) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "makers"}
	for resource, o := range map[string]runtime.Object{
		"clusterroles": &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, ObjectMeta: meta,
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{"example.org"}, Resources: []string{"widgets"}, Verbs: []string{"create"}}}},
		"clusterrolebindings": &rbacv1.ClusterRoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"}, ObjectMeta: meta,
			Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: "rbac.authorization.k8s.io", Name: "makers"}},
			RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "makers"}},
	} {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			t.Fatal(err)
		}
		r := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: resource}
		if _, err := s.Client.Resource(r).Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBadCRDs holds that unreadable files are reported.
func TestBadCRDs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(path, []byte("kind: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, "no/such/folder"} {
		f := &failing{TB: t}
		func() {
			defer func() { recover() }()
			servertest.Start(f, servertest.CRDs(p))
		}()
		if !strings.Contains(f.message, filepath.Base(p)) {
			t.Errorf("%s: got %q", p, f.message)
		}
	}
}

// TestReservedGroup holds that a definition which will never be served fails the test with the
// reason. A built-in kind with its name would answer instead.
func TestReservedGroup(t *testing.T) {
	const text = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: roles.rbac.authorization.k8s.io, annotations: {api-approved.kubernetes.io: "https://example.org/approved"}}
spec:
  group: rbac.authorization.k8s.io
  scope: Namespaced
  names: {plural: roles, kind: Role}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`
	path := filepath.Join(t.TempDir(), "roles.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &failing{TB: t}
	func() {
		defer func() { recover() }()
		servertest.Start(f, servertest.CRDs(path))
	}()
	const want = `installing roles.rbac.authorization.k8s.io: group "rbac.authorization.k8s.io" is reserved for built-in kinds: no custom resources are served in it`
	if !strings.HasSuffix(f.message, want) {
		t.Errorf("got %q, want %q", f.message, want)
	}
}

// failing is a test that is told that it failed, and does not.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	panic(f.message)
}

// BenchmarkStart measures the start and the stop of a server.
func BenchmarkStart(b *testing.B) {
	for name, opts := range map[string][]servertest.Option{"memory": nil, "memory and a definition": {servertest.CRDs("testdata")}, "etcd": {servertest.Database(etcd.Database{})}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s := servertest.Start(b, opts...)
				b.StopTimer()
				s.Stop()
				b.StartTimer()
			}
		})
	}
}

func Example() {
	test := func(t *testing.T) {
		t.Parallel()
		s := servertest.Start(t, servertest.CRDs("testdata"))
		c, err := dynamic.NewForConfig(s.User("jane", "makers"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Resource(widgets).Namespace("default").Create(context.Background(), widget("a"), metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("jane may create widgets without any role: %v", err)
		}
	}
	_ = test // go test runs it
}

// failed is a test that failed, and keeps what it logs.
type failed struct {
	testing.TB
	cleanups []func()
	logged   strings.Builder
}

func (f *failed) Failed() bool                    { return true }
func (f *failed) Cleanup(fn func())               { f.cleanups = append(f.cleanups, fn) }
func (f *failed) Logf(format string, args ...any) { fmt.Fprintf(&f.logged, format, args...) }

// TestFailureShowsTheLog holds that a test that fails shows what the server logged until it was stopped.
func TestFailureShowsTheLog(t *testing.T) {
	t.Parallel()
	f := &failed{TB: t}
	servertest.Start(f)
	for _, fn := range slices.Backward(f.cleanups) {
		fn()
	}
	if text := f.logged.String(); !strings.Contains(text, "msg=ready") || !strings.Contains(text, "msg=stopping") {
		t.Errorf("got %q, want the server's log", text)
	}
}
