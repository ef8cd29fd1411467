package migration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	migrationv1 "k8s.io/api/storagemigration/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metaconditions "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/testapi"
	"github.com/keelson-io/keelson/kind"
)

// This file runs the controller over the API with a store in memory.

const migrations = "/apis/storagemigration.k8s.io/v1/storageversionmigrations"

// protobufMap returns a ConfigMap as kube-apiserver stores it.
func protobufMap(t *testing.T, name string) []byte {
	t.Helper()
	m := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "u-" + "1", CreationTimestamp: metav1.Now()}, Data: map[string]string{"a": "b"}}
	var b strings.Builder
	if err := protobuf.NewSerializer(nil, nil).Encode(runtime.Object(m), &b); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}

func body(name, group, resource string) string {
	return fmt.Sprintf(`{"apiVersion":"storagemigration.k8s.io/v1","kind":"StorageVersionMigration","metadata":{"name":%q},"spec":{"resource":{"group":%q,"resource":%q}}}`, name, group, resource)
}

func newController(a *testapi.API) *Controller {
	return &Controller{Kinds: a.Kinds, Cache: a.Cache, Store: a.Store, Logger: a.Logger,
		Objects: a.As(Name), Definitions: a.As(Runner), Status: a.As(objects.ControllerManager)}
}

// get reads a migration.
func get(a *testapi.API, name string) *migrationv1.StorageVersionMigration {
	a.Helper()
	m := new(migrationv1.StorageVersionMigration)
	if !a.Get(migrations+"/"+name, m) {
		a.Fatalf("%s is gone", name)
	}
	return m
}

// expect checks that a migration has ended with a condition and its message.
func expect(a *testapi.API, name string, t migrationv1.MigrationConditionType, message string) {
	a.Helper()
	m := get(a, name)
	c := metaconditions.FindStatusCondition(m.Status.Conditions, string(t))
	if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, message) {
		a.Errorf("%s: got %+v, want %s with %q", name, m.Status.Conditions, t, message)
	}
	if r := metaconditions.FindStatusCondition(m.Status.Conditions, string(migrationv1.MigrationRunning)); r == nil || r.Status != metav1.ConditionFalse || r.Reason != "MigrationCompleted" {
		a.Errorf("%s: got %+v, want it not running", name, m.Status.Conditions)
	}
}

// TestRewrites holds that objects in another form than the present one are written again, and others are not.
func TestRewrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := testapi.New(t)
		maps := a.Kind("", "configmaps")
		const many = 2*atATime + 3
		for i := range many {
			name := fmt.Sprintf("m%04d", i)
			if _, err := a.Store.Create(t.Context(), maps.Key("default", name), protobufMap(t, name)); err != nil {
				t.Fatal(err)
			}
		}
		a.Must("POST", "/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"present"}}`)
		before, err := a.Store.Get(t.Context(), maps.Key("default", "present"))
		if err != nil {
			t.Fatal(err)
		}
		a.Run(newController(a).Run)
		a.Must("POST", migrations, body("all", "", "configmaps"))
		synctest.Wait()
		expect(a, "all", migrationv1.MigrationSucceeded, "Migration completed")
		if c := get(a, "all").Status.Conditions; !strings.Contains(fmt.Sprint(c), "Migration completed") {
			t.Errorf("got %v", c)
		}
		for i := range many {
			it, err := a.Store.Get(t.Context(), maps.Key("default", fmt.Sprintf("m%04d", i)))
			if err != nil || !json.Valid(it.Value) {
				t.Fatalf("object %d: %v, %.40q, want JSON", i, err, it.Value)
			}
		}
		if after, err := a.Store.Get(t.Context(), before.Key); err != nil || after.Rev != before.Rev {
			t.Errorf("an object in the present form: got revision %d, %v, want %d", after.Rev, err, before.Rev)
		}
	})
}

// TestOneAfterTheOther holds that one migration of a resource runs at a time, and that the next one runs when it is over or gone.
func TestOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := testapi.New(t)
		a.Must("POST", migrations, body("first", "demo.io", "widgets")) // waits for its resource
		time.Sleep(2 * time.Second)
		a.Must("POST", migrations, body("second", "demo.io", "widgets"))
		a.Must("POST", migrations, body("other", "", "secrets"))
		a.Run(newController(a).Run)
		synctest.Wait()
		expect(a, "other", migrationv1.MigrationSucceeded, "Migration completed")
		if c := get(a, "second").Status.Conditions; len(c) > 0 {
			t.Errorf("second: got %v, want it to wait", c)
		}
		a.Must("DELETE", migrations+"/first", "")
		synctest.Wait()
		if !is(get(a, "second"), migrationv1.MigrationRunning) {
			t.Errorf("second: got %v, want it to run", get(a, "second").Status)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		expect(a, "second", migrationv1.MigrationFailed, "resource does not exist in discovery")
		a.Must("POST", migrations, body("reviews", "authorization.k8s.io", "subjectaccessreviews"))
		synctest.Wait()
		expect(a, "reviews", migrationv1.MigrationFailed, `resource "authorization.k8s.io/v1, Resource=subjectaccessreviews" does not support discovery operations`)
	})
}

// failing fails to change objects.
type failing struct {
	objects.Writer
	errs map[string]error // by name
	left *int             // so often retriable errors are returned
}

