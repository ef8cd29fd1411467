package atrest

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	celsql "github.com/keelson-io/keelson/cel/sql"
)

// This file has the SQL of SQLite.

type sqlite struct{}

func (sqlite) name() celsql.Dialect { return celsql.SQLite }

func (sqlite) numbered(statement string) string { return statement }

func (sqlite) bookkeeping() []string {
	list := bookkeeping("TEXT")
	list[1] += " WITHOUT ROWID"
	return list
}

// createTable has documents in SQLite's binary form of JSON, which queries read several times faster than text.
func (sqlite) createTable(name string) string {
	return `CREATE TABLE ` + quoted(name) + ` (
	namespace TEXT NOT NULL,
	name TEXT NOT NULL,
	uid TEXT NOT NULL,
	resource_version TEXT NOT NULL,
	labels TEXT NOT NULL,
	doc BLOB NOT NULL,
	PRIMARY KEY (namespace, name)
)`
}

func (sqlite) text() string { return "json(doc)" }

func (sqlite) write(ctx context.Context, tx *sql.Tx, table string, objects []*Object) (refused []*Refusal, err error) {
	insert, err := tx.PrepareContext(ctx, `INSERT INTO `+quoted(table)+` AS t (namespace, name, uid, resource_version, labels, doc)
		VALUES (?, ?, ?, ?, ?, CASE WHEN json_valid(?6) THEN jsonb(?6) END)`+upsert)
	if err != nil {
		return nil, err
	}
	defer insert.Close()
	for _, o := range objects {
		// The driver stores bytes as a BLOB, and strings as TEXT.
		_, err := insert.ExecContext(ctx, o.Namespace, o.Name, o.UID, o.ResourceVersion, string(o.Labels), string(o.Doc))
		if reason, ok := sqliteRefusal(err); ok {
			refused = append(refused, o.refuse(reason))
		} else if err != nil {
			return nil, err
		}
	}
	return refused, nil
}

// sqliteRefusal returns why SQLite cannot hold an object, if that is what the error says.
func sqliteRefusal(err error) (string, bool) {
	var e *driver.Error
	if !errors.As(err, &e) {
		return "", false
	}
	switch e.Code() {
	case codes.SQLITE_CONSTRAINT_NOTNULL: // it is not JSON for SQLite
		return "SQLite cannot read it as JSON: it may have too many levels", true
	case codes.SQLITE_TOOBIG:
		return "it is too long for SQLite", true
	}
	return "", false
}

func (sqlite) see(ctx context.Context, tx *sql.Tx, table string, objects []*Object) error {
	const rows = 50
	for len(objects) > 0 {
		batch := objects[:min(rows, len(objects))]
		objects = objects[len(batch):]
		args := make([]any, 0, 3*len(batch))
		for _, o := range batch {
			args = append(args, table, o.Namespace, o.Name)
		}
		values := strings.TrimSuffix(strings.Repeat("(?, ?, ?), ", len(batch)), ", ")
		if _, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO keelson_seen VALUES "+values, args...); err != nil {
			return err
		}
	}
	return nil
}

// beforeClose makes the database one file, without a log beside it, unless somebody else uses it.
func (sqlite) beforeClose(db *sql.DB) error {
	_, _ = db.Exec("PRAGMA busy_timeout = 0")
	_, _ = db.Exec("PRAGMA journal_mode = DELETE")
	return nil
}
