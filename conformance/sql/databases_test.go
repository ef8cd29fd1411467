// Package sql runs generated expressions over generated documents in real databases, and compares
// the rows that they select with the documents for which the evaluator returns true.
package sql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	celsql "github.com/keelson-io/keelson/cel/sql"
)

// This file starts the databases.

// database is a running database with a table of documents, t(id, doc).
type database struct {
	dialect celsql.Dialect
	db      *sql.DB
	column  string // the type of the column doc
}

// openSQLite opens a database in memory.
func openSQLite(t *testing.T) *database {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1) // each connection has a database of its own
	t.Cleanup(func() { db.Close() })
	return &database{celsql.SQLite, db, "TEXT"}
}

// openPostgres starts PostgreSQL on a socket in a folder of the test. It needs Debian's package
// postgresql; "make conformance-sql" installs it.
func openPostgres(t *testing.T) *database {
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
	if out, err := run("initdb", "-D", data, "-U", "test", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync").CombinedOutput(); err != nil {
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
	return &database{celsql.Postgres, db, "jsonb"}
}

// openMariaDB starts MariaDB on a socket in a folder of the test. It needs Debian's package mariadb-server; "make conformance-sql"
// installs it.
func openMariaDB(t *testing.T) *database {
	for _, program := range []string{"mariadbd", "mariadb-install-db"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatal("MariaDB is not installed: run make conformance-sql, or install the package mariadb-server")
		}
	}
	dir, err := os.MkdirTemp("", "md")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, append([]string{"--no-defaults", "--datadir=" + filepath.Join(dir, "data")}, args...)...)
		cmd.Dir, cmd.SysProcAttr = dir, asOtherUser(t, dir)
		return cmd
	}
	if out, err := run("mariadb-install-db", "--auth-root-authentication-method=normal", "--skip-test-db").CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	socket := filepath.Join(dir, "s")
	server := run("mariadbd", "--socket="+socket, "--skip-networking", "--pid-file="+filepath.Join(dir, "pid"), "--innodb-flush-log-at-trx-commit=0",
		"--character-set-server=utf8mb4", "--tmpdir="+dir)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGTERM)
		server.Wait()
	})
	db, err := sql.Open("mysql", "root@unix("+socket+")/?collation=utf8mb4_general_ci")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for start := time.Now(); db.Ping() != nil; time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("MariaDB does not answer: %v", db.Ping())
		}
	}
	db.SetMaxOpenConns(1) // USE holds for one connection
	for _, statement := range []string{"CREATE DATABASE test CHARACTER SET utf8mb4", "USE test"} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	return &database{celsql.MariaDB, db, "JSON"}
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

// fill replaces the documents of the table; their IDs are their indexes.
// flat are the values of other columns, nil for none.
func (d *database) fill(t *testing.T, docs []string, flat [][4]any) {
	tx, err := d.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	placeholders := "($1, $2, $3, $4, $5, $6)"
	if d.dialect == celsql.MariaDB {
		placeholders = "(?, ?, ?, ?, ?, ?)"
	}
	for _, statement := range []string{"DROP TABLE IF EXISTS t", "CREATE TABLE t (id INTEGER PRIMARY KEY, doc " + d.column + " NOT NULL, " +
		"s TEXT, n BIGINT, d DOUBLE PRECISION, b BOOLEAN)"} {
		if _, err := tx.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	insert, err := tx.Prepare("INSERT INTO t VALUES " + placeholders)
	if err != nil {
		t.Fatal(err)
	}
	for i, doc := range docs {
		var others [4]any
		if flat != nil {
			others = flat[i]
		}
		if _, err := insert.Exec(i, doc, others[0], others[1], others[2], others[3]); err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// documents returns the documents as the database has them: jsonb has one form of a number.
func (d *database) documents(t *testing.T) []string {
	rows, err := d.db.Query("SELECT doc FROM t ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var docs []string
	for rows.Next() {
		var doc string
		if err := rows.Scan(&doc); err != nil {
			t.Fatal(err)
		}
		docs = append(docs, doc)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return docs
}

// selected returns the IDs of the documents that a query selects.
func (d *database) selected(ctx context.Context, q *celsql.Query) ([]int, error) {
	rows, err := d.db.QueryContext(ctx, "SELECT id FROM t WHERE "+q.Where+" ORDER BY id", q.Args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []int
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading rows: %w", err)
	}
	return ids, nil
}
