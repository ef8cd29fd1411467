// Package sql runs generated expressions over generated documents in real databases, and compares
// the rows that they select with the documents for which the evaluator returns true.
package sql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"
	_ "github.com/ncruces/go-sqlite3/embed"
	_ "modernc.org/sqlite"

	celsql "github.com/keelson-io/keelson/cel/sql"
	"github.com/keelson-io/keelson/conformance/sql/servers"
)

// This file fills and asks the databases.

// database is a running database with a table of documents, t(id, doc).
type database struct {
	dialect celsql.Dialect
	db      *sql.DB
	column  string // the type of the column doc
	binary  bool   // SQLite: documents are stored as JSONB
}

// openSQLite opens a database in memory.
func openSQLite(t *testing.T) *database {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1) // each connection has a database of its own
	t.Cleanup(func() { db.Close() })
	return &database{celsql.SQLite, db, "TEXT", false}
}

// openOldestSQLite opens a database in memory with the oldest version that is supported.
func openOldestSQLite(t *testing.T) *database {
	db, err := sql.Open("sqlite3", "file::memory:")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	var version string
	if err := db.QueryRow("SELECT sqlite_version()").Scan(&version); err != nil || !strings.HasPrefix(version, "3.45.") {
		t.Fatalf("got the version %s, %v, want 3.45", version, err)
	}
	return &database{celsql.SQLite, db, "TEXT", false}
}

// openSQLiteBinary opens a database whose documents are JSONB, in a file of the test.
func openSQLiteBinary(t *testing.T) *database {
	db, err := sql.Open("sqlite", "file:"+t.TempDir()+"/db?_pragma=journal_mode(wal)&_pragma=synchronous(normal)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return &database{celsql.SQLite, db, "BLOB", true}
}

// openPostgres starts PostgreSQL.
func openPostgres(t *testing.T) *database {
	return &database{celsql.Postgres, servers.Postgres(t, "--locale=C.UTF-8"), "jsonb", false}
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
	if d.binary {
		placeholders = "($1, jsonb($2), $3, $4, $5, $6)"
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
	doc := "doc"
	if d.binary {
		doc = "json(doc)"
	}
	rows, err := d.db.Query("SELECT " + doc + " FROM t ORDER BY id")
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