// Modify implements API.
func (f failing) Modify(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error {
	if err := f.errs[name]; err != nil {
		if !isRetriable(err) || *f.left > 0 {
			*f.left--
			return err
		}
	}
	return f.Writer.Modify(ctx, k, namespace, name, fn)
}

// TestFailures holds that a migration is tried again after an error that may pass, and fails after one that does not.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := testapi.New(t)
		maps := a.Kind("", "configmaps")
		for _, name := range []string{"a", "b"} {
			if _, err := a.Store.Create(t.Context(), maps.Key("default", name), protobufMap(t, name)); err != nil {
				t.Fatal(err)
			}
		}
		c := newController(a)
		c.Objects = failing{a.As(Name), map[string]error{"a": status.TooManyRequests("slow down", 1)}, new(3)}
		a.Run(c.Run)
		a.Must("POST", migrations, body("retried", "", "configmaps"))
		synctest.Wait()
		if text := fmt.Sprint(get(a, "retried").Status.Conditions); !strings.Contains(text, "transient error: slow down") {
			t.Errorf("got %s", text)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		expect(a, "retried", migrationv1.MigrationSucceeded, "")
	})
	synctest.Test(t, func(t *testing.T) {
		a := testapi.New(t)
		a.Must("POST", "/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)
		c := newController(a)
		c.Objects = failing{a.As(Name), map[string]error{"a": status.Forbidden(corev1.Resource("configmaps"), "a", errors.New("a policy says no"))}, new(int)}
		a.Run(c.Run)
		a.Must("POST", migrations, body("refused", "", "configmaps"))
		synctest.Wait()
		expect(a, "refused", migrationv1.MigrationFailed, `1/1 not yet migrated. migration encountered unhandled error: configmaps "a" is forbidden: a policy says no`)
	})
}

// TestLaggingServer holds that a server that does not serve the new storage version of a CRD yet, or
// serves a CRD of the same name that is gone, rewrites nothing and does not say that it has.
func TestLaggingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := testapi.New(t)
		const definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		const version = `{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object"}}}`
		versions := func(storage string) string {
			return fmt.Sprintf(`"versions":[`+version+`,`+version+`]`, "v1", storage == "v1", "v2", storage == "v2")
		}
		// serve makes the registry what it is once the stored CRD has been compiled.
		serve := func() {
			def := new(apiextv1.CustomResourceDefinition)
			if !a.Get(definition+"/docs.demo.io", def) {
				t.Fatal("the CRD is gone")
			}
			crd.SetCondition(def, apiextv1.CustomResourceDefinitionCondition{Type: apiextv1.Established, Status: apiextv1.ConditionTrue}, time.Now())
			k, err := crd.Compile(def)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Kinds.Put(k); err != nil {
				t.Fatal(err)
			}
		}
		create := func(storage string) {
			a.Must("POST", definition, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"docs.demo.io"},
				"spec":{"group":"demo.io","scope":"Namespaced","names":{"plural":"docs","kind":"Doc"},`+versions(storage)+`}}`)
		}
		stored := func(want string) {
			t.Helper()
			it, err := a.Store.Get(t.Context(), "demo.io/docs/default/d")
			if got := kind.StoredAPIVersion(it.Value); err != nil || got != want {
				t.Errorf("got an object in %s, %v, want %s", got, err, want)
			}
		}
		unfinished := func(name string) {
			t.Helper()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if m := get(a, name); !is(m, migrationv1.MigrationRunning) || ended(m) {
				t.Errorf("got %+v, want it to wait until the server knows the CRD", m.Status.Conditions)
			}
		}
		create("v1")
		serve()
		a.Must("POST", "/apis/demo.io/v1/namespaces/default/docs", `{"apiVersion":"demo.io/v1","kind":"Doc","metadata":{"name":"d"}}`)
		a.Run(newController(a).Run)
		a.Must("PATCH", definition+"/docs.demo.io", `{"spec":{`+versions("v2")+`}}`)
		a.Must("POST", migrations, body("first", "demo.io", "docs"))
		unfinished("first")
		stored("demo.io/v1")
		serve()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		expect(a, "first", migrationv1.MigrationSucceeded, "Migration completed")
		stored("demo.io/v2")

		// Another CRD with the same name and a lower generation.
		a.Must("DELETE", definition+"/docs.demo.io", "")
		a.Must("PATCH", definition+"/docs.demo.io", `{"metadata":{"finalizers":null}}`)
		create("v1")
		a.Must("POST", migrations, body("second", "demo.io", "docs"))
		unfinished("second")
		serve()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		expect(a, "second", migrationv1.MigrationSucceeded, "Migration completed")
		stored("demo.io/v1")

		// A CRD that this server does not serve at all yet, and a migration that another server began.
		a.Kinds.Remove(a.Kind("demo.io", "docs"))
		a.Must("POST", migrations, body("third", "demo.io", "docs"))
		a.Must("PATCH", migrations+"/third/status", fmt.Sprintf(`{"status":{"resourceVersion":"1","conditions":[{"type":"Running","status":"True","reason":%q,"message":"","lastTransitionTime":"2000-01-01T00:00:00Z"}]}}`, running))
		unfinished("third")
		serve()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		expect(a, "third", migrationv1.MigrationSucceeded, "Migration completed")
	})
}

// TestManyMigrations holds that many migrations of one resource run one after the other, each change of which costs little.
func TestManyMigrations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := testapi.New(t)
		const many = 300
		for i := range many {
			a.Must("POST", migrations, body(fmt.Sprintf("m%03d", i), "", "configmaps"))
		}
		a.Run(newController(a).Run)
		synctest.Wait()
		for i := range many {
			expect(a, fmt.Sprintf("m%03d", i), migrationv1.MigrationSucceeded, "Migration completed")
		}
	})
}
