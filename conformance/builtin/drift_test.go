package builtin

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	"github.com/keelson-io/keelson/internal/cli"
)

// This file holds that somebody decided about each feature gate and each flag of kube-apiserver: testdata/gates.txt and
// testdata/flags.txt have a line for each.

// newest compares with the newest published modules, which takes the network.
var newest = flag.Bool("newest", false, "compare the lists of gates and flags with the newest published modules (make drift)")

// verdicts reads a list: what is decided about each name.
func verdicts(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]string{}
	last := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		name, verdict, _ := strings.Cut(lines.Text(), ": ")
		reason, isReason := strings.CutPrefix(verdict, "not ours because ")
		if later, isLater := strings.CutPrefix(verdict, "later: "); isLater {
			reason, isReason = later, true
		}
		if verdict != "have it" && (!isReason || len(strings.Fields(reason)) < 3) {
			t.Errorf("%s: %s: got %q, want have it, not ours because ... or later: ...", path, name, verdict)
		}
		if name <= last {
			t.Errorf("%s: %s comes after %s: the lines are not sorted, or a name is there twice", path, name, last)
		}
		out[name], last = verdict, name
	}
	return out
}

// compareNames reports names without a line, and lines without a name.
func compareNames(t *testing.T, path string, names map[string]bool, lines map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if lines[name] == "" {
			t.Errorf("%s: %s has no line", path, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		if !names[name] {
			t.Errorf("%s: %s: kube-apiserver does not have it", path, name)
		}
	}
}

// TestGates holds that there is a line for each feature gate of kube-apiserver.
func TestGates(t *testing.T) {
	names := map[string]bool{}
	for name := range utilfeature.DefaultMutableFeatureGate.DeepCopy().GetAll() {
		if name != featuregate.Feature("AllAlpha") && name != featuregate.Feature("AllBeta") {
			names[string(name)] = true
		}
	}
	if len(names) < 200 {
		t.Fatalf("kube-apiserver has %d feature gates, want at least 200", len(names))
	}
	lines := verdicts(t, "testdata/gates.txt")
	compareNames(t, "testdata/gates.txt", names, lines)
	// The product's table, by which it accepts or refuses settings, says the same.
	table, err := os.ReadFile("../../internal/cli/featuregates.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, found := utilfeature.DefaultMutableFeatureGate.DeepCopy().GetAll(), 0
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			t.Fatalf("internal/cli/featuregates.txt: got %q, want a name, on or off, and a verdict", line)
		}
		found++
		want := "later"
		if lines[f[0]] == "have it" {
			want = "have"
		} else if strings.HasPrefix(lines[f[0]], "not ours") {
			want = "foreign"
		}
		if isOn := all[featuregate.Feature(f[0])].Default; f[2] != want || (f[1] == "on") != isOn {
			t.Errorf("internal/cli/featuregates.txt: got %q, want %s and on by default: %t", line, want, isOn)
		}
	}
	if found != len(lines) {
		t.Errorf("internal/cli/featuregates.txt has %d lines, testdata/gates.txt has %d", found, len(lines))
	}
}

// TestDecidedFlags holds that there is a line for each flag of kube-apiserver, and that keelson serve has those that it is said to have,
// and no others.
func TestDecidedFlags(t *testing.T) {
	const path = "testdata/flags.txt"
	lines, names := verdicts(t, path), map[string]bool{}
	var help strings.Builder
	if code := cli.Main([]string{"keelson", "serve", "--help"}, strings.NewReader(""), &help, &help); code != 0 {
		t.Fatalf("keelson serve --help: got %d: %s", code, help.String())
	}
	upstreamFlags().VisitAll(func(f *pflag.Flag) {
		if unlisted[f.Name] {
			return
		}
		names[f.Name] = true
		has := strings.Contains(help.String(), "--"+f.Name+" ") || strings.Contains(help.String(), "--"+f.Name+"\n")
		if says := lines[f.Name] == "have it"; has != says {
			t.Errorf("%s: %s: got %q, but keelson serve has it: %t", path, f.Name, lines[f.Name], has)
		}
	})
	compareNames(t, path, names, lines)
}

// driftModules are the modules whose sources declare gates and flags of kube-apiserver, with the folders to read.
var driftModules = map[string][]string{
	"k8s.io/kubernetes":              {"pkg/features", "cmd/kube-apiserver/app", "pkg/controlplane/apiserver/options", "pkg/kubeapiserver/options", "plugin/pkg/admission"},
	"k8s.io/apiserver":               {"pkg/features", "pkg/server/options", "plugin/pkg/audit"},
	"k8s.io/apiextensions-apiserver": {"pkg/features", "pkg/cmd/server/options"},
	"k8s.io/component-base":          {"zpages/features", "metrics", "logs/api/v1", "featuregate", "compatibility"},
	"k8s.io/client-go":               {"features"},
}

