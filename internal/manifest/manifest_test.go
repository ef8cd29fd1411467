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
