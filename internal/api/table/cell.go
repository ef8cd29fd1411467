package table

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file prints cells.

// cellKind is how a column prints what its path finds.
type cellKind uint8

const (
	cellNull    cellKind = iota // a type that no value has
	cellText                    // any value, as text
	cellInteger                 // a number without its fraction
	cellNumber                  //
	cellBoolean                 //
	cellAge                     // how long ago a time was
	cellTime                    // a time itself
)

// cellOf returns the kind of the cells of a column.
func cellOf(c kind.Column) cellKind {
	switch c.Type {
	case "string":
		return cellText
	case "integer":
		return cellInteger
	case "number":
		return cellNumber
	case "boolean":
		return cellBoolean
	case "date":
		if c.Name == createdAt {
			return cellTime
		}
		return cellAge
	}
	return cellNull
}

// createdAt is the name of the one date column, that of
// CustomResourceDefinitions, that shows a time and no age.
const createdAt = "Created At"

// append appends the cell of a row.
func (c *column) append(b []byte, r *row) []byte {
	if c.def.Cell != nil {
		text := c.def.Cell(r.obj, r.now)
		if !c.def.Word && (c.cell == cellBoolean || c.def.Truth) || c.def.Number && text != "" && strings.Trim(text, "0123456789") == "" {
			return append(b, text...)
		}
		return appendString(b, text)
	}
	v, ok := c.path.first(r)
	switch {
	case ok:
	case c.printed && c.cell == cellText: // a member that is not printed is empty
		return append(b, `""`...)
	case c.printed && c.cell == cellInteger:
		return append(b, '0')
	default:
		return append(b, "null"...)
	}
	switch k := v.Kind(); {
	case c.cell == cellText:
		return appendText(b, v)
	case k == jsondoc.Null:
	case c.cell == cellInteger && k == jsondoc.Int, c.cell == cellBoolean && k == jsondoc.Bool, c.cell == cellTime && k == jsondoc.String:
		return v.AppendJSON(b)
	case c.cell == cellInteger && k == jsondoc.Float:
		return fmt.Appendf(b, "%d", int64(v.Float()))
	case c.cell == cellNumber && k == jsondoc.Int:
		return new(jsondoc.Doc).AppendJSON(b, jsondoc.FloatNode(float64(v.Int())))
	case c.cell == cellNumber && k == jsondoc.Float:
		return v.AppendJSON(b)
	case c.cell == cellAge && k == jsondoc.String:
		return appendString(b, age(v.Text(), r.now))
	}
	return append(b, "null"...)
}

// appendText appends any value as text in a JSON string.
func appendText(b []byte, v jsondoc.Value) []byte {
	switch v.Kind() {
	case jsondoc.String:
		return v.AppendJSON(b)
	case jsondoc.Null:
		return appendString(b, "<no value>")
	case jsondoc.Float:
		return appendString(b, fmt.Sprint(v.Float()))
	}
	return appendString(b, string(v.AppendJSON(nil)))
}

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	d := jsondoc.Get()
	defer d.Release()
	return d.AppendJSON(b, d.NewString(s))
}

// age returns the time from s to now as tables show it.
func age(s string, now time.Time) string {
	if s == "" || s == "null" {
		return "<unknown>"
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return "<invalid>"
	}
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t))
}
