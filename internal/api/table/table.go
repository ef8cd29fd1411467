// Package table prints objects as rows of a table, as kubectl get asks for
// them, and as metadata only.
//
// # Terms
//
//   - A column has a name, a type and a JSON path that finds its cell in an
//     object. The first column is the name, unless a built-in kind has it elsewhere.
//   - A path is simple if it is made of names, indexes and comparisons of a
//     member with a text; nearly all are. A simple path is followed on the
//     document itself; any other goes through the library that defines the
//     language, on a copy of the object as Go maps.
//
// # Invariants
//
//   - A Table is immutable and safe for concurrent use.
//   - A cell whose path finds nothing, or something of another type than the
//     column's, is null. A cell is null, too, if its path is too much work for one row, or if it follows
//     256 KiB of cells.
//
// # Use
//
// [New] makes the Table of a version, [Table.Columns] and [Table.AppendRow]
// print it; [Rows] prints it as an object of the kind Table. [AppendPartial] prints
// an object's metadata as an object of its own.
package table

import (
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file defines tables and prints rows.

// Include selects the part of each object that comes with its row.
type Include uint8

// The parts of an object that can come with its row.
const (
	IncludeMetadata Include = iota
	IncludeNone
	IncludeObject
)

// Table makes the rows of one version's tables.
type Table struct {
	columns []column
	printed bool   // by Go code of upstream, which decides what an absent value looks like
	named   bool   // one of the columns is the name: there is no other one
	meta    string // version of meta.k8s.io of the objects in rows
	ended   func(obj jsondoc.Value) (reason, message string)
}

// column is a column besides the name.
type column struct {
	def     kind.Column
	cell    cellKind
	path    *path
	printed bool // as that of Table
}

// descriptions are those of ObjectMeta's fields.
var descriptions = metav1.ObjectMeta{}.SwaggerDoc()

// New returns the Table of v.
func New(v *kind.Version) *Table {
	columns := v.Columns
	if len(columns) == 0 {
		columns = defaultColumns
	}
	t := newTable(columns)
	t.printed, t.ended = v.Kind.Behavior.HasPrinter(), v.Ended
	t.named = t.printed && slices.ContainsFunc(columns, func(c kind.Column) bool { return c.Name == "Name" })
	for i := range t.columns {
		t.columns[i].printed = t.printed
	}
	return t
}

// defaultColumns are those of kinds that declare none.
var defaultColumns = []kind.Column{{
	Name: "Age", Type: "date", Description: descriptions["creationTimestamp"], JSONPath: ".metadata.creationTimestamp",
}}

// NewScale returns the Table of the scale subresource of v.
func NewScale(v *kind.Version) *Table {
	var columns []kind.Column
	if v.Kind.Behavior.HasPrinter() {
		spec, status := autoscalingv1.ScaleSpec{}.SwaggerDoc(), autoscalingv1.ScaleStatus{}.SwaggerDoc()
		t := newTable([]kind.Column{
			{Name: "Name", Type: "string", Description: descriptions["name"], JSONPath: ".metadata.name"},
			{Name: "Desired", Type: "integer", Description: spec["replicas"], JSONPath: ".spec.replicas"},
			{Name: "Available", Type: "integer", Description: status["replicas"], JSONPath: ".status.replicas"},
			kind.AgeColumn(),
		})
		t.columns[3].def.Type = "string"
		t.named = true
		return t
	}
	if v.Scale != nil && v.Scale.SpecReplicas != "" {
		columns = append(columns, kind.Column{
			Name: "Desired", Type: "integer", Description: "Number of desired replicas", JSONPath: ".spec.replicas",
		})
	}
	if v.Scale != nil && v.Scale.StatusReplicas != "" {
		columns = append(columns, kind.Column{
			Name: "Available", Type: "integer", Description: "Number of actual replicas", JSONPath: ".status.replicas",
		})
	}
	return newTable(append(columns, defaultColumns...))
}

// newTable prepares a table with columns.
func newTable(columns []kind.Column) *Table {
	t := &Table{columns: make([]column, len(columns)), meta: "v1"}
	for i, c := range columns {
		t.columns[i] = column{def: c, cell: cellOf(c), path: parsePath(c.JSONPath)}
	}
	return t
}

// Columns returns the table's columns.
func (t *Table) Columns() []metav1.TableColumnDefinition {
	var out []metav1.TableColumnDefinition
	if !t.named {
		out = append(out, metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: descriptions["name"]})
	}
	for i := range t.columns {
		c := &t.columns[i].def
		description := c.Description
		if description == "" && !t.printed {
			description = "Custom resource definition column (in JSONPath format): " + c.JSONPath
		}
		out = append(out, metav1.TableColumnDefinition{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: description, Priority: c.Priority,
		})
	}
	return out
}

// AppendRow appends the row of obj, {"cells":[…],"object":…}, as JSON. now is
// what ages are counted from.
func (t *Table) AppendRow(b []byte, obj jsondoc.Value, include Include, now time.Time) []byte {
	b = append(b, `{"cells":`...)
	b = t.AppendCells(b, obj, now)
	if t.ended != nil {
		b = t.appendEnd(b, obj)
	}
	b = append(b, `,"object":`...)
	switch {
	case include == IncludeObject:
		b = obj.AppendJSON(b)
	case include == IncludeNone && !endsInitialEvents(obj):
		b = append(b, "null"...)
	default:
		b = t.appendMetadata(b, obj)
	}
	return append(b, '}')
}

// appendEnd appends the condition that a row has whose object ended.
func (t *Table) appendEnd(b []byte, obj jsondoc.Value) []byte {
	reason, message := t.ended(obj)
	if reason == "" {
		return b
	}
	b = append(b, `,"conditions":[{"type":"Completed","status":"True","reason":`...)
	b = appendString(b, reason)
	b = append(b, `,"message":`...)
	b = appendString(b, message)
	return append(b, `}]`...)
}

// endsInitialEvents reports whether obj is marked as the bookmark that ends the initial events of a watch (KEP-3157). Its mark is shown
// also to those who want no objects.
func endsInitialEvents(obj jsondoc.Value) bool {
	return obj.At("metadata", "annotations", metav1.InitialEventsAnnotationKey).Text() == "true"
}

// In makes the objects of rows those of a version of meta.k8s.io.
func (t *Table) In(version string) { t.meta = version }

// AppendCells appends the cells of obj as a JSON array.
func (t *Table) AppendCells(b []byte, obj jsondoc.Value, now time.Time) []byte {
	r := row{obj: obj, now: now}
	began := len(b)
	b = append(b, '[')
	if !t.named {
		b = appendString(b, obj.At("metadata", "name").Text())
	}
	for i := range t.columns {
		if i > 0 || !t.named {
			b = append(b, ',')
		}
		if len(b)-began > maxCells && !t.printed {
			b = append(b, "null"...)
			continue
		}
		b = t.columns[i].append(b, &r)
	}
	return append(b, ']')
}

// appendMetadata appends an object's metadata as a PartialObjectMetadata.
func (t *Table) appendMetadata(b []byte, obj jsondoc.Value) []byte {
	b = append(b, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/`...)
	b = append(append(b, t.meta...), `","metadata":`...)
	if m := obj.Get("metadata"); m.Kind() == jsondoc.Object {
		b = m.AppendJSON(b)
	} else {
		b = append(b, "{}"...)
	}
	return append(b, '}')
}
