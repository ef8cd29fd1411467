package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// said is documents as a test names them: position, text, repeated keys, error.
func said(docs []Document) []string {
	var out []string
	for _, d := range docs {
		if d.Err != nil {
			out = append(out, "error "+d.Err.Error())
			continue
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", d, d.JSON, strings.Join(d.Duplicates, "; "))))
	}
	return out
}

// TestSplit splits texts into documents. None is lost, and each has its line.
func TestSplit(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"one", "a: 1\n", []string{`f {"a":1}`}},
		{"none", "---\n# nothing\n---\n", nil},
		{"two", "a: 1\n---\nb: 2\n", []string{`f:1 {"a":1}`, `f:3 {"b":2}`}},
		{"lines of other systems", "a: 1\r\n---\r\nb: 2\r\n", []string{`f:1 {"a":1}`, `f:3 {"b":2}`}},
		{"a comment beside the separator", "a: 1\n--- # c\n\n# d\nb: 2\n", []string{`f:1 {"a":1}`, `f:5 {"b":2}`}},
		{"a document beside the separator", "--- {a: 1}\n--- |\n b\n", []string{`f:1 {"a":1}`, `f:2 "b\n"`}},
		{"an end", "a: 1\n...\nb: 2\n...\n", []string{`f:1 {"a":1}`, `f:3 {"b":2}`}},
		{"no separators", "a: '--- x'\n---b: 2\n...c: 3\n", []string{`f {"---b":2,"...c":3,"a":"--- x"}`}},
		{"braces", "{a: 1}\n---\n{\"b\": 2}\n", []string{`f:1 {"a":1}`, `f:3 {"b":2}`}},
		{"a stream", "{\"a\":1}\n{\"b\":2}\n---\n{\"c\":3}", []string{`f:1 {"a":1}`, `f:2 {"b":2}`, `f:4 {"c":3}`}},
		{"a broken stream", "{\"a\":1}\n{\"b\":2} x", []string{`f:1 {"a":1}`, `f:2 {"b":2}`,
			"error f:2:9: invalid character 'x' looking for beginning of value"}},
		{"a broken document between others", "a: 1\n---\nb: [\n---\nc: 3\n", []string{`f:1 {"a":1}`,
			"error f:4: did not find expected node content", `f:5 {"c":3}`}},
		{"a key twice", "a: 1\n---\nb: 2\nb: 3\n", []string{`f:1 {"a":1}`, `f:3 {"b":3} line 4: key "b" already set in map`}},
		{"a list", "apiVersion: v1\nkind: List\nitems: [{a: 1}, {b: 2}]\n", []string{`f:1 {"a":1}`, `f:1 {"b":2}`}},
		{"a list that is an object of somebody", "apiVersion: v2\nkind: List\nitems: [{a: 1}]\n",
			[]string{`f {"apiVersion":"v2","items":[{"a":1}],"kind":"List"}`}},
	} {
		if got := said(Split("f", []byte(c.text))); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// TestRead reads files, folders and standard input in the order they are named.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b.yml": "b: 1", "a/c.json": `{"c":1}`, "a/a.yaml": "a: 1", "notes.txt": "t: 1"} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	docs, err := Read([]string{"-", dir, filepath.Join(dir, "notes.txt")}, strings.NewReader("s: 1"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range docs {
		got = append(got, string(d.JSON))
	}
	if want := []string{`{"s":1}`, `{"a":1}`, `{"c":1}`, `{"b":1}`, `{"t":1}`}; !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	if _, err := Read([]string{filepath.Join(dir, "none")}, nil); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := Read([]string{t.TempDir()}, nil); err == nil || !strings.HasSuffix(err.Error(), ": no .yaml, .yml or .json file below it") {
		t.Errorf("an empty folder: %v", err)
	}
}

// endless is a file without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestReadEnds(t *testing.T) {
	if _, err := Read([]string{"-"}, endless{}); err == nil || err.Error() != "-: got more than 134217728 bytes" {
		t.Errorf("got %v", err)
	}
}

