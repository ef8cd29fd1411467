package kind

import (
	"slices"
	"strings"
	"testing"
)

// fixedKinds are stand-ins for built-in kinds.
func fixedKinds() []*Kind {
	return []*Kind{
		{Group: "rbac.authorization.k8s.io", Plural: "roles", StoragePrefix: "roles"},
		{Group: "", Plural: "secrets", StoragePrefix: "secrets"},
		{Group: "", Plural: "services", StoragePrefix: "services/specs"},
		{Group: "later.k8s.io", Plural: "things", StoragePrefix: "shared.example.org/things"},
	}
}

func TestBuiltinKindsStay(t *testing.T) {
	builtins := fixedKinds()
	r := NewRegistry(builtins...)
	list := func() []string {
		var out []string
		for k := range r.Load().All() {
			out = append(out, k.Group+"/"+k.Plural)
		}
		return out
	}
	want := []string{"/secrets", "/services", "later.k8s.io/things", "rbac.authorization.k8s.io/roles"}
	sameTexts(t, list(), want)
	for _, b := range builtins {
		if err := r.Put(&Kind{Group: b.Group, Plural: b.Plural, UID: "1"}); err == nil {
			t.Errorf("%s in %q: got no error, want one", b.Plural, b.Group)
		}
		r.Remove(&Kind{Group: b.Group, Plural: b.Plural})
		r.Remove(b)
		if got := r.Load().Lookup(b.Group, b.Plural); got != b {
			t.Errorf("%s in %q: got %v, want the built-in kind", b.Plural, b.Group, got)
		}
	}
	sameTexts(t, list(), want)

	for _, k := range []*Kind{{Group: "zoo.example.org", Plural: "cats"}, {Group: "a.example.org", Plural: "b"}, {Group: "rbac.authorization.k8s.io.example.org", Plural: "roles"}} {
		if err := r.Put(k); err != nil {
			t.Error(err)
		}
	}
	sameTexts(t, list(), []string{"/secrets", "/services", "a.example.org/b", "later.k8s.io/things", "rbac.authorization.k8s.io/roles",
		"rbac.authorization.k8s.io.example.org/roles", "zoo.example.org/cats"})
	if n := r.Load().Len(); n != 7 {
		t.Errorf("got %d kinds, want 7", n)
	}
	for n := 1; n <= 7; n++ { // a reader may stop anywhere
		seen := 0
		for range r.Load().All() {
			if seen++; seen == n {
				break
			}
		}
		if seen != n {
			t.Errorf("stopped after %d: got %d", n, seen)
		}
	}
	for group, want := range map[string][]string{"": {"secrets", "services"}, "rbac.authorization.k8s.io": {"roles"}, "a.example.org": {"b"}, "b.example.org": nil} {
		var got []string
		for k := range r.Load().InGroup(group) {
			got = append(got, k.Plural)
		}
		sameTexts(t, got, want)
	}
}

func TestRefuses(t *testing.T) {
	r := NewRegistry(fixedKinds()...)
	for _, o := range []struct{ name, group, plural, reason, left string }{
		{"widgets.example.org", "example.org", "widgets", "", ""},
		{"roles.rbac.authorization.k8s.io.org", "rbac.authorization.k8s.io.org", "roles", "", ""},
		{"gateways.gateway.networking.k8s.io", "gateway.networking.k8s.io", "gateways", "", ""},
		{"storageversions.internal.apiserver.k8s.io", "internal.apiserver.k8s.io", "storageversions", "", ""}, // upstream does not serve the group unless it is told to
		{"roles.rbac.authorization.k8s.io", "rbac.authorization.k8s.io", "roles", "GroupReserved", "rbac.authorization.k8s.io/roles/"},
		{"foos.rbac.authorization.k8s.io", "rbac.authorization.k8s.io", "foos", "GroupReserved", "rbac.authorization.k8s.io/foos/"},
		{"foos.later.k8s.io", "later.k8s.io", "foos", "GroupReserved", "later.k8s.io/foos/"}, // because of the kind in the table
		{"foos.storagemigration.k8s.io", "storagemigration.k8s.io", "foos", "GroupReserved", "storagemigration.k8s.io/foos/"},
		{"snapshots.keelson.io", "keelson.io", "snapshots", "GroupReserved", "keelson.io/snapshots/"}, // what is asked for /snapshot
		{"snapshots.demo.keelson.io", "demo.keelson.io", "snapshots", "", ""},
		{"secrets.", "", "secrets", "GroupReserved", ""},
		{"deployments.apps", "apps", "deployments", "GroupReserved", ""},
		{"things.shared.example.org", "shared.example.org", "things", "InvalidNames", ""}, // the keys are those of a built-in kind
		{"default.secrets", "secrets", "default", "InvalidNames", ""},
		{"specs.services", "services", "specs", "InvalidNames", ""},
		{"a/b.example.org", "example.org", "a/b", "InvalidNames", ""},
		{"b.a/example.org", "a/example.org", "b", "InvalidNames", ""},
		{"b.", "", "b", "GroupReserved", ""},
		{".example.org", "example.org", "", "InvalidNames", ""},
		{"other.example.org", "example.org", "widgets", "NameConflict", ""},
		{"other.rbac.authorization.k8s.io", "rbac.authorization.k8s.io", "roles", "GroupReserved", ""},
	} {
		got := r.Refuses(o.name, o.group, o.plural)
		switch {
		case got == nil && o.reason != "", got != nil && (got.Reason != o.reason || got.Left != o.left):
			t.Errorf("%s: got %+v, want %s and %q", o.name, got, o.reason, o.left)
		}
	}
	definitions := NewRegistry(&Kind{
		Group: "apiextensions.k8s.io", Plural: "customresourcedefinitions", StoragePrefix: "apiextensions.k8s.io/customresourcedefinitions",
	})
	for _, plural := range []string{"customresourcedefinitions", "customresourcedefinition"} {
		got := definitions.Refuses(plural+".apiextensions.k8s.io", "apiextensions.k8s.io", plural)
		if got == nil || (got.Left == "") != (plural == "customresourcedefinitions") {
			t.Errorf("%s: got %+v", plural, got)
		}
	}
}

func sameTexts(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
