package table

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file tests what one row may cost.

// TestHostilePaths prints columns whose paths multiply. Each would take minutes, or all memory.
func TestHostilePaths(t *testing.T) {
	nested := strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)
	wide := parse(t, `{"list":[`+strings.Repeat("1,", 20_000)+`1],"deep":`+nested+`}`)
	for _, path := range []string{
		strings.Repeat("..a", 12),
		"." + strings.Repeat("..*", 20),
		"['list','list']" + strings.Repeat("[0:,0:]", 30),
		".list[*]}{range .list[*]}{range .list[*]}{.x}{end}{end",
		".list[?(@" + strings.Repeat("..a", 12) + ")]",
	} {
		r := &row{obj: wide.Root()}
		if got, ok := parsePath(path).first(r); ok && len(path) > 200 {
			t.Errorf("%.40s: got %s", path, got.AppendJSON(nil))
		}
		if r.effort > maxEffort {
			t.Errorf("%.40s: looked at %d values, want at most %d", path, r.effort, maxEffort)
		}
	}
	// What is plain still finds its value, also beside many values.
	for path, want := range map[string]string{"..list[1]": "1", ".list[*]": "1", "['list','deep'][0]": "", "..a..a..a": ""} {
		got, ok := parsePath(path).first(&row{obj: wide.Root()})
		if want != "" && (!ok || string(got.AppendJSON(nil)) != want) {
			t.Errorf("%s: got %v %s, want %s", path, ok, got.AppendJSON(nil), want)
		}
	}
	// A path with a range finds the same again.
	again := parsePath(".deep}{range .list[*]}{.x}{end")
	for range 3 {
		small := parse(t, `{"list":[1],"deep":2}`)
		if got, ok := again.first(&row{obj: small.Root()}); !ok || string(got.AppendJSON(nil)) != "2" {
			t.Errorf("a range: got %v", ok)
		}
	}
}

// TestHeavyTables: many columns share the effort of a row, and its text.
func TestHeavyTables(t *testing.T) {
	obj := parse(t, `{"metadata":{"name":"x"},"spec":{"text":"`+strings.Repeat("x", 20_000)+`","items":[`+strings.Repeat("1,", 20_000)+`1]}}`)
	for _, path := range []string{".spec", ".spec.items[*]", "..items"} {
		columns := make([]kind.Column, 10_000)
		for i := range columns {
			columns[i] = kind.Column{Name: fmt.Sprint("c", i), Type: "string", JSONPath: path}
		}
		b := newTable(columns).AppendCells(nil, obj.Root(), time.Now())
		if len(b) > 2*maxCells {
			t.Errorf("%s: got %d bytes of cells, want at most %d", path, len(b), 2*maxCells)
		}
		if err := jsondoc.Parse(new(jsondoc.Doc), b); err != nil || strings.Count(string(b[len(b)-10_000:]), ",null") < 1000 {
			t.Errorf("%s: got %v %s", path, err, b[len(b)-100:])
		}
	}
}
