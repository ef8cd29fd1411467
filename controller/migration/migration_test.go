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
	metaconditions "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/keelson-io/keelson/internal/testapi"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/objects"
	"github.com/keelson-io/keelson/status"
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
