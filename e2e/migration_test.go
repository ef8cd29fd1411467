package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	metaconditions "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestStorageVersionMigration changes the storage version of a definition, and has its objects migrated, so that the old version can be
// dropped.
func TestStorageVersionMigration(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	version := func(name string, storage bool) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`, name, storage)
	}
	definition := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.demo.io"},"spec":{"group":"demo.io","scope":"Namespaced",
		"names":{"plural":"widgets","kind":"Widget"},"versions":[` + version("v1", true) + `,` + version("v2", false) + `]}}`
	s.do(t, 201, "POST", crdPath, []byte(definition))
	for i := range 20 {
		s.do(t, 201, "POST", "/apis/demo.io/v1/namespaces/default/widgets", fmt.Appendf(nil, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"w%d"}}`, i))
	}
	merge := []string{"Content-Type", "application/merge-patch+json"}
	s.do(t, 200, "PATCH", crdPath+"/widgets.demo.io", []byte(`{"spec":{"versions":[`+version("v1", false)+`,`+version("v2", true)+`]}}`), merge...)
	dropped := []byte(`{"spec":{"versions":[` + version("v2", true) + `]}}`)
	if b := s.do(t, 422, "PATCH", crdPath+"/widgets.demo.io", dropped, merge...); !strings.Contains(string(b), "storedVersions") {
		t.Errorf("got %s", b)
	}

	client, err := kubernetes.NewForConfig(s.config(t))
	if err != nil {
		t.Fatal(err)
	}
	migrations := client.StoragemigrationV1().StorageVersionMigrations()
	m := &migrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: "widgets"}}
	m.Spec.Resource = metav1.GroupResource{Group: "demo.io", Resource: "widgets"}
	if _, err := migrations.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w, err := migrations.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=widgets", TimeoutSeconds: new(int64(30))})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for ended := false; !ended; {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				t.Fatal("the migration did not end in 30 s")
			}
			s := e.Object.(*migrationv1.StorageVersionMigration).Status
			if ended = metaconditions.IsStatusConditionFalse(s.Conditions, string(migrationv1.MigrationRunning)); ended && !metaconditions.IsStatusConditionTrue(s.Conditions, string(migrationv1.MigrationSucceeded)) {
				t.Fatalf("got %+v, want Succeeded", s)
			}
		case <-time.After(time.Minute):
			t.Fatal("no event in a minute")
		}
	}
	var got struct {
		Status struct {
			StoredVersions []string
			Conditions     []struct{ Type, Status, Message string }
		}
	}
	if err := json.Unmarshal(s.do(t, 200, "GET", crdPath+"/widgets.demo.io", nil), &got); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got.Status.StoredVersions) != "[v2]" || !strings.Contains(fmt.Sprint(got.Status.Conditions), "{StorageMigrating False The migration has succeeded and the stored versions have been updated}") {
		t.Errorf("got %+v", got)
	}
	s.do(t, 200, "PATCH", crdPath+"/widgets.demo.io", dropped, merge...)
	s.do(t, 200, "GET", "/apis/demo.io/v2/namespaces/default/widgets/w7", nil)
	newKubectl(t, s).ok(t, args("get storageversionmigrations"), "widgets", "widgets.demo.io", "Succeeded")
}
