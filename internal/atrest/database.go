package atrest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	celsql "github.com/keelson-io/keelson/cel/sql"
)

// This file opens databases, and has the table of kinds.

// Database is an open database. It is safe for concurrent use, if each kind is written by one
// goroutine.
type Database struct {
	db      *sql.DB
	dialect dialect
	mode    Mode
	name    string // as errors show it, without a password
	writer  string // identifies this export among those that write to the database; "" if it is only read
}

// Mode says what a database is opened for.
type Mode int

// The modes.
const (
	ReadOnly Mode = iota // it must exist, and have an export
	Write                // it is created if it does not exist
)

// Open opens a database by its URL: sqlite://FILE or postgres://…
func Open(ctx context.Context, address string, mode Mode) (*Database, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	switch {
	case !ok:
		return nil, fmt.Errorf("got the database %q, want sqlite://FILE or postgres://…", address)
	case scheme == "sqlite":
		return openSQLite(ctx, rest, mode)
	case scheme == "postgres", scheme == "postgresql":
		return openPostgres(ctx, address, mode)
	}
	return nil, fmt.Errorf("got a database %s://, want sqlite://FILE or postgres://…", scheme)
}

// openSQLite opens a file.
func openSQLite(ctx context.Context, file string, mode Mode) (*Database, error) {
	if file == "" {
		return nil, errors.New("got sqlite:// without a file, want sqlite://FILE")
	}
	err := checkFile(file)
	if errors.Is(err, fs.ErrNotExist) && mode == Write {
		// The error of creating a file does not say which folder is missing.
		if _, err := os.Stat(filepath.Dir(file)); err != nil {
			return nil, err
		}
		err = createFile(file)
	}
	if err != nil {
		return nil, err
	}
	if err := countMemory(); err != nil {
		return nil, err
	}
	full, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	address := url.URL{Scheme: "file", Path: filepath.ToSlash(full)}
	if !strings.HasPrefix(address.Path, "/") {
		address.Path = "/" + address.Path // a Windows path begins with its drive
	}
	pragmas := url.Values{"_defensive": {"1"}, "_pragma": {"busy_timeout(10000)", "trusted_schema(OFF)", "cell_size_check(ON)", "mmap_size(0)",
		fmt.Sprintf("hard_heap_limit(%d)", heapLimit())}}
	if mode == ReadOnly {
		pragmas.Set("mode", "ro")
		pragmas["_pragma"] = append(pragmas["_pragma"], "query_only(ON)")
	} else {
		// After a crash of the machine, the last transactions may be lost, but the file is consistent.
		pragmas["_pragma"] = append(pragmas["_pragma"], "journal_mode(WAL)", "synchronous(NORMAL)", "cache_size(-64000)", "wal_autocheckpoint(10000)")
		pragmas.Set("_txlock", "immediate")
	}
	address.RawQuery = pragmas.Encode()
	db := sql.OpenDB(newConnector(address.String(), mode))
	db.SetMaxOpenConns(1)
	d := &Database{db: db, dialect: sqlite{}, name: "sqlite://" + file}
	return d, d.begin(ctx, mode)
}

// begin creates the tables of an export, or verifies that they exist. It closes the database if it
// fails.
func (d *Database) begin(ctx context.Context, mode Mode) error {
	d.mode = mode
	if mode == Write {
		d.writer = rand.Text()
	}
	err := func() error {
		for i, statement := range d.dialect.bookkeeping() {
			exists, err := d.dialect.verify(ctx, d.db, bookkeepers[i], statement, mode)
			switch {
			case err != nil:
				return d.named(err)
			case !exists && mode == ReadOnly:
				return d.named(errors.New("it has no export; keelson export makes one"))
			case !exists:
				// Another export may create it at the same time.
				if _, err := d.db.ExecContext(ctx, strings.Replace(statement, "TABLE", "TABLE IF NOT EXISTS", 1)); err != nil {
					return d.named(err)
				}
			}
		}
		return nil
	}()
	if err != nil {
		d.db.Close()
	}
	return err
}

// Close closes the database.
func (d *Database) Close() error {
	if d.mode == Write {
		return d.named(errors.Join(d.dialect.beforeClose(d.db), d.db.Close()))
	}
	return d.named(d.db.Close())
}

// Dialect returns the dialect of its SQL.
func (d *Database) Dialect() celsql.Dialect { return d.dialect.name() }

// databaseError is an error of a database. Its text names the database.
type databaseError struct{ err error }

// Error implements error.
func (e *databaseError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *databaseError) Unwrap() error { return e.err }

