package atrest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	celsql "github.com/keelson-io/keelson/cel/sql"
)

// This file has the SQL of PostgreSQL.

// postgresConnections is how many kinds are written at the same time.
const postgresConnections = 4

// openPostgres opens a database by its URL.
func openPostgres(ctx context.Context, address string, mode Mode) (*Database, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("not a valid URL of PostgreSQL, want postgres://USER:PASSWORD@HOST/DATABASE; is a character of the password not escaped?")
	}
	config, err := pgx.ParseConfig(address)
	switch {
	case err != nil:
		return nil, err
	case config.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol:
		return nil, errors.New("default_query_exec_mode=simple_protocol: parameters would become text of statements; want another mode, such as exec")
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(postgresConnections)
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	query := u.Query()
	query.Del("password")
	query.Del("sslpassword")
	u.RawQuery = query.Encode()
	d := &Database{db: db, dialect: postgres{}, name: u.String()}
	if err := checkPostgres(ctx, db); err != nil {
		return nil, d.named(errors.Join(err, db.Close()))
	}
	return d, d.begin(ctx, mode)
}

// oldestPostgres is the oldest major version with which this package is tested.
const oldestPostgres = 15

// checkPostgres returns an error if the version of a server is older.
func checkPostgres(ctx context.Context, db *sql.DB) error {
	var text string
	if err := db.QueryRowContext(ctx, "SELECT pg_catalog.current_setting('server_version_num')").Scan(&text); err != nil {
		return err
	}
	if n, err := strconv.Atoi(text); err != nil || n/10000 < oldestPostgres {
		return fmt.Errorf("got PostgreSQL %s, want %d or later", text, oldestPostgres)
	}
	return nil
}

// verify refuses what runs SQL of another user with the rights of this one: views and foreign tables, row security when the table is read,
// and triggers, rules and expressions of another user's table when it is written.
func (postgres) verify(ctx context.Context, db *sql.DB, name, _ string, mode Mode) (exists bool, err error) {
	var isTable, isOwn, hasRowSecurity bool
	var owner string
	err = db.QueryRowContext(ctx, `SELECT relkind IN ('r', 'p'), pg_catalog.pg_get_userbyid(relowner), pg_catalog.pg_get_userbyid(relowner) = current_user, relrowsecurity
	FROM pg_catalog.pg_class WHERE relname = $1 AND pg_catalog.pg_table_is_visible(oid)`, name).Scan(&isTable, &owner, &isOwn, &hasRowSecurity)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case !isTable:
		return false, foreignTable(name, "it is not an ordinary table")
	case !isOwn && mode == Write:
		return false, fmt.Errorf("table %s: it belongs to %q, whose triggers and rules would run with your rights; connect as that user, or set its role", name, owner)
	case !isOwn && hasRowSecurity:
		return false, fmt.Errorf("table %s: it has row security of %q, whose policies would run with your rights; connect as that user, or set its role", name, owner)
	}
	return true, nil
}

type postgres struct{}

func (postgres) name() celsql.Dialect { return celsql.Postgres }

func (postgres) numbered(statement string) string {
	parts := strings.Split(statement, "?")
	for i := range parts[1:] {
		parts[i] += "$" + strconv.Itoa(i+1)
	}
	return strings.Join(parts, "")
}

func (postgres) bookkeeping() []string { return bookkeeping(`text COLLATE "C"`) }

func (postgres) createTable(name string) string {
	return `CREATE TABLE ` + quoted(name) + ` (
	namespace text COLLATE "C" NOT NULL,
	name text COLLATE "C" NOT NULL,
	uid text NOT NULL,
	resource_version text NOT NULL,
	labels jsonb NOT NULL,
	doc jsonb NOT NULL,
	PRIMARY KEY (namespace, name)
)`
}

func (postgres) text() string { return "doc" }

// postgresRows is the number of objects in a statement.
const postgresRows = 1000

func (d postgres) write(ctx context.Context, tx *sql.Tx, table string, objects []*Object) (refused []*Refusal, err error) {
	for part := range slices.Chunk(objects, postgresRows) {
		r, err := d.writePart(ctx, tx, table, part)
		if err != nil {
			return nil, err
		}
		refused = append(refused, r...)
	}
	return refused, nil
}

// writePart writes objects in one statement. PostgreSQL takes the function unnest with several arguments from pg_catalog, whatever the
// search path has. If PostgreSQL refuses them, it writes each half, so that
// only the objects that are refused themselves are not written.
func (d postgres) writePart(ctx context.Context, tx *sql.Tx, table string, objects []*Object) (refused []*Refusal, err error) {
	var columns [6][]string
	for _, o := range objects {
		for i, text := range [...]string{o.Namespace, o.Name, o.UID, o.ResourceVersion, string(o.Labels), string(o.Doc)} {
			columns[i] = append(columns[i], text)
		}
	}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT part"); err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO `+quoted(table)+` AS t (namespace, name, uid, resource_version, labels, doc)
	SELECT u.a, u.b, u.c, u.d, u.e::jsonb, u.f::jsonb FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) AS u(a, b, c, d, e, f)`+upsert,
		columns[0], columns[1], columns[2], columns[3], columns[4], columns[5])
	reason, isRefusal := postgresRefusal(err)
	switch {
	case err == nil:
		_, err = tx.ExecContext(ctx, "RELEASE SAVEPOINT part")
		return nil, err
	case !isRefusal:
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT part"); err != nil {
		return nil, err
	}
	if len(objects) == 1 {
		return []*Refusal{objects[0].refuse(reason)}, nil
	}
	half := len(objects) / 2
	for _, part := range [][]*Object{objects[:half], objects[half:]} {
		r, err := d.writePart(ctx, tx, table, part)
		if err != nil {
			return nil, err
		}
		refused = append(refused, r...)
	}
	return refused, nil
}

// postgresRefusal returns why PostgreSQL cannot hold an object, if that is what the error says: it is
// in the class of errors of data, or of limits.
func postgresRefusal(err error) (string, bool) {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !strings.HasPrefix(e.Code, "22") && !strings.HasPrefix(e.Code, "54") {
		return "", false
	}
	text := "PostgreSQL refuses it: " + e.Message
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text, true
}

func (postgres) see(ctx context.Context, tx *sql.Tx, table string, objects []*Object) error {
	var namespaces, names []string
	for _, o := range objects {
		namespaces, names = append(namespaces, o.Namespace), append(names, o.Name)
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO keelson_seen SELECT $1, u.a, u.b FROM unnest($2::text[], $3::text[]) AS u(a, b) ON CONFLICT DO NOTHING", table, namespaces, names)
	return err
}

func (postgres) beforeClose(*sql.DB) error { return nil }
