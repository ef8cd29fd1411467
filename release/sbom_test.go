package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
)

// This file tests the list of components.

// checkSBOM holds that a list has every module of a program with its version, package URL and licence, and nothing twice.
func checkSBOM(t *testing.T, text []byte, binary string) {
	t.Helper()
	list, err := json.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if list.SPDXVersion != "SPDX-2.3" || !strings.HasPrefix(list.DocumentNamespace, repository+"/spdx/v") || list.CreationInfo == nil {
		t.Errorf("got %s, %s, %+v, want a document with a namespace", list.SPDXVersion, list.DocumentNamespace, list.CreationInfo)
	}
	packages, ids := map[string]*spdx.Package{}, map[string]bool{}
	for _, p := range list.Packages {
		packages[p.PackageName] = p
		ids[string(p.PackageSPDXIdentifier)] = true
	}
	if len(ids) != len(list.Packages) || len(list.Relationships) != len(list.Packages) {
		t.Errorf("got %d identifiers and %d relationships for %d packages, want one each", len(ids), len(list.Relationships), len(list.Packages))
	}
	for _, relation := range list.Relationships {
		if !ids[string(relation.RefB.ElementRefID)] {
			t.Errorf("got a relationship to %s, want a package of the list", relation.RefB.ElementRefID)
		}
	}
	want, err := modules(binary)
	if err != nil || len(want) < 2 {
		t.Fatalf("got modules %v (%v), want some", want, err)
	}
	for path, version := range want {
		p := packages[path]
		if p == nil {
			t.Errorf("the list has no %s", path)
			continue
		}
		if p.PackageVersion != version || p.PackageLicenseConcluded == "" || p.PackageLicenseConcluded == noAssertion {
			t.Errorf("%s: got version %s and licence %q, want %s and a licence", path, p.PackageVersion, p.PackageLicenseConcluded, version)
		}
		if refs := p.PackageExternalReferences; len(refs) != 1 || refs[0].RefType != "purl" || refs[0].Locator != purl(path, version) {
			t.Errorf("%s: got %+v, want its package URL", path, refs)
		}
	}
}

// TestSBOM makes the list of components of the program that runs this test.
func TestSBOM(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &release{root: ".", out: t.TempDir(), version: "1.2.3", date: time.Unix(1700000000, 0).UTC()}
	binaries := map[target]string{{"linux", "amd64"}: binary}
	dir := t.TempDir()
	components, err := r.components(binaries, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.sbom(binaries, components); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "keelson_1.2.3_sbom.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	checkSBOM(t, text, binary)
	for _, part := range []string{`"created": "2023-11-14T22:13:20Z"`, `"pkg:golang/stdlib@1.`, `"licenseConcluded": "Apache-2.0 AND MIT"`} {
		if !bytes.Contains(text, []byte(part)) {
			t.Errorf("the list has no %s:\n%.3000s", part, text)
		}
	}
	for _, pattern := range []string{"stdlib_1.*_LICENSE", "github.com_spf13_cobra_v*_LICENSE.txt"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(found) != 1 {
			t.Errorf("%s: got %q (%v), want one file", pattern, found, err)
		}
	}
}

// TestLicenses holds that a module without a known licence is refused, and that its other files are named.
func TestLicenses(t *testing.T) {
	mit, err := os.ReadFile(filepath.Join("testdata", "MIT"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		files              map[string]string
		licenses, unknowns string
		copied             int
		refused            bool
	}{
		{files: map[string]string{"LICENSE": string(mit), "a.go": "", "LICENSE.go": ""}, licenses: "MIT", copied: 1},
		{files: map[string]string{"Licence.md": string(mit), "COPYING": "All is allowed.", "NOTICE": "a"}, licenses: "MIT", unknowns: "COPYING", copied: 3},
		{files: map[string]string{"COPYING": "All is allowed."}, refused: true},
		{files: map[string]string{"NOTICE": string(mit)}, refused: true},
		{refused: true},
	} {
		from, to := t.TempDir(), t.TempDir()
		for name, text := range row.files {
			if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c := component{path: "example.com/a", version: "v1.0.0"}
		if err := c.copyLicenses(from, to); (err != nil) != row.refused {
			t.Errorf("%q: got %v, want refused=%t", row.files, err, row.refused)
		}
		if row.refused {
			continue
		}
		copied, err := os.ReadDir(to)
		if err != nil || len(copied) != row.copied || strings.Join(c.licenses, " ") != row.licenses || strings.Join(c.unrecognized, " ") != row.unknowns {
			t.Errorf("%q: got %+v and %d files (%v)", row.files, c, len(copied), err)
		}
	}
}
