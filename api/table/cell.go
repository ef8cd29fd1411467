package table

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/keelson-io/keelson/doc"
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

func (c *column) append(b []byte, obj doc.Value, now time.Time) []byte {
	if c.def.Cell != nil {
		text := c.def.Cell(obj, now)
		if !c.def.Word && (c.cell == cellBoolean || c.def.Truth) || c.def.Number && text != "" && strings.Trim(text, "0123456789") == "" {
			return append(b, text...)
		}
		return appendString(b, text)
	}
	v, ok := c.path.first(obj)
	switch {
	case ok:
	case c.builtin && c.cell == cellText: // a member that is not printed is empty
		return append(b, `""`...)
	case c.builtin && c.cell == cellInteger:
		return append(b, '0')
	default:
		return append(b, "null"...)
	}
	switch k := v.Kind(); {
	case c.cell == cellText:
		return appendText(b, v)
	case k == doc.Null:
	case c.cell == cellInteger && k == doc.Int, c.cell == cellBoolean && k == doc.Bool, c.cell == cellTime && k == doc.String:
		return v.AppendJSON(b)
	case c.cell == cellInteger && k == doc.Float:
		return fmt.Appendf(b, "%d", int64(v.Float()))
	case c.cell == cellNumber && k == doc.Int:
		return new(doc.Doc).AppendJSON(b, doc.FloatNode(float64(v.Int())))
	case c.cell == cellNumber && k == doc.Float:
		return v.AppendJSON(b)
	case c.cell == cellAge && k == doc.String:
		return appendString(b, age(v.Text(), now))
	}
	return append(b, "null"...)
}

// appendText appends any value as text in a JSON string.
func appendText(b []byte, v doc.Value) []byte {
	switch v.Kind() {
	case doc.String:
		return v.AppendJSON(b)
	case doc.Null:
		return appendString(b, "<no value>")
	case doc.Float:
		return appendString(b, fmt.Sprint(v.Float()))
	}
	return appendString(b, string(v.AppendJSON(nil)))
}

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	d := doc.Get()
	defer d.Release()
	return d.AppendJSON(b, d.NewString(s))
}

// age says how long before now a time was.
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