// FuzzSplit checks that two texts joined by a separator give the documents of both, with shifted
// lines.
func FuzzSplit(f *testing.F) {
	f.Add("a: 1\n", "b: 2\n")
	f.Add("a: 1\n...\n# c\n", "--- {b: 2}\n")
	f.Add("a: |\n  --- x\n", "a: 1\na: 2\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.HasPrefix(strings.TrimSpace(a), "{") || strings.ContainsAny(a+b, "\r\u0085\u2028\u2029%") || strings.HasPrefix(b, "\ufeff") {
			t.Skip("a stream of JSON, other ends of lines, directives and marks of order have rules of their own")
		}
		if !strings.HasSuffix(a, "\n") {
			a += "\n"
		}
		first, second := Split("f", []byte(a)), splitYAML("f", []byte(b))
		joined := Split("f", []byte(a+"---\n"+b))
		var expanded []Document
		for _, d := range second {
			expanded = append(expanded, expandList(d)...)
		}
		if len(joined) != len(first)+len(expanded) {
			t.Fatalf("%d and %d documents are %d together", len(first), len(expanded), len(joined))
		}
		for i, d := range joined {
			if i < len(first) {
				if w := first[i]; d.Line != w.Line || string(d.JSON) != string(w.JSON) || (d.Err != nil) != (w.Err != nil) {
					t.Errorf("document %d: %v, alone %v", i, d, w)
				}
				continue
			}
			w := expanded[i-len(first)]
			if above := strings.Count(a, "\n") + 1; d.Line != w.Line+above || string(d.JSON) != string(w.JSON) || (d.Err != nil) != (w.Err != nil) {
				t.Errorf("document %d: %v, alone %v (%d lines above)", i, d, w, above)
			}
		}
	})
}

