package atrest

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

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
	db, err := sql.Open("pgx", address)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(postgresConnections)
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	query := u.Query()
	query.Del("password")
	query.Del("sslpassword")
	u.RawQuery = query.Encode()
	d := &Database{db: db, dialect: postgres{}, name: u.String()}
	return d, d.begin(ctx, mode)
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
	return `CREATE TABLE "` + name + `" (
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

func (postgres) tableExists(name string) string {
	return "SELECT count(*) FROM pg_catalog.pg_class WHERE relname = '" + name + "' AND relkind IN ('r', 'p') AND pg_catalog.pg_table_is_visible(oid)"
}

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

// writePart writes objects in one statement. If PostgreSQL refuses them, it writes each half, so that
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
	_, err = tx.ExecContext(ctx, `INSERT INTO "`+table+`" AS t (namespace, name, uid, resource_version, labels, doc)
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
