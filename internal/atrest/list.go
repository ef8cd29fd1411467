package atrest

import (
	"context"
	"database/sql"
	"slices"
)

// This file writes lists of objects.

// List is the export of all objects of a kind.
type List struct {
	// Token continues the list of a server that an earlier process began; "" if it begins.
	Token string

	d     *Database
	table *Table
}

// Table returns the table that the list writes.
func (l *List) Table() *Table { return l.table }

// List begins to write all objects of a kind, or continues to write those of a server's list. source
// identifies the server; "" is a source whose lists are read from their beginning.
func (d *Database) List(ctx context.Context, k Kind, source string) (*List, error) {
	t, err := d.table(ctx, k)
	if err != nil {
		return nil, err
	}
	l := &List{d: d, table: t}
	if source != "" && t.source == source && t.listToken != "" {
		l.Token = t.listToken
		return l, nil
	}
	t.source = source
	return l, l.Restart(ctx)
}

// Restart begins the list again, because a server no longer knows its token.
func (l *List) Restart(ctx context.Context) error {
	l.Token = ""
	l.table.Complete = false
	l.table.Version, l.table.ResourceVersion, l.table.listVersion, l.table.listToken = "", "", "", ""
	return l.d.transact(ctx, func(tx *sql.Tx) error {
		if err := l.d.forget(ctx, tx, l.table.Name); err != nil {
			return err
		}
		return l.d.save(ctx, tx, l.table)
	})
}

// mixed is the version of a list with objects of several versions, until it is complete.
const mixed = "*"

// Write writes a part of the list in a transaction. resourceVersion and token are those of a
// server's list with the part. Refused objects are not written.
func (l *List) Write(ctx context.Context, objects []*Object, resourceVersion, token string) (refused []*Refusal, err error) {
	for _, o := range objects {
		switch l.table.Version {
		case o.Version, mixed:
		case "":
			l.table.Version = o.Version
		default:
			l.table.Version = mixed
		}
	}
	l.table.listVersion, l.table.listToken = resourceVersion, token
	err = l.d.transact(ctx, func(tx *sql.Tx) error {
		refused, err = l.d.dialect.write(ctx, tx, l.table.Name, objects)
		if err != nil {
			return err
		}
		if err := l.d.dialect.see(ctx, tx, l.table.Name, without(objects, refused)); err != nil {
			return err
		}
		return l.d.save(ctx, tx, l.table)
	})
	return refused, err
}

// without returns the objects that were not refused.
func without(objects []*Object, refused []*Refusal) []*Object {
	if len(refused) == 0 {
		return objects
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o *Object) bool {
		return slices.ContainsFunc(refused, func(r *Refusal) bool { return r.Namespace == o.Namespace && r.Name == o.Name })
	})
}

// Finish removes the rows of objects that were not written, and returns their number. The table then
// corresponds to the list's resource version.
func (l *List) Finish(ctx context.Context) (removed int64, err error) {
	t := l.table
	if t.Version == mixed {
		t.Version = ""
	}
	t.Complete, t.ResourceVersion, t.listVersion, t.listToken = true, t.listVersion, "", ""
	err = l.d.transact(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, l.d.dialect.numbered("DELETE FROM "+quoted(t.Name)+" AS t WHERE NOT EXISTS (SELECT 1 FROM keelson_seen AS s WHERE s.table_name = ? AND s.namespace = t.namespace AND s.name = t.name)"), t.Name)
		if err != nil {
			return err
		}
		if removed, err = result.RowsAffected(); err != nil {
			return err
		}
		if err := l.d.forget(ctx, tx, t.Name); err != nil {
			return err
		}
		return l.d.save(ctx, tx, t)
	})
	return removed, err
}

// forget removes the keys of a table from keelson_seen.
func (d *Database) forget(ctx context.Context, tx *sql.Tx, table string) error {
	_, err := tx.ExecContext(ctx, d.dialect.numbered("DELETE FROM keelson_seen WHERE table_name = ?"), table)
	return err
}

// Change is what happened to an object: it is as Object says, or it is gone.
type Change struct {
	Object *Object
	Gone   bool
}

// Apply writes what happened after the list to which a table corresponds, in a transaction. The table
// then corresponds to resourceVersion. Of several changes of an object, the last one counts.
func (d *Database) Apply(ctx context.Context, t *Table, changes []Change, resourceVersion string) (refused []*Refusal, err error) {
	last := map[[2]string]Change{}
	for _, c := range changes {
		last[[2]string{c.Object.Namespace, c.Object.Name}] = c
		if !c.Gone && t.Version != c.Object.Version {
			t.Version = "" // another server, or the table was empty
		}
	}
	var objects []*Object
	t.ResourceVersion = resourceVersion
	err = d.transact(ctx, func(tx *sql.Tx) error {
		// A refused object must not keep the row of an older one.
		for key := range last {
			if _, err := tx.ExecContext(ctx, d.dialect.numbered("DELETE FROM "+quoted(t.Name)+" WHERE namespace = ? AND name = ?"), key[0], key[1]); err != nil {
				return err
			}
		}
		for _, c := range last {
			if !c.Gone {
				objects = append(objects, c.Object)
			}
		}
		if refused, err = d.dialect.write(ctx, tx, t.Name, objects); err != nil {
			return err
		}
		return d.save(ctx, tx, t)
	})
	return refused, err
}

// Clear removes all rows of a kind that its source no longer has, and returns their number.
func (d *Database) Clear(ctx context.Context, t *Table) (removed int64, err error) {
	l := &List{d: d, table: t}
	if err := d.claim(ctx, t); err != nil {
		return 0, err
	}
	if err := l.Restart(ctx); err != nil {
		return 0, err
	}
	return l.Finish(ctx)
}

// RemoveOthers removes the rows of all kinds that the source does not have, and returns their number.
func (d *Database) RemoveOthers(ctx context.Context, kinds []Kind) (removed int64, err error) {
	tables, err := d.Tables(ctx)
	if err != nil {
		return 0, err
	}
	for _, t := range tables {
		if slices.Contains(kinds, t.Kind) {
			continue
		}
		n, err := d.Clear(ctx, t)
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}