// TestDrift compares the lists with the newest published modules: what they declare and the pinned ones do not needs a line, too.
// The sources are read, not compiled, so that any release can be looked at.
func TestDrift(t *testing.T) {
	pinnedGates, pinnedFlags := map[string]bool{}, map[string]bool{}
	newGates, newFlags := map[string]bool{}, map[string]bool{}
	for module, folders := range driftModules {
		read := func(version string, gates, flags map[string]bool) {
			dir, version := moduleDir(t, module, version)
			for _, folder := range folders {
				declared(t, filepath.Join(dir, folder), gates, flags)
			}
			t.Logf("%s %s", module, version)
		}
		read("", pinnedGates, pinnedFlags)
		if *newest {
			read("latest", newGates, newFlags)
		}
	}
	gates, flags := verdicts(t, "testdata/gates.txt"), verdicts(t, "testdata/flags.txt")
	// The reader of sources must find most of what the compiled server has, or the comparison means nothing. Some names are put
	// together of parts.
	for name, found := range map[string][2]int{"gates": {common(gates, pinnedGates), len(gates)}, "flags": {common(flags, pinnedFlags), len(flags)}} {
		if found[0] < found[1]*8/10 {
			t.Errorf("%s: found %d of %d in the sources", name, found[0], found[1])
		}
	}
	report := func(path string, pinned, now map[string]bool, lines map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(now)) {
			if !pinned[name] && lines[name] == "" {
				t.Errorf("%s: %s is new and has no line", path, name)
			}
		}
		for name := range lines {
			if pinned[name] && !now[name] {
				t.Logf("%s: %s is gone in the newest modules", path, name)
			}
		}
	}
	if *newest {
		report("testdata/gates.txt", pinnedGates, newGates, gates)
		report("testdata/flags.txt", pinnedFlags, newFlags, flags)
	}
}

// common returns how many names of a list are found.
func common(lines map[string]string, found map[string]bool) (n int) {
	for name := range lines {
		if found[name] {
			n++
		}
	}
	return n
}

// moduleDir returns the folder of a module's sources: of the pinned version, or of a version that is downloaded.
func moduleDir(t *testing.T, module, version string) (dir, got string) {
	t.Helper()
	args := []string{"list", "-m", "-json", module}
	if version != "" {
		args = []string{"mod", "download", "-json", module + "@" + version}
	}
	cmd := exec.Command("go", args...)
	if version != "" {
		cmd.Dir = t.TempDir() // the module of this package must not change
	}
	text, err := cmd.Output()
	var m struct {
		Dir, Version string
		Replace      *struct{ Dir, Version string }
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if m.Replace != nil {
		m.Dir, m.Version = m.Replace.Dir, m.Replace.Version
	}
	if err != nil || m.Dir == "" {
		t.Fatalf("go %s: %v: %s", strings.Join(args, " "), err, text)
	}
	return m.Dir, m.Version
}

// declared adds the gates and flags that the sources below a folder declare: constants of the type Feature, and the names in calls such
// as fs.StringVar(&o.Field, "name", …).
func declared(t *testing.T, root string, gates, flags map[string]bool) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		texts := map[string]string{} // constants of the file
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, value := range n.Values {
					text, ok := literal(value)
					if !ok || i >= len(n.Names) {
						continue
					}
					texts[n.Names[i].Name] = text
					if typeName(n.Type) == "Feature" {
						gates[text] = true
					}
				}
			case *ast.CallExpr:
				addFlag(n, texts, flags)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// addFlag adds the name of the flag that a call declares, if it is such a call.
func addFlag(call *ast.CallExpr, texts map[string]string, flags map[string]bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) < 3 {
		return
	}
	at := 0
	switch name := strings.TrimSuffix(method.Sel.Name, "P"); {
	case strings.HasSuffix(name, "Var"):
		at = 1
	case slices.Contains([]string{"Bool", "Int", "Int64", "String", "StringSlice", "Duration"}, name):
	default:
		return
	}
	text, ok := literal(call.Args[at])
	if id, isName := call.Args[at].(*ast.Ident); !ok && isName {
		text, ok = texts[id.Name]
	}
	if ok && text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" {
		flags[text] = true
	}
}

// literal returns the text of a string literal.
func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != gotoken.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// typeName returns the last part of a type's name, "" for types without one.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
