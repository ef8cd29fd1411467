package crd_test

import (
	"fmt"
	"testing"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kubernetes"
	"github.com/keelson-io/keelson/schema"
)

// TestReleases holds the first release that accepts a rule. conformance/versions compares them with
// upstream's libraries.
func TestReleases(t *testing.T) {
	for _, row := range []struct{ what, field, want string }{
		{"all have it", `{"type":"string","maxLength":9,"x-kubernetes-validations":[{"rule":"self.startsWith('a')"}]}`, "1.29"},
		{"a function of 1.30", `{"type":"string","maxLength":9,"x-kubernetes-validations":[{"rule":"isIP(self)"}]}`, "1.31"},
		{"a function of 1.33", `{"type":"string","maxLength":9,"x-kubernetes-validations":[{"rule":"isSemver(self)"}]}`, "1.34"},
		{"a reserved word as the name of a field", `{"type":"object","properties":{"namespace":{"type":"string"}},
			"x-kubernetes-validations":[{"rule":"self.namespace == 'a'"}]}`, "1.32"},
	} {
		got := ""
		for _, r := range kubernetes.All() {
			if got == "" && accepts(t, r, row.field) {
				got = r.String()
			}
		}
		if got != row.want {
			t.Errorf("%s: first accepted by %q, want %s", row.what, got, row.want)
		}
	}
}

// accepts reports whether a release accepts a definition with one field in the spec.
func accepts(t *testing.T, r kubernetes.Release, of string) bool {
	text := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{
		"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"x":%s}}}}]}}`, of)
	v, d := (&crd.Compiler{Release: r}).Definitions().Versions[0], new(jsondoc.Doc)
	if _, err := v.Decode(d, []byte(text)); err != nil {
		t.Fatal(err)
	}
	v.PrepareCreate(d)
	meta.Object{Doc: d}.SetUID(meta.NewUID())
	return len(v.Validate(t.Context(), d, nil, schema.Whole).Errors) == 0
}
