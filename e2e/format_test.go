package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// This file opens data directories with the binaries of two commits.

// formatOf returns the format that a data directory records, 0 if it has no record.
func formatOf(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "format.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	var r struct{ Format int }
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r.Format
}

// parentBin builds the binary of the commit before HEAD. Its source is always in the same folder of the checkout, as the compiler's
// cache depends on the folder: the next run compiles only what differs.
func parentBin(t *testing.T) string {
	t.Helper()
	const parent = "HEAD~1"
	if err := exec.Command("git", "-C", "..", "rev-parse", "--verify", "--quiet", parent).Run(); err != nil {
		t.Skipf("no commit before this one here, as in a shallow clone or an archive: git rev-parse %s: %v", parent, err)
	}
	dir, err := filepath.Abs("../.tmp/parent")
	if err == nil {
		err = errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	bins := t.TempDir()
	archive := filepath.Join(bins, "parent.tar")
	for _, args := range [][]string{{"git", "-C", "..", "archive", "--output=" + archive, parent}, {"tar", "-xf", archive, "-C", dir}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	bin := filepath.Join(bins, "keelson-parent")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "./cmd/keelson")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the parent commit %s: %v\n%s", parent, err, out)
	}
	return bin
}

func TestFormatOfParentCommit(t *testing.T) {
	t.Parallel()
	parent := parentBin(t)
	t.Run("directory", func(t *testing.T) { testUpgradeAndBack(t, parent) })
	t.Run("cluster", func(t *testing.T) { testReleasesShareACluster(t, parent) })
}

// testUpgradeAndBack upgrades the data of the parent commit's binary, and goes back to it, which
// works if both write the same format, and is refused otherwise.
func testUpgradeAndBack(t *testing.T, parent string) {
	s := newServer(t)
	s.bin = parent
	s.start()
	putConfigMap(t, s, "old", 100)
	s.stop(syscall.SIGKILL)
	before := formatOf(t, s.dir)

	s.bin = keelsonBin
	s.start()
	s.do(t, 200, "GET", configMapList+"/old", nil)
	putConfigMap(t, s, "new", 100)
	s.stop(syscall.SIGTERM)
	after := formatOf(t, s.dir)
	snapshots, err := filepath.Glob(filepath.Join(s.dir, "snapshots", "before-format-*.db"))
	if upgraded := max(before, 1) < after; err != nil || after == 0 || upgraded != (len(snapshots) == 1) {
		t.Fatalf("from format %d to %d: got snapshots %v, %v", before, after, snapshots, err)
	}
	if before > 0 && before < after {
		text, _ := exec.Command(parent, "serve", "--data-dir", s.dir, "--secure-port", strconv.Itoa(freePort(t))).CombinedOutput()
		if !strings.Contains(string(text), "use that release or a newer one") || !strings.Contains(string(text), "keelson snapshot restore") {
			t.Errorf("the parent commit's binary with format %d: got %s", after, text)
		}
		restored := filepath.Join(t.TempDir(), "restored")
		if out, err := exec.Command(parent, "snapshot", "restore", "--data-dir", restored, snapshots[0]).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		copyDir(t, filepath.Join(s.dir, "pki"), restored)
		s.dir = restored
		s.bin = parent
		s.start()
		s.do(t, 200, "GET", configMapList+"/old", nil)
		s.do(t, 404, "GET", configMapList+"/new", nil)
		return
	}
	s.bin = parent
	s.start()
	for _, name := range []string{"old", "new"} {
		s.do(t, 200, "GET", configMapList+"/"+name, nil)
	}
}

// testReleasesShareACluster runs a server of the parent commit and one of this on the same etcd. When
// a later release raises the format of the objects beyond what they know, both are refused.
func testReleasesShareACluster(t *testing.T, parent string) {
	m := startMembers(t, 1)
	a := newServer(t, m.args()...)
	a.bin = parent
	a.start()
	putConfigMap(t, a, "old", 10)
	b := newServer(t, m.args()...)
	b.start()
	putConfigMap(t, b, "new", 10)
	for _, s := range []*server{a, b} {
		for _, name := range []string{"old", "new"} {
			s.do(t, 200, "GET", configMapList+"/"+name, nil)
		}
	}
	a.stop(syscall.SIGTERM)
	a.start() // after the newer one has written its record
	putConfigMap(t, a, "again", 10)
	b.do(t, 200, "GET", configMapList+"/again", nil)

	const raised = `{"format":99,"minimum":98,"release":"v9.9.9","later":true}`
	tls, err := m.tls.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.configs[0].ListenClientUrls[0].String()}, TLS: tls, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Put(t.Context(), "/demo/keelson/format", raised); err != nil {
		t.Fatal(err)
	}
	const why = "got format 98, written by keelson v9.9.9, want at most format"
	eventually(t, "the server ends", func() bool { return !b.running() })
	if log := b.log.String(); !strings.Contains(log, why) {
		t.Errorf("got log\n%s\nwant %q", tail(log, 2000), why)
	}
	refuses(t, why, append([]string{"serve", "--data-dir", b.dir, "--secure-port", strconv.Itoa(b.port)}, m.args()...)...)
}

// TestNewerFormatIsRefused holds that a server changes nothing in data of a newer format.
func TestNewerFormatIsRefused(t *testing.T) {
	t.Parallel()
	s := filled(t, 4)
	own := formatOf(t, s.dir)
	record := filepath.Join(s.dir, "format.json")
	saved, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	newer := fmt.Appendf(nil, `{"format":%d,"release":"v9.9.9","later":1}`, own+1)
	if err := os.WriteFile(record, newer, 0o600); err != nil {
		t.Fatal(err)
	}
	refusesAtOnce(t, s.dir, fmt.Sprintf("got format %d, written by keelson v9.9.9, want at most format %d", own+1, own), "use that release or a newer one")
	if now, err := os.ReadFile(record); err != nil || string(now) != string(newer) {
		t.Errorf("the record was changed: %s %v", now, err)
	}
	if err := os.WriteFile(record, saved, 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.do(t, 200, "GET", configMapList+"/c3", nil)
}

// TestFormatBelowTheRecord starts with directories of releases before the record, and with an
// upgrade that was killed between its snapshot and its record.
func TestFormatBelowTheRecord(t *testing.T) {
	t.Parallel()
	s := filled(t, 4)
	own := formatOf(t, s.dir)
	for _, leftover := range []string{"", "snapshots/before-format-2.db", "snapshots/before-format-2.db.part", "format.json.part"} {
		if err := os.Remove(filepath.Join(s.dir, "format.json")); err != nil {
			t.Fatal(err)
		}
		if leftover != "" {
			path := filepath.Join(s.dir, leftover)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("half of it"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		s.start()
		s.do(t, 200, "GET", configMapList+"/c3", nil)
		s.stop(syscall.SIGKILL)
		if now := formatOf(t, s.dir); now != own {
			t.Errorf("with %q: got format %d, want %d", leftover, now, own)
		}
		if _, err := os.Stat(filepath.Join(s.dir, "format.json.part")); err == nil {
			t.Error("a part of a record stays")
		}
	}
}