// TestFolders skips what is not a manifest, and says so, unless the user names the file.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good.yaml":                  "apiVersion: v1\nkind: ConfigMap\n---\njust: values\n",
		"typo.yaml":                  "kind: ConfigMap",
		".github/workflows/ci.yaml":  "apiVersion: v1\nkind: ConfigMap",
		"overlay/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\npatches: [{path: patches/crd.yaml}, {patch: \"- op: add\"}]\npatchesStrategicMerge: [\"a: 1\\nb: 2\"]",
		"overlay/patches/crd.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: part}",
		"overlay/kustomization.yml":  "kind: Kustomization\nresources: [patch-service.yaml]\nconfigMapGenerator: [{files: [settings.yaml=manager.yaml]}]",
		"overlay/patch-service.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: listed}",
		"overlay/manager.yaml":       "apiVersion: config.example.com/v1\nkind: ManagerConfig",
		"overlay/webhook_patch.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: unused}",
		"overlay/names.yaml":         "apiVersion: builtin\nkind: PrefixSuffixTransformer\nmetadata: {name: n}",
		"bare/kustomization.yaml":    "resources: [a.yaml]",
		"other/patch-me.yaml":        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: no-kustomize}",
		"other/patch.json":           `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"partial"}}`,
		"tests/00-assert.yaml":       "apiVersion: v1\nkind: Pod\nmetadata: {name: kuttl}",
		"tests/01-errors-a.yaml":     "apiVersion: v1\nkind: Pod\nmetadata: {name: kuttl}",
		"tests/01-install.yaml":      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}",
		"tests/c/chainsaw-test.yaml": `apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
spec:
  steps:
  - use: {template: ../t.yaml, with: {bindings: [{name: file, value: used.yaml}, {name: n, value: 1}]}}
  - try:
    - {apply: {file: both.yaml}}
    - {assert: {file: both.yaml}}
    - {assert: {file: used.yaml}}
    - {assert: {file: ../asserted.yaml, timeout: 1s}}
    - {error: {resource: {apiVersion: v1, kind: Pod}}}
    - {patch: {file: patched.yaml}}
    finally:
    - {error: {file: gone.yaml}}
    - {delete: {ref: {apiVersion: v1, kind: Pod, name: a}}}
`,
		"tests/asserted.yaml":          "apiVersion: v1\nkind: Pod\nmetadata: {name: a}",
		"tests/c/both.yaml":            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}",
		"tests/c/used.yaml":            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}",
		"tests/c/patched.yaml":         "apiVersion: v1\nkind: Pod\nmetadata: {name: a}",
		"tests/c/gone.yaml":            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}",
		"other/admin.yaml":             "apiVersion: v1\nkind: Config\nclusters: []",
		"other/jinja.yaml":             "{% raw %}\napiVersion: v1\n{% endraw %}",
		"other/list.yaml":              "a:\n  - b\n c: [",
		"other/torn.yaml":              "apiVersion: v1\na:\n  - b\n c: [",
		"chart/Chart.yaml":             "apiVersion: v2\nname: c",
		"chart/values.yaml":            "a: 1",
		"chart/templates/broken.yaml":  "kind: {{ .Values.kind }}\n{{- if .x }}\na: 1",
		"chart/templates/parsed.yaml":  "apiVersion: v1\nkind: \"{{ .Values.kind }}\"",
		"other/text-with-braces.yaml":  "apiVersion: v1\nkind: ConfigMap\ndata: {a: \"{{ x }}\"}",
		"vendor/left-out.yaml":         "apiVersion: v1\nkind: ConfigMap",
		"other/generated/left-out.yml": "apiVersion: v1\nkind: ConfigMap",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Exclude: []string{"vendor", dir + "/**/generated/*.yml"}, ObjectsOnly: true}
	for _, c := range []struct {
		path          string
		want, skipped []string
	}{
		{".", []string{"good.yaml:1", "other/patch-me.yaml", "other/text-with-braces.yaml", "other/torn.yaml", "overlay/patch-service.yaml", "tests/01-install.yaml",
			"tests/c/both.yaml", "tests/c/used.yaml", "typo.yaml"}, []string{
			"bare/kustomization.yaml: a file of kustomize, which is not sent to a server",
			"chart/Chart.yaml: a file of Helm, which is not sent to a server",
			"chart/templates/broken.yaml: a template; check what it renders to",
			"chart/templates/parsed.yaml: a template; check what it renders to",
			"chart/values.yaml: not an object: it has no apiVersion and no kind",
			"good.yaml:4: not an object: it has no apiVersion and no kind",
			"other/admin.yaml: a kubeconfig, which is not sent to a server",
			"other/jinja.yaml: a template; check what it renders to",
			"other/list.yaml: neither YAML nor JSON, and apiVersion is nowhere in it",
			"other/patch.json: a patch by its name, which no kustomization.yaml lists as a resource",
			"overlay/kustomization.yaml: a file of kustomize, which is not sent to a server",
			"overlay/kustomization.yml: a file of kustomize, which is not sent to a server",
			"overlay/manager.yaml: data of a ConfigMap or Secret that kustomize makes",
			"overlay/names.yaml: a file of kustomize, which is not sent to a server",
			"overlay/patches/crd.yaml: a patch of kustomize; check what kustomize build prints",
			"overlay/webhook_patch.yaml: a patch beside a kustomization.yaml that does not list it",
			"tests/00-assert.yaml: what a test expects of an object, which is not all of it",
			"tests/01-errors-a.yaml: what a test expects of an object, which is not all of it",
			"tests/asserted.yaml: what a test expects of an object, which is not all of it",
			"tests/c/chainsaw-test.yaml: a file of Chainsaw, which is not sent to a server",
			"tests/c/gone.yaml: what a test expects of an object, which is not all of it",
			"tests/c/patched.yaml: a part of an object, for a step of a Chainsaw test",
		}},
		{"chart/values.yaml", []string{"chart/values.yaml"}, nil},
		{"**/t*.yaml", []string{"other/text-with-braces.yaml", "other/torn.yaml", "typo.yaml"}, nil},
		{"{overlay/patches,vendor}", []string{"overlay/patches/crd.yaml"}, nil},
	} {
		in, err := o.Read([]string{filepath.Join(dir, c.path)}, nil)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		var got, skipped []string
		for _, d := range in.Documents {
			got = append(got, strings.TrimPrefix(d.String(), dir+"/"))
		}
		for _, s := range in.Skipped {
			skipped = append(skipped, strings.TrimPrefix(s.String(), dir+"/")+": "+s.Reason)
		}
		if !slices.Equal(got, c.want) || !slices.Equal(skipped, c.skipped) {
			t.Errorf("%s:\n got %q\nwant %q\nskipped %q\n   want %q", c.path, got, c.want, skipped, c.skipped)
		}
	}
	if _, err := o.Read([]string{filepath.Join(dir, "*.json")}, nil); err == nil || !strings.Contains(err.Error(), "*.json: no file matches") {
		t.Errorf("a glob without matches: got %v", err)
	}
	if err := (Options{Exclude: []string{"a["}}).Check(); err == nil {
		t.Error("a malformed glob is accepted")
	}
}

