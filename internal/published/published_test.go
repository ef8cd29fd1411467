// Package published runs validate and lint on the published sources of other projects, and holds what
// they say of them. It has tests only.
package published

// This file has the projects, and the tables in docs/found.md and docs/ci.md.

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	download = flag.Bool("download", false, "download the projects' modules, and run keelson on all files of them")
	update   = flag.Bool("update", false, "write the tables into docs/found.md and docs/ci.md")
)

// page has the table between two markers.
const (
	page  = "../../docs/found.md"
	begin = "<!-- projects:begin -->\n"
	end   = "<!-- projects:end -->"
)

// project is a module with its published version, which the Go module proxy never changes.
type project struct {
	module, version string
	crds            []string // definitions of kinds that it uses, below modules
	lint            string   // the folder with its own definitions
}

// Definitions that projects take from others.
const (
	certManager = "github.com/cert-manager/cert-manager@v1.21.2/deploy/crds"
	gatewayAPI  = "sigs.k8s.io/gateway-api@v1.6.3/config/crd/experimental"
	kwok        = "sigs.k8s.io/kwok@v0.8.0/kustomize/crd/bases"
	kyverno     = "github.com/kyverno/kyverno@v1.19.1/config/crds"
	prometheus  = "github.com/prometheus-operator/prometheus-operator@v0.85.0/example/prometheus-operator-crd"
	snapshots   = "github.com/kubernetes-csi/external-snapshotter/client/v8@v8.7.0/config/crd"
)

var projects = []project{
	{module: "github.com/cert-manager/cert-manager", version: "v1.21.2", crds: []string{gatewayAPI, kyverno}, lint: "deploy/crds"},
	{module: "sigs.k8s.io/cluster-api", version: "v1.14.2", crds: []string{certManager}, lint: "core/config/crd"},
	{module: "github.com/external-secrets/external-secrets", version: "v1.3.2", lint: "config/crds"},
	{module: "sigs.k8s.io/gateway-api", version: "v1.6.3", lint: "config/crd/standard"},
	{module: "sigs.k8s.io/jobset", version: "v0.12.0", crds: []string{certManager, prometheus}, lint: "config/components/crd"},
	{module: "sigs.k8s.io/karpenter", version: "v1.14.0", crds: []string{kwok}, lint: "pkg/apis/crds"},
	{module: "github.com/kedacore/keda/v2", version: "v2.21.0", crds: []string{prometheus}, lint: "config/crd"},
	{module: "sigs.k8s.io/kueue", version: "v0.19.0", crds: []string{certManager, prometheus}, lint: "config/components/crd"},
	{module: "github.com/kyverno/kyverno", version: "v1.19.1", lint: "config/crds"},
	{module: "sigs.k8s.io/lws", version: "v0.9.0", crds: []string{certManager, prometheus}, lint: "config/crd"},
	{module: "github.com/prometheus-operator/prometheus-operator", version: "v0.85.0", lint: "example/prometheus-operator-crd"},
	{module: "github.com/vmware-tanzu/velero", version: "v1.18.3", crds: []string{snapshots}, lint: "config/crd"},
}

// TestPublished compares what validate and lint say with the table. No more than 5 % of the objects of
// a project may be skipped.
func TestPublished(t *testing.T) {
	if !*download {
		t.Skip("needs -download: make published")
	}
	bin := build(t)
	var b strings.Builder
	b.WriteString("| module | with definitions of | objects | valid | not valid | skipped | templates | other texts | lint: definitions | findings |\n")
	b.WriteString("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, p := range projects {
		row, err := p.row(t, bin)
		if err != nil {
			t.Fatalf("%s: %v", p.module, err)
		}
		t.Log(row)
		b.WriteString(row + "\n")
	}
	writeTable(t, page, b.String())
}

