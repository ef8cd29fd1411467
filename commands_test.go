// This file checks the commands that the documents name.

package keelson

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/testpages"
)

// notRun lists the commands of the pages that the tests in e2e/pages do not run, with the reason. A row is for the lines of the page
// that begin with the command. The commands of all other lines are in blocks "console" and "sh", which run.
var notRun = []struct{ page, command, reason string }{
	{"CONTRIBUTING.md", "go run ./cmd/try serve", "it compiles the program, for minutes; cmd/try has tests of its own"},
	{"CONTRIBUTING.md", "make test", "it is what runs these tests"},
	{"README.md", "git clone", "tests have no network but that of packages"},
	{"README.md", "go run ./cmd/try serve", "it compiles the program, for minutes; cmd/try has tests of its own"},
	{"README.md", "make test", "it is what runs these tests"},
	{"docs/ci.md", "helm template", "it needs Helm and a chart; make conformance-clients runs Helm"},
	{"docs/conversion.md", "keelson convert -f crd.yaml -f conversion.yaml --serve", "it does not end; TestConvertServe runs it"},
	{"docs/gotests.md", "KUBEBUILDER_ASSETS=", "docs/start/operator-tests.md runs it with tests"},
	{"docs/operations.md", "chmod o-rwx /var/lib/keelson", "it is advice that keelson doctor prints"},
	{"docs/operations.md", "keelson doctor --data-dir /var/lib/keelson", "what it finds depends on the machine; doctor.txtar has its findings"},
	{"docs/operations.md", "keelson serve --etcd-servers", "it needs an etcd cluster; make conformance-cluster runs one"},
	{"docs/packages.md", "cosign", "it needs cosign and a key; TestSignature verifies the signature"},
	{"docs/packages.md", "COSIGN_PASSWORD=", "it makes a release; make release-test does"},
	{"docs/packages.md", "cd bin/release", "it needs a release"},
	{"docs/packages.md", "sha256sum", "it needs a release"},
	{"docs/packages.md", "openssl", "it needs a release"},
	{"docs/packages.md", "skopeo", "it needs a release and a registry; TestInstalledImage runs the image"},
	{"docs/packages.md", "podman", "it needs a release and podman; TestInstalledImage runs the image"},
	{"docs/start/embed.md", "go mod edit -replace", "it needs a clone beside the folder; e2e/pages runs the same in place of go get"},
	{"docs/start/operator-tests.md", "go mod edit -replace", "it needs a clone beside the folder; e2e/pages runs the same in place of go get"},
}

// TestCommandsRun holds that each command in a block of a page runs in a test, or has a row with the reason.
func TestCommandsRun(t *testing.T) {
	used := make([]bool, len(notRun))
	for page, text := range readPages(t) {
		for _, b := range testpages.Blocks(text) {
			if b.Runs() {
				continue
			}
			for _, line := range b.Commands() {
				found := false
				for i, row := range notRun {
					if row.page == page && strings.HasPrefix(line.Text, row.command) {
						found, used[i] = true, true
					}
				}
				if !found {
					t.Errorf("%s:%d: nothing runs %q: write it into a block console or sh, or add a row to notRun", page, line.Number, line.Text)
				}
			}
		}
	}
	for i, row := range notRun {
		if !used[i] {
			t.Errorf("notRun: %s has no command %q outside of the blocks that run", row.page, row.command)
		}
	}
}

var (
	makeTarget   = regexp.MustCompile(`(?m)^([a-z0-9-]+):( .*)?$`)
	makeCall     = regexp.MustCompile(`^(?:[A-Z_]+=\S* )*make ([^#|&]*)`)
	makeVariable = regexp.MustCompile(`^([A-Z_]+)=`)
)

// TestMakeTargets holds that the targets and variables of make that pages name exist.
func TestMakeTargets(t *testing.T) {
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(string(text), -1) {
		names[m[1]] = true
	}
	for _, name := range regexp.MustCompile(`\$\(([A-Z_]+)\)|\$\(if \$\(([A-Z_]+)`).FindAllStringSubmatch(string(text), -1) {
		names[name[1]+name[2]] = true
	}
	calls := 0
	for page, text := range readPages(t) {
		lines := testpages.Spans(text)
		for _, b := range testpages.Blocks(text) {
			lines = append(lines, b.Commands()...)
		}
		for _, line := range lines {
			call := makeCall.FindStringSubmatch(line.Text)
			if call == nil {
				continue
			}
			calls++
			for word := range strings.FieldsSeq(call[1]) {
				name := word
				if m := makeVariable.FindStringSubmatch(word); m != nil {
					name = m[1]
				}
				if !names[name] {
					t.Errorf("%s:%d: the Makefile has no target or variable %q", page, line.Number, name)
				}
				if strings.Contains(word, "'") {
					break // the rest is the value
				}
			}
		}
	}
	if calls < 50 {
		t.Fatalf("got %d calls of make, want at least 50", calls)
	}
}

// readPages returns the text of each page.
func readPages(t *testing.T) map[string]string {
	t.Helper()
	pages, err := testpages.List(".")
	if err != nil || len(pages) < 30 {
		t.Fatalf("got %d pages (%v), want all", len(pages), err)
	}
	texts := map[string]string{}
	for _, page := range pages {
		text, err := testpages.Read(".", page)
		if err != nil {
			t.Fatal(err)
		}
		texts[page] = text
	}
	return texts
}
