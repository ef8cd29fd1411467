package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// This file damages data directories and checks what the server reports.

const configMapList = "/api/v1/namespaces/default/configmaps"

func putConfigMap(t *testing.T, s *server, name string, size int) {
	t.Helper()
	s.do(t, 201, "POST", configMapList, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"a":%q}}`, name, strings.Repeat("x", size)))
}

// filled returns a server that was killed and has n config maps.
func filled(t *testing.T, n int) *server {
	t.Helper()
	s := startServer(t)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < n; i += 4 {
				putConfigMap(t, s, fmt.Sprintf("c%d", i), 2000)
			}
		})
	}
	wg.Wait()
	s.stop(syscall.SIGKILL)
	return s
}

// refusesAtOnce is refuses for a data directory; it says all that an operator needs, and does not wait for anything.
func refusesAtOnce(t *testing.T, dir string, want ...string) {
	t.Helper()
	began := time.Now()
	text := refuses(t, dir, "serve", "--data-dir", dir, "--secure-port", strconv.Itoa(freePort(t)))
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("got\n%s\nwant %q in it", text, w)
		}
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v to refuse the directory", took)
	}
}

func change(t *testing.T, path string, f func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, f(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// copyDir copies a data directory with its modes.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// restartAsAnother starts a server whose authority has changed.
func (s *server) restartAsAnother() {
	s.t.Helper()
	if err := os.Remove(s.kubeconfig()); err != nil {
		s.t.Fatal(err)
	}
	s.http = nil
	s.start()
}

// TestDamagedStore holds that a damaged store is reported at once, in one line that says what is damaged and how to go on.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	s := filled(t, 400)
	member := func(dir string, more ...string) string {
		return filepath.Join(append([]string{dir, "etcd", "member"}, more...)...)
	}
	segments, err := filepath.Glob(member(s.dir, "wal", "*.wal"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("no log: %v", err)
	}
	segment := filepath.Base(segments[len(segments)-1])
	log := func(f func(b []byte, end int) []byte) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			change(t, member(dir, "wal", segment), func(b []byte) []byte { return f(b, len(bytes.TrimRight(b, "\x00"))) })
		}
	}
	db := func(f func(b []byte) []byte) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { change(t, member(dir, "snap", "db"), f) }
	}
	without := func(path ...string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.RemoveAll(member(dir, path...)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   string
	}{
		"log, first bytes":   {log(func(b []byte, _ int) []byte { b[20] ^= 0xff; return b }), "member/wal"},
		"log, length":        {log(func(b []byte, _ int) []byte { b[2] ^= 0xff; return b }), "member/wal"},
		"log, middle":        {log(func(b []byte, end int) []byte { b[end/2] ^= 0xff; return b }), "member/wal"},
		"log, last entry":    {log(func(b []byte, end int) []byte { b[end-2] ^= 0xff; return b }), "member/wal"},
		"log, random bytes":  {log(func(b []byte, end int) []byte { fillRandom(b[end/3 : end/3+5000]); return b }), "member/wal"},
		"log, zeros within":  {log(func(b []byte, end int) []byte { clear(b[end/3 : end/3+5000]); return b }), "member/wal"},
		"log, cut in half":   {log(func(b []byte, end int) []byte { return b[:end/2] }), "the log has lost its end"},
		"log, empty":         {log(func([]byte, int) []byte { return nil }), "member/wal"},
		"log, no files":      {without("wal", segment), "member/wal"},
		"log, no directory":  {without("wal"), "member/wal: it is missing"},
		"db, both metas":     {db(func(b []byte) []byte { b[20] ^= 0xff; b[4096+20] ^= 0xff; return b }), "member/snap/db: neither of its first two pages is whole"},
		"db, pages":          {db(func(b []byte) []byte { fillRandom(b[3*4096 : len(b)/8]); return b }), "member/snap/db: page "},
		"db, zeros within":   {db(func(b []byte) []byte { clear(b[2*4096 : len(b)/8]); return b }), "member/snap/db: page "},
		"db, cut in half":    {db(func(b []byte) []byte { return b[:3*4096] }), "member/snap/db: the file ends early"},
		"db, empty":          {db(func([]byte) []byte { return nil }), "member/snap/db: the file is empty"},
		"db, something else": {db(func([]byte) []byte { return bytes.Repeat([]byte("no database "), 5000) }), "member/snap/db"},
		"db, missing":        {without("snap", "db"), "member/snap/db: it is missing"},
		"snap, missing":      {without("snap"), "member/snap: it is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			copyDir(t, s.dir, dir)
			c.damage(t, dir)
			refusesAtOnce(t, dir, c.want, "mv "+dir+"/etcd "+dir+"/etcd.damaged, then keelson snapshot restore --data-dir "+dir+" FILE")
		})
	}
	t.Run("torn end of the log, as a power failure leaves it", func(t *testing.T) {
		log(func(b []byte, end int) []byte {
			end = (end + 7) / 8 * 8
			binary.LittleEndian.PutUint64(b[end:], 4096)
			fillRandom(b[end+8 : end+300])
			return b
		})(t, s.dir)
		s.start()
		s.do(t, 200, "GET", configMapList+"/c399", nil)
		putConfigMap(t, s, "after", 10)
	})
	t.Run("snapshots of the log", func(t *testing.T) { // everything is in the database, too
		s.stop(syscall.SIGKILL)
		files, err := filepath.Glob(member(s.dir, "snap", "*.snap"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no snapshots: %v", err)
		}
		for _, f := range files {
			change(t, f, func(b []byte) []byte { return b[:len(b)/2] })
		}
		s.start()
		s.do(t, 200, "GET", configMapList+"/after", nil)
	})
	if log := s.log.String(); strings.Contains(log, "from=etcd") || strings.Contains(log, "goroutine") {
		t.Errorf("log of servers that started:\n%s", tail(log, 4000))
	}
}

func fillRandom(b []byte) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// TestLeftoverOfFirstStart holds that nothing in a data directory makes a server delete its store.
func TestLeftoverOfFirstStart(t *testing.T) {
	t.Parallel()
	s := filled(t, 4)
	staging := filepath.Join(s.dir, "etcd", "first-start")
	if err := os.WriteFile(staging, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refusesAtOnce(t, s.dir, "remove the file "+staging)
	if err := os.Remove(staging); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(staging, os.DirFS(filepath.Join(s.dir, "pki"))); err != nil { // anything
		t.Fatal(err)
	}
	s.start()
	s.do(t, 200, "GET", configMapList+"/c3", nil)
}

// TestMissingStore holds that a server whose store is gone does not begin with an empty one.
func TestMissingStore(t *testing.T) {
	t.Parallel()
	s := filled(t, 4)
	file := filepath.Join(t.TempDir(), "backup.db")
	s.start()
	keelson(t, "snapshot", "save", "--kubeconfig", s.kubeconfig(), file)
	s.stop(syscall.SIGTERM)
	away := filepath.Join(t.TempDir(), "etcd")
	if err := os.Rename(filepath.Join(s.dir, "etcd"), away); err != nil {
		t.Fatal(err)
	}
	refusesAtOnce(t, s.dir, filepath.Join(s.dir, "etcd", "member")+" is missing", "keelson snapshot restore --data-dir "+s.dir+" FILE")
	if err := os.Mkdir(filepath.Join(s.dir, "etcd"), 0o700); err != nil { // a volume that is not mounted
		t.Fatal(err)
	}
	refusesAtOnce(t, s.dir, filepath.Join(s.dir, "etcd", "member")+" is missing")
	keelson(t, "snapshot", "restore", "--data-dir", s.dir, file)
	s.start()
	s.do(t, 200, "GET", configMapList+"/c3", nil)
	s.stop(syscall.SIGTERM)

	// To begin again on purpose, with the same authority.
	for from, to := range map[string]string{"etcd": "etcd.old", "pki": "pki.old"} {
		if err := os.Rename(filepath.Join(s.dir, from), filepath.Join(s.dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	s.restartAsAnother()
	s.stop(syscall.SIGTERM)
	if err := os.RemoveAll(filepath.Join(s.dir, "pki")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(s.dir, "pki.old"), filepath.Join(s.dir, "pki")); err != nil {
		t.Fatal(err)
	}
	s.restartAsAnother()
	s.do(t, 404, "GET", configMapList+"/c3", nil)
}

// TestKilledFirstStart kills first starts at many moments. The next start needs no help.
func TestKilledFirstStart(t *testing.T) {
	t.Parallel()
	for d := range 8 {
		s := newServer(t)
		for k := range 5 {
			s.spawn()
			select {
			case <-s.cmd.Ended():
				t.Fatalf("server ended by itself: %s", tail(s.log.String(), 2000))
			case <-time.After(time.Duration(2+d*2+k*23) * time.Millisecond):
			}
			s.stop(syscall.SIGKILL)
		}
		s.start()
		putConfigMap(t, s, "one", 10)
		s.stop(syscall.SIGKILL)
		if left, err := filepath.Glob(filepath.Join(s.dir, "etcd", "first-start")); len(left) > 0 || err != nil {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

// TestMissingKeys checks that a server reports when it makes missing keys anew. It must tell half
// of a pair, which no server leaves, from a missing pair.
func TestMissingKeys(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.stop(syscall.SIGTERM)
	pki := func(name string) string { return filepath.Join(s.dir, "pki", name) }
	if log := s.log.String(); strings.Contains(log, "WARN") {
		t.Errorf("the first start warns:\n%s", log)
	}
	change(t, pki("ca.crt"), func(b []byte) []byte { return b[:len(b)/2] })
	refusesAtOnce(t, s.dir, "remove both for a new authority", pki("ca.crt"))
	change(t, pki("serving.key"), func(b []byte) []byte { return nil }) // issued again without a word
	for _, name := range []string{"ca.crt", "ca.key", "sa.key"} {
		if err := os.Remove(pki(name)); err != nil {
			t.Fatal(err)
		}
	}
	s.restartAsAnother()
	for _, name := range []string{"ca.crt", "sa.key"} {
		if log := s.log.String(); !strings.Contains(log, "is created again") || !strings.Contains(log, "path="+pki(name)) {
			t.Errorf("no warning that %s was missing:\n%s", name, log)
		}
	}
}