// IsDatabaseError reports whether an error is one of a database, not of the source.
func IsDatabaseError(err error) bool {
	var e *databaseError
	return errors.As(err, &e)
}

// named returns an error with the name of the database; nil if err is nil.
func (d *Database) named(err error) error {
	var known *databaseError
	if err == nil || errors.As(err, &known) {
		return err
	}
	if isOutOfMemory(err) {
		err = fmt.Errorf("SQLite needs more than %d MiB of memory: %w", heapLimit()>>20, err)
	}
	return &databaseError{fmt.Errorf("%s: %w", d.name, err)}
}

// transact runs f in a transaction.
func (d *Database) transact(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return d.named(err)
	}
	defer tx.Rollback() // fails after Commit
	if err := f(tx); err != nil {
		return d.named(err)
	}
	return d.named(tx.Commit())
}

// Table is the table of a kind.
type Table struct {
	Kind
	Name    string
	Version string // of its objects; "" if they have several, or there are none
	// Complete is false while an export is going on, and after one that was interrupted.
	Complete bool
	// ResourceVersion is that of a server's list or watch to which the table corresponds; "" if an
	// export is not complete, or its source has none.
	ResourceVersion string

	// source is the server that has the resource version and the token.
	source string
	// listVersion and listToken are the resource version of a list that is not complete, and the token
	// with which it continues.
	listVersion, listToken string
}

// Tables returns the tables of all kinds, by their names.
func (d *Database) Tables(ctx context.Context) ([]*Table, error) {
	rows, err := d.db.QueryContext(ctx, "SELECT api_group, kind, table_name, version, complete, resource_version, source, list_version, list_token FROM keelson_kinds ORDER BY table_name")
	if err != nil {
		return nil, d.named(err)
	}
	defer rows.Close()
	var list []*Table
	for rows.Next() {
		t := &Table{}
		if err := rows.Scan(&t.Group, &t.Kind.Kind, &t.Name, &t.Version, &t.Complete, &t.ResourceVersion, &t.source, &t.listVersion, &t.listToken); err != nil {
			return nil, d.named(err)
		}
		if !isNameFor(t.Kind, t.Name) {
			return nil, d.named(fmt.Errorf("keelson_kinds: got the table %.100q for %.100q; keelson export did not make it", t.Name, t.Kind.String()))
		}
		list = append(list, t)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil { // closed: SQLite has one connection
		return nil, d.named(err)
	}
	for _, t := range list {
		exists, err := d.dialect.verify(ctx, d.db, t.Name, d.dialect.createTable(t.Name), d.mode)
		if err == nil && !exists {
			err = fmt.Errorf("table %s: it is missing, but keelson_kinds has it", t.Name)
		}
		if err != nil {
			return nil, d.named(err)
		}
	}
	return list, nil
}

// save writes the entry of a table. It fails if another export has claimed the table.
func (d *Database) save(ctx context.Context, tx *sql.Tx, t *Table) error {
	result, err := tx.ExecContext(ctx, d.dialect.numbered("UPDATE keelson_kinds SET version = ?, complete = ?, resource_version = ?, source = ?, list_version = ?, list_token = ? WHERE table_name = ? AND writer = ?"),
		t.Version, t.Complete, t.ResourceVersion, t.source, t.listVersion, t.listToken, t.Name, d.writer)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return fmt.Errorf("another export has begun to write the objects of %s; this one stops", t.Kind)
	}
	return err
}

// claim makes this export the only one that may write a table: the one that begins last. It waits for
// a transaction of another export, whose next one fails.
func (d *Database) claim(ctx context.Context, t *Table) error {
	return d.transact(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, d.dialect.numbered("UPDATE keelson_kinds SET writer = ? WHERE table_name = ?"), d.writer, t.Name)
		return err
	})
}

// table returns the table of a kind, and claims it. It creates the table if there is none.
func (d *Database) table(ctx context.Context, k Kind) (*Table, error) {
	all, err := d.Tables(ctx)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, t := range all {
		if t.Kind == k {
			return t, d.claim(ctx, t)
		}
		names[t.Name] = true
	}
	t := &Table{Kind: k, Name: freeName(k, func(name string) bool { return names[name] })}
	return t, d.transact(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, d.dialect.createTable(t.Name)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, d.dialect.numbered("INSERT INTO keelson_kinds (api_group, kind, table_name, writer) VALUES (?, ?, ?, ?)"), k.Group, k.Kind, t.Name, d.writer)
		return err
	})
}
