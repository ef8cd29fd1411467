package lookup

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/testapi"
	"github.com/keelson-io/keelson/internal/testkit"
)

func create(api *testapi.API, namespace, name string) {
	api.Must("POST", "/api/v1/namespaces/"+namespace+"/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`"},"data":{"name":"`+name+`"}}`)
}

func maps(api *testapi.API) *Lister[corev1.ConfigMap] {
	return New[corev1.ConfigMap](Source{Kinds: api.Kinds.Load, Cache: api.Cache}, schema.GroupResource{Resource: "configmaps"})
}

// TestLister holds that acknowledged objects are found at once, in their namespace only, and in the
// order of their keys.
func TestLister(t *testing.T) {
	api := testapi.New(t)
	if err := api.As("test").EnsureNamespace(t.Context(), "default-2"); err != nil {
		t.Fatal(err)
	}
	l := maps(api)
	for _, name := range []string{"b", "a", "c"} {
		create(api, "default", name)
		got, err := l.Get(t.Context(), "default", name)
		if err != nil || got == nil || got.Data["name"] != name {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	create(api, "default-2", "d")
	if err := l.Current(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		at        testkit.Position
		namespace string
		want      []string
	}{
		{testkit.Here(), "default", []string{"a", "b", "c"}},
		{testkit.Here(), "default-2", []string{"d"}},
		{testkit.Here(), "", []string{"d", "a", "b", "c"}},
		{testkit.Here(), "other", nil},
	} {
		list, err := l.List(t.Context(), row.namespace)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range list {
			got = append(got, m.Name)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: got %q, want %q", row.at, got, row.want)
		}
	}
	for _, name := range []string{"d", "", "missing"} {
		if got, err := l.Get(t.Context(), "default", name); got != nil || err != nil {
			t.Errorf("%q: got %v, %v", name, got, err)
		}
	}
}

// TestUnknownResource holds that a resource that is not served has no objects.
func TestUnknownResource(t *testing.T) {
	api := testapi.New(t)
	l := New[corev1.ConfigMap](Source{Kinds: api.Kinds.Load, Cache: api.Cache}, schema.GroupResource{Group: "a.io", Resource: "b"})
	got, err := l.Get(t.Context(), "default", "a")
	list, listErr := l.List(t.Context(), "")
	if got != nil || list != nil || err != nil || listErr != nil || l.Current(t.Context()) != nil {
		t.Errorf("got %v, %v, %v, %v", got, err, list, listErr)
	}
}

// TestDecodedOnce holds that an unchanged object is decoded once, a changed one again, and that what
// is remembered of deleted objects is bounded.
func TestDecodedOnce(t *testing.T) {
	api := testapi.New(t)
	l := maps(api)
	get := func(name string) *corev1.ConfigMap {
		t.Helper()
		if err := l.Current(t.Context()); err != nil {
			t.Fatal(err)
		}
		m, err := l.Get(t.Context(), "default", name)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	create(api, "default", "a")
	first := get("a")
	if get("a") != first {
		t.Error("an unchanged object was decoded again")
	}
	api.Must("PATCH", "/api/v1/namespaces/default/configmaps/a", `{"data":{"name":"changed"}}`)
	if again := get("a"); again == first || again.Data["name"] != "changed" {
		t.Errorf("a changed object: got %v", again)
	}
	for i := range spare + 8 {
		name := fmt.Sprint("m", i)
		create(api, "default", name)
		get(name)
		api.Must("DELETE", "/api/v1/namespaces/default/configmaps/"+name, "")
	}
	if err := l.Current(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.List(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if got := len(l.decoded); got != 1 {
		t.Errorf("%d objects are remembered, want 1", got)
	}
}

// TestRememberedBytes holds that large objects and many objects are read as small ones are, and that their decoded forms are not all kept.
func TestRememberedBytes(t *testing.T) {
	api := testapi.New(t)
	l := maps(api)
	for i, size := range append(slices.Repeat([]int{oneBytes - 1000}, 20), 2*oneBytes) {
		name, text := fmt.Sprint("m", i), strings.Repeat("x", size)
		api.Must("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"`+name+`"},"data":{"a":"`+text+`"}}`)
		for range 2 {
			m, err := l.Get(t.Context(), "default", name)
			if err != nil || len(m.Data["a"]) != size {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	held := 0
	for _, m := range l.decoded {
		held += len(m.object.Raw)
	}
	if held != l.bytes || held > mostBytes || held < mostBytes/2 {
		t.Errorf("%d objects of %d bytes are remembered, %d are counted; want at most %d", len(l.decoded), held, l.bytes, mostBytes)
	}
	if _, ok := l.decoded["configmaps/default/m20"]; ok {
		t.Error("an object of 128 KiB is remembered")
	}
}
