package reloads

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/keelson-io/keelson/internal/testkit"
)

// put writes a file.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pair is a File of two files that fit if their contents are equal.
func pair(one, two string, inForce *string) File {
	return File{Name: "pair", Paths: Paths(one, two), Use: func(texts map[string][]byte) error {
		if !bytes.Equal(texts[one], texts[two]) {
			return errors.New("they do not fit")
		}
		*inForce = string(texts[one])
		return nil
	}}
}

// TestFiles holds what happens to contents that cannot be used.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	var log bytes.Buffer
	inForce := ""
	f := NewFiles(prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)), 0)
	if err := f.Add(pair(one, two, &inForce)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing at the start: got %v", err)
	}
	put(t, one, "a")
	put(t, two, "a")
	if err := f.Add(pair(one, two, &inForce)); err != nil || inForce != "a" {
		t.Fatalf("got %q, %v", inForce, err)
	}
	for _, row := range []struct {
		what, one, two            string
		want                      string
		failures, successes, logs int
	}{
		{"unchanged", "a", "a", "a", 0, 0, 0},
		{"the first half of a replacement", "b", "a", "a", 0, 0, 0},
		{"the second half", "b", "b", "b", 0, 1, 0},
		{"broken", "c", "b", "b", 0, 1, 0},
		{"still broken", "c", "b", "b", 1, 1, 1},
		{"the same again", "c", "b", "b", 1, 1, 1},
		{"missing", "c", "", "b", 2, 1, 2},
		{"as before", "b", "b", "b", 2, 1, 2},
		{"broken again", "b", "x", "b", 2, 1, 2},
		{"and still", "b", "x", "b", 3, 1, 3},
		{"repaired", "x", "x", "x", 3, 2, 3},
	} {
		put(t, one, row.one)
		if put(t, two, row.two); row.two == "" {
			if err := os.Remove(two); err != nil {
				t.Fatal(err)
			}
		}
		f.Check()
		failures, successes := testutil.ToFloat64(f.counts.WithLabelValues("pair", "failure")), testutil.ToFloat64(f.counts.WithLabelValues("pair", "success"))
		if inForce != row.want || int(failures) != row.failures || int(successes) != row.successes || strings.Count(log.String(), "level=ERROR") != row.logs {
			t.Errorf("%s: got %q, %v failures, %v successes, log\n%s", row.what, inForce, failures, successes, log.String())
		}
	}
	if !strings.Contains(log.String(), `msg="changed files cannot be used; what was read before stays in force" flag=pair error="they do not fit"`) {
		t.Errorf("got log %s", log.String())
	}
	var none *Files
	if err := none.Add(pair(one, two, &inForce)); err != nil {
		t.Errorf("without a follower: got %v", err)
	}
}

// TestFilesOfVolumes replaces files as Kubernetes does in mounted Secrets: by a link to another folder.
func TestFilesOfVolumes(t *testing.T) {
	dir := t.TempDir()
	write := func(version string) {
		folder := filepath.Join(dir, ".."+version)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(folder, "tls.crt"), version)
		put(t, filepath.Join(folder, "tls.key"), version)
		link := filepath.Join(dir, "..data_tmp")
		if err := os.Symlink(".."+version, link); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	write("v1")
	one, two := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for _, path := range []string{one, two} {
		if err := os.Symlink(filepath.Join("..data", filepath.Base(path)), path); err != nil {
			t.Fatal(err)
		}
	}
	used := make(chan string, 10)
	f := NewFiles(prometheus.NewRegistry(), slog.New(slog.DiscardHandler), 0)
	var inForce string
	file := pair(one, two, &inForce)
	use := file.Use
	file.Use = func(texts map[string][]byte) error {
		err := use(texts)
		if err == nil {
			used <- inForce
		}
		return err
	}
	if err := f.Add(file); err != nil {
		t.Fatal(err)
	}
	<-used
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	defer func() { stop(); <-done }()
	go func() { defer close(done); f.Run(ctx) }()
	write("v2")
	testkit.Eventually(t, "the new version", func() bool {
		select {
		case v := <-used:
			return v == "v2"
		default:
			return false
		}
	})
}

// TestRetries holds that contents that cannot be used are tried again soon, and then with the regular checks.
func TestRetries(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	put(t, one, "a")
	put(t, two, "a")
	inForce := ""
	f := NewFiles(prometheus.NewRegistry(), slog.New(slog.DiscardHandler), 0)
	if err := f.Add(pair(one, two, &inForce)); err != nil {
		t.Fatal(err)
	}
	put(t, one, "b")
	if got := f.check(f.files[0]); got != retryAfter {
		t.Errorf("first: got %v, want %v", got, retryAfter)
	}
	for range retries {
		f.check(f.files[0])
	}
	if got := f.check(f.files[0]); got != 0 {
		t.Errorf("after many failures: got a retry after %v", got)
	}
}
