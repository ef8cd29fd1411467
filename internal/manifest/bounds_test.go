//go:build unix

package manifest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestReadIsBounded holds the bounds of all files together.
func TestReadIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(file, []byte("a: 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name         string
		files, bytes int
		want         string
	}{
		{"the last file", MaxFiles - 1, 0, ""},
		{"one file more", MaxFiles, 0, "a.yaml: more than 200000 files: name a smaller folder, or leave some out with --exclude"},
		{"the last bytes", 0, maxTotal - 4, ""},
		{"one byte more", 0, maxTotal - 3, "have more than 1073741824 bytes"},
	} {
		so := tally{files: c.files, bytes: c.bytes}
		_, err := so.read(file, nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// TestLinksAndFIFOs reads a folder with links in circles, FIFOs and devices. None of them makes it
// wait.
func TestLinksAndFIFOs(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(at("sub"), 0o700))
	must(os.WriteFile(at("sub/good.yaml"), []byte("apiVersion: v1\nkind: ConfigMap"), 0o600))
	must(os.Symlink("good.yaml", at("sub/link.yaml")))
	must(os.Symlink("circle.yaml", at("circle.yaml")))
	must(os.Symlink("..", at("sub/up.yaml")))
	must(os.Symlink(".", at("sub/self")))
	must(os.Symlink("/dev/zero", at("zero.yaml")))
	must(syscall.Mkfifo(at("fifo.yaml"), 0o600))
	for _, path := range []string{dir, at("**"), at("**/*.yaml")} {
		in, err := Options{ObjectsOnly: true}.Read([]string{path}, nil)
		must(err)
		var got []string
		for _, d := range in.Documents {
			got = append(got, strings.TrimPrefix(d.String(), dir+"/"))
		}
		if want := []string{"sub/good.yaml", "sub/link.yaml"}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
		reasons := map[string]string{}
		for _, s := range in.Skipped {
			reasons[strings.TrimPrefix(s.String(), dir+"/")] = s.Reason
		}
		for name, want := range map[string]string{"circle.yaml": "a link that leads nowhere", "sub/up.yaml": "a link to a folder; name the folder to check it",
			"zero.yaml": "not a regular file", "fifo.yaml": "not a regular file"} {
			if reasons[name] != want {
				t.Errorf("%s: %s: got %q, want %q", path, name, reasons[name], want)
			}
		}
	}
	if _, err := Read([]string{at("fifo.yaml")}, nil); err == nil || !strings.HasSuffix(err.Error(), "a FIFO that nobody writes to") {
		t.Errorf("a FIFO by name: got %v", err)
	}
}

// TestHostileYAML refuses aliases that multiply, and great depth.
func TestHostileYAML(t *testing.T) {
	laughs := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		laughs += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+", ", 8) + "*" + string(c-1) + "]\n"
	}
	for name, c := range map[string]struct{ text, want string }{
		"aliases": {laughs, "excessive aliasing"},
		"depth":   {strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), "depth"},
		"values":  {"a: [" + strings.Repeat(",", 1_000_000) + "]", "indicators"},
	} {
		docs := Split("f.yaml", []byte(c.text))
		if len(docs) != 1 || docs[0].Err == nil || !strings.Contains(docs[0].Err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, docs[0].Err, c.want)
		}
	}
}
