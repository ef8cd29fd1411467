//go:build unix

package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asNobody makes a server that runs as another user, in a group of its own; dir is for it and nobody else's.
func asNobody(t *testing.T, group int) *server {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can start processes of other users")
	}
	// Not below the folder of the test, which is closed to others.
	top, err := os.MkdirTemp("/tmp", "keelson-modes-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	s := newServer(t)
	s.dir = filepath.Join(top, "data")
	s.as = &syscall.Credential{Uid: 65532, Gid: 65532, Groups: []uint32{uint32(group)}}
	binary := filepath.Join(top, "keelson")
	if out, err := os.ReadFile(keelsonBin); err != nil || os.WriteFile(binary, out, 0o755) != nil {
		t.Fatalf("copying the binary: %v", err)
	}
	s.bin = binary
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestVolumeOfAGroup starts the server as deploy/kubernetes.yaml does: as a user without privileges, on a volume to whose group the
// kubelet gives everything (fsGroup), each time that it mounts it.
func TestVolumeOfAGroup(t *testing.T) {
	t.Parallel()
	const group = 65533
	s := asNobody(t, group)
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mount := func() {
		t.Helper()
		err := filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			mode := info.Mode() | 0o660
			if e.IsDir() {
				mode |= 0o770 | fs.ModeSetgid
			}
			if err := os.Lchown(path, -1, group); err != nil {
				return err
			}
			return os.Chmod(path, mode)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		mount()
		s.start()
		putConfigMap(t, s, fmt.Sprintf("c%d", round), 10)
		s.do(t, 200, "GET", configMapList+"/c0", nil)
		s.stop(syscall.SIGTERM)
	}
	if info, err := os.Stat(s.dir); err != nil || info.Mode().Perm() != 0o775 || info.Mode()&fs.ModeSetgid == 0 {
		t.Errorf("mode of a directory that the server did not make: %v, %v", info.Mode(), err)
	}
	if log := s.log.String(); strings.Contains(log, "other users") {
		t.Errorf("the log warns of what is closed to others:\n%s", log)
	}
}

// TestModesAreKept holds that a directory that was there keeps its mode, and that the log says what others can read.
func TestModesAreKept(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.start()
	if info, err := os.Stat(s.dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode of a directory that the server did not make: %v, %v", info.Mode(), err)
	}
	if log := s.log.String(); strings.Contains(log, "other users") {
		t.Errorf("the log warns of what is closed to others:\n%s", log)
	}
	s.stop(syscall.SIGTERM)
	for path, mode := range map[string]fs.FileMode{"": 0o777, "pki": 0o755, "admin.kubeconfig": 0o644} {
		if err := os.Chmod(filepath.Join(s.dir, path), mode); err != nil {
			t.Fatal(err)
		}
	}
	s.start()
	for _, want := range []string{"other users can replace", "other users can look into", "other users can read"} {
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("no warning %q in\n%s", want, s.log.String())
		}
	}
}

// TestForbiddenFiles holds that files that the server's user may not use are not called damaged.
func TestForbiddenFiles(t *testing.T) {
	t.Parallel()
	s := asNobody(t, 65532)
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(s.dir, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.stop(syscall.SIGKILL)
	for _, name := range []string{"etcd", "etcd/member/wal", "etcd/member/snap", "etcd/member/snap/db"} {
		path := filepath.Join(s.dir, name)
		for what, forbid := range map[string]func() error{
			"of root": func() error { return os.Chown(path, 0, 0) },
			"read only": func() error {
				info, err := os.Stat(path)
				if err != nil {
					return err
				}
				return os.Chmod(path, info.Mode().Perm()&^0o222)
			},
		} {
			info, err := os.Stat(path)
			if err == nil {
				err = forbid()
			}
			if err != nil {
				t.Fatal(err)
			}
			s.log.reset()
			s.spawn()
			select {
			case <-s.cmd.Ended():
			case <-time.After(patience):
				t.Fatalf("%s %s: the server goes on\n%s", name, what, s.log.String())
			}
			if code, log := s.cmd.ProcessState.ExitCode(), s.log.String(); code != 1 || strings.Count(log, "\n") != 1 || !strings.Contains(log, "permission denied") ||
				!strings.Contains(log, s.dir) || !strings.Contains(log, "ser 65532") || strings.Contains(log, "damaged") {
				t.Errorf("%s %s: exit code %d, log\n%s", name, what, code, log)
			}
			if err := os.Chown(path, 65532, 65532); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, info.Mode()); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.start()
}
