package atrest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"modernc.org/libc"
	engine "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// This file confines SQLite to what an export needs: a file may be a stranger's, and SQL in it, such as views, triggers and generated
// columns, would run with the rights of the process.

// connector opens connections to a SQLite file. Each may do only what its mode allows.
type connector struct {
	driver *engine.Driver
	name   string // a URI, with the settings of the driver
}

// newConnector returns a connector with an authorizer.
func newConnector(name string, mode Mode) *connector {
	d := &engine.Driver{}
	d.RegisterConnectionHook(func(conn engine.ExecQuerierContext, _ string) error {
		c, ok := conn.(engine.AuthorizerRegisterer)
		if !ok {
			return fmt.Errorf("BUG: the driver's connection %T has no authorizer", conn)
		}
		return c.RegisterAuthorizer(mode.authorize)
	})
	return &connector{d, name}
}

// Connect implements driver.Connector.
func (c *connector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.name)
	if err != nil {
		return nil, err
	}
	full, ok := conn.(fullConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("BUG: the driver's connection %T lacks a method", conn), conn.Close())
	}
	return singleConn{full}, nil
}

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return c.driver }

// fullConn has the methods of a connection that database/sql looks for.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// singleConn is a connection that runs one statement a call. The driver would run all that are in a text.
type singleConn struct{ fullConn }

var errSeveral = errors.New("BUG: a call has one statement, without a semicolon")

// ExecContext implements driver.ExecerContext.
func (c singleConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if strings.Contains(query, ";") {
		return nil, errSeveral
	}
	return c.fullConn.ExecContext(ctx, query, args)
}

// QueryContext implements driver.QueryerContext.
func (c singleConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if strings.Contains(query, ";") {
		return nil, errSeveral
	}
	return c.fullConn.QueryContext(ctx, query, args)
}

// PrepareContext implements driver.ConnPrepareContext.
func (c singleConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if strings.Contains(query, ";") {
		return nil, errSeveral
	}
	return c.fullConn.PrepareContext(ctx, query)
}

// functions are those that the statements of this package and the conditions of package cel/sql call.
var functions = []string{"count", "json", "json_array_length", "json_each", "json_extract", "json_group_array", "json_type", "json_valid", "jsonb",
	"instr", "length", "substr", "typeof"}

// authorize is the authorizer of SQLite: it decides about each operation of a statement when the statement is compiled. within is the
// view or the trigger that has the operation; "" is the statement itself.
func (m Mode) authorize(action engine.AuthorizerActionCode, arg1, arg2, database, within string) engine.AuthorizerReturnCode {
	if within == "" && m.allows(action, arg1, arg2, database) {
		return engine.AuthorizerOK
	}
	return engine.AuthorizerDeny
}

// allows reports whether a statement may have an operation. The arguments are those of SQLite.
func (m Mode) allows(action engine.AuthorizerActionCode, arg1, arg2, database string) bool {
	switch action {
	case engine.AuthSelect:
		return true
	case engine.AuthRead:
		table, column := arg1, arg2
		return database == "main" || table == "json_each" || database == "" && column == "" // of count(*)
	case engine.AuthFunction:
		return slices.Contains(functions, arg2)
	case engine.AuthPragma:
		return m == Write && slices.Contains([]string{"busy_timeout", "journal_mode"}, arg1)
	case engine.AuthTransaction:
		return m == Write
	case engine.AuthInsert, engine.AuthUpdate, engine.AuthDelete, engine.AuthCreateTable:
		return m == Write && database == "main"
	case engine.AuthCreateIndex: // of a primary key
		return m == Write && strings.HasPrefix(arg1, "sqlite_autoindex_")
	}
	return false
}

// countMemory makes SQLite count its memory, without which it has no limit. It must be called before the first connection of the process.
var countMemory = sync.OnceValue(func() error {
	tls := libc.NewTLS()
	defer tls.Close()
	on := libc.NewVaList(int32(1))
	defer libc.Xfree(tls, on)
	if code := codes.Xsqlite3_config(tls, codes.SQLITE_CONFIG_MEMSTATUS, on); code != codes.SQLITE_OK {
		return fmt.Errorf("SQLite does not count its memory: error %d", code)
	}
	return nil
})

// heapLimit returns the greatest number of bytes that SQLite takes in this process, which is not memory of Go.
func heapLimit() int64 {
	const most = 256 << 20
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return min(most, limit/4)
	}
	return most
}

// isOutOfMemory reports whether SQLite reached its limit.
func isOutOfMemory(err error) bool {
	e, ok := errors.AsType[*engine.Error](err)
	return ok && e.Code()&0xff == codes.SQLITE_NOMEM
}

// checkFile returns an error if a path is not that of a regular file.
func checkFile(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: got a %s, want a file", file, info.Mode().Type())
	}
	return nil
}

// createFile creates an empty file that only its owner reads: objects may be Secrets. SQLite gives its journals the same mode.
func createFile(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// foreignTable is the error of a table that this package did not make.
func foreignTable(name, reason string) error {
	return fmt.Errorf("table %s: %s; keelson export did not make it", name, reason)
}

// verify reads the schema of a file: a table must have the columns that createTable gives it, so that no SQL of the file runs when it is read.
func (d sqlite) verify(ctx context.Context, db *sql.DB, name, created string, mode Mode) (exists bool, err error) {
	rows, err := db.QueryContext(ctx, "SELECT type, sql FROM sqlite_schema WHERE tbl_name = ? COLLATE NOCASE OR name = ? COLLATE NOCASE", name, name)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		var kind string
		var text sql.NullString // NULL for the index of a primary key
		if err := rows.Scan(&kind, &text); err != nil {
			return false, err
		}
		switch {
		case kind == "index":
		case kind == "trigger" && mode == ReadOnly:
		case kind == "trigger":
			return false, fmt.Errorf("table %s: it has a trigger, which would run with your rights", name)
		case kind != "table":
			return false, foreignTable(name, "it is a "+kind)
		case text.String != created:
			return false, foreignTable(name, "it has other columns than those of an export")
		default:
			exists = true
		}
	}
	return exists, rows.Err()
}
