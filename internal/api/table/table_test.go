package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/jsonpath"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file tests tables, and simple paths against the library.

const object = `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"w<1>","namespace":"ns","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"a.b/c":"x"},
 "managedFields":[{"manager":"m","operation":"Update","apiVersion":"demo.io/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:a":{}}}}]},
 "spec":{"s":"text","i":5,"f":2.5,"big":1e21,"b":true,"nil":null,"list":[1,2,3],"objs":[{"n":"a"},{"n":"b","v":7}],"map":{"k":"<v>"},"when":"2026-01-01T00:01:49Z","bad":"yesterday","empty":""},
 "status":{"conditions":[{"type":"Synced","status":"False"},{"type":"Ready","status":"True","n":1},null,{"other":1}]}}`

func parse(t testing.TB, text string) *jsondoc.Doc {
	t.Helper()
	d := new(jsondoc.Doc)
	if err := jsondoc.Parse(d, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCells(t *testing.T) {
	tests := []struct{ typ, path, want string }{
		{"string", ".spec.s", `"text"`},
		{"string", ".spec.i", `"5"`},
		{"string", ".spec.f", `"2.5"`},
		{"string", ".spec.big", `"1e+21"`},
		{"string", ".spec.b", `"true"`},
		{"string", ".spec.nil", `"\u003cno value\u003e"`},
		{"string", ".spec.list", `"[1,2,3]"`},
		{"string", ".spec.map", `"{\"k\":\"\\u003cv\\u003e\"}"`},
		{"string", ".spec.missing", `null`},
		{"string", ".spec.s.x", `null`},
		{"integer", ".spec.i", `5`},
		{"integer", ".spec.f", `2`},
		{"integer", ".spec.s", `null`},
		{"number", ".spec.i", `5`},
		{"number", ".spec.f", `2.5`},
		{"boolean", ".spec.b", `true`},
		{"boolean", ".spec.s", `null`},
		{"date", ".spec.when", `"109s"`},
		{"date", ".metadata.creationTimestamp", `"3m38s"`},
		{"date", ".spec.bad", `"\u003cinvalid\u003e"`},
		{"date", ".spec.empty", `"\u003cunknown\u003e"`},
		{"date", ".spec.i", `null`},
		{"date", ".spec.nil", `null`},
		{"what", ".spec.s", `null`},
		{"string", ".spec.list[1]", `"2"`},
		{"string", ".spec.list[-1]", `"3"`},
		{"string", ".spec.list[3]", `null`},
		{"string", ".spec.list[*]", `"1"`},
		{"string", ".spec.list[0:2]", `"1"`},
		{"string", ".spec.objs[?(@.v==7)].n", `"b"`},
		{"string", `.status.conditions[?(@.type=="Ready")].status`, `"True"`},
		{"string", `.status.conditions[?(@.type == 'Ready')].status`, `"True"`},
		{"integer", `.status.conditions[?(@.type=="Ready")].n`, `1`},
		{"string", `.status.conditions[?(@.type!="Ready")].status`, `"False"`},
		{"string", `.status.conditions[?(@.n=="x")].status`, `null`},
		{"string", `.spec.s[?(@.n=="x")].status`, `null`},
		{"string", `.metadata.labels.a\.b/c`, `"x"`},
		{"string", `.metadata.labels['a\.b/c']`, `"x"`},
		{"string", ".spec[", `null`},
	}
	d := parse(t, object)
	now := time.Date(2026, 1, 1, 0, 3, 38, 0, time.UTC)
	for _, test := range tests {
		tab := newTable([]kind.Column{{Name: "C", Type: test.typ, JSONPath: test.path}})
		got := string(tab.AppendCells(nil, d.Root(), now))
		if want := `["w\u003c1\u003e",` + test.want + `]`; got != want {
			t.Errorf("%s %s: got %s, want %s", test.typ, test.path, got, want)
		}
	}
}

func TestRows(t *testing.T) {
	d := parse(t, object)
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	tab := New(&kind.Version{Kind: &kind.Kind{}})
	metadata := string((&Table{meta: "v1"}).appendMetadata(nil, d.Root()))
	if !strings.Contains(metadata, `"managedFields":[{`) || !strings.HasPrefix(metadata, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"creationTimestamp"`) {
		t.Errorf("metadata only: %s", metadata)
	}
	for include, want := range map[Include]string{
		IncludeNone:     `null`,
		IncludeMetadata: metadata,
		IncludeObject:   string(d.Root().AppendJSON(nil)),
	} {
		got := string(tab.AppendRow(nil, d.Root(), include, now))
		if want := `{"cells":["w\u003c1\u003e","365d"],"object":` + want + `}`; got != want {
			t.Errorf("include %d:\n got %s\nwant %s", include, got, want)
		}
	}
	for mark, shown := range map[string]bool{"true": true, "false": false} {
		d := parse(t, `{"metadata":{"annotations":{"k8s.io/initial-events-end":"`+mark+`"}}}`)
		if got := string(tab.AppendRow(nil, d.Root(), IncludeNone, now)); strings.Contains(got, "PartialObjectMetadata") != shown {
			t.Errorf("a bookmark with the mark %s: %s", mark, got)
		}
	}
}

func TestColumns(t *testing.T) {
	v := &kind.Version{Kind: &kind.Kind{}, Scale: &kind.Scale{SpecReplicas: ".spec.r", StatusReplicas: ".status.r"}}
	if got, want := fmt.Sprint(names(t, New(v))), "[Name:string Age:date]"; got != want {
		t.Errorf("default columns %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(names(t, NewScale(v))), "[Name:string Desired:integer Available:integer Age:date]"; got != want {
		t.Errorf("columns of scale %s, want %s", got, want)
	}
	v.Columns = []kind.Column{{Name: "Phase", Type: "string", JSONPath: ".status.phase", Priority: 1}}
	c := New(v).Columns()[1]
	if want := "Custom resource definition column (in JSONPath format): .status.phase"; c.Description != want || c.Priority != 1 {
		t.Errorf("column %+v, want description %q and priority 1", c, want)
	}
}

func names(t *testing.T, tab *Table) (out []string) {
	t.Helper()
	for _, c := range tab.Columns() {
		if c.Description == "" {
			t.Errorf("column %s has no description", c.Name)
		}
		out = append(out, c.Name+":"+c.Type)
	}
	return out
}

func TestCreatedAtIsATime(t *testing.T) {
	tab := newTable([]kind.Column{{Name: "Created At", Type: "date", JSONPath: ".metadata.creationTimestamp"}})
	if got, want := string(tab.AppendCells(nil, parse(t, object).Root(), time.Now())), `["w\u003c1\u003e","2026-01-01T00:00:00Z"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// byLibrary is what the library finds first, as JSON.
func byLibrary(path string, v any) string {
	p := jsonpath.New("x").AllowMissingKeys(true)
	if p.Parse("{"+path+"}") != nil {
		return "none"
	}
	results, err := p.FindResults(v)
	if err != nil || len(results) == 0 || len(results[0]) == 0 {
		return "none"
	}
	var b bytes.Buffer
	value := results[0][0].Interface()
	if err := p.PrintResults(&b, []reflect.Value{reflect.ValueOf(value)}); err != nil {
		return "none"
	}
	return fmt.Sprintf("%T %s", value, b.String())
}

func byUs(path string, v jsondoc.Value) string {
	got, ok := parsePath(path).first(&row{obj: v})
	if !ok {
		return "none"
	}
	var text string
	if err := json.Unmarshal(appendText(nil, got), &text); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%T %s", got.Interface(), text)
}

func FuzzPaths(f *testing.F) {
	for _, path := range []string{
		".spec.s", ".spec.list[0]", ".spec.list[-2]", ".spec.objs[1].v", `.status.conditions[?(@.type=="Ready")].status`,
		`.spec.objs[?(@.n!="a")].v`, ".spec.list[*]", "..name", ".spec['s']", ".a[0", ".a[?(@.b==1)]", ".spec.nil.x", "[0]", `[?(@.a=='b')]`, ".spec.list[00]", ".spec.list[ 1 ]",
		`.spec.objs[?(@.n == "b" )].v`, ".spec.objs[?(@.n=\"b\")]", ".spec.x-y", ".-", ".spec.list[1:]", "{.spec}", ".spec}{.status",
	} {
		f.Add(path, object)
	}
	f.Fuzz(func(t *testing.T, path, text string) {
		if _, simple := parseSimple(path); !simple {
			return // the library does it
		}
		d := new(jsondoc.Doc)
		if jsondoc.Parse(d, []byte(text)) != nil || d.Root().Kind() != jsondoc.Object {
			return
		}
		if got, want := byUs(path, d.Root()), byLibrary(path, d.Root().Interface()); got != want {
			t.Errorf("%s of %s: got %s, want %s", path, text, got, want)
		}
	})
}

func BenchmarkRow(b *testing.B) {
	d := parse(b, object)
	tab := newTable([]kind.Column{
		{Name: "S", Type: "string", JSONPath: ".spec.s"},
		{Name: "Ready", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].status`},
		{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"},
	})
	var buf []byte
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		buf = tab.AppendRow(buf[:0], d.Root(), IncludeMetadata, now)
	}
}

// TestEnded tests what rows say of objects that ended.
func TestEnded(t *testing.T) {
	v := &kind.Version{Kind: &kind.Kind{}, Name: "v1", Ended: func(obj jsondoc.Value) (reason, message string) {
		if obj.At("metadata", "labels", "a.b/c").Text() == "" {
			return "", ""
		}
		return "Failed", `it "failed"`
	}}
	for text, want := range map[string]string{
		object:            `,"conditions":[{"type":"Completed","status":"True","reason":"Failed","message":"it \"failed\""}],"object":null}`,
		`{"metadata":{}}`: `],"object":null}`,
	} {
		d := new(jsondoc.Doc)
		if err := jsondoc.Parse(d, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got := string(New(v).AppendRow(nil, d.Root(), IncludeNone, time.Now()))
		if !strings.HasSuffix(got, want) || strings.Contains(got, "conditions") != strings.Contains(want, "conditions") {
			t.Errorf("got %s, want %s at the end", got, want)
		}
	}
}