// writeTable compares a table with the one between the markers of a page, or writes it with -update.
func writeTable(t *testing.T, page, table string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, closed := strings.Cut(rest, end)
	switch {
	case !ok || !closed:
		t.Fatalf("%s: the markers of the table are missing", page)
	case old == table:
	case *update:
		if err := os.WriteFile(page, []byte(before+begin+table+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("got other figures than %s; if they are right: make published UPDATE=1\n%s", page, table)
	}
}

// build builds keelson.
func build(t *testing.T) (bin string) {
	t.Helper()
	bin = filepath.Join(t.TempDir(), "keelson")
	if out, err := exec.Command("go", "build", "-o", bin, "../../cmd/keelson").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// verdicts is what keelson validate -o json prints.
type verdicts struct {
	Results []struct {
		File, Kind string
		Findings   []struct{ ID string }
	}
	Skipped []struct{ Reason string }
	Summary struct{ Valid, Invalid, Skipped int }
}

// repositories are the projects of the table in docs/ci.md. Those that are not in projects use kinds of
// very many others, for which they have no definitions.
var repositories = []project{
	find("sigs.k8s.io/gateway-api"), find("github.com/cert-manager/cert-manager"), find("sigs.k8s.io/cluster-api"), find("sigs.k8s.io/kueue"),
	find("github.com/prometheus-operator/prometheus-operator"), find("sigs.k8s.io/karpenter"), {module: "github.com/argoproj/argo-cd/v3", version: "v3.4.0"},
	find("github.com/kedacore/keda/v2"), find("github.com/kyverno/kyverno"), {module: "github.com/fluxcd/flux2/v2", version: "v2.9.5"},
}

// find returns one of projects.
func find(module string) project {
	return projects[slices.IndexFunc(projects, func(p project) bool { return p.module == module })]
}

// TestRepositories compares what keelson validate says of whole repositories, without any flag, with the table in docs/ci.md.
func TestRepositories(t *testing.T) {
	if !*download {
		t.Skip("needs -download: make published")
	}
	bin := build(t)
	var b strings.Builder
	b.WriteString("| module | objects | valid | not valid | skipped | of unknown kinds | unknown kinds | other texts |\n")
	b.WriteString("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, p := range repositories {
		dir, err := folder(p.module + "@" + p.version)
		if err != nil {
			t.Fatal(err)
		}
		var v verdicts
		if err := run(bin, dir, &v, "validate", "-o", "json", "."); err != nil {
			t.Fatal(err)
		}
		unknown, kinds := 0, map[string]bool{}
		for _, r := range v.Results {
			for _, f := range r.Findings {
				switch f.ID {
				case "UnknownKind":
					unknown++
					kinds[r.Kind] = true
				case "NoVerdict":
					t.Errorf("%s: %s: no verdict", p.module, r.File)
				}
			}
		}
		fmt.Fprintf(&b, "| %s %s | %d | %d | %d | %d | %d | %d | %d |\n", p.module, p.version, len(v.Results), v.Summary.Valid, v.Summary.Invalid-unknown,
			v.Summary.Skipped, unknown, len(kinds), len(v.Skipped))
	}
	writeTable(t, "../../docs/ci.md", b.String())
}

// row returns the row of a project.
func (p *project) row(t *testing.T, bin string) (string, error) {
	args := []string{"validate", "--ignore-missing", "-o", "json"}
	var from []string
	for _, c := range p.crds {
		dir, err := folder(c)
		if err != nil {
			return "", err
		}
		args = append(args, "--crd", dir)
		module, _, _ := strings.Cut(c, "@")
		name := strings.TrimSuffix(module, "/v8")
		from = append(from, name[strings.LastIndex(strings.TrimSuffix(name, "/client"), "/")+1:])
	}
	dir, err := folder(p.module + "@" + p.version)
	if err != nil {
		return "", err
	}
	var v verdicts
	if err := run(bin, dir, &v, append(args, ".")...); err != nil {
		return "", err
	}
	all := len(v.Results)
	if 20*v.Summary.Skipped > all {
		t.Errorf("%s: %d of %d objects skipped, want at most 5 %%", p.module, v.Summary.Skipped, all)
	}
	for _, r := range v.Results {
		for _, f := range r.Findings {
			if f.ID == "NoVerdict" {
				t.Errorf("%s: %s: no verdict", p.module, r.File)
			}
		}
	}
	templates := 0
	for _, s := range v.Skipped {
		if strings.HasPrefix(s.Reason, "a template") {
			templates++
		}
	}
	var l struct {
		Results []struct {
			Kind     string
			Findings []json.RawMessage
		}
	}
	if err := run(bin, dir, &l, "lint", "--top", "0", "-o", "json", p.lint); err != nil {
		return "", err
	}
	definitions, findings := 0, 0
	for _, r := range l.Results {
		if r.Kind == "CustomResourceDefinition" {
			definitions++
		}
		findings += len(r.Findings)
	}
	if definitions == 0 {
		return "", errors.New("lint: no definitions")
	}
	return fmt.Sprintf("| %s %s | %s | %d | %d | %d | %d (%.1f %%) | %d | %d | %d | %d |", p.module, p.version, cmp.Or(strings.Join(from, ", "), "–"),
		all, v.Summary.Valid, v.Summary.Invalid, v.Summary.Skipped, 100*float64(v.Summary.Skipped)/float64(all), templates, len(v.Skipped)-templates,
		definitions, findings), nil
}

// folder downloads the module of a path MODULE@VERSION/FOLDER and returns where the folder is.
func folder(path string) (string, error) {
	module, rest, _ := strings.Cut(path, "@")
	version, below, _ := strings.Cut(rest, "/")
	cmd := exec.Command("go", "mod", "download", "-json", module+"@"+version)
	cmd.Dir = os.TempDir() // not this module
	out, err := cmd.Output()
	var m struct{ Dir, Error string }
	if err := errors.Join(json.Unmarshal(out, &m), err); err != nil {
		return "", fmt.Errorf("%s: %w %s", module, err, m.Error)
	}
	dir := filepath.Join(m.Dir, below)
	_, err = os.Stat(dir)
	return dir, err
}

// run runs keelson in a folder and decodes what it prints. Mistakes that it finds are no error.
func run(bin, dir string, to any, args ...string) error {
	cmd := exec.Command(bin, args...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return fmt.Errorf("%s: %w\n%s", strings.Join(slices.Concat([]string{"keelson"}, args), " "), err, errs.Bytes())
	}
	return json.Unmarshal(out, to)
}
