package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/kind"
)

// This file runs the generator again and compares: its files with those of the product, and its
// descriptions with those that the product publishes.

// worded are the descriptions, by definition and property, that the product words itself: no Go
// type has them, SwaggerDoc cuts them off, or SwaggerDoc unescapes them.
var worded = map[string]bool{
	"io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec validationActions": true,
	"io.k8s.api.certificates.v1.CertificateSigningRequestStatus certificate":                     true,
	"io.k8s.api.core.v1.PodSecurityContext fsGroup":                                              true,
	"io.k8s.api.core.v1.PodSpec setHostnameAsFQDN":                                               true,
	"io.k8s.api.core.v1.TopologySpreadConstraint maxSkew":                                        true,
	"io.k8s.api.core.v1.TopologySpreadConstraint minDomains":                                     true,
	"io.k8s.api.core.v1.TopologySpreadConstraint whenUnsatisfiable":                              true,
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString ":                                           true,
}

// meanings finds what a description says about each possible value of an enumeration.
var meanings = regexp.MustCompile("(?m)^( - `\"[^`]*\"`).*$")

// withoutMeanings returns a description whose list of possible values has the values only.
func withoutMeanings(text string) string {
	text, list, ok := strings.Cut(text, "\n\nPossible enum values:\n")
	if !ok {
		return text
	}
	return strings.TrimSpace(text) + "\n\nPossible enum values:\n" + meanings.ReplaceAllString(list, "$1")
}

// Ledger: builtin-descriptions.
func TestGenerated(t *testing.T) {
	if testing.Short() {
		t.Skip("the generator type-checks all API types")
	}
	files, docs := t.TempDir(), t.TempDir()
	if err := generate(files, docs); err != nil {
		t.Fatal(err)
	}
	compareFiles(t, files)
	text, err := os.ReadFile(filepath.Join(docs, "docs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]map[string]string
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	compareDescriptions(t, want)
}

// compareFiles compares the product's files with those in a folder.
func compareFiles(t *testing.T, folder string) {
	t.Helper()
	for _, pair := range [][2]string{{folder, target}, {target, folder}} {
		all, err := filepath.Glob(filepath.Join(pair[0], "*"))
		if err != nil || len(all) == 0 {
			t.Fatalf("%s: got %d files, %v", pair[0], len(all), err)
		}
		for _, path := range all {
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join(pair[1], filepath.Base(path)))
			if err != nil || string(got) != string(want) {
				t.Errorf("%s: differs from what the generator makes: run go generate ./internal/builtin (%v)", filepath.Base(path), err)
			}
		}
	}
}

// compareDescriptions compares all descriptions that the product publishes.
func compareDescriptions(t *testing.T, want map[string]map[string]string) {
	t.Helper()
	seen, used := map[string]bool{}, map[string]bool{}
	for _, v := range versions() {
		if v.Published == nil {
			continue
		}
		all, err := v.Published()
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range all {
			if seen[name] {
				continue
			}
			seen[name] = true
			for field, got := range descriptionsOf(t, text) {
				same := got == want[name][field] || got == withoutMeanings(want[name][field])
				if at := name + " " + field; worded[at] && !same {
					used[at] = true
				} else if !same {
					t.Errorf("%s: got %q, want %q", at, got, want[name][field])
				}
			}
		}
	}
	for at := range worded {
		if !used[at] {
			t.Errorf("%s: the description is that of Kubernetes: take it off the list", at)
		}
	}
	if len(seen) < 500 {
		t.Errorf("got %d definitions, want at least 500", len(seen))
	}
}

// versions returns the versions of the built-in kinds and those of their subresources.
func versions() []*kind.Version {
	var out []*kind.Version
	for _, k := range builtin.All(nil) {
		out = append(out, k.Versions...)
		if !k.Behavior.IsBuiltin {
			continue
		}
		for _, s := range k.Behavior.Subresources {
			if s.Version != nil {
				out = append(out, s.Version)
			}
		}
	}
	out = append(out, &kind.Version{Published: func() (map[string]json.RawMessage, error) {
		const meta = "io.k8s.apimachinery.pkg.apis.meta.v1."
		return builtin.Published(meta+"APIVersions", meta+"APIGroupList", meta+"APIResourceList", meta+"DeleteOptions", meta+"Patch", meta+"Status",
			meta+"WatchEvent", "io.k8s.apimachinery.pkg.version.Info", "io.k8s.api.autoscaling.v1.Scale")
	}})
	return out
}

// descriptionsOf returns the descriptions of a published definition by property, "" if there is
// none; that of the definition has the name "".
func descriptionsOf(t *testing.T, text []byte) map[string]string {
	t.Helper()
	var s struct {
		Description string
		Properties  map[string]struct{ Description string }
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{"": s.Description}
	for name, p := range s.Properties {
		out[name] = p.Description
	}
	return out
}
