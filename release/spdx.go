package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
	"golang.org/x/mod/module"
)

// This file writes the list of components (SBOM) in SPDX's form.

const repository = "https://github.com/keelson-io/keelson"

// noAssertion says in SPDX that the author of the list does not know.
const noAssertion = "NOASSERTION"

// sbom writes the list of components. The same programs give the same bytes: its time is that of
// the release, and its namespace comes from the version and the checksums of the programs.
func (r *release) sbom(binaries map[target]string, components []component) error {
	sums := sha256.New()
	for _, t := range slices.SortedFunc(maps.Keys(binaries), func(a, b target) int { return cmp.Compare(a.String(), b.String()) }) {
		text, err := os.ReadFile(binaries[t])
		if err != nil {
			return err
		}
		fmt.Fprintf(sums, "%x  %s\n", sha256.Sum256(text), t)
	}
	program := spdxPackage("github.com/keelson-io/keelson", "v"+r.version, []string{"Apache-2.0"})
	program.PackageName = "keelson"
	program.PackageDownloadLocation = repository + "/releases/download/v" + r.version
	program.PrimaryPackagePurpose = "APPLICATION"
	list := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: "keelson " + r.version,
		DocumentNamespace: fmt.Sprintf("%s/spdx/v%s/%x", repository, r.version, sums.Sum(nil)),
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "The Keelson authors"}, {CreatorType: "Tool", Creator: "keelson-release-" + r.version}},
			Created:  r.date.Format("2006-01-02T15:04:05Z"),
		},
		Packages: []*spdx.Package{program},
		Relationships: []*spdx.Relationship{{
			RefA: common.MakeDocElementID("", "DOCUMENT"), RefB: common.MakeDocElementID("", string(program.PackageSPDXIdentifier)), Relationship: common.TypeRelationshipDescribe,
		}},
	}
	for _, c := range components {
		p := spdxPackage(c.path, c.version, c.licenses)
		if c.path == standardLibrary {
			p.PackageDownloadLocation = "https://go.dev/dl/go" + c.version + ".src.tar.gz"
		} else {
			path, err := module.EscapePath(c.path)
			if err != nil {
				return err
			}
			p.PackageDownloadLocation = "https://proxy.golang.org/" + path + "/@v/" + c.version + ".zip"
		}
		if len(c.unrecognized) > 0 {
			p.PackageLicenseComments = "Without a known licence: " + strings.Join(c.unrecognized, ", ")
		}
		list.Packages = append(list.Packages, p)
		list.Relationships = append(list.Relationships, &spdx.Relationship{
			RefA: common.MakeDocElementID("", string(program.PackageSPDXIdentifier)), RefB: common.MakeDocElementID("", string(p.PackageSPDXIdentifier)), Relationship: common.TypeRelationshipDependsOn,
		})
	}
	var text bytes.Buffer
	if err := json.Write(list, &text, json.Indent(" ")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "keelson_"+r.version+"_sbom.spdx.json"), text.Bytes(), 0o644)
}

// notInIDs matches what an identifier of SPDX must not have.
var notInIDs = regexp.MustCompile(`[^A-Za-z0-9.]+`)

// spdxPackage returns a Go module in SPDX's form. Its licences all apply, because each is that of
// some part of the module.
func spdxPackage(path, version string, licenses []string) *spdx.Package {
	expression := strings.Join(licenses, " AND ")
	return &spdx.Package{
		PackageName: path, PackageVersion: version,
		PackageSPDXIdentifier: common.ElementID("Package-" + notInIDs.ReplaceAllString(path+"-"+version, "-")),
		PackageSupplier:       &common.Supplier{Supplier: noAssertion},
		// The files of the package are not listed.
		FilesAnalyzed: false, IsFilesAnalyzedTagPresent: true,
		PackageLicenseConcluded: expression, PackageLicenseDeclared: expression, PackageCopyrightText: noAssertion,
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl(path, version),
		}},
	}
}

// purl returns the package URL of a Go module.
func purl(path, version string) string {
	return "pkg:golang/" + strings.ToLower(path) + "@" + strings.ReplaceAll(version, "+", "%2B")
}
