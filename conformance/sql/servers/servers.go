// Package servers starts database servers for tests.
package servers

import (
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// Postgres starts PostgreSQL on a socket in a folder of the test, and returns a database. It needs Debian's package postgresql; "make
// conformance-sql" installs it. Arguments such as --locale=C.UTF-8 are those of initdb.
func Postgres(t *testing.T, arguments ...string) *sql.DB {
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(bins) == 0 {
		t.Fatal("PostgreSQL is not installed: run make conformance-sql, or install the package postgresql")
	}
	bin := slices.Max(bins)
	dir, err := os.MkdirTemp("", "pg") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, asOtherUser(t, dir)
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := run("initdb", append([]string{"-D", data, "-U", "test", "--auth=trust", "--encoding=UTF8", "--no-sync"}, arguments...)...).CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	server := run("postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "jit=off")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGINT)
		server.Wait()
	})
	db, err := sql.Open("pgx", "host="+dir+" user=test dbname=postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for start := time.Now(); db.Ping() != nil; time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("PostgreSQL does not answer: %v", db.Ping())
		}
	}
	return db
}

// asOtherUser returns the attributes of a process that does not run as root, which PostgreSQL
// refuses, and gives the folder to its user.
func asOtherUser(t *testing.T, dir string) *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2, os.Chown(dir, uid, gid), os.Chmod(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}
