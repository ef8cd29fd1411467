// Package table prints objects as rows of a table and as metadata only.
package table

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
)

// Columns are the columns of a version's tables.
func Columns(v *kind.Version) []metav1.TableColumnDefinition { panic("BUG: not built yet") }

// Include says what of each object comes with its row.
type Include uint8

// What comes with a row.
const (
	IncludeMetadata Include = iota
	IncludeNone
	IncludeObject
)

// Table makes the rows of one version's tables.
type Table struct{}

// New returns the Table of v. It is immutable and safe for concurrent use.
func New(v *kind.Version) *Table { panic("BUG: not built yet") }

// Columns are the table's columns.
func (t *Table) Columns() []metav1.TableColumnDefinition { panic("BUG: not built yet") }

// AppendRow appends the row of obj, {"cells":[…],"object":…}, as JSON. now is
// what ages are counted from.
func (t *Table) AppendRow(b []byte, obj doc.Value, include Include, now time.Time) []byte {
	panic("BUG: not built yet")
}

// Row appends the cells of obj as a JSON array.
func Row(b []byte, v *kind.Version, obj *doc.Doc) []byte { panic("BUG: not built yet") }

// AppendMetadata appends obj as a PartialObjectMetadata.
func AppendMetadata(b []byte, obj doc.Value) []byte { panic("BUG: not built yet") }
