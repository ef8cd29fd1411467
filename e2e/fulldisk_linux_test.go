package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const inNamespace = "KEELSON_E2E_NAMESPACE"

// TestFullDisk fills the disk under a server, and makes room again. The disk is a file system in memory, which only a process in
// a namespace of its own sees: the test runs itself in one, so that it leaves no mount behind.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if inOwnNamespace(t, 2*time.Minute) {
		fillDisk(t)
	}
}

// inOwnNamespace runs the test again in a process with a mount namespace of its own, and reports
// whether this is that process.
func inOwnNamespace(t *testing.T, timeout time.Duration) bool {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout="+timeout.String(), "-test.v="+fmt.Sprint(testing.Verbose()))
	cmd.Env = append(os.Environ(), inNamespace+"=1", "KEELSON_BIN="+keelsonBin, "KUBECTL_BIN="+kubectlBin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("in a namespace of its own: %v\n%s", err, out)
	} else if testing.Verbose() {
		t.Logf("%s", out)
	}
	return false
}

// disk is a file system in memory that can be filled.
type disk struct {
	t   *testing.T
	dir string
}

// newDisk mounts a file system with a size such as 800m until the end of the test.
func newDisk(t *testing.T, size string) *disk {
	t.Helper()
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	d := &disk{t, t.TempDir()}
	if err := syscall.Mount("tmpfs", d.dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(d.dir, syscall.MNT_DETACH) })
	return d
}

// leave takes all of the disk but some MiB. Allocations of the server meanwhile only make it begin
// again.
func (d *disk) leave(mib int64) {
	t := d.t
	t.Helper()
	f, err := os.OpenFile(filepath.Join(d.dir, "ballast"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		var st syscall.Statfs_t
		if err := syscall.Statfs(d.dir, &st); err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		size := info.Size() + int64(st.Bavail)*st.Bsize - max(mib, 4)<<20
		if size < 0 {
			t.Fatalf("no %d MiB can be free: the server's files take all but %d MiB", mib, (info.Size()+int64(st.Bavail)*st.Bsize)>>20)
		}
		if err := f.Truncate(min(size, info.Size())); err != nil {
			t.Fatal(err)
		}
		err = syscall.Fallocate(int(f.Fd()), 0, 0, size)
		for at := size; mib == 0 && err == nil; at += 4096 {
			if _, err = f.WriteAt(make([]byte, 4096), at); errors.Is(err, syscall.ENOSPC) {
				return
			}
		}
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
}

func fillDisk(t *testing.T) {
	// The server's own files may take all that it writes below: three segments of the log of 64 MiB, the database, a snapshot.
	disk := newDisk(t, "800m")
	leave := disk.leave
	s := newServer(t)
	s.dir = filepath.Join(disk.dir, "data")
	leave(100)
	refusesAtOnce(t, s.dir, "the disk is full", "want 160 MiB for a first start")
	leave(330)
	s.start()
	for i := range 20 {
		putConfigMap(t, s, fmt.Sprintf("c%d", i), 1000)
	}
	const body = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`
	const full = "etcdserver: mvcc: database space exceeded: the disk of the server is full"
	refused := func(method, path, body string) {
		t.Helper()
		if got := s.do(t, 500, method, path, []byte(body)); !strings.Contains(string(got), full) {
			t.Errorf("%s %s: got %s, want %q", method, path, got, full)
		}
	}
	// look waits until the server knows how much space is free, which it finds out with a write from
	// time to time: changes of an object are answered with the code then.
	n := 0 // makes each change different from the last: an update without changes writes nothing
	look := func(want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("writes are answered with %d", want), func() bool {
			n++
			code, got, err := s.try("PATCH", configMapList+"/c10", fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n), "Content-Type", "application/merge-patch+json")
			return err == nil && code == want && (code == 200 || strings.Contains(string(got), full))
		})
	}
	process := s.cmd.Process.Pid
	for round := range 2 {
		leave(40)
		look(500)
		refused("POST", configMapList, fmt.Sprintf(body, "refused"))
		s.do(t, 200, "DELETE", fmt.Sprintf("%s/c%d", configMapList, round), nil)
		// The disk fills up between a write and the commit of the database: the server stands still meanwhile. Pages beyond the
		// file's first 16 MiB have no blocks unless the server reserved them.
		leave(150)
		look(200)
		for i := range 8 {
			putConfigMap(t, s, fmt.Sprintf("large%d-%d", round, i), 1_000_000)
		}
		if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		leave(0)
		if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		look(500)
		refused("POST", configMapList, fmt.Sprintf(body, "refused"))
		refused("DELETE", configMapList+"/c9", "")
		s.do(t, 200, "GET", configMapList+"/c9", nil)
		s.do(t, 200, "GET", configMapList, nil)
		s.do(t, 200, "GET", "/readyz", nil)
		leave(150)
		look(200)
		s.do(t, 201, "POST", configMapList, fmt.Appendf(nil, body, fmt.Sprintf("after%d", round)))
	}
	if s.cmd.Process.Pid != process || !s.running() {
		t.Error("the server did not go on in the same process")
	}
	leave(0)
	s.stop(syscall.SIGKILL)
	refusesAtOnce(t, s.dir, "the disk is full", "to start")
	leave(150)
	s.start()
	for _, name := range []string{"c2", "c19", "after0", "after1"} {
		s.do(t, 200, "GET", configMapList+"/"+name, nil)
	}
	s.do(t, 404, "GET", configMapList+"/refused", nil)
	putConfigMap(t, s, "last", 10)
}
