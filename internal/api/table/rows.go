package table

import (
	"context"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file prints objects of the kind Table.

// Rows prints the tables of one answer.
type Rows struct {
	Bare bool // the columns have been named already

	table   *Table
	include Include
	now     time.Time
}

// NewRows returns what prints tables in a version of meta.k8s.io. include is the query parameter includeObject.
func NewRows(t *Table, version, include string) (*Rows, error) {
	r := &Rows{table: t, now: time.Now()}
	switch include := metav1.IncludeObjectPolicy(include); include {
	case "", metav1.IncludeMetadata:
		r.include = IncludeMetadata
	case metav1.IncludeNone:
		r.include = IncludeNone
	case metav1.IncludeObject:
		r.include = IncludeObject
	default:
		return nil, status.BadRequest("Unable to convert to Table as requested: includeObject: Invalid value: %q: must be 'Metadata', 'Object', 'None', or empty", include)
	}
	t.In(version)
	return r, nil
}

// AppendStart begins a table, up to its rows.
func (r *Rows) AppendStart(b []byte, metadata []byte) ([]byte, error) {
	b = append(b, `{"kind":"Table","apiVersion":"meta.k8s.io/`...)
	b = append(b, r.table.meta...)
	b = append(b, `","metadata":`...)
	b = append(b, metadata...)
	b = append(b, `,"columnDefinitions":`...)
	if r.Bare {
		b = append(b, "null"...)
	} else {
		columns, err := json.Marshal(r.table.Columns())
		if err != nil {
			return nil, err
		}
		b = append(b, columns...)
	}
	return append(b, `,"rows":[`...), nil
}

// AppendRow appends the row of an object.
func (r *Rows) AppendRow(ctx context.Context, b []byte, object []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil { // a row may have many columns
		return nil, err
	}
	d := jsondoc.Get()
	defer d.Release()
	if err := jsondoc.Parse(d, object); err != nil {
		return nil, err
	}
	return r.table.AppendRow(b, d.Root(), r.include, r.now), nil
}

// AppendOne appends a table of one object.
func (r *Rows) AppendOne(ctx context.Context, b []byte, object []byte) ([]byte, error) {
	metadata := []byte("{}") // of a dry run's new object
	if version := resourceVersion(object); version != nil {
		metadata = append(append([]byte(`{"resourceVersion":`), version...), '}')
	}
	b, err := r.AppendStart(b, metadata)
	if err != nil {
		return nil, err
	}
	if b, err = r.AppendRow(ctx, b, object); err != nil {
		return nil, err
	}
	return append(b, "]}"...), nil
}
