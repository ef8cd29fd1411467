package storage

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-io/keelson/internal/admission/lookup"
	"github.com/keelson-io/keelson/internal/testapi"
	"github.com/keelson-io/keelson/internal/testkit"
)

// TestDefaultClass holds that only a new claim that names no class gets the default class.
func TestDefaultClass(t *testing.T) {
	api := testapi.New(t)
	for name, annotation := range map[string]string{"none": "a", "gold": "storageclass.kubernetes.io/is-default-class"} {
		api.Must("POST", "/apis/storage.k8s.io/v1/storageclasses",
			`{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"`+name+`","annotations":{"`+annotation+`":"true"}},"provisioner":"a.io/b"}`)
	}
	if err := api.Cache.Resource("storageclasses").Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	step := DefaultClass(NewClasses(lookup.Source{Kinds: api.Kinds.Load, Cache: api.Cache}))
	for _, row := range []struct {
		at          testkit.Position
		text, old   string
		subresource string
		want        string // the class
	}{
		{testkit.Here(), `{"spec":{}}`, "", "", "gold"},
		{testkit.Here(), `{"spec":{}}`, "", "status", ""},
		{testkit.Here(), `{"spec":{}}`, `{"spec":{}}`, "", ""},
		{testkit.Here(), `{"spec":{"storageClassName":"own"}}`, "", "", "own"},
		{testkit.Here(), `{"spec":{"storageClassName":""}}`, "", "", ""},
		{testkit.Here(), `{"metadata":{"annotations":{"volume.beta.kubernetes.io/storage-class":"own"}},"spec":{}}`, "", "", ""},
	} {
		r := api.Request(api.Kind("", "persistentvolumeclaims"), "default", row.text, row.old)
		r.Subresource = row.subresource
		if err := step(t.Context(), r); err != nil {
			t.Errorf("%s: %v", row.at, err)
		}
		if got := r.New.Root().At("spec", "storageClassName").Text(); got != row.want {
			t.Errorf("%s: got %q, want %q", row.at, got, row.want)
		}
	}
}

// TestInUse holds that new storage objects get the finalizer of their kind once, after their own.
func TestInUse(t *testing.T) {
	api := testapi.New(t)
	for _, row := range []struct {
		at            testkit.Position
		group, plural string
		text, want    string // want are the finalizers
	}{
		{testkit.Here(), "", "persistentvolumeclaims", `{}`, "kubernetes.io/pvc-protection"},
		{testkit.Here(), "", "persistentvolumes", `{}`, "kubernetes.io/pv-protection"},
		{testkit.Here(), "storage.k8s.io", "volumeattributesclasses", `{}`, "kubernetes.io/vac-protection"},
		{testkit.Here(), "", "persistentvolumes", `{"metadata":{"finalizers":["a.io/b"]}}`, "a.io/b kubernetes.io/pv-protection"},
		{testkit.Here(), "", "persistentvolumes", `{"metadata":{"finalizers":["kubernetes.io/pv-protection","a.io/b"]}}`, "kubernetes.io/pv-protection a.io/b"},
	} {
		r := api.Request(api.Kind(row.group, row.plural), "", row.text, "")
		if err := InUse()(t.Context(), r); err != nil {
			t.Errorf("%s: %v", row.at, err)
		}
		var got []string
		for _, f := range r.New.Root().At("metadata", "finalizers").Items() {
			got = append(got, f.Text())
		}
		if strings.Join(got, " ") != row.want {
			t.Errorf("%s: got %q, want %q", row.at, got, row.want)
		}
	}
}

// TestClassOf holds that the annotation counts before the field.
func TestClassOf(t *testing.T) {
	name := "field"
	claim := &corev1.PersistentVolumeClaim{}
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, ""},
		{func() { claim.Spec.StorageClassName = &name }, "field"},
		{func() { claim.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "old"} }, "old"},
	} {
		if step.change(); ClassOf(claim) != step.want {
			t.Errorf("got %q, want %q", ClassOf(claim), step.want)
		}
	}
}
