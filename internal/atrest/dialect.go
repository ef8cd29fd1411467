package atrest

import (
	"context"
	"database/sql"

	celsql "github.com/keelson-io/keelson/cel/sql"
)

// This file says in what databases differ.

// dialect is what is different in a database.
type dialect interface {
	name() celsql.Dialect
	// numbered returns a statement with the dialect's placeholders in place of question marks.
	numbered(statement string) string
	// bookkeeping returns the statements that create the tables of bookkeepers.
	bookkeeping() []string
	// createTable returns the statement that creates the table of a kind.
	createTable(name string) string
	// text returns the expression for the JSON of a document.
	text() string
	// verify reports whether a table exists. It returns an error if reading the table, or writing it in the mode Write, would run SQL
	// that another user put into the database. created is the statement that creates the table.
	verify(ctx context.Context, db *sql.DB, name, created string, mode Mode) (exists bool, err error)
	// write inserts objects, or updates the rows that they have. Refused objects are not written.
	write(ctx context.Context, tx *sql.Tx, table string, objects []*Object) (refused []*Refusal, err error)
	// see adds the keys of objects to keelson_seen.
	see(ctx context.Context, tx *sql.Tx, table string, objects []*Object) error
	// beforeClose is called when a database that was written is closed.
	beforeClose(db *sql.DB) error
}

// bookkeepers are the tables with the progress of exports.
var bookkeepers = []string{"keelson_kinds", "keelson_seen"}

// bookkeeping returns the statements for a type of texts that compare by their bytes.
func bookkeeping(text string) []string {
	return []string{
		`CREATE TABLE keelson_kinds (
	api_group ` + text + ` NOT NULL,
	kind ` + text + ` NOT NULL,
	table_name ` + text + ` NOT NULL UNIQUE,
	version ` + text + ` NOT NULL DEFAULT '',
	complete BOOLEAN NOT NULL DEFAULT FALSE,
	resource_version ` + text + ` NOT NULL DEFAULT '',
	source ` + text + ` NOT NULL DEFAULT '',
	writer ` + text + ` NOT NULL DEFAULT '',
	list_version ` + text + ` NOT NULL DEFAULT '',
	list_token ` + text + ` NOT NULL DEFAULT '',
	PRIMARY KEY (api_group, kind)
)`,
		`CREATE TABLE keelson_seen (
	table_name ` + text + ` NOT NULL,
	namespace ` + text + ` NOT NULL,
	name ` + text + ` NOT NULL,
	PRIMARY KEY (table_name, namespace, name)
)`,
	}
}

// upsert is the end of a statement that inserts objects. It does not write rows that stay the same:
// all columns are parts of the document.
const upsert = ` ON CONFLICT (namespace, name) DO UPDATE SET
	uid = excluded.uid, resource_version = excluded.resource_version, labels = excluded.labels, doc = excluded.doc
	WHERE t.doc <> excluded.doc`