// TestPosition finds fields in YAML, in JSON that begins amid a line, and in items of a List.
func TestPosition(t *testing.T) {
	for _, c := range []struct{ text, path, want string }{
		{"# c\na: 1\nb:\n  c: 2\n", "b.c", "4:3"},
		{"{\"a\": 1}  {\"b\":\n {\"c\": 2}}", "b.c", "2:3"},
		{"{\"a\": 1}  {\"b\": {\"c\": 2}}", "b.c", "1:18"},
		{"apiVersion: v1\nkind: List\nitems:\n- a: 1\n- b: {c: 2}\n", "b.c", "5:7"},
	} {
		docs := Split("f", []byte(c.text))
		line, column := docs[len(docs)-1].Position(c.path)
		if got := fmt.Sprintf("%d:%d", line, column); got != c.want {
			t.Errorf("%q: got %s, want %s", c.text, got, c.want)
		}
	}
}

// TestLongLists holds that a document may be a list of any length.
func TestLongLists(t *testing.T) {
	const n = 30000
	for file, text := range map[string]string{
		"flow.json": "[" + strings.Repeat("-1,", n-1) + "-1]", "flow.yaml": "[" + strings.Repeat("-1,", n-1) + "-1,]", "block.yaml": strings.Repeat("- -1\n", n),
		"tagged.yaml": "!!seq [" + strings.Repeat("-1,", n-1) + "-1]", "many.json": "[" + strings.Repeat("-1,", 1_000_000) + "-1]",
	} {
		docs := Split(file, []byte(text))
		if len(docs) != 1 || docs[0].Err != nil {
			t.Errorf("%s: got %d documents, %v", file, len(docs), docs[0].Err)
			continue
		}
		if got, want := strings.Count(string(docs[0].JSON), "-1"), strings.Count(text, "-1"); got != want {
			t.Errorf("%s: got %d items, want %d", file, got, want)
		}
	}
}

// TestLines holds that an item of a List has its lines and columns in the file, in block style and as
// JSON, and its JSON where they say something else.
func TestLines(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string // LINE:TEXT of each item
	}{
		{"apiVersion: v1\nkind: List\nitems:\n- a: 1\n  # c\n\n  b: |\n    x\n- c: {d: 2}\nmetadata: {}\n",
			[]string{"4:  a: 1\n  # c\n\n  b: |\n    x\n", "9:  c: {d: 2}\n"}},
		{"\n---\nkind: List\nitems:\n    -   a: 1\n        b:\n        - 2\napiVersion: v1\n", []string{"5:        a: 1\n        b:\n        - 2\n"}},
		{`{"apiVersion": "v1", "kind": "List", "items": [` + "\n" + ` {"a": 1}, {"b":` + "\n" + `2}]}`, []string{`2: {"a": 1}`, `2:           {"b":` + "\n2}"}},
		{"apiVersion: v1\nkind: List\nitems:\n- &x {a: 1}\n- *x\n- {b: 2}\n- c: *x\n", []string{`1:{"a":1}`, `1:{"a":1}`, `1:{"b":2}`, `1:{"c":{"a":1}}`}},
	} {
		var got []string
		for _, d := range Split("f", []byte(c.text)) {
			text, line := d.Lines()
			got = append(got, fmt.Sprintf("%d:%s", line, text))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q:\n got %q\nwant %q", c.text, got, c.want)
		}
	}
}
